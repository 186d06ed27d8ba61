//! What comes late: the answer to an own write that is read after the watch has shown more.

use super::*;

/// A fleet in which `b` imports what `a` exports, and the slice that it got.
fn imported() -> (Fleet, EndpointSlice) {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let of_b = |(at, slice): (&(String, String), &EndpointSlice)| (at.0 == "b").then(|| slice.clone());
    let slice = fleet.slices.iter().find_map(of_b).unwrap();
    (fleet, slice)
}

#[test]
fn an_answer_that_is_read_after_the_deletion_brings_nothing_back() {
    let (mut fleet, slice) = imported();
    let name = slice.metadata.name.clone().unwrap();
    fleet.exchange.lose_imported(&cluster("b"), &serve(), &name);
    assert_eq!(fleet.exchange.see_imported(&cluster("b"), &slice), Dirty::new());
    assert!(matches!(fleet.plan("b").slices[..], [SliceStep::Create(_)]));
}

#[test]
fn an_answer_that_is_older_than_what_was_seen_hides_no_edit() {
    let (mut fleet, mut edited) = imported();
    let answer = edited.clone();
    edited.metadata.resource_version = Some("12".to_owned());
    edited.endpoints.clear();
    fleet.exchange.see_imported(&cluster("b"), &edited);
    fleet.exchange.see_imported(&cluster("b"), &answer);
    assert!(matches!(fleet.plan("b").slices[..], [SliceStep::Update(_)]));
}

#[test]
fn what_is_listed_lives_though_it_is_older_as_after_a_restore_from_backup() {
    let (mut fleet, mut slice) = imported();
    slice.metadata.resource_version = Some("12".to_owned());
    fleet.exchange.see_imported(&cluster("b"), &slice);
    let name = slice.metadata.name.clone().unwrap();
    fleet.exchange.lose_imported(&cluster("b"), &serve(), &name);
    fleet.exchange.begin(&cluster("b"), Part::Imported);
    slice.metadata.resource_version = Some("3".to_owned());
    fleet.exchange.see_imported(&cluster("b"), &slice);
    fleet.exchange.retain(&cluster("b"), Part::Imported, &BTreeSet::from([(serve(), name.into())]));
    assert!(fleet.plan("b").slices.is_empty());
}

#[test]
fn what_was_made_while_a_list_was_read_is_seen_when_the_watch_shows_it() {
    let (mut fleet, slice) = imported();
    fleet.exchange.begin(&cluster("b"), Part::Imported);
    fleet.exchange.retain(&cluster("b"), Part::Imported, &BTreeSet::new());
    assert!(matches!(fleet.plan("b").slices[..], [SliceStep::Create(_)]), "the list does not have it");
    fleet.exchange.see_imported(&cluster("b"), &slice);
    assert!(fleet.plan("b").slices.is_empty());
}

#[test]
fn an_export_that_was_made_again_unseen_offers_what_it_did_until_its_agent_has_said_more() {
    let (mut fleet, _) = imported();
    fleet.export_again("a", 2);
    fleet.settle();
    assert_eq!(fleet.gets("b")[0].2, [("http".to_owned(), 8080)], "its agent has not looked at it yet");
    fleet.export("a", 2, ports(&[("http", 81)]));
    fleet.settle();
    assert_eq!(fleet.gets("b")[0].2, [("http".to_owned(), 8081)]);
    fleet.unexport("a");
    fleet.export_again("a", 3);
    fleet.settle();
    assert!(fleet.gets("b").is_empty(), "it was seen to be gone");
}
