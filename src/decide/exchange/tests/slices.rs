use super::*;

#[test]
fn f1_each_importer_gets_one_slice_of_each_other_exporter_with_its_cluster_on_it() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("b", 2, ports(&[("http", 80)]));
    fleet.settle();
    let from = |member: &str| fleet.gets(member).into_iter().map(|(from, ..)| from).collect::<Vec<_>>();
    assert_eq!(from("c"), ["a", "b"]);
    // Its own are its agent's.
    assert_eq!((from("a"), from("b")), (vec!["b".to_owned()], vec!["a".to_owned()]));
}

#[test]
fn one_endpoint_change_is_one_write_in_each_importer() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet.source("a", "10.9.9.9", vec![json!({ "name": "http", "port": 8080, "protocol": "TCP" })]);
    assert_eq!(fleet.settle(), 2);
    assert_eq!(fleet.gets("b")[0].1, "10.9.9.9");
}

#[test]
fn slices_come_only_when_the_agent_has_announced_a_name_that_can_be() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let at = ("b".to_owned(), "serve".to_owned());
    for name in ["kubernetes", "derived-other", ""] {
        let mut import = fleet.imports[&at].clone();
        import["metadata"]["annotations"][crate::api::names::mcs::DERIVED_SERVICE] = name.into();
        fleet.see_import("b", &import);
        let slices = fleet.plan("b").slices;
        assert!(slices.is_empty(), "{name}: {slices:?}");
    }
}

#[test]
fn a_slice_that_belongs_to_another_service_now_is_deleted_and_made_again() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let at = ("b".to_owned(), "serve".to_owned());
    let mut import = fleet.imports[&at].clone();
    import["metadata"]["annotations"][crate::api::names::mcs::DERIVED_SERVICE] =
        derived::hashed_name(&serve()).into();
    fleet.see_import("b", &import);
    let steps = fleet.plan("b").slices;
    assert!(matches!(steps[..], [SliceStep::Delete { .. }, SliceStep::Create(_)]), "{steps:?}");
}

#[test]
fn what_somebody_edits_or_deletes_is_put_right() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let at = fleet.slices.keys().find(|(member, _)| member == "b").unwrap().clone();
    let good = fleet.slices[&at].clone();
    let mut bad = good.clone();
    bad.endpoints.clear();
    fleet.exchange.see_imported(&cluster("b"), &bad);
    assert_eq!(fleet.settle(), 1);
    assert_eq!(fleet.slices[&at].endpoints, good.endpoints);
    fleet.slices.remove(&at);
    fleet.exchange.lose_imported(&cluster("b"), &serve(), &at.1);
    assert_eq!(fleet.settle(), 1);
    assert_eq!(fleet.slices[&at].endpoints, good.endpoints);
}

/// What becomes of the labels of `a`'s slice in `b`.
fn relabelled(fleet: &mut Fleet, labels: Value) -> (String, String) {
    let at = fleet.slices.keys().find(|(member, _)| member == "b").unwrap().clone();
    let slice = fleet.slices.get_mut(&at).unwrap();
    let mut object = json!(slice);
    json_patch::merge(&mut object, &json!({ "metadata": { "labels": labels } }));
    *slice = serde_json::from_value(object).unwrap();
    at
}

#[test]
fn labels_that_somebody_takes_off_a_slice_or_changes_are_put_right() {
    let labels = &[
        (label::HUB, true),
        (crate::api::names::kubernetes::MANAGED_BY, true),
        (crate::api::names::mcs::SERVICE_NAME, false),
        (crate::api::names::mcs::SOURCE_CLUSTER, false),
    ];
    for (label, selects) in labels {
        for value in [Value::Null, json!("other")] {
            for restarts in [false, true] {
                let mut fleet = Fleet::of(&["a", "b"]);
                fleet.export("a", 1, ports(&[("http", 80)]));
                fleet.settle();
                let good = fleet.gets("b");
                let at = relabelled(&mut fleet, json!({ *label: value }));
                let bad = fleet.slices[&at].clone();
                if restarts {
                    // A list by our label does not have it, or makes nothing of it.
                    fleet.slices.remove(&at);
                    fleet.restart();
                    fleet.read("a");
                    fleet.read("b");
                    fleet.slices.insert(at.clone(), bad.clone());
                }
                if *selects {
                    fleet.exchange.doubt_imported(&cluster("b"), &serve(), &at.1);
                } else {
                    fleet.exchange.see_imported(&cluster("b"), &bad);
                }
                fleet.settle();
                assert_eq!(fleet.gets("b"), good, "{label} {value} {restarts}");
                let labels = fleet.slices[&at].metadata.labels.as_ref().unwrap();
                assert_eq!(labels[label::HUB], "hub", "{label} {value} {restarts}");
                assert_eq!(fleet.exchange.services.keys().collect::<Vec<_>>(), [&serve()]);
                fleet.unexport("a");
                fleet.settle();
                assert!(fleet.gets("b").is_empty(), "{label} {value} {restarts}");
            }
        }
    }
}

#[test]
fn a_slice_that_lost_our_label_goes_with_its_export_all_the_same() {
    let mut fleet = Fleet::of(&["a", "b", "c"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.export("c", 2, ports(&[("http", 80)]));
    fleet.settle();
    let at = relabelled(&mut fleet, json!({ label::HUB: null }));
    fleet.exchange.doubt_imported(&cluster("b"), &serve(), &at.1);
    fleet.unexport("a");
    let steps = fleet.plan("b").slices;
    assert!(matches!(&steps[..], [SliceStep::Look { .. }]), "{steps:?}");
    fleet.settle();
    assert_eq!(fleet.gets("b").into_iter().map(|(from, ..)| from).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn a_slice_that_is_not_believed_changes_nothing_and_takes_nothing_away() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let before = fleet.gets("b");
    let mut evil = fleet.slices[&("a".to_owned(), "serve-source-a".to_owned())].clone();
    evil.endpoints[0].addresses = vec!["169.254.169.254".to_owned()];
    let refused = fleet.exchange.see_source(&cluster("a"), evil.clone()).unwrap_err();
    assert!(refused.why.contains("link-local"));
    assert_eq!(fleet.settle(), 0);
    assert_eq!(fleet.gets("b"), before);
    evil.metadata.namespace = Some("kube-system".to_owned());
    assert!(fleet.exchange.see_source(&cluster("a"), evil).unwrap_err().why.contains("takes no part"));
}

#[test]
fn the_source_cluster_is_the_link_that_it_came_by_never_a_label() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    let mut slice = fleet.slices[&("a".to_owned(), "serve-source-a".to_owned())].clone();
    let labels = slice.metadata.labels.as_mut().unwrap();
    labels.insert(crate::api::names::mcs::SOURCE_CLUSTER.to_owned(), "b".to_owned());
    slice.endpoints[0].addresses = vec!["10.5.5.5".to_owned()];
    let refused = fleet.exchange.see_source(&cluster("a"), slice).unwrap_err();
    assert_eq!(refused.reason, Reason::Claim);
    fleet.settle();
    let [(from, address, _)] = &fleet.gets("b")[..] else { panic!("{:?}", fleet.gets("b")) };
    assert!(from == "a" && address != "10.5.5.5");
}

#[test]
fn a_source_slice_that_is_relabelled_reaches_no_other_service_and_leaves_its_own_alone() {
    let other = ServiceKey::parse("shop", "other").unwrap();
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    let before = fleet.gets("b");
    let good = fleet.slices[&("a".to_owned(), "serve-source-a".to_owned())].clone();
    let mut slice = good.clone();
    slice.metadata.labels.as_mut().unwrap().insert(label::SOURCE.to_owned(), "other".to_owned());
    assert_eq!(source_key(&slice), Some(serve()), "its name tells");
    let refused = fleet.exchange.see_source(&cluster("a"), slice.clone()).unwrap_err();
    assert_eq!(refused.reason, Reason::Claim);
    assert!(!fleet.exchange.services.contains_key(&other));
    assert_eq!((fleet.settle(), fleet.gets("b")), (0, before));
    assert!(matches!(fleet.exchange.trust(&cluster("a")), Some(Trust::Refused { number: 1, .. })));
    // Its agent puts it right.
    fleet.exchange.see_source(&cluster("a"), good).unwrap();
    assert_eq!((fleet.settle(), fleet.exchange.trust(&cluster("a"))), (0, Some(Trust::Full)));
    // Or it goes as it is: the watch shows that last.
    fleet.exchange.see_source(&cluster("a"), slice.clone()).unwrap_err();
    fleet.exchange.forgive(&cluster("a"), &id(Part::Sources, &slice.metadata));
    fleet.exchange.lose_source(&cluster("a"), &source_key(&slice).unwrap(), "serve-source-a");
    fleet.settle();
    assert!(fleet.gets("b").is_empty());
}
