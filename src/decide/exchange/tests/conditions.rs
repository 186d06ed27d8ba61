use super::*;

#[test]
fn g1_all_exports_tell_of_a_conflict_and_g15_all_of_its_end() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 8080)]));
    fleet.settle();
    for member in ["a", "b"] {
        let conflict = fleet.condition(member, "Conflict").unwrap();
        assert_eq!((conflict.status.as_str(), conflict.reason.as_str()), ("True", "PortConflict"));
        assert!(conflict.message.contains("\"a\""), "{}", conflict.message);
    }
    // G3, G8: the older one's traffic goes on, the younger one's port is withheld.
    assert_eq!(fleet.gets("b")[0].2, [("http".to_owned(), 8080)]);
    assert!(fleet.gets("a")[0].2.is_empty());
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    for member in ["a", "b"] {
        let conflict = fleet.condition(member, "Conflict").unwrap();
        assert_eq!((conflict.status.as_str(), conflict.reason.as_str()), ("False", "NoConflicts"));
    }
}

#[test]
fn b13_ready_says_that_it_waits_and_then_that_it_is_exported() {
    let mut fleet = Fleet::of(&["a"]);
    fleet.export_record("a", 1, None);
    fleet.settle();
    let ready = fleet.condition("a", "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Pending"));
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let ready = fleet.condition("a", "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", "Exported"));
}

#[test]
fn an_export_in_an_excluded_namespace_says_so_itself_and_is_imported_by_nobody() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.exchange.rules = Rules { denied: globs(&["shop"]), ..rules() };
    fleet.export_record("a", 1, Some(record::write(&ports(&[("http", 80)]))));
    fleet.settle();
    let ready = fleet.condition("a", "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Excluded"));
    assert!(ready.message.contains("--excluded-namespaces"), "{}", ready.message);
    assert!(fleet.importers().is_empty());
    assert_eq!(fleet.settle(), 0, "and says so once");
    fleet.exchange.rules = rules();
    fleet.export("a", 2, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(fleet.condition("a", "Ready").unwrap().reason, "Exported");
    assert_eq!(fleet.importers(), ["a", "b"]);
}

#[test]
fn names_that_ports_were_accepted_under_outlive_their_giver() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("web", 80)]));
    fleet.settle();
    fleet.unexport("a");
    fleet.settle();
    let got = fleet.gets("c");
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].2, [("http".to_owned(), 8080)], "importers know it as http");
}
