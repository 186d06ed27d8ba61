//! Spread constraints: how many clusters are chosen, and over how many regions, zones and providers.
//!
//! As in Karmada, the number of clusters is as large as the `cluster` constraint allows, the number of regions, zones or
//! providers as small: at least `minGroups`, more only where that leaves too few clusters. (Karmada works out regions only;
//! zones and providers follow the same rule here.) Every chosen group gets a cluster. Where there is a choice, groups and
//! clusters that already have the object come first, then those whose names sort first, so that what is unrelated
//! changes nothing.
//!
//! One topology constraint is solved exactly. Several at once are searched, provider before region before zone, within
//! a bounded number of steps.

use std::collections::{BTreeMap, BTreeSet};

use super::search::{STEPS, Search};
use crate::{
    api::placement::{SpreadConstraint, SpreadField},
    decide::{
        fault::{Fault, Path, Shown},
        ids::ClusterName,
        select::Member,
    },
};

/// The spread constraints of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    pub(super) clusters: Bounds,
    /// In the order of [`Topology`], each at most once.
    pub(super) topologies: Vec<(Topology, Bounds)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: usize,
    pub(super) max: usize,
}

/// What clusters are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topology {
    Provider,
    Region,
    Zone,
}

/// What one constraint is about.
enum Grouping {
    Clusters,
    Topology(Topology),
}

// === impl Spread ===

impl Spread {
    /// Compiles constraints, none of them meaning none, or reports everything that is wrong with them.
    pub(super) fn compile(
        constraints: &[SpreadConstraint],
        path: &Path<'_>,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        let mut clusters = None;
        let mut topologies = BTreeMap::new();
        for (index, constraint) in constraints.iter().enumerate() {
            let path = path.index(index);
            let bounds = Bounds::compile(constraint, &path, faults);
            let twice = match grouping(constraint, &path, faults) {
                None => false,
                Some(Grouping::Clusters) => clusters.replace(bounds).is_some(),
                Some(Grouping::Topology(topology)) => topologies.insert(topology, bounds).is_some(),
            };
            if twice {
                faults.push(
                    path.field("spreadByField")
                        .fault("another constraint is by the same field; keep one constraint a field"),
                );
            }
        }
        if clusters.is_none() && !topologies.is_empty() {
            faults.push(path.fault(
                "a constraint by cluster must be among them; add spreadByField: cluster with the number of clusters",
            ));
        }
        Some(Self { clusters: clusters?, topologies: topologies.into_iter().collect() })
    }

    /// The field that constraints go by and a cluster does not have.
    pub(super) fn lacking(&self, member: &Member) -> Option<&'static str> {
        let topologies = self.topologies.iter().map(|(topology, _)| topology);
        topologies
            .filter(|topology| topology.values(member).next().is_none())
            .map(|topology| topology.name())
            .next()
    }

    /// Chooses among clusters that all would do, or says why no choice meets the constraints.
    pub(super) fn choose(
        &self,
        pool: &[&Member],
        holding: &BTreeSet<ClusterName>,
    ) -> Result<BTreeSet<ClusterName>, String> {
        if pool.len() < self.clusters.min {
            let (found, min) = (pool.len(), self.clusters.min);
            return Err(format!("at least {min} clusters are asked for, and {found} will do"));
        }
        for (topology, bounds) in &self.topologies {
            let found: BTreeSet<_> = pool.iter().flat_map(|member| topology.values(member)).collect();
            if found.len() < bounds.min {
                let (found, name, min) = (found.len(), topology.name(), bounds.min);
                return Err(format!(
                    "at least {min} {name}s are asked for, and the clusters that will do are in {found}"
                ));
            }
        }
        let mut preferred = pool.to_vec();
        preferred.sort_by_key(|member| (!holding.contains(&member.name), &member.name));
        let mut search = Search::new(self, holding);
        match search.choose(&preferred) {
            Some(targets) => Ok(targets.into_iter().map(|member| member.name.clone()).collect()),
            None if search.gave_up() => {
                Err(format!("no choice that meets all spreadConstraints was found in {STEPS} steps"))
            }
            None => {
                Err(format!("no choice among {} clusters meets all spreadConstraints together", pool.len()))
            }
        }
    }
}

/// What a constraint groups by. It is clusters too if it says nothing.
fn grouping(constraint: &SpreadConstraint, path: &Path<'_>, faults: &mut Vec<Fault>) -> Option<Grouping> {
    if constraint.spread_by_label.is_some() {
        faults.push(path.field("spreadByLabel").fault(
            "clusters are spread by field only; use spreadByField: cluster, region, zone or provider",
        ));
        return None;
    }
    match &constraint.spread_by_field {
        None | Some(SpreadField::Cluster) => Some(Grouping::Clusters),
        Some(SpreadField::Provider) => Some(Grouping::Topology(Topology::Provider)),
        Some(SpreadField::Region) => Some(Grouping::Topology(Topology::Region)),
        Some(SpreadField::Zone) => Some(Grouping::Topology(Topology::Zone)),
        Some(SpreadField::Other(other)) => {
            faults.push(
                path.field("spreadByField").fault(format!(
                    "{} is not known here; use cluster, region, zone or provider",
                    Shown(other)
                )),
            );
            None
        }
    }
}

// === impl Bounds ===

impl Bounds {
    fn compile(constraint: &SpreadConstraint, path: &Path<'_>, faults: &mut Vec<Fault>) -> Self {
        let mut count = |field, value: Option<i64>| {
            let count = value.map(usize::try_from);
            if matches!(count, Some(Err(_))) {
                faults.push(path.field(field).fault("it is less than 0; give the number of groups"));
            }
            count.and_then(Result::ok).filter(|count| *count > 0)
        };
        let min = count("minGroups", constraint.min_groups).unwrap_or(1);
        let max = count("maxGroups", constraint.max_groups).unwrap_or(usize::MAX);
        if max < min {
            faults.push(
                path.field("maxGroups").fault(format!("it is {max}, less than minGroups, which is {min}")),
            );
        }
        Self { min, max }
    }
}

// === impl Topology ===

impl Topology {
    fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Region => "region",
            Self::Zone => "zone",
        }
    }

    /// The groups that a cluster is in: it may be in several zones.
    pub(super) fn values(self, member: &Member) -> impl Iterator<Item = &str> {
        let (one, several) = match self {
            Self::Provider => (member.provider.as_deref(), None),
            Self::Region => (member.region.as_deref(), None),
            Self::Zone => (None, Some(&member.zones)),
        };
        one.into_iter().chain(several.into_iter().flatten().map(String::as_str))
    }
}
