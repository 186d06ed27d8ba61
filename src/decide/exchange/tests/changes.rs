//! Changes of endpoints by their stamps: followed to each importer once, and never a reason to write.

use super::*;

/// A source slice of `a` that says by which change it was written.
fn stamped(address: &str, stamp: &str) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "serve-source-a", "labels": { label::SOURCE: "serve" },
                      "annotations": { annotation::CHANGE: stamp } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    }))
    .unwrap()
}

/// `a` exports to `b` and `c`, and all is as it should be.
fn fleet() -> Fleet {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet
}

/// The slices that a plan writes, as an API server gives them back.
fn written(fleet: &Fleet, member: &str) -> Vec<EndpointSlice> {
    let steps = fleet.plan(member).slices.into_iter();
    let slices = steps.map(|step| match step {
        SliceStep::Create(slice) | SliceStep::Update(slice) => EndpointSlice {
            metadata: kube::core::ObjectMeta {
                uid: Some("u".to_owned()),
                resource_version: Some("9".to_owned()),
                ..slice.metadata
            },
            ..*slice
        },
        other => panic!("{other:?}"),
    });
    slices.collect()
}

#[test]
fn a_change_arrives_in_each_importer_once_under_its_own_name() {
    let mut fleet = fleet();
    fleet.see_slice("a", stamped("10.9.9.9", "cafe 1800000000000"));
    for member in ["b", "c"] {
        let [slice] = written(&fleet, member).try_into().unwrap();
        let change = Change { id: "cafe".into(), at: 1_800_000_000_000 };
        assert_eq!(fleet.exchange.underway(&cluster(member), &slice), Some(change));
        fleet.exchange.see_imported(&cluster(member), &slice);
        assert_eq!(fleet.exchange.underway(&cluster(member), &slice), None, "it is no news any more");
    }
    assert_eq!(fleet.settle(), 0);
    assert!(fleet.exchange.services[&serve()].underway.is_empty());
}

#[test]
fn a_stamp_alone_is_no_reason_to_write() {
    let mut fleet = fleet();
    fleet.see_slice("a", stamped("10.9.9.9", "cafe 1800000000000"));
    assert_eq!(fleet.settle(), 2);
    let dirty = fleet.exchange.see_source(&cluster("a"), stamped("10.9.9.9", "beef 1800000000001")).unwrap();
    assert_eq!((dirty, fleet.settle()), (Dirty::new(), 0));
    // Somebody takes it off, or puts another on.
    for slice in fleet.slices.clone().into_values().filter(|slice| source_key(slice).is_none()) {
        let mut edited = slice;
        edited.metadata.annotations = None;
        assert_eq!(fleet.exchange.see_imported(&cluster("b"), &edited), Dirty::new());
    }
    assert_eq!(fleet.settle(), 0);
}

#[test]
fn what_is_listed_or_makes_no_sense_is_no_change_that_arrives() {
    let mut fleet = fleet();
    fleet.exchange.begin(&cluster("a"), Part::Sources);
    fleet.see_slice("a", stamped("10.9.9.9", "cafe 1800000000000"));
    let [slice] = written(&fleet, "b").try_into().unwrap();
    assert!(Change::of(&slice).is_some(), "it can be followed all the same");
    assert_eq!(fleet.exchange.underway(&cluster("b"), &slice), None);
    fleet.settle();
    fleet.exchange.retain(&cluster("a"), Part::Sources, &[(serve(), "serve-source-a".into())].into());
    fleet.see_slice("a", stamped("10.9.9.8", "cafe\nfake=1 1"));
    let [slice] = written(&fleet, "b").try_into().unwrap();
    assert_eq!(slice.metadata.annotations, None, "nonsense goes nowhere");
}

#[test]
fn a_change_that_is_on_its_way_ends_with_its_slice_and_with_its_importer() {
    let mut fleet = fleet();
    fleet.see_slice("a", stamped("10.9.9.9", "cafe 1800000000000"));
    assert_eq!(fleet.exchange.services[&serve()].underway.len(), 2);
    fleet.exchange.forget(&cluster("c"));
    assert_eq!(fleet.exchange.services[&serve()].underway.len(), 1);
    fleet.exchange.lose_source(&cluster("a"), &serve(), "serve-source-a");
    assert!(fleet.exchange.services[&serve()].underway.is_empty());
}
