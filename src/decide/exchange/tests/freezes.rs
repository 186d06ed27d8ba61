use super::*;
use crate::decide::{policies::PolicyKey, world::Absence};

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
fn a_conflict_that_nobody_imports_has_not_ended_while_an_exporter_may_not_be_read() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.used(&["a", "b"]);
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a", "b"]));
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 81)]));
    fleet.settle();
    assert!(fleet.imports.is_empty());
    assert_eq!(fleet.condition("b", "Conflict").unwrap().status, "True");
    fleet.restart();
    fleet.read("b");
    assert_eq!(fleet.plan("b"), Plan::default());
    // Who is silent may be so for good.
    super::silence::grade(&mut fleet, "a", crate::decide::freshness::Grade::Stale);
    assert_ne!(fleet.plan("b"), Plan::default());
    super::silence::grade(&mut fleet, "a", crate::decide::freshness::Grade::Silent);
    assert_eq!(fleet.plan("b"), Plan::default());
    // Who has no such kind exports nothing.
    let _ = fleet.exchange.see_kind(&cluster("a"), Part::Exports, false);
    assert_ne!(fleet.plan("b"), Plan::default());
    let _ = fleet.exchange.see_kind(&cluster("a"), Part::Exports, true);
    fleet.read("a");
    assert_eq!(fleet.settle(), 0);
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

/// The export of `a` has no Service any more, or nobody has said yet what it has.
fn offers_nothing(fleet: &mut Fleet, told: bool) {
    fleet.export_record("a", 1, None);
    let export = fleet.exports.get_mut(&("a".to_owned(), "serve".to_owned())).unwrap();
    if told {
        export["status"]["conditions"] = json!([{
            "type": "Valid", "status": "False", "reason": "NoService", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
    }
    let export = export.clone();
    fleet.see_export("a", &export);
    fleet.slices.remove(&("a".to_owned(), "serve-source-a".to_owned()));
    fleet.exchange.lose_source(&cluster("a"), &serve(), "serve-source-a");
    fleet.settle();
}

fn uid(fleet: &Fleet, member: &str) -> Value {
    fleet.imports[&(member.to_owned(), "serve".to_owned())]["metadata"]["uid"].clone()
}

#[test]
fn an_import_that_is_kept_for_an_export_without_a_service_outlives_a_restart_without_its_cluster() {
    for told in [true, false] {
        let mut fleet = Fleet::of(&["a", "b"]);
        fleet.export("a", 1, ports(&[("http", 80)]));
        fleet.settle();
        let before = (uid(&fleet, "b"), fleet.imports[&("b".to_owned(), "serve".to_owned())]["spec"].clone());
        offers_nothing(&mut fleet, told);
        assert!(fleet.gets("b").is_empty());
        assert_eq!(fleet.settle(), 0);
        fleet.restart();
        fleet.read("b");
        assert_eq!(fleet.settle(), 0);
        assert_eq!(fleet.importers(), ["a", "b"]);
        fleet.read("a");
        assert_eq!(fleet.settle(), 0);
        let after = (uid(&fleet, "b"), fleet.imports[&("b".to_owned(), "serve".to_owned())]["spec"].clone());
        assert_eq!(before, after);
        fleet.unexport("a");
        fleet.settle();
        assert!(fleet.importers().is_empty(), "the last export is gone");
    }
}

#[test]
fn an_export_without_a_service_of_a_cluster_that_is_not_read_keeps_the_import_when_all_others_go() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    let before = uid(&fleet, "c");
    offers_nothing(&mut fleet, true);
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    assert_eq!(fleet.settle(), 0);
    // Nothing is frozen by what offers nothing.
    fleet.export("b", 2, ports(&[("http", 80), ("more", 81)]));
    fleet.settle();
    let ports = &fleet.imports[&("c".to_owned(), "serve".to_owned())]["spec"]["ports"];
    assert_eq!(ports.as_array().unwrap().len(), 2);
    fleet.unexport("b");
    fleet.settle();
    assert_eq!(uid(&fleet, "c"), before);
    fleet.read("a");
    fleet.unexport("a");
    fleet.settle();
    assert!(fleet.importers().is_empty());
}

#[test]
fn an_origin_that_a_member_forges_freezes_nothing_but_its_own_import() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.certain = false;
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let origin = crate::decide::copy::Origin {
        hub: "hub".into(),
        template: "x".into(),
        crd: Some("y".into()),
        object: object_key(import_kind(), &serve()),
    };
    let forged = fleet.imports.get_mut(&("c".to_owned(), "serve".to_owned())).unwrap();
    forged["metadata"]["annotations"][annotation::ORIGIN] = origin.text().into();
    let forged = forged.clone();
    fleet.see_import("c", &forged);
    fleet.export("a", 1, ports(&[("http", 80), ("more", 81)]));
    fleet.join("d", json!({}));
    fleet.read("d");
    fleet.exchange.see_namespace(&cluster("d"), "shop", true);
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b", "c", "d"]);
    let ports = |member: &str| {
        fleet.imports[&(member.to_owned(), "serve".to_owned())]["spec"]["ports"].as_array().unwrap().len()
    };
    assert_eq!(["a", "b", "c", "d"].map(ports), [2, 2, 1, 2]);
    assert!(fleet.plan("c").doubted.is_some());
}

#[test]
fn a_port_that_is_served_under_anothers_name_goes_on_being_served_while_that_one_is_unknown() {
    let mut fleet = Fleet::of(&["a", "b", "c", "d"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("web", 80)]));
    fleet.export("c", 3, ports(&[("web", 81)]));
    fleet.settle();
    let of_b = |fleet: &Fleet| fleet.gets("d").into_iter().find(|(from, ..)| from == "b").unwrap().2;
    assert_eq!(of_b(&fleet), [("http".to_owned(), 8080)]);
    let (imports, slices) = (fleet.imports.clone(), fleet.slices.clone());
    fleet.restart();
    for member in ["b", "c", "d"] {
        fleet.read(member);
    }
    assert_eq!(fleet.plan("d"), Plan::default());
    assert_eq!(fleet.settle(), 0);
    fleet.read("a");
    assert_eq!(fleet.settle(), 0);
    assert_eq!((fleet.imports, fleet.slices), (imports, slices));
}

#[test]
fn what_lost_to_a_cluster_that_is_unknown_now_is_still_withheld() {
    let mut fleet = Fleet::of(&["a", "b", "c", "d"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80), ("y", 81)]));
    fleet.settle();
    // The import has the name by which most know it, and so none that would tell why this one lost.
    fleet.export("a", 1, ports(&[("x", 80)]));
    fleet.export("c", 3, ports(&[("x", 81)]));
    fleet.settle();
    let of_c = |fleet: &Fleet| fleet.gets("d").into_iter().find(|(from, ..)| from == "c").unwrap().2;
    assert_eq!(of_c(&fleet), []);
    fleet.restart();
    for member in ["b", "c", "d"] {
        fleet.read(member);
    }
    assert_eq!(fleet.settle(), 0);
    assert_eq!(of_c(&fleet), []);
}

#[test]
fn an_export_that_goes_while_another_exporter_is_unread_takes_its_endpoints_along() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    fleet.unexport("b");
    fleet.settle();
    let from: Vec<_> = fleet.gets("c").into_iter().map(|(from, ..)| from).collect();
    assert_eq!(from, ["a"], "of the unread one everything stays");
    assert_eq!(fleet.importers(), ["a", "b", "c"]);
    fleet.read("a");
    assert_eq!(fleet.gets("c").len(), 1);
}

#[test]
fn a_policy_takes_an_import_away_though_an_exporter_is_unread() {
    let mut fleet = by_policy();
    fleet.export("c", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    fleet.template("ServiceImport", "serve", json!({ "type": "ClusterSetIP", "ports": [] }), Some(&["c"]));
    let plan = fleet.plan("b");
    assert!(matches!(plan.import, ImportStep::Delete { why: Absence::Elsewhere, .. }), "{plan:?}");
    assert_eq!(plan.slices, [], "its slices go with it, and not before");
    // Until that is certain the endpoints of those that are known follow.
    fleet.source("c", "10.7.7.7", vec![json!({ "name": "http", "port": 8080, "protocol": "TCP" })]);
    let plan = fleet.plan("b");
    assert!(matches!(&plan.slices[..], [SliceStep::Update(_)]), "{plan:?}");
}

#[test]
fn the_last_member_that_is_forgotten_is_told_to_those_who_judge_by_its_exports() {
    let mut fleet = Fleet::of(&["a"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    let dirty = fleet.exchange.forget(&cluster("a"));
    assert_eq!(dirty, Dirty::from([(cluster("a"), serve())]));
}
