use super::*;
use crate::{
    api::names::mcs::SOURCE_CLUSTER,
    decide::{copy::Origin, freshness::Mark},
};

/// For each slice that a member got: the cluster, whether its endpoints are ready, its ports, and its mark.
fn seen(fleet: &Fleet, member: &str) -> Vec<(String, bool, Vec<String>, Option<Mark>)> {
    let imported = fleet.slices.iter().filter(|((at, _), slice)| at == member && source_key(slice).is_none());
    let shown = imported.map(|(_, slice)| {
        let ready = slice.endpoints.iter().all(|one| one.conditions.as_ref().unwrap().ready == Some(true));
        let ports = slice.ports.iter().flatten().map(|port| port.name.clone().unwrap());
        (
            slice.metadata.labels.as_ref().unwrap()[SOURCE_CLUSTER].clone(),
            ready,
            ports.collect(),
            Mark::of(slice),
        )
    });
    shown.collect()
}

pub(super) fn grade(fleet: &mut Fleet, member: &str, grade: Grade) -> Dirty {
    fleet.exchange.set_grades(BTreeMap::from([(cluster(member), grade)]))
}

fn row(
    from: &str,
    ready: bool,
    ports: &[&str],
    mark: Option<Mark>,
) -> (String, bool, Vec<String>, Option<Mark>) {
    (from.to_owned(), ready, ports.iter().map(|&name| name.to_owned()).collect(), mark)
}

fn two_exporters() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80), ("only-a", 81)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet
}

#[test]
fn a_stale_members_endpoints_are_marked_and_stay_ready() {
    let mut fleet = two_exporters();
    assert!(!grade(&mut fleet, "a", Grade::Stale).is_empty());
    fleet.settle();
    assert_eq!(
        seen(&fleet, "c"),
        [row("a", true, &["http", "only-a"], Some(Mark::Kept)), row("b", true, &["http"], None)]
    );
    grade(&mut fleet, "a", Grade::Fresh);
    fleet.settle();
    assert_eq!(seen(&fleet, "c")[0], row("a", true, &["http", "only-a"], None));
}

#[test]
fn a_lost_member_serves_only_the_ports_that_no_fresh_one_serves() {
    let mut fleet = two_exporters();
    grade(&mut fleet, "a", Grade::Lost);
    fleet.settle();
    assert_eq!(
        seen(&fleet, "c"),
        [row("a", true, &["only-a"], Some(Mark::Kept)), row("b", true, &["http"], None)]
    );
    grade(&mut fleet, "b", Grade::Lost);
    fleet.settle();
    // All that b serves is served by a, which is fresh again.
    assert_eq!(
        seen(&fleet, "c"),
        [row("a", true, &["http", "only-a"], None), row("b", false, &["http"], Some(Mark::Withdrawn))]
    );
}

#[test]
fn a_lost_member_that_is_the_only_one_stays_ready() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    grade(&mut fleet, "a", Grade::Lost);
    fleet.settle();
    assert_eq!(seen(&fleet, "b"), [row("a", true, &["http"], Some(Mark::Kept))]);
    // As is one beside another that has no ready endpoint.
    fleet.export_record("b", 2, Some(record::write(&ports(&[("http", 80)]))));
    fleet.settle();
    assert_eq!(seen(&fleet, "b"), [row("a", true, &["http"], Some(Mark::Kept))]);
}

#[test]
fn one_that_is_silent_for_a_moment_still_stands_in_for_one_that_is_lost() {
    let mut fleet = two_exporters();
    let judged = |b| BTreeMap::from([(cluster("a"), Grade::Lost), (cluster("b"), b)]);
    fleet.exchange.set_grades(judged(Grade::Silent));
    fleet.settle();
    assert_eq!(seen(&fleet, "c")[0], row("a", true, &["only-a"], Some(Mark::Kept)));
    fleet.exchange.set_grades(judged(Grade::Stale));
    fleet.settle();
    assert_eq!(seen(&fleet, "c")[0], row("a", true, &["http", "only-a"], Some(Mark::Kept)));
}

#[test]
fn what_only_the_importers_own_pods_serve_counts_too() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    grade(&mut fleet, "a", Grade::Lost);
    fleet.settle();
    assert_eq!(seen(&fleet, "b"), [row("a", false, &["http"], Some(Mark::Withdrawn))]);
}

#[test]
fn after_a_restart_a_lost_member_of_which_nothing_is_known_is_withdrawn_and_comes_back() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    fleet.restart();
    fleet.read("b");
    fleet.read("c");
    grade(&mut fleet, "a", Grade::Lost);
    fleet.settle();
    assert_eq!(
        seen(&fleet, "c"),
        [row("a", false, &["http"], Some(Mark::Withdrawn)), row("b", true, &["http"], None)]
    );
    grade(&mut fleet, "a", Grade::Fresh);
    fleet.read("a");
    fleet.settle();
    assert_eq!(seen(&fleet, "c"), [row("a", true, &["http"], None), row("b", true, &["http"], None)]);
    assert_eq!(fleet.settle(), 0);
}

/// `b` serves what the lost `a` does, `c` something else.
fn with_a_lost() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.export("c", 3, ports(&[("other", 90)]));
    fleet.settle();
    grade(&mut fleet, "a", Grade::Lost);
    fleet.settle();
    fleet
}

#[test]
fn what_was_withdrawn_stays_so_until_its_member_answers_though_a_restart_forgot_since_when_it_is_silent() {
    for restart in [false, true] {
        let mut fleet = with_a_lost();
        let withdrawn = [row("a", false, &["http"], Some(Mark::Withdrawn)), row("b", true, &["http"], None)];
        assert_eq!(seen(&fleet, "c"), withdrawn);
        if restart {
            fleet.restart();
            fleet.read("b");
            fleet.read("c");
        }
        for judged in [Grade::Silent, Grade::Stale] {
            grade(&mut fleet, "a", judged);
            fleet.settle();
            assert_eq!(seen(&fleet, "c"), withdrawn, "restarted: {restart}, {judged:?}");
        }
        // Nobody stands in for it any more.
        fleet.unexport("b");
        fleet.settle();
        assert_eq!(seen(&fleet, "c"), [row("a", true, &["http"], Some(Mark::Kept))], "restarted: {restart}");
        assert_eq!(fleet.settle(), 0);
    }
}

#[test]
fn what_was_withdrawn_waits_after_a_restart_until_who_may_stand_in_is_read() {
    let mut fleet = with_a_lost();
    let before = seen(&fleet, "c");
    fleet.restart();
    grade(&mut fleet, "a", Grade::Lost);
    fleet.read("c");
    fleet.settle();
    assert_eq!(seen(&fleet, "c"), before, "of b nothing is known yet");
    fleet.read("b");
    fleet.settle();
    assert_eq!(seen(&fleet, "c"), before);
}

/// `a` and `b` export as a policy of the hub says.
pub(super) fn by_template(preserve: bool) -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.template("ServiceExport", "serve", json!({}), Some(&["a", "b"]));
    fleet.template("ServiceImport", "serve", json!({ "type": "ClusterSetIP", "ports": [] }), Some(&["c"]));
    for (age, member) in [(1, "a"), (2, "b")] {
        fleet.export(member, age, ports(&[("http", 80)]));
        let origin = Origin {
            hub: "hub".into(),
            template: "template-serve".into(),
            crd: Some("crd".into()),
            object: object_key(export_kind(), &serve()),
        };
        let export = fleet.exports.get_mut(&(member.to_owned(), "serve".to_owned())).unwrap();
        export["metadata"]["annotations"][annotation::ORIGIN] = origin.text().into();
        if preserve {
            export["metadata"]["annotations"][annotation::PRESERVE_ON_DELETION] = "true".into();
        }
        let export = export.clone();
        fleet.see_export(member, &export);
    }
    fleet.settle();
    assert_eq!(fleet.gets("c").len(), 2);
    fleet
}

#[test]
fn a_silent_members_export_is_withdrawn_when_its_template_is_gone() {
    for restart in [false, true] {
        let mut fleet = by_template(false);
        if restart {
            fleet.restart();
            fleet.read("b");
            fleet.read("c");
        }
        fleet.no_template("ServiceExport", "serve");
        fleet.unexport("b");
        assert!(fleet.plan("c").abandoned.is_empty(), "a member that answers tells itself");
        grade(&mut fleet, "a", Grade::Silent);
        fleet.settle();
        assert_eq!(fleet.gets("c"), [], "restarted: {restart}");
        // It comes back, and its copy is still there for a moment: it counts until it goes.
        grade(&mut fleet, "a", Grade::Fresh);
        fleet.read("a");
        fleet.settle();
        assert_eq!(fleet.gets("c").len(), 1);
        fleet.unexport("a");
        fleet.settle();
        assert_eq!(fleet.gets("c"), []);
    }
}

#[test]
fn a_silent_members_export_is_withdrawn_when_it_is_placed_elsewhere() {
    let mut fleet = by_template(false);
    fleet.template("ServiceExport", "serve", json!({}), Some(&["b"]));
    grade(&mut fleet, "a", Grade::Silent);
    fleet.settle();
    let got = fleet.gets("c");
    assert_eq!(got.iter().map(|(from, ..)| from.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_silent_members_export_that_outlives_its_template_is_kept() {
    let mut fleet = by_template(true);
    fleet.no_template("ServiceExport", "serve");
    grade(&mut fleet, "a", Grade::Silent);
    fleet.settle();
    assert_eq!(fleet.gets("c").len(), 2);
}

#[test]
fn a_slice_that_one_importer_forged_withdraws_nobody() {
    for restart in [false, true] {
        let mut fleet = Fleet::of(&["a", "b", "c"]);
        fleet.export("a", 1, ports(&[("http", 80)]));
        fleet.settle();
        if restart {
            fleet.restart();
            fleet.read("b");
            fleet.read("c");
        }
        let origin = Origin {
            hub: "hub".into(),
            template: "never-was".into(),
            crd: Some("crd".into()),
            object: object_key(export_kind(), &serve()),
        };
        let forged = fleet.slices.iter().find(|((at, _), _)| at == "c").unwrap();
        let mut forged = forged.1.clone();
        let notes = forged.metadata.annotations.get_or_insert_default();
        notes.insert(annotation::EXPORT_TEMPLATE.to_owned(), origin.text());
        fleet.exchange.see_imported(&cluster("c"), &forged);
        grade(&mut fleet, "a", Grade::Silent);
        assert_eq!(fleet.plan("b").abandoned, [], "restarted: {restart}");
        assert_eq!(fleet.plan("c").abandoned, [], "restarted: {restart}");
    }
}
