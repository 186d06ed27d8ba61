//! What an import serves of this cluster's own endpoints, where a cluster imports what it exports.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};

use super::{export::exported, service::is_headless};
use crate::{
    api::{
        ServiceImport,
        mcs::{self, ServiceImportSpec},
        names::kubernetes,
    },
    decide::{
        ids::{ClusterName, PortName, ServiceKey},
        imported::{Place, Served, render},
        merge::{ServiceSpec, ServiceType},
        ports::PortKey,
    },
};

/// Under which names this cluster's ports are served: a port is one of the import's if it has its protocol and number and not the name
/// of another one, as where the hub fits a merged service to a template. A port that the derived Service still has under the name
/// before is served under both: the Service changes only then.
pub fn served(own: &ServiceSpec, import: &ServiceImportSpec, derived: Option<&Service>) -> Served {
    let imported: Vec<(PortKey, PortName)> = import.ports.iter().filter_map(port).collect();
    let before: Vec<_> = derived.map(|derived| exported(derived).ports).unwrap_or_default();
    let taken = |name: &PortName| imported.iter().any(|(_, other)| other == name);
    let ports = own.ports.iter().filter_map(|port| {
        let (_, name) = imported.iter().find(|(key, _)| *key == port.key)?;
        let redefined =
            imported.iter().any(|(key, name)| name.is_named() && *name == port.name && *key != port.key);
        let old = before.iter().find(|old| old.key == port.key && !taken(&old.name));
        let names = [Some(name.clone()), old.map(|old| old.name.clone())];
        (!redefined).then(|| ((port.name.clone(), port.key.protocol), names.into_iter().flatten().collect()))
    });
    ports.collect()
}

fn port(port: &mcs::ServicePort) -> Option<(PortKey, PortName)> {
    let number = u16::try_from(port.port).ok()?;
    let protocol = port.protocol.as_deref().map_or(Ok(Default::default()), str::parse).ok()?;
    let name = port.name.as_deref().unwrap_or_default().parse().ok()?;
    Some((PortKey { port: number, protocol }, name))
}

/// Whether an import has endpoints of this cluster: the hub says so on it.
pub fn is_source(import: &ServiceImport, cluster: &ClusterName) -> bool {
    let clusters = import.status.iter().flat_map(|status| &status.clusters);
    clusters.into_iter().any(|source| source.cluster == cluster.as_str())
}

/// The imported slices of this cluster's own endpoints.
pub fn imported(
    key: &ServiceKey,
    cluster: &ClusterName,
    derived: &Service,
    own: &ServiceSpec,
    import: &ServiceImportSpec,
    sources: &[EndpointSlice],
) -> Vec<EndpointSlice> {
    let service = ServiceSpec {
        service_type: if is_headless(import) { ServiceType::Headless } else { ServiceType::ClusterSetIp },
        traffic_distribution: import.traffic_distribution.as_deref().map(Into::into),
        ..ServiceSpec::default()
    };
    let place = Place {
        key,
        cluster,
        derived: derived.metadata.name.as_deref().unwrap_or_default(),
        writer: kubernetes::MANAGED_BY_AGENT,
        own: true,
        service: &service,
        served: &served(own, import, Some(derived)),
    };
    sources.iter().map(|source| render(source, &place)).collect()
}
