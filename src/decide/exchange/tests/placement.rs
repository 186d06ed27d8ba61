//! Placement goes by who has a ServiceImport already, though no copy of the propagator's tells of it.

use super::*;
use crate::decide::exchange::tests::silence::{by_template, grade};

fn taint(fleet: &mut Fleet, member: &str, effect: &str) {
    let taints = json!([{ "key": "cluster.karmada.io/not-ready", "effect": effect }]);
    fleet.join(member, json!({ "spec": { "taints": taints } }));
}

/// `serve` of `a`, which a policy of that placement has imported.
fn imported(placement: Value) -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.used(&["a", "b", "c"]);
    fleet.template("ServiceImport", "serve", json!({ "type": "ClusterSetIP", "ports": [] }), None);
    fleet.place("ServiceImport", "serve", placement);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet
}

#[test]
fn a_taint_that_keeps_new_objects_away_takes_no_import_from_who_has_it() {
    for restart in [false, true] {
        let mut fleet = imported(json!({ "clusterAffinity": { "clusterNames": ["b", "c"] } }));
        assert_eq!(fleet.importers(), ["b", "c"]);
        taint(&mut fleet, "b", "NoSchedule");
        if restart {
            fleet.restart();
            for member in ["a", "b", "c"] {
                fleet.read(member);
            }
        }
        assert_eq!(fleet.settle(), 0, "restarted: {restart}");
        assert_eq!(fleet.importers(), ["b", "c"]);
        assert_eq!(fleet.gets("b").len(), 1);
    }
    let mut fleet = imported(json!({ "clusterAffinity": { "clusterNames": ["b", "c"] } }));
    taint(&mut fleet, "b", "NoExecute");
    fleet.settle();
    assert_eq!(fleet.importers(), ["c"], "one that drives out does");
    let mut fleet = imported(json!({ "clusterAffinity": { "clusterNames": ["c"] } }));
    taint(&mut fleet, "b", "NoSchedule");
    fleet.place("ServiceImport", "serve", json!({ "clusterAffinity": { "clusterNames": ["b", "c"] } }));
    fleet.settle();
    assert_eq!(fleet.importers(), ["c"], "nothing new comes to a tainted one");
}

#[test]
fn a_choice_of_importers_prefers_who_has_it_and_waits_for_who_may() {
    let one = |names: &[&str]| {
        json!({
            "clusterAffinity": { "clusterNames": names },
            "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }],
        })
    };
    let mut fleet = imported(one(&["c"]));
    assert_eq!(fleet.importers(), ["c"]);
    fleet.place("ServiceImport", "serve", one(&["b", "c"]));
    assert_eq!(fleet.settle(), 0, "b comes first by name");
    fleet.restart();
    fleet.read("a");
    fleet.read("b");
    assert_eq!(fleet.settle(), 0, "c may have it");
    fleet.read("c");
    assert_eq!(fleet.settle(), 0);
    assert_eq!(fleet.importers(), ["c"]);
    fleet.restart();
    fleet.read("a");
    fleet.read("b");
    // Who has no such kind has none of it.
    fleet.imports.clear();
    fleet.note_imports("c", |exchange| exchange.see_kind(&cluster("c"), Part::Imports, false));
    fleet.settle();
    assert_eq!(fleet.importers(), ["b"]);
}

#[test]
fn a_tainted_exporter_that_does_not_answer_after_a_restart_is_withdrawn_only_where_its_policy_says_so() {
    for effect in ["NoSchedule", "NoExecute"] {
        let mut fleet = by_template(false);
        taint(&mut fleet, "a", effect);
        fleet.restart();
        fleet.read("b");
        fleet.read("c");
        grade(&mut fleet, "a", Grade::Silent);
        fleet.settle();
        let from = |fleet: &Fleet| fleet.gets("c").into_iter().map(|(from, ..)| from).collect::<Vec<_>>();
        let kept: &[&str] = if effect == "NoSchedule" { &["a", "b"] } else { &["b"] };
        assert_eq!(from(&fleet), kept, "{effect}");
        fleet.template("ServiceExport", "serve", json!({}), Some(&["b"]));
        fleet.settle();
        assert_eq!(from(&fleet), ["b"]);
    }
}
