//! The view by itself.

mod departures;

use super::*;
use crate::api::{cluster::ClusterSpec, mcs::Version, propagation::PropagationSpec};

fn cluster(name: &str, id: Option<&str>) -> Cluster {
    Cluster::new(name, ClusterSpec { id: id.map(str::to_owned), ..ClusterSpec::default() })
}

fn policy(name: &str) -> PropagationPolicy {
    let selector = crate::api::propagation::ResourceSelector {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let spec = PropagationSpec { resource_selectors: vec![selector], ..PropagationSpec::default() };
    let mut policy = PropagationPolicy::new(name, spec);
    policy.metadata.namespace = Some("shop".to_owned());
    policy
}

fn export(name: &str) -> ServiceExport {
    ServiceExport::new(Version::V1Beta1, "shop", name, Default::default())
}

#[test]
fn a_view_is_synced_when_every_kind_was_read_as_a_whole() {
    let mut view = View::new("tombolo-system");
    assert_eq!(view.unsynced().count(), 9);
    view.apply_cluster(cluster("a", None));
    assert_eq!(view.unsynced().count(), 9, "one object is not all of them");
    view.retain_clusters(&BTreeSet::new());
    view.retain_namespaces(&BTreeSet::new());
    view.retain_services(&BTreeSet::new());
    view.retain_exports(&BTreeSet::new());
    view.retain_imports(&BTreeSet::new());
    view.retain_propagation_policies(&BTreeSet::new());
    view.retain_cluster_propagation_policies(&BTreeSet::new());
    view.retain_override_policies(&BTreeSet::new());
    assert_eq!(view.unsynced().collect::<Vec<_>>(), [Source::ClusterOverridePolicies]);
    assert!(!view.is_synced());
    view.retain_cluster_override_policies(&BTreeSet::new());
    assert!(view.is_synced());
}

#[test]
fn a_whole_list_forgets_what_is_not_in_it() {
    let mut view = View::new("tombolo-system");
    view.apply_cluster(cluster("a", Some("1")));
    view.apply_cluster(cluster("b", Some("2")));
    view.retain_clusters(&BTreeSet::from(["b".to_owned()]));
    assert_eq!(view.members().keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["b"]);
    assert_eq!(view.clusters_of_id("1").count(), 0);

    view.apply_export(export("a"));
    view.apply_export(export("b"));
    view.retain_exports(&BTreeSet::from([ServiceKey::parse("shop", "b").unwrap()]));
    assert_eq!(view.exports().keys().map(ToString::to_string).collect::<Vec<_>>(), ["shop/b"]);

    view.apply_propagation_policy(policy("a"));
    let kept = ["b", "c"].map(policy);
    let all = kept.iter().map(|policy| PolicyKey::of(&policy.metadata)).collect();
    kept.into_iter().for_each(|policy| view.apply_propagation_policy(policy));
    view.retain_propagation_policies(&all);
    let names: Vec<_> = view.propagations().policies().map(|policy| policy.key.name.to_string()).collect();
    assert_eq!(names, ["b", "c"]);
}

#[test]
fn a_whole_list_of_one_kind_leaves_the_other_that_shares_its_index() {
    let mut view = View::new("tombolo-system");
    let wide = ClusterPropagationPolicy::new("wide", policy("a").spec);
    view.apply_cluster_propagation_policy(wide);
    view.apply_propagation_policy(policy("a"));
    view.retain_propagation_policies(&BTreeSet::new());
    assert_eq!(view.propagations().policies().count(), 1);
    view.retain_cluster_propagation_policies(&BTreeSet::new());
    assert_eq!(view.propagations().policies().count(), 0);
}

#[test]
fn a_whole_list_forgets_a_policy_with_faults_too() {
    let mut view = View::new("tombolo-system");
    let mut faulty = policy("a");
    faulty.spec.resource_selectors.clear();
    let key = PolicyKey::of(&faulty.metadata);
    view.apply_propagation_policy(faulty);
    assert_eq!(view.propagations().faults(&key).len(), 1);
    view.retain_cluster_propagation_policies(&BTreeSet::new());
    assert_eq!(view.propagations().faults(&key).len(), 1, "that is another kind");
    view.retain_propagation_policies(&BTreeSet::new());
    assert_eq!(view.propagations().faults(&key), []);
}

#[test]
fn records_come_and_go() {
    let mut view = View::new("tombolo-system");
    let key = ServiceKey::parse("shop", "serve").unwrap();
    let time: k8s_openapi::jiff::Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
    let member: ClusterName = "a".parse().unwrap();
    let record = Export { created: time.into(), cluster: member.clone(), service: Default::default() };
    view.record(key.clone(), member.clone(), Some(record));
    assert_eq!(view.records(&key).unwrap().len(), 1);
    view.record(key.clone(), "b".parse().unwrap(), None);
    assert_eq!(view.records(&key).unwrap().len(), 1);
    view.record(key.clone(), member, None);
    assert!(view.records(&key).is_none());
}

#[test]
fn what_is_kept_of_a_service_is_what_goes_to_a_member() {
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "serve", "namespace": "shop", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "c": "d"},
            "managedFields": [{"manager": "kubectl"}], "creationTimestamp": "2026-11-16T08:00:00Z"
        },
        "spec": {
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "NodePort", "healthCheckNodePort": 1,
            "ports": [{"port": 80, "nodePort": 30080, "targetPort": "web"}]
        },
        "status": {"loadBalancer": {}}
    });
    let template = Template::of(&service);
    assert_eq!(template.created.unwrap().to_string(), "2026-11-16T08:00:00Z");
    assert_eq!(
        template.body(),
        serde_json::json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "serve", "namespace": "shop", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": "web"}]}
        })
    );
    let mut headless = service;
    headless["spec"]["clusterIP"] = "None".into();
    assert_eq!(Template::of(&headless).body()["spec"]["clusterIP"], "None");
}

#[test]
fn an_offer_is_what_makes_sense_of_a_service() {
    let service = serde_json::json!({"spec": {"clusterIP": "None", "ports": [
        {"port": 0}, {"port": 80, "protocol": "X"}, {"port": 443, "name": "tls", "appProtocol": ""}, {"port": "80"}, 1
    ]}});
    let offer = Offer::of(&service);
    assert_eq!(offer.ports.len(), 1);
    assert_eq!((offer.ports[0].0, offer.ports[0].1.to_string()), (2, "tls 443/TCP".to_owned()));
    assert_eq!(offer.service_type.as_str(), "Headless");
    assert!(!offer.external_name);
}

#[test]
fn an_export_or_import_that_comes_or_goes_is_told_once() {
    let mut view = View::new("tombolo-system");
    let import = || -> ServiceImport {
        let spec = serde_json::json!({ "type": "ClusterSetIP", "ports": [] });
        serde_json::from_value(
            serde_json::json!({ "metadata": { "namespace": "shop", "name": "serve" }, "spec": spec }),
        )
        .unwrap()
    };
    let key = ServiceKey::parse("shop", "serve").unwrap();
    let told = |view: &mut View| view.take_changes().services.into_iter().collect::<Vec<_>>();
    view.apply_import(import());
    assert_eq!(told(&mut view), std::slice::from_ref(&key));
    view.apply_import(import());
    assert!(told(&mut view).is_empty());
    view.retain_imports(&BTreeSet::new());
    assert_eq!(told(&mut view), std::slice::from_ref(&key));
    view.delete_import(&key);
    assert!(told(&mut view).is_empty());
}
