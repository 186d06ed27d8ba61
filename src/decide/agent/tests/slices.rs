//! Source slices, this cluster's own imported slices, and how they become what they are to be.

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{import, key, service};
use crate::{
    api::names::{annotation, kubernetes, label, mcs},
    decide::{
        agent::{
            export::judge,
            own,
            slices::{Step, is_original, is_own, is_source, sources, steps},
        },
        change::Change,
        merge::ServiceSpec,
    },
};

fn slice(name: &str, labels: Value, endpoints: usize) -> EndpointSlice {
    let endpoints: Vec<_> = (0..endpoints)
        .map(|number| {
            json!({
                "addresses": [format!("10.1.{}.{}", number / 250, number % 250 + 1)],
                "conditions": { "ready": true, "serving": true, "terminating": false },
                "hostname": format!("web-{number}"), "nodeName": "node-a", "zone": "zone-a",
                "targetRef": { "kind": "Pod", "name": "web" }, "hints": { "forZones": [{ "name": "zone-b" }] },
            })
        })
        .collect();
    let object = json!({
        "metadata": { "namespace": "shop", "name": name, "labels": labels },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "web", "port": 8080, "protocol": "TCP" }],
    });
    serde_json::from_value(object).unwrap()
}

fn original(name: &str, endpoints: usize) -> EndpointSlice {
    let labels = json!({ kubernetes::SERVICE_NAME: "serve", kubernetes::MANAGED_BY: kubernetes::ENDPOINT_SLICE_CONTROLLER });
    slice(name, labels, endpoints)
}

fn made(originals: &[EndpointSlice], most: usize) -> Vec<EndpointSlice> {
    sources(&key(), &ServiceSpec::default(), originals, most)
}

/// Slices as an API server would have them after these steps.
fn after(there: &[Arc<EndpointSlice>], steps: Vec<Step>) -> Vec<Arc<EndpointSlice>> {
    let mut there: Vec<Arc<EndpointSlice>> = there.to_vec();
    for step in steps {
        let (gone, made) = match step {
            Step::Create(slice) => (None, Some(slice)),
            Step::Replace(slice) => (slice.metadata.name.clone(), Some(slice)),
            Step::Remake(old, slice) => (old.metadata.name.clone(), Some(slice)),
            Step::Delete(old) => (old.metadata.name.clone(), None),
        };
        there.retain(|slice| gone.is_none() || slice.metadata.name != gone);
        there.extend(made.map(|mut slice| {
            // An API server gives back no empty list.
            slice.ports = slice.ports.filter(|ports| !ports.is_empty());
            Arc::new(slice)
        }));
    }
    there
}

fn next(wanted: &[EndpointSlice], there: &[Arc<EndpointSlice>]) -> Vec<Step> {
    let found = |name: &str| there.iter().find(|slice| slice.metadata.name.as_deref() == Some(name)).cloned();
    let ours: Vec<_> = there.iter().filter(|slice| is_source(&key(), slice)).cloned().collect();
    steps(wanted.to_vec(), &ours, found)
}

#[test]
fn a_source_slice_keeps_what_means_something_elsewhere_and_drops_what_does_not() {
    let made = made(&[original("serve-a", 1)], 100);
    let [source] = &made[..] else { panic!("{made:?}") };
    assert!(is_source(&key(), source) && !is_original(source));
    let labels = source.metadata.labels.as_ref().unwrap();
    assert_eq!(labels[label::SOURCE], "serve");
    assert!(labels.contains_key(kubernetes::HEADLESS), "kube-proxy ignores it");
    assert!(!labels.contains_key(kubernetes::SERVICE_NAME));
    let endpoint = &source.endpoints[0];
    assert_eq!(endpoint.hostname.as_deref(), Some("web-0"));
    assert_eq!(endpoint.node_name.as_deref(), Some("node-a"));
    assert_eq!(endpoint.zone.as_deref(), Some("zone-a"));
    assert_eq!(endpoint.conditions.as_ref().unwrap().serving, Some(true));
    assert!(endpoint.target_ref.is_none() && endpoint.hints.is_none());
    assert_eq!(source.ports.as_ref().unwrap()[0].port, Some(8080));
}

#[test]
fn a_slice_of_too_many_endpoints_becomes_several() {
    let made = made(&[original("serve-a", 250)], 100);
    let mut sizes: Vec<_> = made.iter().map(|slice| slice.endpoints.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
}

#[test]
fn a_service_without_slices_has_an_empty_one_for_each_family() {
    let dual = judge(&key(), Some(&service(json!({ "ipFamilies": ["IPv4", "IPv6"] })))).unwrap();
    let families = |made: Vec<EndpointSlice>| {
        let mut families: Vec<_> = made.into_iter().map(|slice| slice.address_type).collect();
        families.sort();
        families
    };
    assert_eq!(families(sources(&key(), &dual, [], 100)), ["IPv4", "IPv6"]);
    assert_eq!(families(made(&[], 100)), ["IPv4"]);
    assert!(made(&[], 100)[0].endpoints.is_empty());
}

#[test]
fn slices_of_other_clusters_are_no_sources_and_hand_made_ones_are() {
    for (labels, counts) in [
        (json!({}), true),
        (json!({ kubernetes::MANAGED_BY: "staff" }), true),
        (json!({ kubernetes::MANAGED_BY: "endpointslicemirroring-controller.k8s.io" }), true),
        (json!({ kubernetes::MANAGED_BY: kubernetes::MANAGED_BY_HUB }), false),
        (json!({ kubernetes::MANAGED_BY: "lighthouse-agent.submariner.io" }), false),
        (json!({ kubernetes::MANAGED_BY: "endpointslice-mesh-controller.cilium.io" }), false),
        (json!({ mcs::SOURCE_CLUSTER: "member2" }), false),
        (json!({ label::SOURCE: "serve" }), false),
    ] {
        assert_eq!(is_original(&slice("a", labels.clone(), 1)), counts, "{labels}");
    }
    let mut names = slice("a", json!({}), 1);
    names.address_type = "FQDN".to_owned();
    assert!(!is_original(&names));
}

#[test]
fn what_a_user_called_or_cloned_like_ours_is_not_ours() {
    let mut source = made(&[original("serve-a", 1)], 100).remove(0);
    assert!(is_source(&key(), &source));
    source.metadata.name = Some("copy".to_owned());
    assert!(!is_source(&key(), &source));
    source.metadata.name = Some("serve-source-mine".to_owned());
    assert!(!is_source(&key(), &source));
}

#[test]
fn a_slice_whose_family_changes_is_made_again_and_an_edited_one_is_replaced() {
    let wanted = made(&[original("serve-a", 1)], 100);
    let mut six = wanted[0].clone();
    six.address_type = "IPv6".to_owned();
    assert!(matches!(next(&wanted, &[Arc::new(six)])[..], [Step::Remake(..)]));
    let mut edited = wanted[0].clone();
    edited.endpoints.clear();
    edited.metadata.resource_version = Some("7".to_owned());
    let steps = next(&wanted, &[Arc::new(edited)]);
    let [Step::Replace(put)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(put.metadata.resource_version.as_deref(), Some("7"));
}

#[test]
fn labels_that_others_add_stay_unless_they_would_send_traffic_somewhere() {
    let wanted = made(&[original("serve-a", 1)], 100);
    let with = |key: &str| {
        let mut there = wanted[0].clone();
        there.metadata.labels.as_mut().unwrap().insert(key.to_owned(), "x".to_owned());
        next(&wanted, &[Arc::new(there)])
    };
    assert!(with("team").is_empty());
    assert!(matches!(with(kubernetes::SERVICE_NAME)[..], [Step::Remake(..)]));
    assert!(matches!(with(mcs::SERVICE_NAME)[..], [Step::Replace(_)]));
}

#[test]
fn own_ports_are_served_under_the_imports_names_and_those_that_it_redefines_are_withheld() {
    let own = service(json!({ "ports": [
        { "name": "a", "port": 80 }, { "name": "b", "port": 81 }, { "name": "c", "port": 82 }, { "name": "d", "port": 83 },
    ] }));
    let own = judge(&key(), Some(&own)).unwrap();
    let imported = import(json!({ "spec": { "ports": [
        { "name": "web", "port": 80 }, { "name": "b", "port": 81 }, { "name": "c", "port": 90 }, { "name": "x", "port": 82 },
    ] } }));
    let served = own::served(&own, &imported, &"member1".parse().unwrap(), None);
    let text: Vec<_> = served.iter().map(|((name, _), names)| format!("{name}={}", names[0])).collect();
    assert_eq!(text, ["a=web", "b=b"]);
}

#[test]
fn own_ports_are_those_that_the_hub_tells_where_the_imports_names_would_mislead() {
    let own = service(json!({ "ports": [{ "name": "web", "port": 80 }, { "name": "old", "port": 81 }] }));
    let own = judge(&key(), Some(&own)).unwrap();
    let told = |text: &str| {
        let imported = import(json!({
            "metadata": { "annotations": { annotation::SERVED_PORTS: text } },
            "spec": { "ports": [{ "name": "http", "port": 80 }, { "name": "web", "port": 81 }] },
        }));
        let served = own::served(&own, &imported, &"member1".parse().unwrap(), None);
        served.iter().map(|((name, _), names)| format!("{name}={}", names[0])).collect::<Vec<_>>()
    };
    assert_eq!(told(r#"{"member1":[[80,"TCP"]]}"#), ["web=http"]);
    assert_eq!(told(r#"{"member1":[]}"#), [""; 0]);
    // Nothing is told of it, or nothing that is understood: what fits is served.
    for text in [r#"{"member2":[[80,"TCP"]]}"#, r#"{"member1":[[80,"ABC"]]}"#, "{}", "x"] {
        assert_eq!(told(text), ["old=web"], "{text}");
    }
}

#[test]
fn own_imported_slices_belong_to_the_derived_service_and_keep_their_nodes() {
    let own = judge(&key(), Some(&service(json!({ "ports": [{ "name": "web", "port": 80 }] })))).unwrap();
    let cluster = "member1".parse().unwrap();
    let sources = made(&[original("serve-a", 2)], 100);
    let mut derived = service(json!({ "ports": [{ "name": "web", "port": 80 }] }));
    derived.metadata.name = Some("derived-serve".to_owned());
    let made = own::imported(&key(), &cluster, &derived, &own, &import(json!({})), &sources);
    let [slice] = &made[..] else { panic!("{made:?}") };
    assert!(is_own(&key(), slice));
    assert_eq!(slice.metadata.labels.as_ref().unwrap()[kubernetes::SERVICE_NAME], "derived-serve");
    assert_eq!(slice.endpoints[0].node_name.as_deref(), Some("node-a"));
}

#[test]
fn own_imported_slices_of_a_former_name_of_the_cluster_go() {
    let own = judge(&key(), Some(&service(json!({ "ports": [{ "name": "web", "port": 80 }] })))).unwrap();
    let sources = made(&[original("serve-a", 2)], 100);
    let derived = service(json!({ "ports": [{ "name": "web", "port": 80 }] }));
    let of = |cluster: &str| {
        let import = import(json!({}));
        own::imported(&key(), &cluster.parse().unwrap(), &derived, &own, &import, &sources)
    };
    let there: Vec<_> = of("east").into_iter().chain(of("source")).map(Arc::new).collect();
    let ours: Vec<_> = there.iter().filter(|slice| is_own(&key(), slice)).cloned().collect();
    let steps = steps(of("east2"), &ours, |_| None);
    let left: Vec<_> = steps.iter().filter(|step| matches!(step, Step::Delete(_))).collect();
    assert_eq!((ours.len(), left.len(), steps.len()), (2, 2, 3), "{steps:?}");
    // Neither what the hub wrote nor what a user did, whatever it is called; nor a source slice.
    for (label, value) in [(kubernetes::MANAGED_BY, "hub.tombolo.dev"), (mcs::SERVICE_NAME, "other")] {
        let mut other = (*there[0]).clone();
        other.metadata.labels.get_or_insert_default().insert(label.to_owned(), value.to_owned());
        assert!(!is_own(&key(), &other), "{label}={value}");
    }
    let mut named = (*there[0]).clone();
    named.metadata.name = Some("serve-east-by-hand".to_owned());
    assert!(!is_own(&key(), &named));
    let mut source = sources[0].clone();
    source.metadata.labels.get_or_insert_default().insert(mcs::SERVICE_NAME.to_owned(), "serve".to_owned());
    assert!(is_source(&key(), &source) && !is_own(&key(), &source));
}

#[test]
fn a_port_that_is_renamed_is_served_under_both_names_until_the_service_has_the_new_one() {
    let own = judge(&key(), Some(&service(json!({ "ports": [{ "name": "web", "port": 80 }] })))).unwrap();
    let names = |derived: Value| -> Vec<String> {
        let (member, derived) = ("member1".parse().unwrap(), service(json!({ "ports": derived })));
        let served = own::served(&own, &import(json!({})), &member, Some(&derived));
        served.values().flatten().map(ToString::to_string).collect()
    };
    assert_eq!(names(json!([{ "name": "old", "port": 80 }])), ["web", "old"]);
    assert_eq!(names(json!([{ "name": "web", "port": 80 }])), ["web"]);
    assert_eq!(names(json!([{ "name": "web", "port": 81 }, { "name": "x", "port": 80 }])), ["web", "x"]);
}

#[test]
fn an_import_has_own_endpoints_where_the_hub_says_so() {
    let cluster = "member1".parse().unwrap();
    let of =
        |clusters: Value| own::is_source(&import(json!({ "status": { "clusters": clusters } })), &cluster);
    assert!(of(json!([{ "cluster": "member2" }, { "cluster": "member1" }])));
    assert!(!of(json!([{ "cluster": "member2" }])) && !of(json!([])));
}

proptest! {
    #[test]
    fn whatever_is_there_a_second_look_does_nothing_and_all_endpoints_are_there_once(
        sizes in proptest::collection::vec(0_usize..30, 0..5),
        before in proptest::collection::vec(0_usize..30, 0..5),
        most in 1_usize..12,
    ) {
        let slices = |sizes: &[usize]| -> Vec<_> {
            sizes.iter().enumerate().map(|(number, size)| original(&format!("serve-{number}"), *size)).collect()
        };
        let there = after(&[], next(&made(&slices(&before), most), &[]));
        let wanted = made(&slices(&sizes), most);
        let now = after(&there, next(&wanted, &there));
        prop_assert_eq!(next(&wanted, &now), []);
        prop_assert_eq!(now.len(), wanted.len());
        prop_assert_eq!(now.iter().map(|slice| slice.endpoints.len()).sum::<usize>(), sizes.iter().sum::<usize>());
        prop_assert!(now.iter().all(|slice| slice.endpoints.len() <= most));
    }

    #[test]
    fn one_endpoint_more_or_less_is_one_write(size in 1_usize..99) {
        let there = after(&[], next(&made(&[original("serve-a", size)], 100), &[]));
        for now in [size - 1, size + 1] {
            prop_assert_eq!(next(&made(&[original("serve-a", now)], 100), &there).len(), 1);
        }
    }
}

#[test]
fn the_change_that_a_slice_was_written_for_is_on_it_and_never_a_reason_to_write() {
    let change = Change { id: "cafe".into(), at: 1 };
    let first = next(&made(&[original("a", 2)], 100), &[]).into_iter().map(|step| step.stamped(&change));
    let there = after(&[], first.collect());
    assert_eq!(Change::of(&there[0]), Some(change));
    assert!(next(&made(&[original("a", 2)], 100), &there).is_empty(), "a second look writes nothing");
    let later = Change { id: "beef".into(), at: 2 };
    let steps = next(&made(&[original("a", 3)], 100), &there).into_iter().map(|step| step.stamped(&later));
    assert_eq!(Change::of(&after(&there, steps.collect())[0]), Some(later));
}

#[test]
fn an_import_that_was_just_made_says_for_a_while_nothing_of_whose_endpoints_it_has() {
    let now = "2026-01-01T00:00:10Z".parse().unwrap();
    let made = |at: &str, clusters: Value| {
        let more = json!({ "metadata": { "creationTimestamp": at }, "status": { "clusters": clusters } });
        own::unsaid(&import(more), now).map(|left| left.as_secs())
    };
    assert_eq!(made("2026-01-01T00:00:00Z", json!([])), Some(50));
    assert_eq!(made("2026-01-01T00:00:30Z", json!([])), Some(60), "by another clock");
    assert_eq!(made("2025-12-31T23:59:00Z", json!([])), None);
    assert_eq!(made("2026-01-01T00:00:00Z", json!([{ "cluster": "b" }])), None);
    assert_eq!(own::unsaid(&import(json!({})), now), None);
}
