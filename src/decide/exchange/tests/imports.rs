use super::*;

#[test]
fn c2_every_member_with_the_namespace_imports_exporters_included() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.join("c", json!({}));
    fleet.read("c");
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b"]);
    // C3: the namespace comes later.
    fleet.exchange.see_namespace(&cluster("c"), "shop", true);
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b", "c"]);
}

#[test]
fn a7_a_namespace_is_made_for_an_import_by_policy_and_never_for_an_automatic_one() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    let plan = fleet.plan("b");
    assert!(matches!(plan.import, ImportStep::Apply(_)) && !plan.makes_namespace, "{plan:?}");
    fleet.template("ServiceImport", "serve", json!({ "type": "ClusterSetIP", "ports": [] }), Some(&["b"]));
    let plan = fleet.plan("b");
    assert!(matches!(plan.import, ImportStep::Apply(_)) && plan.makes_namespace, "{plan:?}");
}

#[test]
fn b6_an_import_says_the_traffic_fields_of_the_service_its_defaults_included() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let spec = &fleet.imports[&("b".to_owned(), "serve".to_owned())]["spec"];
    assert_eq!(spec["internalTrafficPolicy"], "Cluster");
    assert_eq!(spec["sessionAffinity"], "None");
    assert!(spec.get("trafficDistribution").is_none(), "{spec}");
}

#[test]
fn c4_an_import_goes_with_the_last_export_and_not_before() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.unexport("a");
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b"]);
    fleet.unexport("b");
    fleet.settle();
    assert!(fleet.importers().is_empty() && fleet.gets("a").is_empty() && fleet.gets("b").is_empty());
}

#[test]
fn b11_no_service_withdraws_endpoints_keeps_the_import_and_never_makes_one() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export_record("a", 1, None);
    fleet.settle();
    assert!(fleet.importers().is_empty());
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(fleet.gets("b").len(), 1);
    let before = fleet.imports.clone();
    fleet.export_record("a", 1, None);
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b"]);
    assert!(fleet.gets("b").is_empty());
    let spec = |imports: &BTreeMap<(String, String), Value>| {
        imports[&("b".to_owned(), "serve".to_owned())]["spec"].clone()
    };
    assert_eq!(spec(&before), spec(&fleet.imports));
}

#[test]
fn slices_go_with_their_exports_though_the_import_is_there_for_a_while_longer() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet.unexport("a");
    let plan = fleet.plan("b");
    assert!(matches!(plan.import, ImportStep::Delete { .. }), "{plan:?}");
    assert!(matches!(plan.slices[..], [SliceStep::Delete { .. }]), "{plan:?}");
}

#[test]
fn slices_of_what_is_exported_still_stay_as_long_as_the_import() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    // It is about to be said on the hub who imports it.
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a"]));
    let plan = fleet.plan("b");
    assert!(matches!(plan.import, ImportStep::Delete { .. }), "{plan:?}");
    assert_eq!(plan.slices, []);
    fleet.settle();
    assert!(fleet.importers().is_empty() && fleet.gets("b").is_empty(), "they go with it");
}

#[test]
fn a_second_pass_writes_nothing() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 8080)]));
    assert!(fleet.settle() > 0);
    assert_eq!(fleet.settle(), 0);
    fleet.restart();
    for member in ["a", "b", "c"] {
        fleet.read(member);
    }
    assert_eq!(fleet.settle(), 0, "nor does a restart");
}

#[test]
fn excluded_namespaces_take_no_part_and_automatic_import_can_be_off() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.exchange.rules = Rules { automatic: false, ..rules() };
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert!(fleet.importers().is_empty());
    fleet.exchange.rules = Rules { allowed: globs(&["mall"]), ..rules() };
    fleet.settle();
    assert!(fleet.importers().is_empty());
    fleet.exchange.rules = rules();
    fleet.settle();
    assert_eq!(fleet.importers(), ["a", "b"]);
}

#[test]
fn with_an_export_on_the_hub_exactly_those_import_that_a_policy_places_the_import_on() {
    let mut fleet = Fleet::of(&["member1", "member2", "member3"]);
    fleet.template("ServiceExport", "serve", json!({}), Some(&["member1"]));
    fleet.export("member1", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert!(fleet.importers().is_empty(), "nobody was asked to");
    let import = json!({ "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80 }] });
    fleet.template("ServiceImport", "serve", import.clone(), None);
    fleet.settle();
    assert!(fleet.importers().is_empty(), "a template without a policy adds no importer");
    fleet.template("ServiceImport", "serve", import, Some(&["member2"]));
    fleet.settle();
    assert_eq!(fleet.importers(), ["member2"]);
    assert_eq!(fleet.gets("member2").len(), 1);
    fleet.no_template("ServiceImport", "serve");
    fleet.settle();
    assert!(fleet.importers().is_empty());
}

#[test]
fn an_export_that_is_taken_back_on_the_hub_is_imported_by_nobody_else_on_its_way_out() {
    let mut fleet = super::silence::by_template(false);
    assert_eq!(fleet.importers(), ["c"]);
    // The copies in the members are there for a moment longer.
    fleet.no_template("ServiceImport", "serve");
    fleet.no_template("ServiceExport", "serve");
    fleet.settle();
    assert_eq!(fleet.importers(), ["c"]);
    for member in ["a", "b"] {
        fleet.unexport(member);
    }
    fleet.settle();
    assert!(fleet.importers().is_empty());
}

#[test]
fn a_change_between_automatic_and_by_policy_keeps_the_import() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let uid = |fleet: &Fleet| fleet.imports[&("b".to_owned(), "serve".to_owned())]["metadata"]["uid"].clone();
    let before = uid(&fleet);
    let import = json!({ "type": "ClusterSetIP", "ports": [] });
    fleet.template("ServiceImport", "serve", import, Some(&["b"]));
    fleet.settle();
    assert_eq!((fleet.importers(), uid(&fleet)), (vec!["b"], before.clone()));
    fleet.no_template("ServiceImport", "serve");
    fleet.settle();
    assert_eq!((fleet.importers(), uid(&fleet)), (vec!["a", "b"], before));
}

#[test]
fn a_templates_ports_are_served_exported_yet_or_not() {
    let mut fleet = Fleet::of(&["a", "b"]);
    let import = json!({ "type": "ClusterSetIP", "ports": [{ "name": "web", "port": 80 }, { "name": "more", "port": 81 }] });
    fleet.template("ServiceImport", "serve", import, Some(&["b"]));
    fleet.settle();
    assert_eq!(fleet.importers(), ["b"]);
    fleet.export("a", 1, ports(&[("http", 80), ("other", 82)]));
    fleet.settle();
    assert_eq!(
        fleet.gets("b")[0].2,
        [("web".to_owned(), 8080)],
        "its name wins, and no other port is served"
    );
}

#[test]
fn a_users_own_import_is_never_touched() {
    let mut fleet = Fleet::of(&["a", "b"]);
    let own = json!({ "metadata": { "namespace": "shop", "name": "serve", "uid": "own" }, "spec": { "type": "ClusterSetIP", "ports": [] } });
    fleet.imports.insert(("b".to_owned(), "serve".to_owned()), own.clone());
    fleet.see_import("b", &own);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(fleet.imports[&("b".to_owned(), "serve".to_owned())], own);
    assert!(fleet.gets("b").is_empty());
    fleet.unexport("a");
    fleet.settle();
    assert_eq!(fleet.importers(), ["b"]);
}

#[test]
fn a_member_that_leaves_keeps_nothing_and_offers_nothing() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.join("a", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    fleet.settle();
    assert_eq!(fleet.importers(), ["b"]);
    assert!(fleet.gets("a").is_empty() && fleet.gets("b").is_empty());
    assert!(fleet.exchange.is_clear(&cluster("a"), true));
}

#[test]
fn a_member_of_which_nothing_was_read_is_not_clear() {
    let a = cluster("a");
    let mut exchange = Exchange::new("hub".into(), rules());
    assert!(!exchange.is_clear(&a, true) && !exchange.is_clear(&a, false));
    exchange.retain(&a, Part::Imported, &BTreeSet::new());
    assert!(!exchange.is_clear(&a, true), "its imports were not read");
    assert!(exchange.is_clear(&a, false), "it has no such kind");
    exchange.retain(&a, Part::Imports, &BTreeSet::new());
    assert!(exchange.is_clear(&a, true));
}

#[test]
fn a_member_whose_definitions_have_no_words_for_traffic_is_not_written_to_again_and_again() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.dialect.traffic = false;
    let near = ServiceSpec { traffic_distribution: Some("PreferClose".into()), ..ports(&[("http", 80)]) };
    fleet.export("a", 1, near);
    fleet.settle();
    let import = &fleet.imports[&("b".to_owned(), "serve".to_owned())];
    assert_eq!(import["spec"].get("trafficDistribution"), None);
    assert_eq!(import["spec"].get("internalTrafficPolicy"), None);
    assert_eq!(fleet.settle(), 0);
}
