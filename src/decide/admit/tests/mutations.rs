//! What is filled in, and what is left alone.

use serde_json::{Value, json};

use super::{Hub, MEMBERS, filled_in, object};
use crate::decide::admit::{Operation, mutate, tests::request};

fn check(hub: &Hub, manifest: &str, patch: &Value) {
    let request = request(Operation::Create, Some(object(manifest)), None);
    assert_eq!(serde_json::to_value(mutate(&hub.view, &request).patch).unwrap(), *patch, "{manifest}");
}

#[test]
fn an_imports_defaults_are_those_of_a_service() {
    let hub = Hub::of(&[MEMBERS]);
    check(
        &hub,
        "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: a, namespace: shop}, \
         spec: {ports: [{port: 80}, {port: 53, protocol: UDP}, {port: 1, protocol: ''}]}}",
        &json!([
            {"op": "add", "path": "/spec/ports/0/protocol", "value": "TCP"},
            {"op": "replace", "path": "/spec/ports/2/protocol", "value": "TCP"},
            {"op": "add", "path": "/spec/sessionAffinity", "value": "None"},
            {"op": "add", "path": "/spec/type", "value": "ClusterSetIP"},
        ]),
    );
    check(
        &hub,
        "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: a, namespace: shop}, \
         spec: {type: Headless, ports: [], sessionAffinity: ClientIP}}",
        &json!([
            {"op": "add", "path": "/spec/sessionAffinityConfig", "value": {"clientIP": {"timeoutSeconds": 10800}}},
        ]),
    );
    check(
        &hub,
        "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: a, namespace: shop}, \
         spec: {type: Headless, ports: [], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}}}",
        &json!([]),
    );
}

#[test]
fn an_import_without_a_spec_stays_without() {
    let hub = Hub::of(&[MEMBERS]);
    check(
        &hub,
        "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: a, namespace: shop}}",
        &json!([]),
    );
}

#[test]
fn the_namespaces_rule_is_copied_to_exports_and_imports() {
    let mut hub = Hub::of(&[MEMBERS]);
    let export = "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: a, namespace: shop}}";
    check(&hub, export, &json!([]));
    hub.add(
        "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {tombolo.dev/port-conflicts: resolve}}}",
    );
    let rule = json!({"tombolo.dev/port-conflicts": "resolve"});
    check(&hub, export, &json!([{"op": "add", "path": "/metadata/annotations", "value": rule}]));
    check(
        &hub,
        "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, spec: {type: Headless, sessionAffinity: None, \
         ports: []}, metadata: {name: a, namespace: shop, annotations: {x: y}}}",
        &json!([{"op": "add", "path": "/metadata/annotations/tombolo.dev~1port-conflicts", "value": "resolve"}]),
    );
    check(&hub, &export.replace("namespace: shop", "namespace: other"), &json!([]));
}

#[test]
fn a_policys_open_ends_are_closed() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = "{resourceSelectors: [{apiVersion: v1, kind: Service}, {apiVersion: v1, kind: Secret, namespace: x}], \
                placement: {spreadConstraints: [{spreadByField: cluster}, {minGroups: 0}, {minGroups: 2}]}}";
    let expected = json!([
        {"op": "add", "path": "/spec/conflictResolution", "value": "Abort"},
        {"op": "add", "path": "/spec/placement/spreadConstraints/0/minGroups", "value": 1},
        {"op": "replace", "path": "/spec/placement/spreadConstraints/1/minGroups", "value": 1},
        {"op": "add", "path": "/spec/resourceSelectors/0/namespace", "value": "shop"},
    ]);
    let manifest = |kind: &str, namespace: &str| {
        format!(
            "{{apiVersion: policy.karmada.io/v1alpha1, kind: {kind}, metadata: {{name: a{namespace}}}, spec: {spec}}}"
        )
    };
    check(&hub, &manifest("PropagationPolicy", ", namespace: shop"), &expected);
    let wide: Vec<_> = expected.as_array().unwrap()[..3].to_vec();
    check(&hub, &manifest("ClusterPropagationPolicy", ""), &json!(wide));
    let only_namespace: Vec<_> = expected.as_array().unwrap()[3..].to_vec();
    check(&hub, &manifest("OverridePolicy", ", namespace: shop"), &json!(only_namespace));
    check(&hub, &manifest("ClusterOverridePolicy", ""), &json!([]));
}

#[test]
fn a_cluster_is_pushed_to() {
    let hub = Hub::of(&[MEMBERS]);
    let cluster =
        "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a}, spec: {region: eu}}";
    check(&hub, cluster, &json!([{"op": "add", "path": "/spec/syncMode", "value": "Push"}]));
    check(&hub, &cluster.replace("region: eu", "syncMode: Pull"), &json!([]));
}

#[test]
fn services_deletions_and_strangers_are_left_alone() {
    let hub = Hub::of(&[MEMBERS]);
    check(
        &hub,
        "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {ports: []}}",
        &json!([]),
    );
    check(
        &hub,
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop}, spec: {}}",
        &json!([]),
    );
    let cluster =
        object("{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a}, spec: {}}");
    let deletion = request(Operation::Delete, None, Some(cluster));
    assert!(mutate(&hub.view, &deletion).patch.is_empty());
}

#[test]
fn a_field_of_a_release_to_come_survives() {
    let hub = Hub::of(&[MEMBERS]);
    let import = object(
        "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: a, namespace: shop, x: 1.50}, \
         spec: {ports: [{port: 80, weight: 1e3}], novel: {a: [1, null]}}, extra: true}",
    );
    let filled = filled_in(&hub.view, &import);
    assert_eq!(filled["spec"]["novel"], json!({"a": [1, null]}));
    assert_eq!(filled["spec"]["ports"][0]["weight"], import["spec"]["ports"][0]["weight"]);
    assert_eq!((&filled["extra"], &filled["metadata"]), (&import["extra"], &import["metadata"]));
}
