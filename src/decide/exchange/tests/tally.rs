use super::*;
use crate::decide::freshness::Mark;

#[test]
fn conflicts_and_stale_slices_are_counted() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    let tally = fleet.exchange.tally();
    assert_eq!((tally.services, tally.conflicts, tally.stale), (1, 0, BTreeMap::new()));
    let count = |member: &str, part| tally.members[&cluster(member)].get(&part).map_or(0, |sum| sum.count);
    assert_eq!(count("a", Part::Exports) + count("b", Part::Exports) + count("c", Part::Exports), 2);
    assert_eq!((count("c", Part::Imports), count("c", Part::Imported), count("c", Part::Sources)), (1, 2, 0));

    fleet.export("b", 2, ports(&[("http", 81)]));
    fleet.settle();
    assert_eq!(fleet.exchange.tally().conflicts, 1);
    fleet.exchange.set_grades([(cluster("b"), Grade::Stale)].into());
    fleet.settle();
    // In a and in c.
    assert_eq!(fleet.exchange.tally().stale, [((cluster("b"), Mark::Kept), 2)].into());
}

#[test]
fn a_checksum_is_the_same_in_whatever_order_and_another_when_anything_differs() {
    let of = |order: &[&str], address: &str| {
        let mut fleet = Fleet::of(&["a", "b"]);
        for member in order {
            fleet.export_record(member, 1, None);
        }
        fleet.source("a", address, Vec::new());
        let members = fleet.exchange.tally().members;
        members[&cluster("a")][&Part::Sources]
    };
    assert_eq!(of(&["a", "b"], "10.0.0.1"), of(&["b", "a"], "10.0.0.1"));
    let (one, other) = (of(&["a"], "10.0.0.1"), of(&["a"], "10.0.0.2"));
    assert_eq!((one.count, other.count), (1, 1));
    assert_ne!(one.checksum, other.checksum);
}
