//! How much is known of members' services: for metrics, and for telling whether two replicas see the same.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{Exchange, Part, Service, seen::ExportSeen};
use crate::{
    api::names::condition,
    decide::{freshness::Mark, ids::ClusterName, sum::Sum},
};

/// How much is known of members' services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Services that anything is known of.
    pub services: usize,
    /// Those whose exporting clusters do not agree.
    pub conflicts: usize,
    /// Imported slices of a silent cluster, in all members.
    pub stale: BTreeMap<(ClusterName, Mark), usize>,
    /// What is kept of each member.
    pub members: BTreeMap<ClusterName, BTreeMap<Part, Sum>>,
}

/// What is kept of a source slice has no version: its addresses and ports tell it from another.
struct Source<'a>(&'a EndpointSlice);

// === impl Exchange ===

impl Exchange {
    /// How much is known, counted in one go.
    pub fn tally(&self) -> Tally {
        let known = self.members.iter().map(|(name, member)| {
            let namespaces = (Part::Namespaces, Sum::of(&member.namespaces));
            (name.clone(), BTreeMap::from([namespaces]))
        });
        let mut tally = Tally { services: self.services.len(), members: known.collect(), ..Tally::default() };
        for (key, service) in &self.services {
            tally.conflicts += usize::from(service.exports.values().any(conflicts));
            for (cluster, seen) in &service.exports {
                tally.add(cluster, Part::Exports, &(key, &seen.uid, seen.resource_version));
            }
            for (cluster, seen) in &service.imports {
                tally.add(cluster, Part::Imports, &(key, &seen.uid, seen.resource_version));
            }
            for (cluster, slices) in &service.sources {
                slices
                    .iter()
                    .for_each(|(name, slice)| tally.add(cluster, Part::Sources, &(key, name, Source(slice))));
            }
            for (cluster, slices) in &service.imported {
                let said = slices.values().map(|seen| (&seen.uid, &seen.resource_version));
                said.for_each(|said| tally.add(cluster, Part::Imported, &said));
            }
            tally.count_stale(service);
        }
        tally
    }
}

// === impl Tally ===

impl Tally {
    fn add(&mut self, cluster: &ClusterName, part: Part, object: &impl Hash) {
        self.members.entry(cluster.clone()).or_default().entry(part).or_default().add(object);
    }

    fn count_stale(&mut self, service: &Service) {
        for seen in service.imported.values().flat_map(BTreeMap::values) {
            if let Some(mark) = seen.mark {
                *self.stale.entry((seen.cluster.clone(), mark)).or_default() += 1;
            }
        }
    }
}

// === impl Source ===

impl Hash for Source<'_> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for endpoint in &self.0.endpoints {
            let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
            (&endpoint.addresses, ready).hash(to);
        }
        let ports = self.0.ports.iter().flatten();
        ports.for_each(|port| (&port.name, port.port, &port.protocol).hash(to));
    }
}

fn conflicts(export: &ExportSeen) -> bool {
    let mut all = export.conditions.iter();
    all.any(|said| said.type_ == condition::CONFLICT && said.status == "True")
}
