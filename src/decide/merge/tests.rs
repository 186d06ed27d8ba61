//! Rules of the merge by example, and in `properties` what holds for any exports.

mod fields;
mod names;
mod ports;
mod properties;
mod templates;

use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::decide::ports::tests::{key_of, ports as ports_of};

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn created(second: i64) -> Created {
    Timestamp::from_second(second).unwrap().into()
}

/// An export of a cluster, made at some second, with ports as `http 80/TCP, 443/TCP for https`.
fn export(name: &str, second: i64, ports: &str) -> Export {
    let service = ServiceSpec { ports: ports_of(ports), ..ServiceSpec::default() };
    Export { created: created(second), cluster: cluster(name), service }
}

/// An export of ports that differs from others by what a test does to it.
fn with(name: &str, second: i64, change: impl FnOnce(&mut ServiceSpec)) -> Export {
    let mut export = export(name, second, "http 80/TCP");
    change(&mut export.service);
    export
}

fn fresh(exports: &[Export]) -> Merged {
    merge(exports, &AcceptedNames::new()).unwrap()
}

fn listed(service: &ServiceSpec) -> String {
    service.ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What becomes of clusters' ports: `a: 80/TCP as http, 81/TCP withheld`.
fn fates(clusters: &BTreeMap<ClusterName, PortMap>) -> Vec<String> {
    let of_cluster = |(cluster, ports): (&ClusterName, &PortMap)| {
        let ports = ports.iter().map(|(key, port)| match &port.fate {
            Fate::Served(name) if name.is_named() => format!("{key} as {name}"),
            Fate::Served(_) => key.to_string(),
            Fate::Withheld(_) => format!("{key} withheld"),
        });
        format!("{cluster}: {}", ports.collect::<Vec<_>>().join(", "))
    };
    clusters.iter().map(of_cluster).collect()
}

fn reasons(merged: &Merged) -> String {
    merged.condition().reason
}

#[test]
fn nothing_is_merged_where_nothing_is_exported() {
    assert_eq!(merge(&[], &AcceptedNames::new()), None);
}

#[test]
fn one_export_is_merged_to_itself() {
    let one = with("a", 1, |service| {
        service.ports = ports_of("http 80/TCP for http, dns 53/UDP");
        service.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 60 };
        service.internal_traffic_policy = InternalTrafficPolicy::Local;
        service.traffic_distribution = Some("PreferClose".into());
        service.ip_families = vec![IpFamily::V6, IpFamily::V4];
        service.labels = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
        service.annotations = BTreeMap::from([("note".to_owned(), "x".to_owned())]);
    });
    let merged = fresh(std::slice::from_ref(&one));
    assert_eq!(merged.service, one.service);
    assert_eq!(merged.oldest, cluster("a"));
    assert_eq!(fates(&merged.clusters), ["a: 53/UDP as dns, 80/TCP as http"]);
    assert_eq!(
        merged.condition(),
        Condition {
            status: false,
            reason: "NoConflicts".to_owned(),
            message: "The service exports of all clusters agree.".to_owned()
        }
    );
}

#[test]
fn the_oldest_export_wins_and_not_the_first_given_nor_the_majority() {
    let headless = |name, second| with(name, second, |service| service.service_type = ServiceType::Headless);
    let merged = fresh(&[headless("a", 3), export("b", 1, "http 80/TCP"), headless("c", 2)]);
    assert_eq!(merged.oldest, cluster("b"));
    assert_eq!(merged.service.service_type, ServiceType::ClusterSetIp);
    assert_eq!(merged.conflicts[0].disagreeing, BTreeSet::from([cluster("a"), cluster("c")]));
}

#[test]
fn of_exports_made_in_the_same_second_the_first_by_cluster_name_wins() {
    let merged = fresh(&[export("b", 1, "x 80/TCP"), export("a", 1, "y 80/TCP")]);
    assert_eq!(merged.oldest, cluster("a"));
    assert_eq!(listed(&merged.service), "y 80/TCP");
}

#[test]
fn a_creation_time_counts_in_whole_seconds_and_reads_as_kubectl_writes_it() {
    let earlier: Timestamp = "2026-01-01T00:00:00.1Z".parse().unwrap();
    let later: Timestamp = "2026-01-01T00:00:00.9Z".parse().unwrap();
    assert_eq!(Created::from(earlier), Created::from(later));
    assert_eq!(Created::from(later).to_string(), "2026-01-01T00:00:00Z");
}

#[test]
fn a_second_export_of_one_cluster_does_not_count() {
    let exports = [export("a", 2, "http 81/TCP"), export("a", 1, "http 80/TCP")];
    assert_eq!(fresh(&exports), fresh(&exports[1..]));
}

#[test]
fn a_younger_export_that_becomes_the_only_one_decides_everything() {
    let old = export("a", 1, "http 80/TCP");
    let young = with("b", 2, |service| {
        service.service_type = ServiceType::Headless;
        service.ports = ports_of("http 8080/TCP");
    });
    let both = fresh(&[old, young.clone()]);
    assert_eq!(reasons(&both), "PortConflict,TypeConflict");
    let alone = merge(std::slice::from_ref(&young), &both.accepted).unwrap();
    assert_eq!(alone.service, young.service);
    assert_eq!(reasons(&alone), "NoConflicts");
}
