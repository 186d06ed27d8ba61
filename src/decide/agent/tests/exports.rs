//! What a ServiceExport is worth, and what its condition says.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{import, key, service};
use crate::{
    api::names::reason,
    decide::{
        agent::{
            export::{judge, valid},
            service::{Plan, fresh},
        },
        condition::Verdict,
        merge::{InternalTrafficPolicy, IpFamily, ServiceSpec, ServiceType, SessionAffinity},
    },
};

fn verdict(service: &k8s_openapi::api::core::v1::Service) -> Verdict {
    judge(&key(), Some(service)).unwrap_err()
}

#[test]
fn a_missing_service_is_no_service() {
    let verdict = judge(&key(), None).unwrap_err();
    assert_eq!((verdict.met, &*verdict.reason), (false, reason::NO_SERVICE));
    assert!(verdict.message.contains("shop/serve"), "{}", verdict.message);
}

#[test]
fn an_external_name_cannot_be_exported() {
    let external = service(json!({ "type": "ExternalName", "externalName": "example.com" }));
    assert_eq!(verdict(&external).reason, reason::INVALID_SERVICE_TYPE);
}

#[test]
fn a_derived_service_cannot_be_exported_and_a_users_clone_of_one_can() {
    let imported = import(json!({}));
    let key = key();
    let plan = Plan {
        key: &key,
        name: "derived-serve",
        definition: "uid",
        spec: &imported.spec,
        traffic: None,
        families: &[],
        addresses: &[],
    };
    let derived = fresh(&plan);
    let found = verdict(&derived);
    assert_eq!(found.reason, reason::INVALID_SERVICE_TYPE);
    assert!(found.message.contains("derived from ServiceImport shop/serve"), "{}", found.message);
    let mut clone = derived;
    clone.metadata.name = Some("mine".to_owned());
    assert!(judge(&key, Some(&clone)).is_ok());
}

#[test]
fn all_that_the_kep_takes_from_a_service_is_taken_and_its_metadata_is_not() {
    let mut all = service(json!({
        "type": "LoadBalancer", "clusterIP": "10.0.0.5", "ipFamilies": ["IPv6", "IPv4"],
        "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }, { "name": "web", "port": 80, "appProtocol": "http" }],
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10 } },
        "internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose",
    }));
    all.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let spec = judge(&key(), Some(&all)).unwrap();
    assert_eq!(spec.service_type, ServiceType::ClusterSetIp);
    assert_eq!(spec.ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["dns 53/UDP", "web 80/TCP"]);
    assert_eq!(spec.ports[1].app_protocol.as_deref(), Some("http"));
    assert_eq!(spec.session_affinity, SessionAffinity::ClientIp { timeout_seconds: 10 });
    assert_eq!(spec.internal_traffic_policy, InternalTrafficPolicy::Local);
    assert_eq!(spec.traffic_distribution.as_deref(), Some("PreferClose"));
    assert_eq!(spec.ip_families, [IpFamily::V6, IpFamily::V4]);
    assert!(spec.labels.is_empty());
    let headless = service(json!({ "clusterIP": "None" }));
    assert_eq!(judge(&key(), Some(&headless)).unwrap().service_type, ServiceType::Headless);
}

#[test]
fn an_export_says_that_a_preference_for_the_own_node_is_one_for_the_zone_where_it_is_imported() {
    for (said, told) in [("PreferSameNode", true), ("PreferSameZone", false), ("PreferClose", false)] {
        let service = judge(&key(), Some(&service(json!({ "trafficDistribution": said })))).unwrap();
        assert_eq!(valid(&service).message.contains("trafficDistribution PreferSameNode"), told, "{said}");
    }
}

#[test]
fn a_condition_is_written_only_when_it_says_something_new_and_its_time_changes_only_with_its_status() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let valid = || valid(&ServiceSpec::default());
    let first = valid().written(&[], None, at(1)).unwrap();
    let there = [first];
    assert_eq!(valid().written(&there, None, at(2)), None);
    let mut reworded = valid();
    reworded.message = "other words".to_owned();
    assert_eq!(reworded.written(&there, None, at(3)).unwrap().last_transition_time.0, at(1));
    let lost = judge(&key(), None).unwrap_err().written(&there, None, at(4)).unwrap();
    assert_eq!((lost.status.as_str(), lost.last_transition_time.0), ("False", at(4)));
}
