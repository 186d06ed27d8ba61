//! An imported slice: what one source slice of one cluster becomes where the service is imported.
//!
//! Port names are mapped here, once, from the names of the exporting cluster's Service to the merged ones. The hub renders the slices of
//! other clusters, an agent those of its own cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice, ForZone};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::{
    derived::slice_name,
    ids::{ClusterName, PortName, ServiceKey},
    merge::{Fate, PortMap, ServiceSpec, ServiceType},
    ports::{PortKey, Protocol},
    select::labels::value_fault,
};
use crate::api::names::{annotation, kubernetes, mcs};

/// Under which names the endpoints of a port are served, by the name and protocol that it has in its cluster. While a port is renamed
/// there are two.
pub type Served = BTreeMap<(PortName, Protocol), Vec<PortName>>;

/// The zone that endpoints are hinted for whose own is not known. It is nobody's: kube-proxy heeds no hint of a service while a single
/// endpoint has none.
const NO_ZONE: &str = "unknown.tombolo.dev";

/// What a source slice is rendered for.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The service.
    pub key: &'a ServiceKey,
    /// The cluster that the source slice is from.
    pub cluster: &'a ClusterName,
    /// The derived Service in the importing cluster.
    pub derived: &'a str,
    /// Who writes the slice.
    pub writer: &'a str,
    /// Whether the importing cluster is the exporting one: only there a node's name means something.
    pub own: bool,
    /// The service as it is imported.
    pub service: &'a ServiceSpec,
    /// Its port names.
    pub served: &'a Served,
}

/// The names under which a cluster's ports are served.
pub fn served(ports: &PortMap) -> Served {
    let served = ports.iter().filter_map(|(key, port)| match &port.fate {
        Fate::Served(name) => Some(((port.name.clone(), key.protocol), vec![name.clone()])),
        Fate::Withheld(_) => None,
    });
    served.collect()
}

/// The ports that an import serves of clusters as the annotation [`annotation::SERVED_PORTS`] has it; none where there is nothing to tell.
pub fn write_told(told: &BTreeMap<&ClusterName, BTreeSet<PortKey>>) -> Option<String> {
    let told = told.iter().map(|(cluster, ports)| {
        let ports = ports.iter().map(|key| json!([key.port, key.protocol.to_string()]));
        (cluster.to_string(), Value::Array(ports.collect()))
    });
    let told: serde_json::Map<_, _> = told.collect();
    (!told.is_empty()).then(|| Value::Object(told).to_string())
}

/// The ports that an import with these annotations serves of a cluster, where it tells.
pub fn read_told(annotations: &BTreeMap<String, String>, cluster: &ClusterName) -> Option<BTreeSet<PortKey>> {
    let text = annotations.get(annotation::SERVED_PORTS)?;
    let mut told: BTreeMap<String, Vec<(u16, String)>> = serde_json::from_str(text).ok()?;
    let ports = told.remove(cluster.as_str())?.into_iter();
    ports.map(|(port, protocol)| Some(PortKey { port, protocol: protocol.parse().ok()? })).collect()
}

/// What a source slice becomes. It has the name that [`slice_name`] gives it and no more metadata than labels.
pub fn render(source: &EndpointSlice, place: &Place<'_>) -> EndpointSlice {
    let Place { key, cluster, derived, writer, service, .. } = place;
    let mut labels = BTreeMap::from([
        (mcs::SERVICE_NAME.to_owned(), key.name.to_string()),
        (mcs::SOURCE_CLUSTER.to_owned(), cluster.to_string()),
        (kubernetes::SERVICE_NAME.to_owned(), (*derived).to_owned()),
        (kubernetes::MANAGED_BY.to_owned(), (*writer).to_owned()),
    ]);
    if service.service_type == ServiceType::Headless {
        labels.insert(kubernetes::HEADLESS.to_owned(), String::new());
    }
    let source_ports = source.ports.as_deref().unwrap_or_default();
    let ports: Vec<_> = source_ports.iter().flat_map(|port| ports(port, place.served)).collect();
    // Endpoints none of whose ports are served are not found by DNS either.
    let withheld = ports.is_empty() && !source_ports.is_empty();
    let endpoints =
        source.endpoints.iter().filter(|_| !withheld).map(|endpoint| self::endpoint(endpoint, place));
    EndpointSlice {
        metadata: ObjectMeta {
            namespace: Some(key.namespace.to_string()),
            name: Some(slice_name(key, cluster, source.metadata.name.as_deref().unwrap_or_default())),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        address_type: source.address_type.clone(),
        endpoints: endpoints.collect(),
        ports: Some(ports),
    }
}

fn ports(port: &EndpointPort, served: &Served) -> Vec<EndpointPort> {
    let name: Result<PortName, _> = port.name.as_deref().unwrap_or_default().parse();
    let protocol: Result<Protocol, _> = port.protocol.as_deref().unwrap_or("TCP").parse();
    let (Ok(name), Ok(protocol)) = (name, protocol) else { return Vec::new() };
    let names = served.get(&(name, protocol)).map(Vec::as_slice).unwrap_or_default();
    names.iter().map(|name| EndpointPort { name: Some(name.to_string()), ..port.clone() }).collect()
}

fn endpoint(endpoint: &Endpoint, place: &Place<'_>) -> Endpoint {
    let zone = endpoint.zone.clone();
    // API servers take more for a zone than for a hint of one, and refuse the whole slice.
    let hinted = zone.clone().filter(|zone| !zone.is_empty() && value_fault(zone).is_none());
    let hints = place.service.traffic_distribution.as_ref().map(|_| EndpointHints {
        for_zones: Some(vec![ForZone { name: hinted.unwrap_or_else(|| NO_ZONE.to_owned()) }]),
        ..EndpointHints::default()
    });
    Endpoint {
        addresses: endpoint.addresses.clone(),
        conditions: endpoint.conditions.clone(),
        hostname: endpoint.hostname.clone(),
        node_name: endpoint.node_name.clone().filter(|_| place.own),
        zone,
        hints,
        ..Endpoint::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::ObjectReference, discovery::v1::EndpointConditions};

    use super::*;
    use crate::decide::{
        merge::{AcceptedNames, Export, ExportedPort, Withheld, merge},
        ports::tests::ports as ports_of,
    };

    fn source() -> EndpointSlice {
        let port = |name: &str, port| EndpointPort {
            name: Some(name.to_owned()),
            port: Some(port),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        };
        EndpointSlice {
            metadata: ObjectMeta { name: Some("serve-source-a".to_owned()), ..ObjectMeta::default() },
            address_type: "IPv4".to_owned(),
            endpoints: vec![Endpoint {
                addresses: vec!["10.1.0.5".to_owned()],
                conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
                hostname: Some("web-0".to_owned()),
                node_name: Some("node-a".to_owned()),
                zone: Some("zone-a".to_owned()),
                target_ref: Some(ObjectReference::default()),
                ..Endpoint::default()
            }],
            ports: Some(vec![port("a", 8080), port("b", 8081)]),
        }
    }

    fn ports(entries: &[(&str, u16, Option<&str>)]) -> PortMap {
        let entries = entries.iter().map(|(name, port, served)| {
            let key = PortKey { port: *port, protocol: Protocol::Tcp };
            let fate = served
                .map_or(Fate::Withheld(Withheld::NotImported), |name| Fate::Served(name.parse().unwrap()));
            (key, ExportedPort { name: name.parse().unwrap(), fate })
        });
        entries.collect()
    }

    fn rendered(map: &PortMap, own: bool, service: &ServiceSpec) -> EndpointSlice {
        rendered_of(&source(), map, own, service)
    }

    fn rendered_of(source: &EndpointSlice, map: &PortMap, own: bool, service: &ServiceSpec) -> EndpointSlice {
        let key = ServiceKey::parse("shop", "serve").unwrap();
        let place = Place {
            key: &key,
            cluster: &"member1".parse().unwrap(),
            derived: "derived-serve",
            writer: "hub.tombolo.dev",
            own,
            service,
            served: &served(map),
        };
        render(source, &place)
    }

    fn names(slice: &EndpointSlice) -> Vec<(&str, i32)> {
        let ports = slice.ports.iter().flatten();
        ports.map(|port| (port.name.as_deref().unwrap(), port.port.unwrap())).collect()
    }

    /// The slice of a cluster that calls 80 `a` and 81 `b` beside what others export, from the oldest on.
    fn merged_with(older: &str, younger: &str) -> EndpointSlice {
        let all = [("older", older), ("member1", "a 80/TCP, b 81/TCP"), ("younger", younger)];
        let exports = all.into_iter().zip(1..).map(|((cluster, ports), second)| Export {
            created: k8s_openapi::jiff::Timestamp::from_second(second).unwrap().into(),
            cluster: cluster.parse().unwrap(),
            service: ServiceSpec { ports: ports_of(ports), ..ServiceSpec::default() },
        });
        let merged = merge(&exports.collect::<Vec<_>>(), &AcceptedNames::new()).unwrap();
        rendered(&merged.clusters["member1"], false, &merged.service)
    }

    #[test]
    fn a_port_has_the_name_that_others_give_its_number_and_never_that_of_another_port() {
        let slice = merged_with("http 80/TCP", "a 82/TCP");
        assert_eq!(names(&slice), [("http", 8080), ("b", 8081)]);
    }

    #[test]
    fn names_that_swap_between_clusters_lead_to_the_older_clusters_pods_only() {
        let slice = merged_with("b 80/TCP, a 81/TCP", "");
        assert!(names(&slice).is_empty() && slice.endpoints.is_empty());
        let slice = merged_with("", "b 80/TCP, a 81/TCP");
        assert_eq!(names(&slice), [("a", 8080), ("b", 8081)]);
    }

    #[test]
    fn a_port_that_lost_the_merge_is_withheld_and_the_others_are_served() {
        let one = ports(&[("a", 80, Some("a")), ("b", 81, None)]);
        let slice = rendered(&one, false, &ServiceSpec::default());
        assert_eq!(names(&slice), [("a", 8080)]);
        assert_eq!(slice.endpoints.len(), 1);
        let none = ports(&[("a", 80, None), ("b", 81, None)]);
        let slice = rendered(&none, false, &ServiceSpec::default());
        assert!(names(&slice).is_empty() && slice.endpoints.is_empty());
    }

    #[test]
    fn conditions_hostname_and_zone_survive_and_a_nodes_name_only_at_home() {
        let map = ports(&[("a", 80, Some("a")), ("b", 81, Some("b"))]);
        for own in [false, true] {
            let slice = rendered(&map, own, &ServiceSpec::default());
            let endpoint = &slice.endpoints[0];
            assert_eq!(endpoint.hostname.as_deref(), Some("web-0"));
            assert_eq!(endpoint.zone.as_deref(), Some("zone-a"));
            assert_eq!(endpoint.conditions.as_ref().unwrap().ready, Some(true));
            assert_eq!(endpoint.node_name.is_some(), own);
            assert!(endpoint.target_ref.is_none() && endpoint.hints.is_none());
        }
    }

    #[test]
    fn zone_hints_are_set_where_traffic_distribution_is() {
        let near = ServiceSpec { traffic_distribution: Some("PreferClose".into()), ..ServiceSpec::default() };
        let slice = rendered(&ports(&[("a", 80, Some("a"))]), false, &near);
        let hints = slice.endpoints[0].hints.as_ref().unwrap();
        assert_eq!(hints.for_zones.as_ref().unwrap()[0].name, "zone-a");
    }

    #[test]
    fn an_endpoint_without_a_zone_has_a_hint_too_for_a_zone_that_is_nobodys() {
        let near = ServiceSpec { traffic_distribution: Some("PreferClose".into()), ..ServiceSpec::default() };
        let mut source = source();
        source.endpoints.push(Endpoint { zone: None, ..source.endpoints[0].clone() });
        let slice = rendered_of(&source, &ports(&[("a", 80, Some("a"))]), false, &near);
        let hint =
            |endpoint: &Endpoint| endpoint.hints.clone()?.for_zones?.first().map(|zone| zone.name.clone());
        let hints: Vec<_> = slice.endpoints.iter().map(hint).collect();
        assert_eq!(hints, [Some("zone-a".to_owned()), Some("unknown.tombolo.dev".to_owned())]);
        assert_eq!(slice.endpoints[1].zone, None, "what is not known is not made up");
    }

    #[test]
    fn an_endpoint_whose_zone_no_hint_can_name_is_hinted_for_a_zone_that_is_nobodys() {
        let near = ServiceSpec { traffic_distribution: Some("PreferClose".into()), ..ServiceSpec::default() };
        let mut source = source();
        for zone in ["rack:7/room", ""] {
            source.endpoints[0].zone = Some(zone.to_owned());
            let slice = rendered_of(&source, &ports(&[("a", 80, Some("a"))]), false, &near);
            let hints = slice.endpoints[0].hints.as_ref().unwrap();
            assert_eq!(hints.for_zones.as_ref().unwrap()[0].name, NO_ZONE, "{zone}");
            assert_eq!(slice.endpoints[0].zone.as_deref(), Some(zone));
        }
    }

    #[test]
    fn a_slice_says_where_it_is_from_and_what_it_belongs_to() {
        let headless = ServiceSpec { service_type: ServiceType::Headless, ..ServiceSpec::default() };
        let slice = rendered(&ports(&[("a", 80, Some("a"))]), false, &headless);
        let labels = slice.metadata.labels.unwrap();
        assert_eq!(labels[mcs::SERVICE_NAME], "serve");
        assert_eq!(labels[mcs::SOURCE_CLUSTER], "member1");
        assert_eq!(labels[kubernetes::SERVICE_NAME], "derived-serve");
        assert_eq!(labels[kubernetes::MANAGED_BY], "hub.tombolo.dev");
        assert!(labels.contains_key(kubernetes::HEADLESS));
        assert_eq!(slice.metadata.namespace.as_deref(), Some("shop"));
        assert!(slice.metadata.name.unwrap().starts_with("serve-member1-"));
    }
}
