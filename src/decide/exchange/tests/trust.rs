use super::*;
use crate::decide::admit::cidr;
use kube::core::ObjectMeta;

const A: &str = "a";

/// A fleet in which `a` offers 10.1.0.1 and `b` gets it.
fn fleet() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export(A, 1, ports(&[("http", 80)]));
    offer(&mut fleet, "10.1.0.1").unwrap();
    fleet.settle();
    fleet
}

fn slice(address: &str) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "serve-source-a", "labels": { label::SOURCE: "serve" } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    }))
    .unwrap()
}

fn offer(fleet: &mut Fleet, address: &str) -> Result<Dirty, Refused> {
    let slice = slice(address);
    fleet.slices.insert((A.to_owned(), "serve-source-a".to_owned()), slice.clone());
    fleet.exchange.see_source(&cluster(A), slice)
}

/// The hub starts anew and reads everything; what it does not believe it does not believe.
fn begin_anew(fleet: &mut Fleet, ranges: Option<&str>) {
    let bad = fleet.slices.remove(&(A.to_owned(), "serve-source-a".to_owned())).unwrap();
    fleet.restart();
    set_ranges(fleet, ranges);
    let _ = fleet.exchange.see_source(&cluster(A), bad);
    fleet.read(A);
    fleet.read("b");
}

fn set_ranges(fleet: &mut Fleet, ranges: Option<&str>) -> Dirty {
    let ranges = ranges.map(|text| cidr::list(text).unwrap_or_default().into_boxed_slice());
    fleet.exchange.set_ranges(&cluster(A), ranges)
}

fn addresses(fleet: &Fleet) -> Vec<String> {
    fleet.gets("b").into_iter().map(|(_, address, _)| address).collect()
}

fn refused(fleet: &Fleet) -> usize {
    match fleet.exchange.trust(&cluster(A)) {
        Some(Trust::Refused { number, .. }) => number,
        Some(Trust::Full) => 0,
        None => panic!("nothing is known"),
    }
}

#[test]
fn the_last_good_one_stays_and_what_is_refused_is_told_once() {
    let mut fleet = fleet();
    fleet.exchange.take_news();
    assert_eq!(fleet.exchange.trust(&cluster(A)), Some(Trust::Full));
    for _ in 0..2 {
        assert_eq!(offer(&mut fleet, "127.0.0.1").unwrap_err().reason, Reason::Address);
    }
    assert_eq!((fleet.settle(), addresses(&fleet)), (0, vec!["10.1.0.1".to_owned()]));
    let news = fleet.exchange.take_news();
    assert_eq!(news.len(), 1, "{news:?}");
    let message = fleet.exchange.trust(&cluster(A)).unwrap().message(A);
    assert!(message.starts_with("1 object of a: not believed"), "{message}");
    assert!(
        message.contains("EndpointSlice shop/serve-source-a: 127.0.0.1 is a loopback address"),
        "{message}"
    );
    offer(&mut fleet, "10.1.0.2").unwrap();
    fleet.settle();
    assert_eq!((refused(&fleet), addresses(&fleet)), (0, vec!["10.1.0.2".to_owned()]));
    assert_eq!(fleet.exchange.take_news().len(), 1);
}

#[test]
fn a_restart_while_a_slice_is_refused_deletes_nothing() {
    let mut fleet = fleet();
    offer(&mut fleet, "127.0.0.1").unwrap_err();
    begin_anew(&mut fleet, None);
    assert_eq!((fleet.settle(), addresses(&fleet)), (0, vec!["10.1.0.1".to_owned()]));
    // It is gone: so is what was made of it.
    let id = id(Part::Sources, &slice("127.0.0.1").metadata);
    assert!(fleet.exchange.forgive(&cluster(A), &id).contains(&(cluster("b"), serve())));
    fleet.settle();
    assert_eq!((refused(&fleet), addresses(&fleet)), (0, Vec::new()));
}

#[test]
fn new_ranges_withdraw_what_is_outside_and_take_what_is_inside_at_once() {
    let mut fleet = fleet();
    assert!(set_ranges(&mut fleet, Some("10.1.0.0/16")).is_empty());
    assert!(set_ranges(&mut fleet, Some("10.2.0.0/16")).contains(&(cluster("b"), serve())));
    fleet.settle();
    assert_eq!((refused(&fleet), addresses(&fleet)), (1, Vec::new()));
    assert!(!set_ranges(&mut fleet, None).is_empty());
    fleet.settle();
    assert_eq!((refused(&fleet), addresses(&fleet)), (0, vec!["10.1.0.1".to_owned()]));
}

#[test]
fn ranges_that_were_narrowed_while_the_hub_was_away_withdraw_what_is_outside() {
    let mut fleet = fleet();
    begin_anew(&mut fleet, Some("10.2.0.0/16"));
    fleet.settle();
    assert_eq!((refused(&fleet), addresses(&fleet)), (1, Vec::new()));
}

#[test]
fn ranges_that_cannot_be_read_believe_nothing_and_withdraw_nothing() {
    let mut fleet = fleet();
    set_ranges(&mut fleet, Some("10.1.0.0/160"));
    assert_eq!(offer(&mut fleet, "10.1.0.2").unwrap_err().reason, Reason::Range);
    assert_eq!((fleet.settle(), addresses(&fleet)), (0, vec!["10.1.0.1".to_owned()]));
}

#[test]
fn an_export_whose_record_is_not_believed_withdraws_nothing_and_says_so() {
    for record in ["garbage".to_owned(), format!(r#"{{"format":1,"x":"{}"}}"#, "x".repeat(300_000))] {
        let mut fleet = fleet();
        let (imports, slices) = (fleet.imports.clone(), fleet.slices.clone());
        fleet.export_record(A, 1, Some(record));
        fleet.settle();
        assert_eq!((&fleet.imports, &fleet.slices), (&imports, &slices));
        assert_eq!(refused(&fleet), 1);
        let ready = fleet.condition(A, "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Failed"));
        fleet.unexport(A);
        fleet.settle();
        assert_eq!((refused(&fleet), addresses(&fleet)), (0, Vec::new()));
    }
}

#[test]
fn the_answer_to_an_own_write_makes_nothing_believed() {
    let mut fleet = fleet();
    let at = (A.to_owned(), "serve".to_owned());
    let good: ServiceExport = serde_json::from_value(fleet.exports[&at].clone()).unwrap();
    let mut lie = good.clone();
    lie.metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(annotation::EXPORT_RECORD.to_owned(), "x".repeat(1 << 20));
    let seen = |export: &ServiceExport| ExportSeen::of(&serve(), export, "hub");
    fleet.exchange.see_export(&cluster(A), &serve(), seen(&lie));
    assert_eq!(refused(&fleet), 1);
    fleet.exchange.see_answer(&cluster(A), &serve(), seen(&good).unwrap());
    assert_eq!(refused(&fleet), 1, "the watch says otherwise");
    fleet.exchange.see_export(&cluster(A), &serve(), seen(&good));
    assert_eq!(refused(&fleet), 0);
}

#[test]
fn an_import_that_is_not_believed_is_not_kept_and_the_last_good_one_stays() {
    let mut fleet = fleet();
    let at = ("b".to_owned(), "serve".to_owned());
    let mut huge = fleet.imports[&at].clone();
    huge["metadata"]["labels"]["x"] = "y".repeat(5_000_000).into();
    fleet.see_import("b", &huge);
    assert_eq!(fleet.plan("b"), Plan::default());
    assert!(matches!(fleet.exchange.trust(&cluster("b")), Some(Trust::Refused { number: 1, .. })));
    // After a restart there is no last good one: it is left alone.
    fleet.restart();
    fleet.imports.remove(&at);
    fleet.see_import("b", &huge);
    let kept = fleet.exchange.services[&serve()].imports[&cluster("b")].clone();
    assert!(kept.labels.is_empty() && kept.whose == Whose::Others);
}

#[test]
fn however_much_is_refused_little_is_remembered() {
    let mut fleet = fleet();
    for number in 0..3000 {
        let mut bad = slice("127.0.0.1");
        bad.metadata.name = Some(format!("bad-{number}"));
        fleet.exchange.see_source(&cluster(A), bad).unwrap_err();
    }
    let trust = fleet.exchange.trust(&cluster(A)).unwrap();
    assert!(matches!(trust, Trust::Refused { number: 1000, more: true, .. }), "{trust:?}");
    assert!(trust.message(A).starts_with("at least 1000 objects"));
    let long = ObjectMeta { name: Some("x".repeat(5_000_000)), ..ObjectMeta::default() };
    fleet.exchange.see_nameless(&cluster("b"), id(Part::Exports, &long));
    assert!(fleet.exchange.trust(&cluster("b")).unwrap().message("b").len() < 1200);
}

#[test]
fn one_importer_alone_renames_nobodys_ports() {
    let mut fleet = Fleet::of(&["a", "b", "c", "d"]);
    fleet.export("d", 1, ports(&[("http", 80)]));
    fleet.settle();
    let import = fleet.imports.get_mut(&("a".to_owned(), "serve".to_owned())).unwrap();
    import["metadata"]["annotations"][annotation::PORT_NAMES] = r#"[["evil",80,"TCP",null]]"#.into();
    let import = import.clone();
    fleet.see_import("a", &import);
    assert_eq!(fleet.plan("b"), Plan::default());
    fleet.settle();
    for member in ["a", "b", "c", "d"] {
        let import = &fleet.imports[&(member.to_owned(), "serve".to_owned())];
        assert_eq!(import["spec"]["ports"][0]["name"], "http", "{member}");
    }
}

#[test]
fn a_slice_of_ours_that_a_member_blew_up_is_not_kept() {
    let mut fleet = fleet();
    let mut slice = fleet.slices.values().find(|slice| source_key(slice).is_none()).unwrap().clone();
    assert!(SliceSeen::of(&slice).is_some());
    let notes = slice.metadata.annotations.get_or_insert_default();
    notes.insert("blown-up".to_owned(), "x".repeat(5 << 20));
    assert_eq!(SliceSeen::of(&slice), None);
    assert_eq!(fleet.exchange.see_imported(&cluster("b"), &slice), Dirty::new());
}

#[test]
fn what_is_exported_no_more_is_withdrawn_though_its_slice_is_refused() {
    for many in [false, true] {
        for restarts in [false, true] {
            let mut fleet = fleet();
            fleet.export("b", 2, ports(&[("http", 80)]));
            fleet.settle();
            offer(&mut fleet, "127.0.0.1").unwrap_err();
            if restarts {
                begin_anew(&mut fleet, None);
            }
            for number in 0..(if many { 1001 } else { 0 }) {
                fleet.exchange.see_nameless(&cluster(A), (Part::Sources, format!("shop/{number}").into()));
            }
            fleet.settle();
            assert_eq!(addresses(&fleet), ["10.1.0.1"]);
            // Its agent removes the slice later, or never.
            fleet.exchange.see_export(&cluster(A), &serve(), None);
            fleet.settle();
            assert!(addresses(&fleet).is_empty(), "many: {many}, restarted: {restarts}");
        }
    }
}
