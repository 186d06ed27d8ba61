use super::*;

type Said = (&'static str, bool, String, String);

fn told(fleet: &Fleet) -> (Vec<Said>, Vec<String>, (bool, String)) {
    let summary = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
    let export = summary.export.into_iter().map(|said| said.verdict);
    let export =
        export.map(|told| (told.condition, told.met, told.reason.into_owned(), told.message)).collect();
    let clusters = summary.clusters.iter().map(ToString::to_string).collect();
    (export, clusters, (summary.import.verdict.met, summary.import.verdict.message))
}

fn by_policy() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a", "b"]));
    fleet.template(
        "ServiceImport",
        "serve",
        json!({ "type": "ClusterSetIP", "ports": [] }),
        Some(&["b", "c"]),
    );
    fleet
}

#[test]
fn the_hubs_export_says_what_all_clusters_say() {
    let mut fleet = by_policy();
    let (export, ..) = told(&fleet);
    assert_eq!(export, [("Ready", false, "Pending".to_owned(), "no cluster has it yet".to_owned())]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export_record("b", 2, None);
    let (export, ..) = told(&fleet);
    assert_eq!(export[0].3, "b: the cluster's agent has not looked at it yet");
    fleet.export("b", 2, ports(&[("http", 81)]));
    let (export, clusters, _) = told(&fleet);
    let since = "exported by a since 2026-01-01T00:00:01Z, b since 2026-01-01T00:00:02Z";
    assert_eq!(export[0], ("Ready", true, "Exported".to_owned(), since.to_owned()));
    assert_eq!(export[1], ("Valid", true, "Valid".to_owned(), "in a, b".to_owned()));
    assert_eq!((export[2].1, export[2].2.as_str()), (true, "PortConflict"));
    assert_eq!(clusters, ["a", "b"]);
}

#[test]
fn of_many_clusters_twenty_are_named_with_the_times_since_when_they_export() {
    let names: Vec<_> = (10..32).map(|number| format!("m{number}")).collect();
    let mut fleet = Fleet::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (age, name) in names.iter().enumerate() {
        fleet.export(name, u32::try_from(age).unwrap(), ports(&[("http", 80)]));
    }
    let (export, ..) = told(&fleet);
    assert!(export[0].3.ends_with("m29 since 2026-01-01T00:00:19Z and 2 more"), "{}", export[0].3);
    let since = exported_since(&export[0].3);
    assert_eq!(
        (since.len(), since["m10"], since["m29"]),
        (20, "2026-01-01T00:00:00Z", "2026-01-01T00:00:19Z")
    );
    assert_eq!(exported_since("b: the cluster's agent has not looked at it yet"), BTreeMap::new());
}

#[test]
fn an_export_that_is_valid_in_one_cluster_only_is_not_valid_and_says_where() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export_record("b", 2, None);
    let export = fleet.exports.get_mut(&("b".to_owned(), "serve".to_owned())).unwrap();
    export["status"] = json!({ "conditions": [{
        "type": "Valid", "status": "False", "reason": "NoService", "message": "there is no Service serve",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    let export = export.clone();
    fleet.see_export("b", &export);
    let (export, ..) = told(&fleet);
    assert_eq!(
        export[1],
        ("Valid", false, "NoService".to_owned(), "b: there is no Service serve".to_owned())
    );
}

#[test]
fn the_hubs_import_says_who_reaches_whom_and_why_somebody_does_not() {
    let mut fleet = by_policy();
    assert_eq!(told(&fleet).2, (false, "no cluster exports it yet; b: on its way; c: on its way".to_owned()));
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(told(&fleet).2, (true, "b reaches a, b; c reaches a, b".to_owned()));
    let before = told(&fleet);
    fleet.source("a", "10.9.9.9", vec![json!({ "name": "http", "port": 8080, "protocol": "TCP" })]);
    fleet.settle();
    assert_eq!(told(&fleet), before, "endpoints change nothing");
    fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), Grade::Stale)]));
    assert!(told(&fleet).2.1.ends_with("; silent, with endpoints as they were last known: a"));
}

#[test]
fn the_hubs_import_says_whose_endpoints_are_kept_and_whose_are_not_ready() {
    let kept = "; silent, with endpoints as they were last known: ";
    let lost = "; lost, not ready where others serve: ";
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    for (a, b, wanted) in [
        (Grade::Silent, Grade::Fresh, String::new()),
        (Grade::Stale, Grade::Fresh, format!("{kept}a")),
        (Grade::Lost, Grade::Fresh, format!("{lost}a")),
        (Grade::Lost, Grade::Silent, format!("{lost}a")),
        // Nobody serves in their place.
        (Grade::Lost, Grade::Stale, format!("{kept}a, b")),
        (Grade::Lost, Grade::Lost, format!("{kept}a, b")),
    ] {
        fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), a), (cluster("b"), b)]));
        let (_, message) = told(&fleet).2;
        let rest = message.strip_prefix("b reaches a, b; c reaches a, b");
        assert_eq!(rest, Some(wanted.as_str()), "{a:?} and {b:?}");
        let withdrawn: Vec<_> = withdrawn(&message).into_iter().collect();
        assert_eq!(withdrawn, if wanted.contains("lost") { vec!["a"] } else { vec![] });
    }
}

#[test]
fn a_lost_exporter_is_told_of_after_a_restart_and_beside_any_number_of_importers() {
    let importers: Vec<_> = (10..40).map(|number| format!("m{number}")).collect();
    let importers: Vec<_> = importers.iter().map(String::as_str).collect();
    let mut fleet = Fleet::of(&[&["a", "b"], importers.as_slice()].concat());
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a", "b"]));
    fleet.template(
        "ServiceImport",
        "serve",
        json!({ "type": "ClusterSetIP", "ports": [] }),
        Some(&importers),
    );
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), Grade::Lost)]));
    let wanted = "; m29 reaches a, b; and 10 more; lost, not ready where others serve: a";
    assert!(told(&fleet).2.1.ends_with(wanted), "{}", told(&fleet).2.1);
    fleet.restart();
    ["b"].iter().chain(&importers).for_each(|member| fleet.read(member));
    fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), Grade::Lost)]));
    fleet.settle();
    assert!(told(&fleet).2.1.ends_with(wanted), "{}", told(&fleet).2.1);
}

#[test]
fn a_cluster_all_of_whose_ports_are_withheld_is_not_reached() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 8080)]));
    fleet.settle();
    assert_eq!(fleet.gets("c")[1], ("b".to_owned(), String::new(), Vec::new()));
    assert!(told(&fleet).2.1.ends_with("c reaches a"), "{}", told(&fleet).2.1);
    // What has no endpoints for the moment has no ports either, and is reached as before.
    fleet.source("a", "10.9.9.9", Vec::new());
    fleet.settle();
    assert!(told(&fleet).2.1.ends_with("c reaches a"), "{}", told(&fleet).2.1);
}

#[test]
fn a_users_own_import_in_a_member_is_named() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    let own = json!({ "metadata": { "name": "serve", "namespace": "shop", "uid": "own" }, "spec": { "type": "ClusterSetIP", "ports": [] } });
    fleet.see_import("c", &own);
    let (_, said) = fleet.plan("c").users.unwrap();
    assert!(said.unwrap().message.starts_with("a would be imported here"));
    let (met, words) = told(&fleet).2;
    assert!(
        !met && words.contains("c: there is a ServiceImport of that name which is not Tombolo's"),
        "{words}"
    );
}

#[test]
fn what_was_said_on_a_users_own_import_is_taken_back_when_nobody_exports_it() {
    let mut fleet = Fleet::of(&["a", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    let mut own = json!({ "metadata": { "name": "serve", "namespace": "shop", "uid": "own" }, "spec": { "type": "ClusterSetIP", "ports": [] } });
    fleet.see_import("c", &own);
    let said = fleet.plan("c").users.unwrap().1.unwrap();
    own["status"] = json!({ "conditions": [said.dated(&[], None, "2026-01-01T00:00:00Z".parse().unwrap())] });
    fleet.see_import("c", &own);
    assert_eq!(fleet.plan("c").users, None);
    fleet.unexport("a");
    assert_eq!(fleet.plan("c").users, Some(("own".into(), None)));
}

#[test]
fn nothing_is_taken_back_on_the_hub_while_a_cluster_of_a_service_is_not_read() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 81)]));
    fleet.settle();
    let before = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
    let said: Vec<_> = before.export.iter().chain([&before.import]).map(|said| said.known).collect();
    assert!(said.iter().all(|known| *known == Known::All) && before.unknown.is_empty(), "{before:?}");
    fleet.restart();
    let a = BTreeSet::from([cluster("a")]);
    for read in ["b", "c"] {
        fleet.read(read);
        let now = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
        // That they agree now, that only one exports it, that nobody does: none of it is known.
        assert!(now.export.iter().all(|said| said.known == Known::Part), "{now:?}");
        assert!(now.unknown.is_superset(&a), "{now:?}");
    }
    let now = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
    assert_eq!((now.import.verdict, now.unknown), (before.import.verdict.clone(), a));
    fleet.read("a");
    let now = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
    assert_eq!(now, before);
}

#[test]
fn what_is_not_well_is_said_on_the_hub_whoever_is_not_read() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    fleet.export_record("b", 2, None);
    let summary = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
    let ready = &summary.export[0];
    assert!(!ready.verdict.met && ready.known == Known::Most, "{ready:?}");
    // Over what was well, not over what else was amiss: that may be of who was not read.
    assert!(ready.is_news(Some(true)) && ready.is_news(None) && !ready.is_news(Some(false)));
}

#[test]
fn a_cluster_that_is_not_read_is_not_said_to_be_reached_where_its_ports_may_be_withheld() {
    let mut fleet = by_policy();
    fleet.export("a", 2, ports(&[("http", 8080)]));
    fleet.export("b", 1, ports(&[("http", 80)]));
    fleet.settle();
    let known = |fleet: &Fleet| fleet.exchange.summary(&fleet.view, &fleet.world, &serve()).import.known;
    assert_eq!(known(&fleet), Known::All);
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    assert_eq!(known(&fleet), Known::Part);
}

#[test]
fn an_export_is_well_on_the_hub_only_once_all_clusters_that_it_is_placed_on_are_read() {
    let mut fleet = by_policy();
    fleet.used(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet.restart();
    fleet.read("a");
    fleet.read("c");
    let known = |fleet: &Fleet| {
        let summary = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
        summary.export[0].known
    };
    assert_eq!(known(&fleet), Known::Part);
    // It may be silent for good, and "no cluster has it yet" is not to stand for so long.
    super::silence::grade(&mut fleet, "b", crate::decide::freshness::Grade::Stale);
    assert_eq!(known(&fleet), Known::Most);
    fleet.read("b");
    assert_eq!(known(&fleet), Known::All);
}

#[test]
fn a_cluster_that_never_was_in_use_keeps_nobody_from_saying_what_is() {
    let mut fleet = by_policy();
    fleet.join("elsewhere", json!({}));
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a", "b", "elsewhere"]));
    fleet.export("a", 1, ports(&[("http", 80)]));
    let summary = fleet.exchange.summary(&fleet.view, &fleet.world, &serve());
    assert!(summary.export.iter().all(|said| said.known == Known::All), "{summary:?}");
}

#[test]
fn the_hubs_import_says_that_its_type_is_not_that_of_the_exports_and_when_that_is_over() {
    let mut fleet = by_policy();
    let typed = |fleet: &Fleet| fleet.exchange.summary(&fleet.view, &fleet.world, &serve()).typed.unwrap();
    assert_eq!(typed(&fleet).known, Known::Over, "nobody exports it");
    let headless =
        ServiceSpec { service_type: crate::decide::merge::ServiceType::Headless, ..ports(&[("http", 80)]) };
    fleet.export("a", 1, headless);
    let said = typed(&fleet);
    assert_eq!((said.verdict.met, &*said.verdict.reason, said.known), (true, "TypeConflict", Known::All));
    assert_eq!(
        said.verdict.message,
        "Conflicting type. Using \"Headless\" from oldest service export in \"a\" instead of \"ClusterSetIP\"."
    );
    fleet.unexport("a");
    fleet.export("a", 1, ports(&[("http", 80)]));
    let over = typed(&fleet);
    assert_eq!((over.verdict.met, over.known), (false, Known::Over));
    assert!(over.is_news(Some(true)) && !over.is_news(None) && !over.is_news(Some(false)));
}
