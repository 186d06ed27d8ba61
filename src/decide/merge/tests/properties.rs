//! What holds for any exports: legal ones and ones that no API server would store.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    api::names::annotation,
    decide::{
        imported,
        ports::{duplicates, tests::any_port},
    },
};

const CLUSTERS: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];

fn any_service() -> impl Strategy<Value = ServiceSpec> {
    let pairs = || prop::collection::btree_map(select(vec!["x", "y"]), select(vec!["1", "2"]), 0..2);
    let texts = |map: BTreeMap<&str, &str>| {
        map.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>()
    };
    let affinity = select(vec![
        SessionAffinity::None,
        SessionAffinity::ClientIp { timeout_seconds: 1 },
        SessionAffinity::ClientIp { timeout_seconds: 2 },
    ]);
    let policy = select(vec![InternalTrafficPolicy::Cluster, InternalTrafficPolicy::Local]);
    let fields = (select(vec![ServiceType::ClusterSetIp, ServiceType::Headless]), affinity, policy);
    let distribution = option::of(select(vec!["PreferClose", "PreferSameZone"]));
    let families = vec(select(vec![IpFamily::V4, IpFamily::V6]), 0..3);
    (fields, vec(any_port(), 0..5), distribution, families, pairs(), pairs()).prop_map(
        move |(
            (service_type, session_affinity, policy),
            ports,
            distribution,
            ip_families,
            labels,
            annotations,
        )| {
            ServiceSpec {
                service_type,
                ports,
                session_affinity,
                internal_traffic_policy: policy,
                traffic_distribution: distribution.map(Into::into),
                ip_families,
                labels: texts(labels),
                annotations: texts(annotations),
            }
        },
    )
}

/// Exports of one to five clusters, several of them often made in the same second.
fn any_exports() -> impl Strategy<Value = Vec<Export>> {
    vec((0..4i64, any_service()), 1..=CLUSTERS.len()).prop_map(|exports| {
        let exports = exports.into_iter().zip(CLUSTERS);
        exports
            .map(|((second, service), name)| Export {
                created: created(second),
                cluster: cluster(name),
                service,
            })
            .collect()
    })
}

/// Accepted names of any kind, also ones that no merge would have accepted.
fn any_accepted() -> impl Strategy<Value = AcceptedNames> {
    let giver = option::of(select(CLUSTERS.to_vec()));
    vec((any_port(), giver), 0..6).prop_map(|ports| {
        let names = ports
            .into_iter()
            .map(|(port, giver)| (port.key, AcceptedName { name: port.name, given_by: giver.map(cluster) }));
        names.collect()
    })
}

/// A younger export than any of [`any_exports`].
fn any_younger() -> impl Strategy<Value = Export> {
    any_service().prop_map(|service| Export { created: created(9), cluster: cluster("c0"), service })
}

fn joined(exports: &[Export], more: &Export) -> Vec<Export> {
    exports.iter().chain([more]).cloned().collect()
}

fn served(merged: &Merged) -> BTreeMap<ClusterName, Vec<(PortKey, bool)>> {
    let is_served = |port: &ExportedPort| matches!(port.fate, Fate::Served(_));
    let of_cluster = |ports: &PortMap| ports.iter().map(|(key, port)| (*key, is_served(port))).collect();
    merged.clusters.iter().map(|(cluster, ports)| (cluster.clone(), of_cluster(ports))).collect()
}

/// A merge without its ports' names.
fn nameless(mut merged: Merged) -> (Merged, BTreeMap<ClusterName, Vec<(PortKey, bool)>>) {
    let served = served(&merged);
    merged.service.ports.iter_mut().for_each(|port| port.name = PortName::UNNAMED);
    merged.conflicts.iter_mut().for_each(|conflict| conflict.message.clear());
    merged.accepted.clear();
    merged.clusters.clear();
    (merged, served)
}

proptest! {
    #[test]
    fn the_order_of_exports_does_not_matter(
        (exports, shuffled) in any_exports().prop_flat_map(|e| (Just(e.clone()), Just(e).prop_shuffle())),
        accepted in any_accepted(),
    ) {
        prop_assert_eq!(merge(&exports, &accepted), merge(&shuffled, &accepted));
    }

    #[test]
    fn merged_ports_are_what_kubernetes_accepts(exports in any_exports(), accepted in any_accepted()) {
        let ports = merge(&exports, &accepted).unwrap().service.ports;
        prop_assert_eq!(duplicates(&ports), []);
        prop_assert!(ports.len() <= 1 || ports.iter().all(|port| port.name.is_named()), "{:?}", ports);
    }

    #[test]
    fn the_cluster_that_defines_a_merged_port_exports_and_serves_it(
        exports in any_exports(), accepted in any_accepted(),
    ) {
        let merged = merge(&exports, &accepted).unwrap();
        prop_assert_eq!(merged.defined_by.len(), merged.service.ports.len());
        for port in &merged.service.ports {
            let definer = &merged.defined_by[&port.key];
            let export = exports.iter().find(|export| export.cluster == *definer).unwrap();
            let exported = export.service.ports.iter().find(|exported| exported.key == port.key).unwrap();
            prop_assert_eq!(&exported.app_protocol, &port.app_protocol);
            prop_assert_eq!(&merged.clusters[definer][&port.key].fate, &Fate::Served(port.name.clone()));
        }
    }

    #[test]
    fn endpoints_are_served_only_for_a_port_that_their_cluster_really_exports(
        exports in any_exports(), accepted in any_accepted(),
    ) {
        let merged = merge(&exports, &accepted).unwrap();
        for export in &exports {
            let exported: BTreeSet<_> = export.service.ports.iter().map(|port| port.key).collect();
            let mapped = &merged.clusters[&export.cluster];
            prop_assert_eq!(&exported, &mapped.keys().copied().collect());
            for (key, port) in mapped {
                if let Fate::Served(name) = &port.fate {
                    let merged = merged.service.ports.iter().find(|merged| merged.name == *name).unwrap();
                    prop_assert_eq!(merged.key, *key);
                }
            }
        }
    }

    #[test]
    fn a_port_is_outranked_if_and_only_if_an_older_export_defines_another_port_of_its_name(
        exports in any_exports(),
    ) {
        let merged = fresh(&exports);
        let by_name: BTreeMap<_, _> = exports.iter().map(|export| (&export.cluster, export)).collect();
        for export in &exports {
            let older = |key: &PortKey| {
                merged.defined_by.get(key).filter(|definer| by_name[definer] < export)
            };
            for (key, port) in &merged.clusters[&export.cluster] {
                let is_namesake = |other: &&PortKey| {
                    older(other).is_some_and(|definer| merged.clusters[definer][other].name == port.name)
                };
                let namesake = merged.defined_by.keys().filter(|other| *other != key).find(is_namesake);
                let yields = port.name.is_named() || older(key).is_none();
                let expected = namesake.filter(|_| yields).map(|namesake| {
                    Withheld::Outranked { by: merged.defined_by[namesake].clone(), port: *namesake }
                });
                match &port.fate {
                    Fate::Withheld(Withheld::Duplicate) => {}
                    Fate::Withheld(reason) => prop_assert_eq!(Some(reason), expected.as_ref()),
                    Fate::Served(_) => prop_assert_eq!(None, expected),
                }
            }
        }
    }

    #[test]
    fn a_younger_export_adds_ports_and_changes_nothing_of_the_older_ones(
        exports in any_exports(), younger in any_younger(),
    ) {
        let before = fresh(&exports);
        let after = fresh(&joined(&exports, &younger));
        let (old, new) = (&before.service, &after.service);
        let fields = |service: &ServiceSpec| {
            ServiceSpec { ports: Vec::new(), ip_families: Vec::new(), ..service.clone() }
        };
        prop_assert_eq!(fields(old), fields(new));
        prop_assert_eq!(&before.oldest, &after.oldest);
        prop_assert!(old.ports.len() <= new.ports.len());
        for (was, is) in old.ports.iter().zip(&new.ports) {
            prop_assert_eq!((was.key, &was.app_protocol), (is.key, &is.app_protocol));
            prop_assert_eq!(&before.defined_by[&was.key], &after.defined_by[&was.key]);
            prop_assert!(was.name == is.name || (!was.name.is_named() && new.ports.len() > 1));
        }
        let mut fates = served(&after);
        fates.remove(&younger.cluster);
        prop_assert_eq!(served(&before), fates);
    }

    #[test]
    fn a_younger_export_takes_families_away_but_never_the_last(
        exports in any_exports(), younger in any_younger(),
    ) {
        let before = fresh(&exports).service.ip_families;
        let after = fresh(&joined(&exports, &younger)).service.ip_families;
        prop_assert!(before.is_empty() || !after.is_empty());
        let kept: Vec<_> = before.iter().copied().filter(|family| after.contains(family)).collect();
        prop_assert!(before.is_empty() || kept == after, "{:?} became {:?}", before, after);
    }

    #[test]
    fn a_younger_export_renames_no_accepted_port_but_a_single_unnamed_one(
        exports in any_exports(), accepted in any_accepted(), younger in any_younger(),
    ) {
        let before = merge(&exports, &accepted).unwrap();
        let after = merge(&joined(&exports, &younger), &before.accepted).unwrap();
        for (was, is) in before.service.ports.iter().zip(&after.service.ports) {
            let must = !was.name.is_named() && after.service.ports.len() > 1;
            prop_assert!(was.name == is.name || must, "{} became {}", was, is);
        }
    }

    #[test]
    fn merging_again_changes_nothing(exports in any_exports(), accepted in any_accepted()) {
        let first = merge(&exports, &accepted).unwrap();
        let second = merge(&exports, &first.accepted).unwrap();
        prop_assert_eq!(first, second);
    }

    #[test]
    fn the_past_decides_names_and_nothing_else(exports in any_exports(), accepted in any_accepted()) {
        let (with, without) = (merge(&exports, &accepted).unwrap(), fresh(&exports));
        prop_assert_eq!(nameless(with), nameless(without));
    }

    #[test]
    fn an_export_that_goes_and_comes_back_leaves_all_as_it_was(
        exports in any_exports(), younger in any_younger(),
    ) {
        let all = joined(&exports, &younger);
        let before = fresh(&all);
        let without = merge(&exports, &before.accepted).unwrap();
        let again = merge(&all, &without.accepted).unwrap();
        prop_assert_eq!(before, again);
    }

    #[test]
    fn any_export_that_goes_and_comes_back_leaves_all_but_names_as_it_was(
        exports in any_exports(), accepted in any_accepted(), gone in 0..CLUSTERS.len(),
    ) {
        let before = merge(&exports, &accepted).unwrap();
        let mut rest = exports.clone();
        rest.remove(gone % exports.len());
        let without = merge(&rest, &before.accepted).map(|merged| merged.accepted).unwrap_or_default();
        prop_assert_eq!(nameless(before), nameless(merge(&exports, &without).unwrap()));
    }

    #[test]
    fn a_conflict_is_told_if_and_only_if_exports_differ(exports in any_exports()) {
        let merged = fresh(&exports);
        let sets = |service: &ServiceSpec| {
            let ports: BTreeSet<_> = service.ports.iter().cloned().collect();
            (ports, ServiceSpec { ports: Vec::new(), ip_families: Vec::new(), ..service.clone() })
        };
        let differ = exports.iter().any(|export| sets(&export.service) != sets(&exports[0].service));
        let told = merged.conflicts.iter().any(|conflict| conflict.kind != ConflictKind::IpFamily);
        prop_assert_eq!(differ, told);
        prop_assert_eq!(merged.condition().status, !merged.conflicts.is_empty());
    }

    #[test]
    fn a_conflict_names_who_disagrees_with_the_winner(exports in any_exports()) {
        let merged = fresh(&exports);
        for conflict in &merged.conflicts {
            prop_assert!(!conflict.disagreeing.contains(&conflict.winner));
            prop_assert!(conflict.disagreeing.iter().all(|cluster| merged.clusters.contains_key(cluster)));
            prop_assert_eq!(conflict.of, exports.len());
            let counts = format!(" {}/{} clusters disagree.", conflict.disagreeing.len(), conflict.of);
            prop_assert!(conflict.message.contains(&counts), "{}", conflict.message);
        }
        prop_assert!(merged.conflicts.is_sorted_by_key(|conflict| conflict.kind));
    }

    #[test]
    fn an_import_and_what_it_tells_are_enough_to_serve_the_same(
        exports in any_exports(), accepted in any_accepted(), wanted in vec(any_port(), 0..5),
    ) {
        let merged = merge(&exports, &accepted).unwrap();
        let template = Template { service_type: ServiceType::ClusterSetIp, ports: wanted };
        let import = import(&template, Some(&merged));
        let written = imported::write_told(&import.told());
        let annotations = written.map(|text| (annotation::SERVED_PORTS.to_owned(), text)).into_iter().collect();
        for export in &exports {
            let told = imported::read_told(&annotations, &export.cluster);
            let again = fitted_to(&import.service.ports, &export.service.ports, told.as_ref());
            prop_assert_eq!(imported::served(&again), imported::served(&import.clusters[&export.cluster]));
        }
    }

    #[test]
    fn an_import_serves_exactly_its_ports_with_legal_names_and_true_endpoints(
        exports in any_exports(), accepted in any_accepted(), wanted in vec(any_port(), 1..5),
    ) {
        let merged = merge(&exports, &accepted).unwrap();
        let template = Template { service_type: ServiceType::ClusterSetIp, ports: wanted.clone() };
        let import = import(&template, Some(&merged));
        let ports = &import.service.ports;
        prop_assert_eq!(duplicates(ports), []);
        prop_assert!(ports.len() <= 1 || ports.iter().all(|port| port.name.is_named()), "{:?}", ports);
        prop_assert!(ports.iter().all(|port| wanted.iter().any(|wanted| wanted.key == port.key)));
        if duplicates(&wanted).is_empty() {
            prop_assert_eq!(ports.len(), wanted.len());
        }
        for (cluster, exported) in &import.clusters {
            for (key, port) in exported {
                prop_assert!(merged.clusters[cluster].contains_key(key));
                if let Fate::Served(name) = &port.fate {
                    prop_assert!(ports.iter().any(|port| port.key == *key && port.name == *name));
                    prop_assert!(!import.unexported.contains(key));
                }
            }
        }
    }
}
