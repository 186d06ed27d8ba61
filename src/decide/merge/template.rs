//! The merged service as a ServiceImport on the hub wants it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    ExportedPort, Fate, Merged, PortMap, ServiceSpec, ServiceType, Withheld,
    names::{NameTable, made_up},
};
use crate::decide::{
    ids::{ClusterName, PortName},
    ports::{Port, PortKey},
};

/// What a ServiceImport on the hub says of the service that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Its type.
    pub service_type: ServiceType,
    /// The ports to serve; none = those of the merge.
    pub ports: Vec<Port>,
}

/// A service as a ServiceImport's importers get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// What they are told.
    pub service: ServiceSpec,
    /// For each exporting cluster what becomes of its ports.
    pub clusters: BTreeMap<ClusterName, PortMap>,
    /// Ports that are served though no cluster has endpoints for them.
    pub unexported: BTreeSet<PortKey>,
    /// A type that the exports do not have.
    pub type_conflict: Option<TypeConflict>,
}

/// A ServiceImport's type that differs from the merged one, which holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeConflict {
    /// The ServiceImport's.
    pub wanted: ServiceType,
    /// The one that holds.
    pub merged: ServiceType,
    /// The cluster of the export that decides it.
    pub oldest: ClusterName,
}

/// Fits a merged service, or one that nobody exports yet, to a ServiceImport.
///
/// The ServiceImport's ports stand above the oldest export: exactly they are served, exported or not, and an exported
/// port is one of them if it has the protocol and port and not the name of another one. A name or application protocol
/// given there wins; one that is not given is the merged one. Everything else is the merge's.
pub fn import(template: &Template, merged: Option<&Merged>) -> Import {
    let wanted = distinct(&template.ports);
    let ports = fitted(&wanted, merged);
    let Some(merged) = merged else {
        let service_type = template.service_type;
        let unexported = ports.iter().map(|port| port.key).collect();
        let service = ServiceSpec { service_type, ports, ..ServiceSpec::default() };
        return Import { service, clusters: BTreeMap::new(), unexported, type_conflict: None };
    };
    let type_conflict = TypeConflict::of(template.service_type, merged);
    if wanted.is_empty() {
        let (service, clusters) = (merged.service.clone(), merged.clusters.clone());
        return Import { service, clusters, unexported: BTreeSet::new(), type_conflict };
    }
    let names: BTreeMap<_, _> = ports.iter().map(|port| (port.key, port.name.clone())).collect();
    let clusters: BTreeMap<_, PortMap> = merged
        .clusters
        .iter()
        .map(|(cluster, ports)| {
            let ports = ports.iter().map(|(key, port)| {
                let fate = match &port.fate {
                    Fate::Withheld(Withheld::Duplicate) => port.fate.clone(),
                    _ => fit(*key, &port.name, &wanted, &names),
                };
                (*key, ExportedPort { name: port.name.clone(), fate })
            });
            (cluster.clone(), ports.collect())
        })
        .collect();
    let served = |key: &PortKey| {
        let mut exported = clusters.values().filter_map(|ports| ports.get(key));
        exported.any(|port| matches!(port.fate, Fate::Served(_)))
    };
    let unexported = names.keys().filter(|key| !served(key)).copied().collect();
    let service = ServiceSpec { ports, ..merged.service.clone() };
    Import { service, clusters, unexported, type_conflict }
}

/// What becomes of the ports of one cluster's Service where exactly a ServiceImport's ports are served, under its names: those
/// are served that it is known to serve ([`Import::told`]), or that fit it where nothing is told.
pub fn fitted_to(imported: &[Port], exported: &[Port], told: Option<&BTreeSet<PortKey>>) -> PortMap {
    let wanted = distinct(imported);
    let names: BTreeMap<_, _> = wanted.iter().map(|port| (port.key, port.name.clone())).collect();
    // Of two entries for one (protocol, port) the first is the port.
    let fits = exported.iter().rev().map(|port| {
        let served = |key| names.contains_key(key) && told.is_some_and(|told| told.contains(key));
        let fate = match told {
            Some(_) if served(&port.key) => Fate::Served(names.name(port.key)),
            Some(_) => Fate::Withheld(Withheld::NotImported),
            None => fit(port.key, &port.name, &wanted, &names),
        };
        (port.key, ExportedPort { name: port.name.clone(), fate })
    });
    fits.collect()
}

/// The ports without those that repeat a name or a (protocol, port), which admission refuses.
fn distinct(ports: &[Port]) -> Vec<&Port> {
    let mut distinct: Vec<&Port> = Vec::new();
    for port in ports {
        let repeats =
            |other: &&Port| other.key == port.key || (other.name.is_named() && other.name == port.name);
        if !distinct.iter().any(repeats) {
            distinct.push(port);
        }
    }
    distinct
}

/// The ports that are served where these are wanted.
fn fitted(wanted: &[&Port], merged: Option<&Merged>) -> Vec<Port> {
    let merged = merged.map_or(&[][..], |merged| &merged.service.ports);
    let several = wanted.len() > 1;
    // Holds the name of the unnamed too, which nobody gets.
    let mut taken: BTreeSet<_> = wanted.iter().map(|port| port.name.clone()).collect();
    let fitted = wanted.iter().map(|port| {
        let exported = merged.iter().find(|exported| exported.key == port.key);
        let merged_name = exported.map(|exported| exported.name.clone()).unwrap_or_default();
        let name = if port.name.is_named() {
            port.name.clone()
        } else if several {
            let mut names = [merged_name].into_iter().chain(made_up(port.key));
            names.find(|name| taken.insert(name.clone())).expect("made-up names do not run out")
        } else {
            merged_name
        };
        let merged_app = || exported.and_then(|exported| exported.app_protocol.clone());
        Port { name, key: port.key, app_protocol: port.app_protocol.clone().or_else(merged_app) }
    });
    fitted.collect()
}

/// What becomes of an exported port of that name where these are wanted and get these names.
fn fit(key: PortKey, name: &PortName, wanted: &[&Port], names: &impl NameTable) -> Fate {
    let namesake = wanted.iter().find(|wanted| wanted.name.is_named() && wanted.name == *name);
    match namesake {
        Some(other) if other.key != key => Fate::Withheld(Withheld::Redefined { port: other.key }),
        _ if wanted.iter().any(|wanted| wanted.key == key) => Fate::Served(names.name(key)),
        _ => Fate::Withheld(Withheld::NotImported),
    }
}

// === impl Import ===

impl Import {
    /// Of each cluster whose ports do not just fit, those that are served: without the exports nobody could tell.
    pub fn told(&self) -> BTreeMap<&ClusterName, BTreeSet<PortKey>> {
        let wanted = distinct(&self.service.ports);
        let names: BTreeMap<_, _> = wanted.iter().map(|port| (port.key, port.name.clone())).collect();
        let is_served = |fate: &Fate| matches!(fate, Fate::Served(_));
        let odd = self.clusters.iter().filter(|(_, ports)| {
            let mut ports = ports.iter();
            ports.any(|(key, port)| {
                is_served(&port.fate) != is_served(&fit(*key, &port.name, &wanted, &names))
            })
        });
        let served = odd.map(|(cluster, ports)| {
            let served = ports.iter().filter(|(_, port)| is_served(&port.fate));
            (cluster, served.map(|(key, _)| *key).collect())
        });
        served.collect()
    }
}

// === impl TypeConflict ===

impl TypeConflict {
    /// A ServiceImport's type against that of the exports, if they differ.
    pub fn of(wanted: ServiceType, merged: &Merged) -> Option<Self> {
        let (holds, oldest) = (merged.service.service_type, &merged.oldest);
        (wanted != holds).then(|| Self { wanted, merged: holds, oldest: oldest.clone() })
    }
}

impl fmt::Display for TypeConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, merged, oldest } = self;
        write!(
            f,
            "Conflicting type. Using \"{merged}\" from oldest service export in \"{oldest}\" instead of \"{wanted}\"."
        )
    }
}
