//! The families that all exports have in common (KEP-1645 G14).

use super::{Export, IpFamily};

/// The outcome for the families.
pub(super) struct Families {
    /// The common ones, in the order of the leader.
    pub(super) common: Vec<IpFamily>,
    /// The oldest export whose families are known.
    pub(super) leader: usize,
    /// The exports that lack the first of them, or all: by that family nobody reaches their pods.
    pub(super) apart: Vec<usize>,
}

/// What the exports have in common, from the oldest on. One that lacks the leader's first family is left aside, and that
/// is a conflict: importers have an address of that family for life, so a younger export takes it from nobody (G3).
///
/// Other families that only some have are given up, and so no conflict: through the common ones all pods are reached.
pub(super) fn common(exports: &[&Export]) -> Families {
    let mut families = Families { common: Vec::new(), leader: 0, apart: Vec::new() };
    for (index, export) in exports.iter().enumerate() {
        let offered = &export.service.ip_families;
        if offered.is_empty() {
            continue;
        }
        if families.common.is_empty() {
            (families.common, families.leader) = (unique(offered), index);
            continue;
        }
        let both: Vec<_> =
            families.common.iter().copied().filter(|family| offered.contains(family)).collect();
        if both.first() == families.common.first() {
            families.common = both;
        } else {
            families.apart.push(index);
        }
    }
    families
}

/// Without repetitions (KEP-1645 E5).
fn unique(families: &[IpFamily]) -> Vec<IpFamily> {
    let mut unique = Vec::new();
    for family in families {
        if !unique.contains(family) {
            unique.push(*family);
        }
    }
    unique
}
