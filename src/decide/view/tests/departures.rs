//! Who leaves when a Cluster is deleted, and when the whole kind is.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;

const MADE: i64 = 1_000_000;

fn made(name: &str, at: i64, deleting: bool) -> Cluster {
    let time = |at| Some(Time(Timestamp::from_second(at).unwrap()));
    let mut cluster = cluster(name, None);
    cluster.metadata.uid = Some(format!("{name}-{at}"));
    cluster.metadata.creation_timestamp = time(at);
    cluster.metadata.deletion_timestamp = time(at + 9).filter(|_| deleting);
    cluster
}

fn fleet() -> View {
    let mut view = View::new("tombolo-system");
    for name in ["a", "b"] {
        view.see_cluster(made(name, MADE, false));
    }
    view.miss_clusters(&BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    view.take_changes();
    view
}

fn kind(made: i64, deleting: bool) -> Option<ClusterKind> {
    Some(ClusterKind { made, deleting })
}

/// Judges all that is open; gives back who is a member, those that leave with a mark.
fn judged(view: &mut View, kind: Option<ClusterKind>, now: i64) -> Vec<String> {
    let open = view.departures().clone();
    view.judge_departures(&open, kind, now);
    members(view)
}

fn members(view: &View) -> Vec<String> {
    let shown = |member: &Member| format!("{}{}", member.name, if member.leaving { " leaves" } else { "" });
    view.members().values().map(shown).collect()
}

#[test]
fn a_cluster_that_is_deleted_leaves_once_its_kind_was_seen_to_stay() {
    let mut view = fleet();
    view.see_cluster(made("a", MADE, true));
    assert_eq!(members(&view), ["a", "b"], "nobody has looked");
    assert_eq!(judged(&mut view, kind(MADE - 5, false), MADE), ["a leaves", "b"]);
    assert!(view.take_changes().members.contains("a"));
    view.see_cluster(made("a", MADE, true));
    assert_eq!(members(&view), ["a leaves", "b"], "it was looked into once");
    view.miss_cluster("a");
    assert_eq!(members(&view), ["b"]);
    assert!(view.departures().is_empty());
}

#[test]
fn clusters_that_vanish_with_their_kind_stay_members_and_are_taken_up_again() {
    let mut view = fleet();
    for name in ["a", "b"] {
        view.see_cluster(made(name, MADE, true));
    }
    assert_eq!(judged(&mut view, kind(MADE, true), MADE), ["a", "b"], "the kind is being deleted");
    view.miss_cluster("a");
    view.miss_cluster("b");
    assert_eq!(judged(&mut view, None, MADE), ["a", "b"], "the kind is gone");
    let again = MADE + 100;
    assert_eq!(judged(&mut view, kind(again, false), again + 1), ["a", "b"], "it has just come again");
    view.see_cluster(made("a", again + 2, false));
    assert_eq!(judged(&mut view, kind(again, false), again + 59), ["a", "b"]);
    assert_eq!(judged(&mut view, kind(again, false), again + 60), ["a"], "b was not made again");
    assert!(view.departures().is_empty());
}

#[test]
fn a_look_says_nothing_of_what_was_seen_after_it_began() {
    let mut view = fleet();
    let open = view.departures().clone();
    view.see_cluster(made("a", MADE, true));
    assert!(!view.judge_departures(&open, kind(MADE, false), MADE));
    assert_eq!(members(&view), ["a", "b"]);
}

#[test]
fn a_cluster_of_the_same_name_does_not_leave_because_the_one_before_did() {
    let mut view = fleet();
    view.see_cluster(made("a", MADE, true));
    assert_eq!(judged(&mut view, kind(MADE, false), MADE), ["a leaves", "b"]);
    view.see_cluster(made("a", MADE + 50, true));
    assert_eq!(members(&view), ["a", "b"], "another one, of which nobody knows");
    view.see_cluster(made("a", MADE + 60, false));
    assert_eq!(judged(&mut view, kind(MADE, false), MADE), ["a", "b"]);
}

#[test]
fn after_a_restart_nothing_is_decided_before_it_is_known_who_leaves() {
    for (kind, then) in [(kind(MADE, false), "a leaves"), (kind(MADE, true), "a")] {
        let mut view = View::new("tombolo-system");
        view.see_cluster(made("a", MADE, true));
        view.miss_clusters(&BTreeSet::from(["a".to_owned()]));
        assert!(view.unsynced().any(|source| source == Source::Clusters));
        assert_eq!(judged(&mut view, kind, MADE), [then]);
        assert!(view.unsynced().all(|source| source != Source::Clusters));
    }
}
