//! What serves a ServiceImport, and what is said on it.

use k8s_openapi::api::core::v1::Service;
use proptest::prelude::*;
use serde_json::json;

use super::{import, key};
use crate::{
    api::{
        ServiceImport,
        names::{annotation, label, mcs, reason},
    },
    decide::{
        agent::{
            import::{
                Addresses, addresses, announcement, is_by_hand, is_served_by, obstacle, wanted_families,
            },
            service::{Holder, Plan, choose, corrected, definition, fresh, is_derived, must_go},
        },
        copy::Origin,
        derived::{hashed_name, is_name},
        exchange::{import_kind, object_key},
        ids::ServiceKey,
        merge::IpFamily,
    },
};

fn made(import: &ServiceImport, families: &[IpFamily], addresses: &[String]) -> Service {
    with(import, families, addresses, fresh)
}

fn with<T>(
    import: &ServiceImport,
    families: &[IpFamily],
    addresses: &[String],
    then: impl Fn(&Plan<'_>) -> T,
) -> T {
    let key = key();
    then(&Plan {
        key: &key,
        name: "derived-serve",
        definition: "one",
        spec: &import.spec,
        traffic: import.spec.traffic_distribution.as_deref(),
        families,
        addresses,
    })
}

/// What a hub writes on an import that it made, of that name.
fn origin(name: &str) -> String {
    let object = object_key(import_kind(), &ServiceKey::parse("shop", name).unwrap());
    Origin { hub: "id".into(), template: "t".into(), crd: None, object }.text()
}

/// A Service as an API server gives it back.
fn live(import: &ServiceImport) -> Service {
    let mut service = made(import, &[IpFamily::V4], &[]);
    let spec = service.spec.as_mut().unwrap();
    if spec.cluster_ip.is_none() {
        spec.cluster_ip = Some("10.0.0.7".to_owned());
    }
    spec.cluster_ips = spec.cluster_ip.clone().map(|ip| vec![ip]);
    service.metadata.resource_version = Some("5".to_owned());
    service
}

fn change(import: &ServiceImport, there: &Service) -> Option<Service> {
    with(import, &[IpFamily::V4], &[], |plan| corrected(there, plan))
}

#[test]
fn a_name_is_kept_and_a_users_service_of_that_name_is_left_alone() {
    let (plain, hashed) = ("derived-serve".to_owned(), hashed_name(&key()));
    let pick = |announced: Option<&str>, first: Holder, second: Holder| {
        choose(&key(), announced, |name| if name == "derived-serve" { first } else { second })
    };
    use Holder::{Foreign, Free, Ours};
    assert_eq!(pick(None, Free, Free), Some(plain.clone()));
    assert_eq!(pick(None, Foreign, Free), Some(hashed.clone()));
    assert_eq!(pick(None, Free, Ours), Some(hashed.clone()), "it is there already");
    assert_eq!(pick(Some(&hashed), Free, Free), Some(hashed.clone()), "announced");
    assert_eq!(pick(Some("kubernetes"), Free, Free), Some(plain), "no name that can be computed");
    assert_eq!(pick(Some("derived-serve"), Foreign, Free), Some(hashed));
    assert_eq!(pick(None, Foreign, Foreign), None);
}

#[test]
fn a_derived_service_proves_itself_and_its_clones_do_not() {
    let mut service = made(&import(json!({})), &[], &[]);
    assert_eq!(is_derived(&service), Some(key()));
    assert_eq!(definition(&service).as_deref(), Some("one"));
    assert_eq!(service.metadata.labels.as_ref().unwrap()[label::IMPORT], "serve");
    service.metadata.namespace = Some("mall".to_owned());
    assert_eq!(is_derived(&service), None);
    service.metadata.namespace = Some("shop".to_owned());
    service.metadata.annotations = None;
    assert_eq!(is_derived(&service), None, "a label proves nothing");
}

#[test]
fn a_derived_service_has_the_imports_ports_affinity_and_traffic_fields_and_no_selector() {
    let imported = import(json!({ "spec": {
        "ports": [{ "name": "web", "port": 80, "appProtocol": "http" }], "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 9 } }, "internalTrafficPolicy": "Local",
        "trafficDistribution": "PreferClose",
    } }));
    let spec = made(&imported, &[], &[]).spec.unwrap();
    let port = &spec.ports.unwrap()[0];
    assert_eq!((port.name.as_deref(), port.protocol.as_deref(), port.port), (Some("web"), Some("TCP"), 80));
    assert_eq!(port.app_protocol.as_deref(), Some("http"));
    assert_eq!(spec.session_affinity_config.unwrap().client_ip.unwrap().timeout_seconds, Some(9));
    assert_eq!(spec.internal_traffic_policy.as_deref(), Some("Local"));
    assert_eq!(spec.traffic_distribution.as_deref(), Some("PreferClose"));
    assert!(spec.selector.is_none());
}

#[test]
fn d5_a_headless_import_with_affinity_has_a_derived_service_without_an_address() {
    let imported = import(json!({ "spec": { "type": "Headless", "sessionAffinity": "ClientIP" } }));
    assert_eq!(obstacle(&imported), None, "it is no reason to serve nothing");
    let service = made(&imported, &[], &[]);
    assert_eq!(service.spec.as_ref().unwrap().cluster_ip.as_deref(), Some("None"));
    assert_eq!(change(&imported, &live(&imported)), None);
}

#[test]
fn what_somebody_edits_is_put_right_and_a_second_look_changes_nothing() {
    let imported = import(json!({}));
    let there = live(&imported);
    assert_eq!(change(&imported, &there), None);
    let edits: [fn(&mut Service); 6] = [
        |service| service.spec.as_mut().unwrap().selector = Some([("a".to_owned(), "b".to_owned())].into()),
        |service| service.spec.as_mut().unwrap().external_ips = Some(vec!["192.0.2.1".to_owned()]),
        |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 81,
        |service| service.spec.as_mut().unwrap().type_ = Some("LoadBalancer".to_owned()),
        |service| service.metadata.labels = None,
        |service| service.spec.as_mut().unwrap().session_affinity = Some("ClientIP".to_owned()),
    ];
    for edit in edits {
        let mut edited = there.clone();
        edit(&mut edited);
        let right = change(&imported, &edited).expect("it is put right");
        assert_eq!(right.spec.as_ref().unwrap().cluster_ip.as_deref(), Some("10.0.0.7"));
        assert_eq!(right.metadata.resource_version.as_deref(), Some("5"));
        assert_eq!(change(&imported, &right), None);
    }
    let mut annotated = there;
    annotated.metadata.annotations.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
    assert_eq!(change(&imported, &annotated), None, "what others note does not matter");
}

#[test]
fn a_service_goes_only_where_its_address_has_to() {
    let (set, headless) = (import(json!({})), import(json!({ "spec": { "type": "Headless" } })));
    let goes = |import: &ServiceImport, there: &Service, families: &[IpFamily]| {
        with(import, families, &[], |plan| must_go(there, plan))
    };
    assert!(goes(&headless, &live(&set), &[]) && goes(&set, &live(&headless), &[]));
    assert!(!goes(&set, &live(&set), &[]) && !goes(&headless, &live(&headless), &[]));
    assert!(goes(&set, &live(&set), &[IpFamily::V6]));
    assert!(!goes(&set, &live(&set), &[IpFamily::V6, IpFamily::V4]), "its first family is still wanted");
}

#[test]
fn families_come_and_go_beside_the_first_which_stays() {
    let imported = import(json!({}));
    let both = [IpFamily::V6, IpFamily::V4];
    let wider = with(&imported, &both, &[], |plan| corrected(&live(&imported), plan)).unwrap();
    let spec = wider.spec.as_ref().unwrap();
    assert_eq!(spec.ip_families.as_ref().unwrap()[..], ["IPv4", "IPv6"]);
    assert_eq!(spec.ip_family_policy.as_deref(), Some("PreferDualStack"));
    let narrower = change(&imported, &wider).unwrap().spec.unwrap();
    assert_eq!(narrower.ip_families.unwrap(), ["IPv4"]);
    assert_eq!(narrower.ip_family_policy.as_deref(), Some("SingleStack"));
}

#[test]
fn a_service_that_is_made_again_gets_its_addresses_again_and_the_first_decides_the_first_family() {
    let imported = import(json!({}));
    let kept = ["fd00::7".to_owned()];
    let spec = made(&imported, &[IpFamily::V4, IpFamily::V6], &kept).spec.unwrap();
    assert_eq!(spec.cluster_ips.unwrap(), kept);
    assert_eq!(spec.ip_families.unwrap(), ["IPv6", "IPv4"]);
    let two = ["fd00::7".to_owned(), "10.0.0.7".to_owned()];
    let both = [IpFamily::V4, IpFamily::V6];
    let first = made(&imported, &both, &two);
    assert_eq!(
        first.spec.as_ref().unwrap().cluster_ips.as_ref().unwrap()[..],
        two[..1],
        "one after the other"
    );
    let second = with(&imported, &both, &two, |plan| corrected(&first, plan)).unwrap().spec.unwrap();
    assert_eq!(second.cluster_ips.unwrap(), two);
    assert_eq!(second.ip_families.unwrap(), ["IPv6", "IPv4"]);
    let headless = import(json!({ "spec": { "type": "Headless" } }));
    let spec = made(&headless, &[], &kept).spec.unwrap();
    assert_eq!((spec.cluster_ip.as_deref(), spec.cluster_ips), (Some("None"), None));
}

#[test]
fn addresses_are_the_users_those_of_before_or_any() {
    let noted = |ips: &str| json!({ "metadata": { "annotations": { annotation::CLUSTER_IPS: ips } } });
    assert_eq!(addresses(&import(json!({})), &[]), Addresses::Any);
    let kept = import(noted("10.0.0.7,fd00::7"));
    let both = vec!["10.0.0.7".to_owned(), "fd00::7".to_owned()];
    assert_eq!(addresses(&kept, &[]), Addresses::Kept(both.clone()));
    assert_eq!(addresses(&kept, &[IpFamily::V6]), Addresses::Kept(vec!["fd00::7".to_owned()]));
    let mut told = kept;
    told.spec.ips = both;
    assert!(matches!(addresses(&told, &[]), Addresses::Kept(_)), "we said so ourselves");
    told.spec.ips = vec!["10.0.0.99".to_owned()];
    assert_eq!(addresses(&told, &[]), Addresses::Preset(vec!["10.0.0.99".to_owned()]));
    told.metadata.annotations.get_or_insert_default().insert(annotation::ORIGIN.to_owned(), origin("serve"));
    assert!(matches!(addresses(&told, &[]), Addresses::Kept(_)), "nobody presets the hub's");
}

#[test]
fn an_announcement_is_made_once_and_leaves_a_users_addresses() {
    let imported = import(json!({}));
    let said = announcement(&imported, &live(&imported));
    assert!(!said.is_on(&imported));
    let announced = import(json!({
        "metadata": { "annotations": { mcs::DERIVED_SERVICE: "derived-serve", annotation::CLUSTER_IPS: "10.0.0.7" } },
        "spec": { "ips": ["10.0.0.7"], "ipFamilies": ["IPv4"] },
    }));
    assert!(announcement(&announced, &live(&announced)).is_on(&announced));
    let preset = import(json!({ "spec": { "ips": ["192.0.2.1"] } }));
    let said = announcement(&preset, &live(&preset));
    assert!(said.is_at_odds() && said.ips.is_none());
}

#[test]
fn an_import_that_becomes_headless_loses_its_addresses_and_remembers_them() {
    let flipped = import(json!({
        "metadata": { "annotations": { annotation::CLUSTER_IPS: "10.0.0.7", annotation::ORIGIN: origin("serve") } },
        "spec": { "type": "Headless", "ips": ["10.0.0.7"] },
    }));
    let said = announcement(&flipped, &live(&flipped));
    assert_eq!(said.ips, Some(Vec::new()));
    assert_eq!(said.cluster_ips.as_deref(), Some("10.0.0.7"));
}

#[test]
fn families_are_the_hubs_or_the_users() {
    let hubs = import(json!({ "metadata": {
        "annotations": { annotation::IP_FAMILIES: "IPv6,IPv4", annotation::ORIGIN: origin("serve") },
    }, "spec": { "ipFamilies": ["IPv4"] } }));
    assert!(!is_by_hand(&hubs));
    assert_eq!(wanted_families(&hubs), [IpFamily::V6, IpFamily::V4]);
    let users = import(json!({ "spec": { "ipFamilies": ["IPv4", "IPv4", "what"] } }));
    assert!(is_by_hand(&users));
    assert_eq!(wanted_families(&users), [IpFamily::V4]);
}

#[test]
fn an_origin_that_names_the_import_itself_says_whose_it_is_and_no_label_does() {
    let with = |labels: serde_json::Value, origin: Option<String>| {
        is_by_hand(&import(
            json!({ "metadata": { "labels": labels, "annotations": { annotation::ORIGIN: origin } } }),
        ))
    };
    let label = || json!({ label::HUB: "id" });
    assert!(!with(json!({}), Some(origin("serve"))));
    assert!(!with(json!({}), Some(r#"{"format":9}"#.to_owned())), "a newer release's");
    assert!(
        with(label(), None) && with(label(), Some(origin("other"))) && with(label(), Some("?".to_owned()))
    );
}

#[test]
fn a_service_that_lost_its_proof_is_still_the_one_that_the_import_announces() {
    let told = |more: serde_json::Value| {
        let mut object = json!({ "metadata": { "annotations": {
            mcs::DERIVED_SERVICE: "derived-serve", annotation::CLUSTER_IPS: "10.0.0.7",
        } } });
        json_patch::merge(&mut object, &more);
        import(object)
    };
    let mut bare = live(&import(json!({})));
    bare.metadata.annotations = None;
    assert_eq!(is_derived(&bare), None);
    let is = |import: &ServiceImport, service: &Service| is_served_by(&key(), Some(import), service);
    assert!(is(&told(json!({})), &bare) && !is_served_by(&key(), None, &bare));
    assert!(is_derived(&change(&told(json!({})), &bare).unwrap()).is_some(), "it is marked again");
    for other in [
        json!({ mcs::DERIVED_SERVICE: "derived-other" }),
        json!({ annotation::CLUSTER_IPS: "10.0.0.8" }),
        json!({ annotation::CLUSTER_IPS: null }),
        json!({ mcs::DERIVED_SERVICE: null }),
    ] {
        assert!(!is(&told(json!({ "metadata": { "annotations": other.clone() } })), &bare), "{other}");
    }
    let mut unlabelled = bare;
    unlabelled.metadata.labels = None;
    assert!(!is(&told(json!({})), &unlabelled));
    let mut clone = live(&import(json!({})));
    clone.metadata.name = Some("derived-serve2".to_owned());
    let points = told(json!({ "metadata": { "annotations": { mcs::DERIVED_SERVICE: "derived-serve2" } } }));
    assert!(!is(&points, &clone), "its proof names another");
}

#[test]
fn an_import_without_ports_waits_unless_it_is_headless() {
    let bare = import(json!({ "spec": { "ports": [] } }));
    assert_eq!(obstacle(&bare).unwrap().reason, reason::PENDING);
    assert!(obstacle(&import(json!({ "spec": { "type": "Headless", "ports": [] } }))).is_none());
    assert!(obstacle(&import(json!({}))).is_none());
    assert!(obstacle(&import(json!({ "spec": { "type": "Anycast" } }))).unwrap().message.contains("Anycast"));
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![Just(Holder::Free), Just(Holder::Ours), Just(Holder::Foreign)]
}

proptest! {
    #[test]
    fn a_chosen_name_can_be_computed_and_is_never_somebody_elses(
        first in holder(), second in holder(), announced in proptest::option::of("derived-serve|kubernetes|derived-[0-9a-v]{10}"),
    ) {
        let holder = |name: &str| if name == "derived-serve" { first } else { second };
        if let Some(name) = choose(&key(), announced.as_deref(), holder) {
            prop_assert!(is_name(&key(), &name) && holder(&name) != Holder::Foreign);
            // Made and announced, it stays.
            let then = |other: &str| if other == name { Holder::Ours } else { holder(other) };
            prop_assert_eq!(choose(&key(), Some(&name), then), Some(name.clone()));
        } else {
            prop_assert!(first == Holder::Foreign && second == Holder::Foreign);
        }
    }
}
