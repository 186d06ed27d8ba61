//! What the charts make, looked at without running it.

use std::{collections::BTreeMap, fs, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tombolo::membership::agent;
use tombolo_e2e::{
    bed::Bed,
    helm::{Chart, Helm, NAMESPACE, objects},
};

/// Values that switch everything on that both charts have.
const COMMON: &[&str] = &[
    "image.digest=sha256:0123456789012345678901234567890123456789012345678901234567890123",
    "imagePullSecrets:=[{\"name\":\"pull\"}]",
    "log.level=debug",
    "serviceAccount.annotations.team=platform",
    "nodeSelector.disk=fast",
    "tolerations:=[{\"key\":\"dedicated\",\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}]",
    "affinity:={\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]}]}}}",
    "priorityClassName=system-cluster-critical",
    "podLabels.team=platform",
    "podAnnotations.team=platform",
    "networkPolicy.metricsFrom:=[{\"namespaceSelector\":{}}]",
    "networkPolicy.egress.enabled=true",
    "networkPolicy.egress.cidrs:=[\"10.0.0.0/8\",\"fd00::/8\"]",
    "metrics.auth=token",
    "metrics.service=true",
    "metrics.serviceMonitor.enabled=true",
    "metrics.serviceMonitor.labels.release=prometheus",
];
/// The same of the hub alone.
const HUB: &[&str] = &[
    "hub.statusPage=true",
    "hub.extraArgs:=[\"--leader-elect=true\"]",
    "rbac.templates.secrets=true",
    "rbac.extraRules:=[{\"apiGroups\":[\"rules.example\"],\"resources\":[\"gadgets\"],\"verbs\":[\"get\",\"list\",\"watch\"]}]",
    "rbac.memberSecretNamespaces:=[\"karmada-cluster\"]",
    "podAntiAffinity=hard",
    "replicas=3",
    "podDisruptionBudget.maxUnavailable=50%",
    "networkPolicy.webhookFrom:=[{\"ipBlock\":{\"cidr\":\"10.0.0.0/8\"}}]",
    "certManager.enabled=true",
    "metrics.alerts.enabled=true",
    "metrics.alerts.labels.release=prometheus",
    "metrics.dashboard.enabled=true",
];
/// The pods in another cluster than the API server that they serve.
const WORKLOAD: &[&str] = &[
    "parts=workload",
    "apiServer.kubeconfigSecret.name=hub-kubeconfig",
    "apiServer.namespace=another",
    "webhook.url=https://hub.example:8443",
    "webhook.service.type=NodePort",
    "webhook.service.port=8443",
    "webhook.service.nodePort=30443",
    "metrics.serviceMonitor.credentialsSecret.name=hub-token",
];
const ACCESS: &[&str] = &["parts=access", "access.token=true"];
/// Kinds of others that a bed does not know.
const FOREIGN: [&str; 2] = ["cert-manager.io/v1", "monitoring.coreos.com/v1"];

/// Charts with values, as users would have them.
fn uses() -> Vec<(&'static str, Chart, Vec<&'static str>)> {
    let with = |more: &[&[&'static str]]| more.concat();
    vec![
        ("the hub by default", Chart::Hub, with(&[])),
        ("the hub with everything", Chart::Hub, with(&[COMMON, HUB])),
        ("the hub's account", Chart::Hub, with(&[ACCESS])),
        ("the hub's pods", Chart::Hub, with(&[WORKLOAD])),
        ("the hub's pods with everything", Chart::Hub, with(&[COMMON, HUB, WORKLOAD])),
        ("the agent by default", Chart::Agent, with(&[])),
        ("the agent with everything", Chart::Agent, with(&[COMMON, &["replicas=2"]])),
    ]
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The one object of a kind.
fn only<'a>(all: &'a [Value], kind: &str) -> Result<&'a Value> {
    let mut found = all.iter().filter(|object| object["kind"] == kind);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        _ => bail!("there is not one {kind}"),
    }
}

pub(crate) async fn both_charts_are_well_made_whatever_is_switched_on(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    for (what, chart, values) in uses() {
        let said = helm.lint(chart, &values).with_context(|| what.to_owned())?;
        ensure!(said.contains("0 chart(s) failed"), "{what}: {said}");
    }
    Ok(())
}

pub(crate) async fn values_that_make_no_sense_are_refused_in_clear_words(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    for (chart, values, said) in [
        (Chart::Hub, &["replicas=none"][..], "at '/replicas': got string, want integer"),
        (Chart::Hub, &["replicas=0"], "at '/replicas': minimum: got 0, want 1"),
        (Chart::Hub, &["replica=3"], "additional properties 'replica' not allowed"),
        (
            Chart::Hub,
            &["rbac.templates.preset=some"],
            "at '/rbac/templates/preset': value must be one of 'services', 'workloads', 'all'",
        ),
        (Chart::Hub, &["rbac.extraRules:=[{\"resources\":[\"pods\"]}]"], "missing property 'verbs'"),
        (Chart::Hub, &["webhook.url=http://hub.example"], "at '/webhook/url'"),
        (Chart::Hub, &["image.tag=1", "image.digest=md5:1"], "at '/image/digest'"),
        (Chart::Hub, &["hub.extraArgs:=[\"hub\"]"], "at '/hub/extraArgs/0'"),
        (Chart::Hub, &["metrics.auth=basic"], "at '/metrics/auth': value must be one of 'none', 'token'"),
        (Chart::Hub, &["hub.lostAfter=30"], "hub.lostAfter: must be greater than hub.staleAfter"),
        (Chart::Hub, &["parts=workload"], "apiServer.kubeconfigSecret.name: is required with parts=workload"),
        (
            Chart::Hub,
            &["parts=workload", "apiServer.kubeconfigSecret.name=hub"],
            "webhook.url: is required with a kubeconfig Secret",
        ),
        (
            Chart::Hub,
            &["apiServer.kubeconfigSecret.name=hub"],
            "apiServer.kubeconfigSecret.name: with parts=all the pods' own cluster is the hub",
        ),
        (Chart::Hub, &["webhook.url=https://hub.example"], "webhook.url: must be empty where the hub serves"),
        (
            Chart::Hub,
            &["certManager.enabled=true", "certManager.issuerRef.kind=ClusterIssuer"],
            "certManager.issuerRef.name: is required with certManager.issuerRef.kind=ClusterIssuer",
        ),
        (
            Chart::Hub,
            &["certManager.enabled=true", "certManager.issuerRef.group=issuers.example"],
            "certManager.issuerRef.name: is required with a certManager.issuerRef.group",
        ),
        (Chart::Hub, &["access.token=true"], "access.token: only with parts=access"),
        (
            Chart::Hub,
            &[
                "parts=workload",
                "apiServer.kubeconfigSecret.name=hub",
                "webhook.url=https://hub.example",
                "metrics.auth=token",
                "metrics.serviceMonitor.enabled=true",
            ],
            "metrics.serviceMonitor.credentialsSecret.name: is required with metrics.auth=token",
        ),
        (Chart::Hub, &["apiServer.namespace=another"], "install it there with --namespace another"),
        (
            Chart::Agent,
            &["agent.maxEndpointsPerSlice=1001"],
            "at '/agent/maxEndpointsPerSlice': maximum: got 1,001, want 1,000",
        ),
        (Chart::Agent, &["rbac.extraRules:=[]"], "additional properties 'rbac' not allowed"),
    ] {
        match helm.render(chart, values) {
            Ok(_) => bail!("{values:?} was taken"),
            Err(refusal) => ensure!(refusal.to_string().contains(said), "{values:?}: {refusal}"),
        }
    }
    Ok(())
}

pub(crate) async fn an_empty_list_of_namespaces_is_said_to_the_hub_as_one(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    for (value, flag, default) in [
        ("hub.autoImportNamespaces", "--auto-import-namespaces", "*"),
        ("hub.excludedNamespaces", "--excluded-namespaces", "kube-*"),
    ] {
        for (given, wanted) in [(None, default), (Some("[]"), ""), (Some("[\"a\",\"b-*\"]"), "a,b-*")] {
            let given = given.map(|given| format!("{value}:={given}"));
            let values: Vec<_> = given.iter().map(String::as_str).collect();
            let all = helm.objects(Chart::Hub, &values)?;
            let pod = only(&all, "Deployment")?;
            let args = items(pod, "/spec/template/spec/containers/0/args").filter_map(Value::as_str);
            let said: Vec<_> = args.filter_map(|arg| arg.strip_prefix(flag)?.strip_prefix('=')).collect();
            ensure!(said == [wanted], "{values:?}: {flag} is {said:?}, not {wanted:?}");
        }
    }
    Ok(())
}

pub(crate) async fn no_role_has_a_wildcard_unless_one_asks_for_all(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    let wildcards = |chart, values: &[&str]| -> Result<Vec<String>> {
        let all = helm.objects(chart, values)?;
        let roles = all.iter().filter(|object| text(object, "/kind").ends_with("Role"));
        let rules = roles.flat_map(|role| items(role, "/rules").map(ToString::to_string));
        Ok(rules.filter(|rule| rule.contains('*')).collect())
    };
    for (what, chart, values) in uses() {
        let found = wildcards(chart, &values)?;
        ensure!(found.is_empty(), "{what}: {found:?}");
    }
    let asked = wildcards(Chart::Hub, &["rbac.templates.preset=all"])?;
    ensure!(asked.len() == 1 && asked[0].contains(r#""verbs":["get","list","watch"]"#), "{asked:?}");
    Ok(())
}

pub(crate) async fn pods_run_without_root_and_without_rights_on_their_node(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    for (what, chart, values) in uses().into_iter().filter(|(what, ..)| !what.contains("account")) {
        let all = helm.objects(chart, &values)?;
        let pod = &only(&all, "Deployment")?["spec"]["template"]["spec"];
        let of_pod = &pod["securityContext"];
        ensure!(of_pod["runAsNonRoot"] == true && of_pod["runAsUser"] == 65532, "{what}: {of_pod}");
        ensure!(of_pod["runAsGroup"] == 65532, "{what}: {of_pod}");
        ensure!(of_pod["seccompProfile"]["type"] == "RuntimeDefault", "{what}: {of_pod}");
        let container = &pod["containers"][0];
        let expected = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        });
        ensure!(container["securityContext"] == expected, "{what}: {container}");
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            ensure!(container[probe]["httpGet"]["path"] == path, "{what} has no {probe}");
        }
        only(&all, "NetworkPolicy").context(what)?;
    }
    let all = helm.objects(Chart::Hub, &[])?;
    let deployment = &only(&all, "Deployment")?["spec"];
    ensure!(deployment["replicas"] == 2, "the hub has not two replicas");
    let pod = &deployment["template"]["spec"];
    ensure!(
        items(pod, "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution").count() == 1
    );
    let selector = &pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    for (kind, pointer) in [
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ("Service", "/spec/selector"),
        ("Deployment", "/spec/template/metadata/labels"),
    ] {
        let found = only(&all, kind)?.pointer(pointer);
        ensure!(found == Some(selector), "{kind} selects {found:?}, not {selector}");
    }
    Ok(())
}

pub(crate) async fn prometheus_shows_a_token_that_the_hubs_own_api_server_knows(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    let asks = ["metrics.auth=token", "metrics.serviceMonitor.enabled=true"];
    let shown = |values: &[&str]| -> Result<Value> {
        let all = helm.objects(Chart::Hub, values)?;
        Ok(only(&all, "ServiceMonitor")?["spec"]["endpoints"][0].clone())
    };
    let own = shown(&asks)?;
    ensure!(own["bearerTokenFile"].is_string() && own.get("authorization").is_none(), "{own}");
    let given = shown(&[&asks, WORKLOAD].concat())?;
    let credentials = json!({ "credentials": { "name": "hub-token", "key": "token" } });
    ensure!(given["authorization"] == credentials && given.get("bearerTokenFile").is_none(), "{given}");
    Ok(())
}

pub(crate) async fn replicas_that_share_no_node_do_not_hold_up_their_successors(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    for (how, pointer) in [
        ("soft", "/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm"),
        ("hard", "/requiredDuringSchedulingIgnoredDuringExecution/0"),
    ] {
        let all = helm.objects(Chart::Hub, &[&format!("podAntiAffinity={how}")])?;
        let pod = &only(&all, "Deployment")?["spec"]["template"]["spec"];
        let term = &pod["affinity"]["podAntiAffinity"];
        let term = term.pointer(pointer).with_context(|| format!("{how}: {term}"))?;
        ensure!(term["matchLabelKeys"] == json!(["pod-template-hash"]), "{how}: {term}");
    }
    Ok(())
}

pub(crate) async fn the_rule_that_the_chart_makes_has_the_alerts_that_are_tested(
    bed: Arc<Bed>,
) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    let all = helm.objects(Chart::Hub, &["metrics.alerts.enabled=true"])?;
    let tested = objects(&fs::read_to_string(Chart::Hub.folder().join("alerts/tombolo.yaml"))?)?;
    let made = &only(&all, "PrometheusRule")?["spec"];
    ensure!(*made == tested[0] && items(made, "/groups/0/rules").count() > 10, "{made:#}");
    Ok(())
}

/// An object without what only says by whom and how it was made.
fn bare(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("labels");
    }
    let container = "/spec/template/spec/containers/0";
    if let Some(container) = object.pointer_mut(container).and_then(Value::as_object_mut) {
        // What Kubernetes and the agent take for granted where it is not said.
        container.remove("env");
        container.remove("imagePullPolicy");
        container["args"] = json!(container["args"].as_array().into_iter().flatten().next());
    }
    if let Some(args) = object.pointer_mut(&format!("{container}/args")) {
        *args = json!([args.clone()]);
    }
    object
}

fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|object| {
        let name = ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(&object, pointer));
        (name.join(" "), bare(object))
    });
    named.collect()
}

pub(crate) async fn the_agents_chart_makes_what_join_makes(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    let mut chart = by_name(helm.objects(Chart::Agent, &[])?);
    // Helm makes the namespace itself, and what may reach the agent is the chart's to say.
    let extra = chart.remove(&format!("NetworkPolicy {NAMESPACE} tombolo-agent"));
    ensure!(extra.is_some(), "there is no NetworkPolicy");
    let join = objects(&agent::yaml(&agent::manifests(agent::IMAGE))?)?;
    let join = by_name(join.into_iter().filter(|object| object["kind"] != "Namespace"));
    ensure!(chart.keys().eq(join.keys()), "{:?}, not {:?}", chart.keys(), join.keys());
    for (name, object) in &chart {
        ensure!(*object == join[name], "{name}: the chart makes {object}, join makes {}", join[name]);
    }
    Ok(())
}

pub(crate) async fn the_charts_hold_the_version_of_this_checkout(bed: Arc<Bed>) -> Result<()> {
    drop(bed);
    for chart in [Chart::Hub, Chart::Agent] {
        let chart = objects(&fs::read_to_string(chart.folder().join("Chart.yaml"))?)?;
        for field in ["version", "appVersion"] {
            ensure!(chart[0][field] == env!("CARGO_PKG_VERSION"), "{field} is {}", chart[0][field]);
        }
    }
    Ok(())
}

/// The values of a chart that are no objects, by their path, each as JSON.
fn leaves(value: &Value, path: &str, into: &mut BTreeMap<String, String>) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(field, &path, into);
            }
        }
        None => {
            into.insert(path.to_owned(), value.to_string());
        }
    }
}

pub(crate) async fn the_readmes_name_every_value_with_its_default(bed: Arc<Bed>) -> Result<()> {
    drop(bed);
    for chart in [Chart::Hub, Chart::Agent] {
        let read = |file| fs::read_to_string(chart.folder().join(file));
        let values = objects(&read("values.yaml")?)?;
        let mut wanted = BTreeMap::new();
        leaves(&values[0], "", &mut wanted);
        let page = read("README.md")?;
        let rows = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.trim_end_matches('`').to_owned();
            Some((name, cells.next()?.trim_matches('`').to_owned()))
        });
        let found: BTreeMap<_, _> = rows.collect();
        for (name, default) in &wanted {
            let row = found.get(name).with_context(|| format!("{}: no row of {name}", chart.name()))?;
            ensure!(row == default, "{}: {name} is {row} in README.md, not {default}", chart.name());
        }
        ensure!(found.keys().eq(wanted.keys()), "{}: README.md has rows of no value", chart.name());
    }
    Ok(())
}

pub(crate) async fn an_api_server_takes_what_the_charts_make_strictly(bed: Arc<Bed>) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    let kubectl = bed.kubectl("member3");
    for namespace in [NAMESPACE, "karmada-cluster"] {
        kubectl.run(&["create", "namespace", namespace])?;
    }
    let file = bed.dir().join("state/rendered.json");
    for (what, chart, values) in uses() {
        let mut all = helm.objects(chart, &values)?;
        let everything = all.len();
        all.retain(|object| !FOREIGN.contains(&text(object, "/apiVersion")));
        ensure!(all.len() >= 5 && everything - all.len() <= 6, "{what}: {everything} objects");
        fs::write(&file, json!({ "apiVersion": "v1", "kind": "List", "items": all }).to_string())?;
        let path = file.display().to_string();
        let line = ["apply", "--dry-run=server", "--validate=strict", "-f", &path];
        let said = kubectl.run(&line).with_context(|| what.to_owned())?;
        ensure!(said.lines().count() == all.len(), "{what}: {said}");
    }
    Ok(())
}
