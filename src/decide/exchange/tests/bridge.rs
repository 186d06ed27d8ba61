use super::*;
use crate::decide::freshness::Grade;

fn bridge(fleet: &Fleet) -> Bridge {
    fleet.exchange.bridge(&fleet.view, &fleet.world, &serve())
}

/// Who exports it and who imports it, how, and whom they reach.
fn ends(bridge: &Bridge) -> Vec<String> {
    let exporters = bridge.exporters.iter();
    let exporters =
        exporters.map(|end| format!("{} {:?} {}/{}", end.cluster, end.state, end.ready, end.endpoints));
    let importers = bridge.importers.iter();
    let importers =
        importers.map(|end| format!("{} {:?} from {}", end.cluster, end.state, end.reaches.join("+")));
    exporters.chain(importers).collect()
}

fn by_policy() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a", "b"]));
    let spec = json!({ "type": "ClusterSetIP", "ports": [] });
    fleet.template("ServiceImport", "serve", spec, Some(&["b", "c"]));
    fleet
}

#[test]
fn a_service_waits_until_somebody_exports_it_and_its_importers_have_endpoints() {
    let mut fleet = by_policy();
    let before = bridge(&fleet);
    assert_eq!((before.state, before.message.as_str()), (Footing::Waiting, "no cluster exports it yet"));
    assert_eq!(ends(&before), ["b Waiting from ", "c Waiting from "]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    assert_eq!(bridge(&fleet).state, Footing::Waiting, "nobody has its endpoints yet");
    fleet.settle();
    let after = bridge(&fleet);
    assert_eq!((after.state, after.message.as_str()), (Footing::Well, ""));
    assert_eq!(ends(&after), ["a Well 1/1", "b Well from a", "c Well from a"]);
    assert_eq!(after.ports, ["http 80/TCP"]);
    assert_eq!(after.exporters[0].since, "2026-01-01T00:00:01Z");
}

#[test]
fn a_conflict_is_said_with_its_reason_and_the_port_that_is_withheld() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 81)]));
    fleet.settle();
    let bridge = bridge(&fleet);
    assert_eq!((bridge.state, bridge.reason.as_str()), (Footing::Conflict, "PortConflict"));
    assert!(bridge.message.contains("\"a\""), "{}", bridge.message);
    let wanted = "http 81/TCP: its name is 80/TCP in the older service export of \"a\"";
    assert_eq!(bridge.exporters[1].withheld, [wanted]);
    assert!(bridge.exporters[0].withheld.is_empty());
}

#[test]
fn a_stale_exporter_makes_its_services_silent_and_a_silent_moment_does_not() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), Grade::Silent)]));
    assert_eq!(bridge(&fleet).state, Footing::Well);
    fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), Grade::Stale)]));
    assert_eq!(ends(&bridge(&fleet)), ["a Silent 1/1", "b Well from a", "c Well from a"]);
    assert_eq!(bridge(&fleet).state, Footing::Silent);
}

#[test]
fn a_lost_exporter_says_whether_its_endpoints_are_kept() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet.exchange.set_grades(BTreeMap::from([(cluster("a"), Grade::Lost)]));
    assert_eq!(bridge(&fleet).exporters[0].message, "silent: its endpoints are as they were last known");
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(bridge(&fleet).exporters[0].message, "lost: its endpoints are not ready where others serve");
}

#[test]
fn what_an_agent_says_of_an_invalid_export_is_told_as_plain_text() {
    let mut fleet = by_policy();
    fleet.export_record("a", 1, None);
    assert_eq!(ends(&bridge(&fleet))[0], "a Waiting 0/0");
    let mut export = fleet.exports[&("a".to_owned(), "serve".to_owned())].clone();
    export["status"] = json!({ "conditions": [{
        "type": "Valid", "status": "False", "reason": "NoService", "message": "<b>none</b>\n\u{202e}here",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    fleet.see_export("a", &export);
    let bridge = bridge(&fleet);
    assert_eq!(bridge.state, Footing::Failed);
    assert_eq!(bridge.exporters[0].message, "<b>none</b> \u{fffd}here");
}

#[test]
fn an_importer_with_somebody_elses_import_fails_and_says_why() {
    let mut fleet = by_policy();
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let theirs = json!({ "metadata": { "namespace": "shop", "name": "serve", "uid": "theirs" }, "spec": { "type": "ClusterSetIP", "ports": [] } });
    fleet.see_import("c", &theirs);
    let bridge = bridge(&fleet);
    assert_eq!(bridge.state, Footing::Failed);
    assert!(bridge.importers[1].message.contains("not Tombolo's"), "{:?}", bridge.importers[1]);
}
