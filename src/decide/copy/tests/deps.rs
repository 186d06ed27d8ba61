use crate::decide::copy::*;

use super::yaml;

/// A pod that names something in every way there is.
const POD: &str = r#"
serviceAccountName: account
imagePullSecrets: [{name: pull}]
initContainers:
- envFrom: [{configMapRef: {name: init-from-map}}, {secretRef: {name: init-from-secret}}]
ephemeralContainers:
- "env": [{name: A, valueFrom: {secretKeyRef: {name: debug, key: a}}}]
containers:
- "env":
  - {name: A, value: plain}
  - {name: B, valueFrom: {configMapKeyRef: {name: map, key: b}}}
  - {name: C, valueFrom: {secretKeyRef: {name: secret, key: c, optional: true}}}
  - {name: D, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
volumes:
- {name: empty, emptyDir: {}}
- {name: map, configMap: {name: mounted-map}}
- {name: secret, secret: {secretName: mounted-secret}}
- {name: claim, persistentVolumeClaim: {claimName: claim}}
- {name: csi, csi: {driver: d, nodePublishSecretRef: {name: csi}}}
- {name: rbd, rbd: {secretRef: {name: rbd}}}
- {name: none, configMap: {name: ''}}
- name: projected
  projected:
    sources:
    - {configMap: {name: projected-map}}
    - {secret: {name: projected-secret}}
    - {serviceAccountToken: {path: token}}
    - {configMap: {name: kube-root-ca.crt}}
"#;
const NAMED: [&str; 14] = [
    "ConfigMap shop/init-from-map",
    "ConfigMap shop/map",
    "ConfigMap shop/mounted-map",
    "ConfigMap shop/projected-map",
    "PersistentVolumeClaim shop/claim",
    "Secret shop/csi",
    "Secret shop/debug",
    "Secret shop/init-from-secret",
    "Secret shop/mounted-secret",
    "Secret shop/projected-secret",
    "Secret shop/pull",
    "Secret shop/rbd",
    "Secret shop/secret",
    "ServiceAccount shop/account",
];

fn found(api_version: &str, kind: &str, spec: &Value) -> Vec<String> {
    let metadata = serde_json::json!({ "name": "a", "namespace": "shop" });
    let object =
        serde_json::json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec });
    dependencies(&object).iter().map(ToString::to_string).collect()
}

#[test]
fn a_workload_needs_what_its_pods_name() {
    let template = || serde_json::json!({ "template": { "spec": yaml(POD) } });
    assert_eq!(found("v1", "Pod", &yaml(POD)), NAMED);
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
        assert_eq!(found("apps/v1", kind, &template()), NAMED, "{kind}");
    }
    assert_eq!(found("batch/v1", "Job", &template()), NAMED);
    assert_eq!(found("x.dev/v1", "Toy", &template()), NAMED);
    let cron = serde_json::json!({ "jobTemplate": { "spec": template() } });
    assert_eq!(found("batch/v1", "CronJob", &cron), NAMED);
}

#[test]
fn what_every_namespace_has_is_no_dependency_nor_is_what_a_workload_makes_itself() {
    for spec in [
        "{template: {spec: {serviceAccountName: default, serviceAccount: default, containers: [{name: a}]}}}",
        "{template: {spec: {volumes: []}}, volumeClaimTemplates: [{metadata: {name: data}}]}",
        "{template: {}}",
        "{template: {spec: {containers: text, volumes: {a: b}}}}",
    ] {
        assert_eq!(found("apps/v1", "StatefulSet", &yaml(spec)), [""; 0], "{spec}");
    }
}

#[test]
fn what_makes_no_pods_needs_nothing() {
    assert_eq!(found("v1", "ConfigMap", &yaml(POD)), [""; 0]);
}
