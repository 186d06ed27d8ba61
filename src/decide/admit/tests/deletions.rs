//! What deletions hit.

use super::{EXPORTED, Hub, MEMBERS, objects};
use crate::decide::{
    ids::ServiceKey,
    merge::{Export, ServiceSpec},
};

const IMPORTED: &str = "
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: serve, namespace: shop}, \
 spec: {type: ClusterSetIP, ports: []}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: serve-import, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, name: serve}
  placement: {clusterAffinity: {clusterNames: [member2]}}
";

fn part(manifests: &str, index: usize) -> String {
    serde_json::to_string(&objects(manifests)[index]).unwrap()
}

fn record(hub: &mut Hub, cluster: &str) {
    let time: k8s_openapi::jiff::Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
    let export =
        Export { created: time.into(), cluster: cluster.parse().unwrap(), service: ServiceSpec::default() };
    hub.view.record(ServiceKey::parse("shop", "serve").unwrap(), cluster.parse().unwrap(), Some(export));
}

#[test]
fn a_cluster_that_still_exports_stays_unless_annotated() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let member1 = part(MEMBERS, 0);
    assert_eq!(
        hub.delete(&member1).message(),
        "Cluster member1 is refused:\nmetadata.name: cluster member1 still exports shop/serve; place the ServiceExports \
         elsewhere first, or annotate the Cluster with `tombolo.dev/delete-while-exporting: \"true\"` to withdraw its \
         endpoints everywhere"
    );
    let annotations = "\"annotations\":{\"tombolo.dev/delete-while-exporting\":\"true\"},\"name\"";
    assert_eq!(
        hub.delete(&member1.replacen("\"name\"", annotations, 1)).warnings(),
        ["cluster member1 still exports shop/serve; its endpoints are withdrawn everywhere"]
    );
    let going = member1.replacen("\"name\"", "\"deletionTimestamp\":\"2026-11-16T08:00:00Z\",\"name\"", 1);
    assert!(hub.delete(&going).warnings().is_empty());
    assert!(hub.delete(&part(MEMBERS, 1)).warnings().is_empty());
}

#[test]
fn a_cluster_that_exports_by_itself_stays_too() {
    let mut hub = Hub::of(&[MEMBERS]);
    record(&mut hub, "member2");
    assert_eq!(hub.delete(&part(MEMBERS, 1)).faults().len(), 1);
    assert!(hub.delete(&part(MEMBERS, 0)).warnings().is_empty());
}

#[test]
fn an_import_in_use_says_who_loses_it() {
    let hub = Hub::of(&[MEMBERS, EXPORTED, IMPORTED]);
    assert_eq!(
        hub.delete(&part(IMPORTED, 0)).warnings(),
        ["shop/serve is no longer imported by member2, and then by nobody"]
    );
    let alone = Hub::of(&[MEMBERS, IMPORTED]);
    assert_eq!(alone.delete(&part(IMPORTED, 0)).warnings(), ["shop/serve is no longer imported by member2"]);
}

#[test]
fn an_import_without_which_everybody_imports_says_so() {
    let mut hub = Hub::of(&[MEMBERS, IMPORTED]);
    record(&mut hub, "member3");
    assert_eq!(
        hub.delete(&part(IMPORTED, 0)).warnings(),
        [
            "shop/serve is imported by member2 now, and after this by every cluster that has namespace shop: it is exported by \
          member3, and nothing on the hub says who may import it"
        ]
    );
}

#[test]
fn an_export_in_use_says_who_loses_it_and_who_gets_more() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED, IMPORTED]);
    let export = part(EXPORTED, 1);
    assert_eq!(
        hub.delete(&export).warnings(),
        ["shop/serve is no longer exported by member1, but imported by member2"]
    );
    super::remove(&mut hub.view, &objects(IMPORTED)[0]);
    record(&mut hub, "member3");
    let answer = hub.delete(&export);
    assert_eq!(answer.warnings().len(), 2, "{answer:?}");
    assert!(
        answer.warnings()[1]
            .starts_with("shop/serve is imported by nobody now, and after this by every cluster")
    );
}

#[test]
fn a_policy_in_use_says_what_stays_and_what_goes() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    let policy = part(EXPORTED, 2);
    assert_eq!(
        hub.delete(&policy).warnings(),
        [
            "stays in member1 and goes nowhere else, as no other policy holds for it: Service shop/serve and ServiceExport \
          shop/serve"
        ]
    );
    let asked = EXPORTED.replace(
        "metadata: {name: serve, namespace: shop}\nspec",
        "metadata: {name: serve, namespace: shop, annotations: {tombolo.dev/on-policy-deletion: delete}}\nspec",
    );
    hub.add(&asked);
    assert_eq!(
        hub.delete(&policy).warnings(),
        ["deleted from member1, as the policy asks: Service shop/serve and ServiceExport shop/serve"]
    );
}

#[test]
fn a_policy_without_which_a_wider_one_holds_says_who_imports_too() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED, IMPORTED]);
    hub.add(
        "{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterPropagationPolicy, metadata: {name: all}, spec: \
         {resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport}], \
         placement: {clusterAffinity: {exclude: [member2]}}}}",
    );
    assert_eq!(
        hub.delete(&part(IMPORTED, 1)).warnings(),
        [
            "follows ClusterPropagationPolicy all then, is imported by member1 and member3 as well, leaves member2: \
          ServiceImport shop/serve"
        ]
    );
}

#[test]
fn a_policy_that_holds_for_nothing_goes_without_a_word() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let other = EXPORTED.split("\n---\n").last().unwrap().replace("name: serve}", "name: other}");
    assert!(hub.delete(&other).warnings().is_empty());
}

#[test]
fn an_override_that_kept_ports_apart_says_what_changes_and_what_conflicts() {
    let overriding = "{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {name: port, namespace: \
        shop}, spec: {resourceSelectors: [{apiVersion: v1, kind: Service, name: serve}], overrideRules: [{overriders: \
        {plaintext: [{path: /spec/ports/0/port, operator: replace, value: 8080}]}}]}}";
    let import = IMPORTED.replace("ports: []", "ports: [{name: http, port: 8080}]");
    let hub = Hub::of(&[MEMBERS, EXPORTED, &import, overriding]);
    assert_eq!(
        hub.delete(overriding).warnings(),
        [
            "this changes in member1: Service shop/serve",
            "this brings a port conflict about: Service shop/serve: port \"http\": 80/TCP in cluster member1, 8080/TCP in \
             the ServiceImport on the hub",
        ]
    );
}
