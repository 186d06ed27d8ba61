//! What becomes of the endpoints of exporters that are silent, in words. Whoever reads these words looks here too.

use std::collections::BTreeSet;

use super::{Exchange, summary::listed};
use crate::decide::{
    freshness::Grade,
    ids::{ClusterName, ServiceKey},
};

/// Before the clusters whose endpoints are kept.
const KEPT: &str = "silent, with endpoints as they were last known: ";
/// Before those whose endpoints are not.
const LOST: &str = "lost, not ready where others serve: ";

// === impl Exchange ===

impl Exchange {
    /// Which exporters of a service are silent, and whether their endpoints are kept.
    pub(super) fn silences(&self, key: &ServiceKey, from: &BTreeSet<ClusterName>) -> Vec<String> {
        // Of a cluster that did not answer since a restart only its slices are known.
        let imported = self.services.get(key).into_iter().flat_map(|service| service.imported.values());
        let seen = imported.flat_map(|slices| slices.values()).map(|slice| &slice.cluster);
        let from: BTreeSet<_> = from.iter().chain(seen).collect();
        let silent = from.iter().copied().filter(|name| self.is_silent(name));
        let (lost, kept): (Vec<_>, Vec<_>) =
            silent.partition(|name| self.is_withdrawn(name, from.iter().copied()));
        let told = [(KEPT, kept), (LOST, lost)].into_iter().filter(|(_, names)| !names.is_empty());
        told.map(|(words, names)| format!("{words}{}", listed(names.into_iter()))).collect()
    }

    /// Whether a cluster is silent for so long that its endpoints say so.
    pub(super) fn is_silent(&self, cluster: &ClusterName) -> bool {
        self.grade(cluster) >= Grade::Stale
    }

    /// Whether an exporter's endpoints are not ready where others serve, and there are others who can.
    pub(super) fn is_withdrawn<'a>(
        &self,
        cluster: &ClusterName,
        mut from: impl Iterator<Item = &'a ClusterName>,
    ) -> bool {
        self.grade(cluster) == Grade::Lost && from.any(|other| !self.is_silent(other))
    }
}

/// The exporters whose endpoints are not ready where others serve, by what the hub's ServiceImport says.
pub fn withdrawn(message: &str) -> BTreeSet<&str> {
    let lost = message.split("; ").filter_map(|words| words.strip_prefix(LOST));
    // Of many the last is followed by how many more there are.
    lost.flat_map(|names| names.split(", ")).filter_map(|name| name.split(' ').next()).collect()
}
