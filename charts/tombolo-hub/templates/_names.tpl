{{/* The hub's objects have fixed names: Lease, Secrets and webhook configurations are the hub's own and exist once. */}}
{{- define "hub.name" -}}tombolo-hub{{- end }}

{{- define "hub.selector" -}}
app.kubernetes.io/name: tombolo-hub
{{- end }}

{{- define "hub.labels" -}}
{{ include "hub.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/part-of: tombolo
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* Whether the hub's API server is another cluster's. */}}
{{- define "hub.remote" -}}
{{- if .Values.apiServer.kubeconfigSecret.name }}true{{ end }}
{{- end }}

{{/* Tombolo's own namespace on the hub's API server. */}}
{{- define "hub.namespace" -}}
{{- .Values.apiServer.namespace | default .Release.Namespace }}
{{- end }}

{{- define "hub.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Whether a part is made: include "hub.makes" (list . "access"). */}}
{{- define "hub.makes" -}}
{{- if or (eq (index . 0).Values.parts "all") (eq (index . 0).Values.parts (index . 1)) }}true{{ end }}
{{- end }}

{{/* The host by which the webhook is called, where that is by a URL. */}}
{{- define "hub.host" -}}
{{- (urlParse .Values.webhook.url).hostname }}
{{- end }}
