use super::*;

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
    // The conditions of exports are told by what is known.
    let plan = fleet.plan("c");
    assert_eq!(plan, Plan::default());
    assert_eq!(fleet.plan("b").import, ImportStep::Nothing);
    assert!(fleet.plan("b").slices.is_empty());
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
