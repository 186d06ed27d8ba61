//! What an import serves of this cluster's own endpoints, where a cluster imports what it exports.

use std::time::Duration;

use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    jiff::Timestamp,
};

use super::{export::exported, service::is_headless};
use crate::{
    api::{ServiceImport, mcs, names::kubernetes},
    decide::{
        ids::{ClusterName, ServiceKey},
        imported::{Place, Served, read_told, render},
        merge::{Fate, ServiceSpec, ServiceType, fitted_to},
        ports::{Port, PortKey},
    },
};

/// As long a hub may take until it says of an import that it made of which clusters that is.
const UNSAID: Duration = Duration::from_secs(60);

/// Under which names this cluster's ports are served: as other clusters serve them, where the hub tells which that are or where they fit the
/// import. A port that the derived Service still has under the name before is served under both: the Service changes only then.
pub fn served(
    own: &ServiceSpec,
    import: &ServiceImport,
    cluster: &ClusterName,
    derived: Option<&Service>,
) -> Served {
    let imported: Vec<Port> = import.spec.ports.iter().filter_map(port).collect();
    let told = import.metadata.annotations.as_ref().and_then(|all| read_told(all, cluster));
    let before: Vec<_> = derived.map(|derived| exported(derived).ports).unwrap_or_default();
    let ports = fitted_to(&imported, &own.ports, told.as_ref()).into_iter().filter_map(|(key, port)| {
        let Fate::Served(name) = port.fate else { return None };
        let taken = |old: &&Port| imported.iter().any(|other| other.name == old.name);
        let old = before.iter().find(|old| old.key == key && !taken(old));
        let names = [Some(name), old.map(|old| old.name.clone())];
        Some(((port.name, key.protocol), names.into_iter().flatten().collect()))
    });
    ports.collect()
}

fn port(port: &mcs::ServicePort) -> Option<Port> {
    let number = u16::try_from(port.port).ok()?;
    let protocol = port.protocol.as_deref().map_or(Ok(Default::default()), str::parse).ok()?;
    let name = port.name.as_deref().unwrap_or_default().parse().ok()?;
    Some(Port { name, key: PortKey { port: number, protocol }, app_protocol: None })
}

/// Whether an import has endpoints of this cluster: the hub says so on it.
pub fn is_source(import: &ServiceImport, cluster: &ClusterName) -> bool {
    let clusters = import.status.iter().flat_map(|status| &status.clusters);
    clusters.into_iter().any(|source| source.cluster == cluster.as_str())
}

/// For how long it is not known yet whether an import has endpoints of this cluster: a hub makes it first, and says then of which clusters.
/// None once it said so, or would have.
pub fn unsaid(import: &ServiceImport, now: Timestamp) -> Option<Duration> {
    let said = import.status.as_ref().is_some_and(|status| !status.clusters.is_empty());
    let made = import.metadata.creation_timestamp.as_ref().filter(|_| !said)?.0;
    let left = UNSAID.saturating_sub(Duration::try_from(now.duration_since(made)).unwrap_or_default());
    (!left.is_zero()).then_some(left)
}

/// The imported slices of this cluster's own endpoints.
pub fn imported(
    key: &ServiceKey,
    cluster: &ClusterName,
    derived: &Service,
    own: &ServiceSpec,
    import: &ServiceImport,
    sources: &[EndpointSlice],
) -> Vec<EndpointSlice> {
    let service = ServiceSpec {
        service_type: if is_headless(&import.spec) {
            ServiceType::Headless
        } else {
            ServiceType::ClusterSetIp
        },
        traffic_distribution: import.spec.traffic_distribution.as_deref().map(Into::into),
        ..ServiceSpec::default()
    };
    let place = Place {
        key,
        cluster,
        derived: derived.metadata.name.as_deref().unwrap_or_default(),
        writer: kubernetes::MANAGED_BY_AGENT,
        own: true,
        service: &service,
        served: &served(own, import, cluster, Some(derived)),
    };
    sources.iter().map(|source| render(source, &place)).collect()
}
