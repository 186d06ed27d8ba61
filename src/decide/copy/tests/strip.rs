use serde_json::Value;

use crate::decide::copy::{never, strip};

use super::yaml;

/// Strips a manifest and compares.
fn becomes(template: &str, copy: &str) {
    assert_eq!(strip(&yaml(template)), yaml(copy), "{template}");
}

/// What is left of the spec of an object.
fn spec(kind: &str, template: &str) -> Value {
    let (api_version, kind) = kind.split_once(' ').unwrap();
    let object =
        format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}, spec: {template}}}");
    strip(&yaml(&object)).get("spec").cloned().unwrap_or_default()
}

#[test]
fn of_metadata_only_name_namespace_labels_and_annotations_go_along() {
    becomes(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, generateName: a-, uid: u, \
          resourceVersion: '7', generation: 3, creationTimestamp: '2026-01-01T00:00:00Z', finalizers: [x], \
          ownerReferences: [{name: o}], managedFields: [{manager: kubectl}], deletionTimestamp: null, \
          labels: {app: a}, annotations: {note: b}, selfLink: /x}, data: {k: v}, status: {x: y}}",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, labels: {app: a}, \
          annotations: {note: b}}, data: {k: v}}",
    );
}

#[test]
fn notes_of_controllers_stay_behind_and_so_do_maps_that_are_empty_then() {
    becomes(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {tombolo.dev/hub: h, \
          multicluster.kubernetes.io/service-name: s, karmada.io/managed: 'true', \
          propagationpolicy.karmada.io/permanent-id: p, work.karmada.io/permanent-id: w}, annotations: \
          {kubectl.kubernetes.io/last-applied-configuration: '{}', tombolo.dev/origin: o, \
          deployment.kubernetes.io/revision: '3', resourcetemplate.karmada.io/uid: u, \
          tombolo.dev/port-conflicts: resolve, policy.karmada.io/applied-overrides: x}}}",
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}",
    );
}

#[test]
fn labels_of_the_users_own_go_along_though_they_look_alike() {
    let kept = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a, labels: \
          {multicluster.x-k8s.io/release-version: v0.5.0, app.kubernetes.io/name: a}, annotations: \
          {resourcetemplate.karmada.io/retain-replicas: 'true', not-tombolo.dev/x: y, \
          kubectl.kubernetes.io/restartedAt: z}}, spec: {conversion: {strategy: Webhook, webhook: \
          {clientConfig: {caBundle: x}}}}}";
    becomes(kept, kept);
}

#[test]
fn the_rule_for_port_conflicts_goes_along_on_what_has_ports() {
    for kind in [
        "apiVersion: v1, kind: Service",
        "apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport",
        "apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport",
    ] {
        let kept = format!(
            "{{{kind}, metadata: {{name: a, annotations: {{tombolo.dev/port-conflicts: resolve}}}}}}"
        );
        becomes(&kept, &kept);
    }
}

#[test]
fn what_is_null_is_dropped_but_items_of_lists_keep_their_places() {
    becomes(
        "{apiVersion: x.dev/v1, kind: Toy, metadata: {name: a, labels: {a: null}}, extra: null, \
          spec: {a: null, b: {c: null}, d: [null, {e: null, f: 1}], g: false, h: []}}",
        "{apiVersion: x.dev/v1, kind: Toy, metadata: {name: a}, spec: {b: {}, d: [null, {f: 1}], g: false, h: []}}",
    );
}

#[test]
fn a_service_leaves_what_the_hubs_cluster_gave_it() {
    assert_eq!(
        spec(
            "v1 Service",
            "{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], healthCheckNodePort: 30000, type: NodePort, \
              ports: [{port: 80, nodePort: 30001, protocol: TCP}, {port: 81}]}"
        ),
        yaml("{type: NodePort, ports: [{port: 80, protocol: TCP}, {port: 81}]}")
    );
}

#[test]
fn a_headless_service_stays_headless() {
    let headless = "{clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}";
    assert_eq!(spec("v1 Service", headless), yaml(headless));
}

#[test]
fn families_go_along_only_if_somebody_set_them() {
    let service = |fields: &str| {
        let object = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: a, managedFields: [{fields}]}}, \
               spec: {{ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}}}"
        );
        strip(&yaml(&object))["spec"].clone()
    };
    let created = "{manager: kubectl-create, operation: Update, fieldsV1: {'f:spec': {'f:type': {}}}}";
    assert_eq!(service(created), yaml("{}"));
    let edited = "{manager: kubectl-edit, operation: Update, fieldsV1: {'f:spec': {'f:ipFamilyPolicy': {}}}}";
    assert_eq!(service(&format!("{created}, {edited}")), yaml("{ipFamilyPolicy: SingleStack}"));
    let applied = "{manager: kubectl, operation: Apply, fieldsV1: {'f:spec': {'f:ipFamilies': {}}}}";
    assert_eq!(service(&format!("{created}, {applied}")), yaml("{ipFamilies: [IPv4]}"));
    // Nothing is known: it stays.
    assert_eq!(service(""), yaml("{ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}"));
}

#[test]
fn a_kind_that_is_only_called_service_is_not_one() {
    let own = "{clusterIP: 10.0.0.1, ports: [{nodePort: 1}]}";
    assert_eq!(spec("serving.knative.dev/v1 Service", own), yaml(own));
}

#[test]
fn a_job_leaves_what_it_finds_its_pods_by_and_when_it_is_deleted() {
    becomes(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: a, labels: {job-name: a, controller-uid: u}}, spec: \
          {ttlSecondsAfterFinished: 5, selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, template: \
          {metadata: {creationTimestamp: null, labels: {batch.kubernetes.io/controller-uid: u, \
          batch.kubernetes.io/job-name: a, controller-uid: u, job-name: a}}, spec: {restartPolicy: Never}}}}",
        "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never}}}}",
    );
    let labelled = "{template: {metadata: {labels: {app: a, job-name: a}}}}";
    assert_eq!(spec("batch/v1 Job", labelled), yaml("{template: {metadata: {labels: {app: a}}}}"));
}

#[test]
fn a_job_with_a_selector_of_the_users_own_keeps_it() {
    let manual = "{manualSelector: true, selector: {matchLabels: {job-name: a}}, \
                    template: {metadata: {labels: {job-name: a}}}}";
    assert_eq!(spec("batch/v1 Job", manual), yaml(manual));
}

#[test]
fn what_binds_an_object_to_the_hubs_nodes_and_volumes_stays_behind() {
    for (kind, template, copy) in [
        ("v1 Pod", "{nodeName: n, priority: 0, hostname: h}", "{hostname: h}"),
        ("v1 PersistentVolumeClaim", "{volumeName: v, accessModes: [a]}", "{accessModes: [a]}"),
        (
            "v1 PersistentVolume",
            "{claimRef: {name: c}, capacity: {storage: 1Gi}}",
            "{capacity: {storage: 1Gi}}",
        ),
        ("v1 Namespace", "{finalizers: [kubernetes]}", "null"),
        (
            "apps/v1 StatefulSet",
            "{volumeClaimTemplates: [{metadata: {name: c}, status: {phase: Pending}}]}",
            "{volumeClaimTemplates: [{metadata: {name: c}}]}",
        ),
    ] {
        assert_eq!(spec(kind, template), yaml(copy), "{kind}");
    }
}

#[test]
fn a_service_account_leaves_its_tokens() {
    becomes(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: a-token-1}, {name: b-token-1}]}",
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: b-token-1}]}",
    );
    becomes(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: a-token-1}]}",
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}",
    );
}

#[test]
fn rules_that_a_controller_gathers_are_gathered_in_each_cluster() {
    let role = |rest: &str| {
        format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: a}}{rest}}}"
        )
    };
    let plain = role(", rules: [{verbs: [get]}]");
    becomes(&plain, &plain);
    becomes(
        &role(", aggregationRule: {clusterRoleSelectors: [{}]}, rules: [{verbs: [get]}]"),
        &role(", aggregationRule: {clusterRoleSelectors: [{}]}"),
    );
}

#[test]
fn what_is_no_object_becomes_nothing() {
    assert_eq!(strip(&yaml("[1]")), Value::Null);
    assert_eq!(strip(&yaml("{metadata: 1, a: 2}")), yaml("{metadata: {}, a: 2}"));
}

#[test]
fn what_a_controller_owns_and_tokens_are_never_templates() {
    let owned = |controller: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{ownerReferences: [{{name: o{controller}}}]}}}}")
    };
    let secret = |kind: &str| format!("{{apiVersion: v1, kind: Secret, type: {kind}}}");
    for refused in [
        owned(", controller: true"),
        secret("kubernetes.io/service-account-token"),
        secret("bootstrap.kubernetes.io/token"),
    ] {
        assert!(never(&yaml(&refused)).is_some(), "{refused}");
    }
    for taken in [
        owned(", controller: false"),
        owned(""),
        secret("Opaque"),
        "{apiVersion: v1, kind: Secret}".to_owned(),
        "{apiVersion: x.dev/v1, kind: Secret, type: bootstrap.kubernetes.io/token}".to_owned(),
    ] {
        assert_eq!(never(&yaml(&taken)), None, "{taken}");
    }
}
