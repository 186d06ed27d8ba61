use super::*;
use crate::decide::policies::PolicyKey;

#[test]
fn a_restart_while_the_oldest_exporter_is_unreachable_changes_nothing() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80), ("only-a", 81)]));
    fleet.export("b", 2, ports(&[("http", 8080), ("web", 80)]));
    fleet.settle();
    let (imports, slices) = (fleet.imports.clone(), fleet.slices.clone());
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    assert_eq!(fleet.plan("c"), Plan::default());
    assert_eq!(fleet.plan("b"), Plan::default(), "not even the conflict with it has ended");
    assert_eq!(fleet.condition("b", "Conflict").unwrap().status, "True");
    fleet.read("a");
    assert_eq!(fleet.settle(), 0);
    assert_eq!((fleet.imports, fleet.slices), (imports, slices));
}

#[test]
fn while_one_is_unknown_the_others_endpoints_still_change() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    fleet.source("b", "10.7.7.7", vec![json!({ "name": "http", "port": 8080, "protocol": "TCP" })]);
    fleet.settle();
    let got = fleet.gets("c");
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(got.iter().any(|(from, address, _)| from == "b" && address == "10.7.7.7"));
}

#[test]
fn a_record_of_a_newer_format_withdraws_nothing() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let (imports, slices) = (fleet.imports.clone(), fleet.slices.clone());
    fleet.export_record("a", 1, Some(r#"{"format":9}"#.to_owned()));
    fleet.settle();
    assert_eq!((&fleet.imports, &fleet.slices), (&imports, &slices));
    assert!(fleet.condition("a", "Ready").unwrap().message.contains("format 9"));
}

#[test]
fn an_export_that_is_replaced_without_its_record_withdraws_nothing() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let export = fleet.exports.get_mut(&("a".to_owned(), "serve".to_owned())).unwrap();
    export["metadata"]["annotations"] = json!({});
    let valid = json!({ "type": "Valid", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    export["status"]["conditions"].as_array_mut().unwrap().push(valid);
    let export = export.clone();
    fleet.see_export("a", &export);
    assert_eq!(fleet.settle(), 0);
}

#[test]
fn nothing_goes_while_the_hub_has_not_read_its_own_kinds() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.template("ServiceImport", "serve", json!({ "type": "ClusterSetIP", "ports": [] }), Some(&["b"]));
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let imports = fleet.imports.clone();
    fleet.view = View::new("tombolo-system");
    for member in ["a", "b"] {
        fleet.join(member, json!({}));
    }
    assert_eq!(fleet.settle(), 0);
    assert_eq!(fleet.imports, imports);
}

#[test]
fn a_member_whose_link_is_down_keeps_offering_what_was_seen_last() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    // Nothing is heard of it; nobody says that anything is gone.
    assert_eq!(fleet.settle(), 0);
    assert_eq!(fleet.gets("b").len(), 1);
    // It is gone for good.
    fleet.view.delete_cluster("a");
    fleet.changed();
    fleet.exchange.forget(&cluster("a"));
    fleet.settle();
    assert!(fleet.gets("b").is_empty() && fleet.importers() == ["a"]);
}

/// `serve` of `a`, which `b` imports as a ServiceImport on the hub says.
fn by_policy() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.template("ServiceImport", "serve", json!({ "type": "ClusterSetIP", "ports": [] }), Some(&["b"]));
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(fleet.importers(), ["b"]);
    fleet
}

fn moves(fleet: &mut Fleet, address: &str) {
    fleet.source("a", address, vec![json!({ "name": "http", "port": 8080, "protocol": "TCP" })]);
    fleet.settle();
    let got = fleet.gets("b");
    assert!(got.len() == 1 && got[0].1 == address, "{got:?}");
}

#[test]
fn endpoints_follow_into_an_import_whose_policy_is_gone_or_held_back() {
    let mut fleet = by_policy();
    let imports = fleet.imports.clone();
    let policy: PropagationPolicy = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "serviceimport-serve" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "name": "serve" }],
            "placement": { "clusterAffinity": { "clusterNames": ["b"] } }, "suspension": { "dispatching": true },
        },
    }))
    .unwrap();
    fleet.view.apply_propagation_policy(policy.clone());
    fleet.changed();
    moves(&mut fleet, "10.7.7.7");
    fleet.view.delete_propagation_policy(&PolicyKey::of(&policy.metadata));
    fleet.changed();
    moves(&mut fleet, "10.8.8.8");
    assert_eq!(fleet.imports, imports);
    fleet.unexport("a");
    fleet.settle();
    assert!(fleet.gets("b").is_empty(), "what is no longer offered is not served");
}

#[test]
fn nobody_imports_by_itself_what_the_hub_may_only_have_lost_with_its_kind() {
    let mut fleet = by_policy();
    let imports = fleet.imports.clone();
    fleet.certain = false;
    fleet.no_template("ServiceImport", "serve");
    fleet.settle();
    assert_eq!(fleet.imports, imports);
    moves(&mut fleet, "10.7.7.7");
    assert!(fleet.plan("b").doubted.is_some() && fleet.plan("c").doubted.is_some());
    fleet.certain = true;
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b", "c"]);
    assert_eq!(fleet.plan("b"), Plan::default());
}

#[test]
fn of_a_kind_that_was_made_anew_ours_are_made_again_at_once_and_users_may_come_back() {
    let mut fleet = by_policy();
    fleet.exchange.retain_users_imports(&cluster("b"), &BTreeSet::new());
    let ImportStep::Apply(again) = fleet.plan("b").import else { panic!("it is not made again") };
    assert!(again["metadata"]["uid"].is_null(), "{again}");
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.see_import("b", &json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "spec": { "type": "ClusterSetIP", "ports": [] },
        "metadata": { "namespace": "shop", "name": "serve", "uid": "users" },
    }));
    fleet.exchange.retain_users_imports(&cluster("b"), &BTreeSet::new());
    fleet.export("a", 1, ports(&[("http", 80)]));
    assert_eq!(fleet.plan("b").import, ImportStep::Nothing);
}
