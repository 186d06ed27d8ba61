//! One service out of its exports in many clusters: the merge of KEP-1645, "Constraints and Conflict Resolution".
//!
//! [`merge`] is the entry; [`import`] fits its result to a ServiceImport that a user wrote. Exports are taken from the
//! oldest to the youngest, by the creation of the ServiceExport and then by cluster name (G2), and the older one wins:
//!
//! - **Fields** (type, affinity, traffic fields, labels, annotations) are the oldest export's (G9–G13). Families are what
//!   the exports have in common (G14).
//! - **Ports** are the union (G5). A port whose name an older export has for another (protocol, port) is *withheld*:
//!   dropped for its cluster, which keeps serving its other ports (G7, G8). Otherwise, where an older export has its
//!   (protocol, port), the two are one port, as the older one defines it; else it is a new one. No name counts as a name,
//!   but an unnamed port looks for its (protocol, port) first, for it says nothing that could contradict.
//! - **Names** are the defining export's; `tcp-80`-style where it has none and there are several ports. They are the only
//!   thing that depends on the past: see [`AcceptedName`].
//! - **Conflicts** are found all at once and are the same for every export of the service (G1).
//!
//! Whether a cluster is unknown, which freezes its services, is decided before: every export given here
//! counts.

mod conflict;
mod families;
mod names;
mod service;
mod template;
#[cfg(test)]
mod tests;
mod union;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

pub use self::{
    conflict::{Condition, Conflict, ConflictKind},
    service::{Created, Export, InternalTrafficPolicy, IpFamily, ServiceSpec, ServiceType, SessionAffinity},
    template::{Import, Template, TypeConflict, fitted_to, import},
};
use self::{names::NameTable, union::Union};
use super::{
    ids::{ClusterName, PortName},
    ports::{Port, PortKey},
};

/// A service merged out of its exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// What its importers are told.
    pub service: ServiceSpec,
    /// The cluster of the oldest export.
    pub oldest: ClusterName,
    /// For each merged port the cluster whose export defines it.
    pub defined_by: BTreeMap<PortKey, ClusterName>,
    /// For each exporting cluster what becomes of its ports.
    pub clusters: BTreeMap<ClusterName, PortMap>,
    /// What the exports disagree on, in the order of [`ConflictKind`].
    pub conflicts: Vec<Conflict>,
    /// For each merged port its name and who gave it, to be handed to the next merge.
    pub accepted: AcceptedNames,
}

/// The name that importers know a port by. To rename a port is work (slices must carry both names for a while), so an
/// accepted name is kept while any export has the port, provided that
///
/// - one that has it calls it so or does not name it; or
/// - the export that gave the name has it no more, and no other port is called so by an export as old as the one that
///   defines this port now, or older.
///
/// So a name outlives its winner, yet the winner may rename its own port, and a name can move from 80 to 8080.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcceptedName {
    /// The name in the ServiceImport.
    pub name: PortName,
    /// The cluster whose export gave it; none if that one has the port no more, or is not known.
    pub given_by: Option<ClusterName>,
}

/// The accepted names of a service's ports.
pub type AcceptedNames = BTreeMap<PortKey, AcceptedName>;

/// What becomes of the ports of one cluster's Service, by the Service's protocol and port. (The pods' target ports are
/// in the slices.)
pub type PortMap = BTreeMap<PortKey, ExportedPort>;

/// What becomes of one exported port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedPort {
    /// Its name in the Service, and so in the source slices.
    pub name: PortName,
    /// What becomes of its endpoints.
    pub fate: Fate,
}

/// What becomes of a cluster's endpoints for one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are served under this name.
    Served(PortName),
    /// They are not served.
    Withheld(Withheld),
}

/// Why endpoints are withheld for a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Withheld {
    /// An older export has its name for another port (KEP-1645 G7).
    Outranked {
        /// The older export's cluster.
        by: ClusterName,
        /// What is called so there.
        port: PortKey,
    },
    /// The ServiceImport on the hub has its name for another port.
    Redefined {
        /// What is called so there.
        port: PortKey,
    },
    /// The ServiceImport on the hub does not list it.
    NotImported,
    /// An earlier port of its own Service has its name. No API server stores that; a member may send it nevertheless.
    Duplicate,
}

/// Merges the exports of one service; none if there are none. Every importer gets the same (KEP-1645 G16), whatever the
/// order of the exports.
pub fn merge(exports: &[Export], accepted: &AcceptedNames) -> Option<Merged> {
    let exports = by_age(exports);
    let oldest = *exports.first()?;
    let union = Union::of(&exports);
    let accepted = names::assign(&exports, &union, accepted);
    let ports: Vec<_> = union.ports.iter().map(|port| named(port.definition, &accepted)).collect();
    let families = families::common(&exports);
    let conflicts = conflict::find(&exports, &union, &ports, &families);

    let defined_by = union.ports.iter().map(|port| {
        let definer = exports[port.definer()];
        (port.definition.key, definer.cluster.clone())
    });
    let defined_by = defined_by.collect();
    let clusters = exports.iter().zip(&union.verdicts).map(|(export, verdicts)| {
        let ports = verdicts.iter().map(|(key, verdict)| (*key, verdict.exported(*key, &accepted)));
        (export.cluster.clone(), ports.collect())
    });
    let clusters = clusters.collect();
    let service = ServiceSpec { ports, ip_families: families.common, ..oldest.service.clone() };
    Some(Merged { service, oldest: oldest.cluster.clone(), defined_by, clusters, conflicts, accepted })
}

/// The exports from the oldest to the youngest, one a cluster (KEP-1645 G2).
fn by_age(exports: &[Export]) -> Vec<&Export> {
    let mut exports: Vec<_> = exports.iter().collect();
    exports.sort_unstable();
    let mut seen = BTreeSet::new();
    exports.retain(|export| seen.insert(&export.cluster));
    exports
}

fn named(definition: &Port, names: &impl NameTable) -> Port {
    Port { name: names.name(definition.key), ..definition.clone() }
}

// === impl Merged ===

impl Merged {
    /// The condition `Conflict` that all exports of the service get (KEP-1645 G1, G15).
    pub fn condition(&self) -> Condition {
        Condition::of(&self.conflicts)
    }
}

// === impl Withheld ===

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outranked { by, port } => {
                write!(f, "its name is {port} in the older service export of \"{by}\"")
            }
            Self::Redefined { port } => write!(f, "its name is {port} in the ServiceImport on the hub"),
            Self::NotImported => f.write_str("the ServiceImport on the hub does not list it"),
            Self::Duplicate => f.write_str("its own Service has the name twice"),
        }
    }
}
