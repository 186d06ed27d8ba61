//! Placement: which clusters get an object, and why the others do not.
//!
//! [`Placement`] is a policy's `placement`, compiled; [`Placement::place`] chooses among the members. In this order,
//! which is that of Karmada's scheduler:
//!
//! 1. A cluster that is leaving gets nothing.
//! 2. `clusterAffinity`, or the first of `clusterAffinities` that will do: one that leaves clusters to choose from which
//!    meet the spread constraints. (Karmada remembers the group it took; here the first that will do is taken each time,
//!    so that things come back when their clusters do.)
//! 3. Taints, unless tolerated. `NoSchedule` keeps objects away that are not there yet, `NoExecute` drives them out too.
//! 4. Spread constraints ([`spread`]).
//!
//! What is already in a cluster is input: it is not driven out by `NoSchedule`, and preferred where there is a choice.
//! A member that is not ready is no special case: its taints say so.

mod compile;
mod search;
pub mod spread;
mod taints;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Toleration;

use self::spread::Spread;
use super::{
    divide::Division,
    ids::ClusterName,
    select::{Clusters, Member, Mismatch},
};

/// A policy's `placement`, compiled. The default is all clusters, each with all replicas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// One without a name for `clusterAffinity`, none for all clusters.
    groups: Vec<Group>,
    tolerations: Vec<Toleration>,
    spread: Option<Spread>,
    /// None: each cluster gets all replicas.
    weights: Option<Vec<Weight>>,
}

/// A group of clusters to choose from.
#[derive(Clone, Debug, Default, PartialEq)]
struct Group {
    name: Option<Arc<str>>,
    clusters: Clusters,
}

/// The weight of some clusters.
#[derive(Clone, Debug, PartialEq)]
struct Weight {
    clusters: Clusters,
    weight: u64,
}

/// The clusters that an object is placed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The clusters.
    pub targets: BTreeSet<ClusterName>,
    /// The group they are of, where the placement has several.
    pub group: Option<Arc<str>>,
    /// The groups before it, with the reason why each would not do.
    pub passed_over: Vec<(Arc<str>, String)>,
    /// All other clusters, with the reason why each was not chosen from that group, or from the first if none would do.
    pub excluded: BTreeMap<ClusterName, Exclusion>,
    /// Why there are no targets though clusters would do: what was placed before stays where it is, as in Karmada. If
    /// this is none and there are no targets, there is no place for the object.
    pub unsatisfied: Option<String>,
}

/// Why a cluster does not get an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// Its Cluster is being deleted.
    Leaving,
    /// The affinity does not select it.
    Affinity(Mismatch),
    /// It has a taint, shown as `key=value:Effect`, that is not tolerated.
    Taint(String),
    /// It does not say of itself what the spread constraints go by.
    Lacks(&'static str),
    /// Others meet the spread constraints, or none can.
    Spread,
}

// === impl Placement ===

impl Placement {
    /// Chooses the clusters of an object that the clusters in `holding` already have.
    pub fn place(&self, members: &BTreeMap<ClusterName, Member>, holding: &BTreeSet<ClusterName>) -> Placed {
        let everywhere = [Group::default()];
        let groups = if self.groups.is_empty() { &everywhere[..] } else { &self.groups };
        let (mut passed_over, mut first, mut unsatisfied) = (Vec::new(), None, None);
        for group in groups {
            let (pool, mut excluded) = self.pool(group, members, holding);
            let why = match self.choose(&pool, holding) {
                Ok(targets) => {
                    let left = pool.iter().filter(|member| !targets.contains(&member.name));
                    excluded.extend(left.map(|member| (member.name.clone(), Exclusion::Spread)));
                    return Placed {
                        targets,
                        group: group.name.clone(),
                        passed_over,
                        excluded,
                        unsatisfied: None,
                    };
                }
                Err(why) => why,
            };
            if !pool.is_empty() && unsatisfied.is_none() {
                unsatisfied = Some(why.clone());
            }
            excluded.extend(pool.iter().map(|member| (member.name.clone(), Exclusion::Spread)));
            first.get_or_insert(excluded);
            passed_over.extend(group.name.clone().map(|name| (name, why)));
        }
        let excluded = first.unwrap_or_default();
        Placed { targets: BTreeSet::new(), group: None, passed_over, excluded, unsatisfied }
    }

    /// Whether it chooses some of the clusters that would do.
    pub fn chooses(&self) -> bool {
        self.spread.is_some()
    }

    /// Whether it may ever choose a member.
    pub fn may_choose(&self, member: &Member) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|group| group.clusters.matches(member))
    }

    /// Whether more would change than these clusters themselves if some of `unread` turned out to have the object too: what is where moves, or
    /// is shared out anew. `placed` is what it chooses by what is known.
    pub fn may_change(
        &self,
        members: &BTreeMap<ClusterName, Member>,
        holding: &BTreeSet<ClusterName>,
        unread: &BTreeSet<ClusterName>,
        placed: &Placed,
    ) -> bool {
        let stays = !holding.is_empty() && placed.targets == *holding;
        let grouped = self.groups.iter().any(|group| group.name.is_some());
        if unread.is_empty() || (self.weights.is_none() && (stays || !(self.chooses() || grouped))) {
            return false;
        }
        let then = self.place(members, &holding.union(unread).cloned().collect());
        let shared_anew = self.weights.is_some() && then.targets != placed.targets;
        // With several of them, any of which may have it, a choice cannot be foreseen.
        shared_anew || (!stays && (self.chooses() || then.group != placed.group))
    }

    /// Whether its choice depends on what is where already.
    pub fn depends_on_holders(&self, members: &BTreeMap<ClusterName, Member>) -> bool {
        self.chooses() || members.values().any(|member| !member.taints.is_empty())
    }

    /// How a workload's replicas are shared out among its clusters.
    ///
    /// The weight of a cluster is the highest that the list has for it (Karmada).
    pub fn division<'a>(&self, targets: impl IntoIterator<Item = &'a Member>) -> Division {
        let Some(weights) = &self.weights else { return Division::Duplicated };
        let weight = |member: &Member| {
            weights.iter().filter(|entry| entry.clusters.matches(member)).map(|entry| entry.weight).max()
        };
        let targets = targets.into_iter();
        Division::Weighted(
            targets.filter_map(|member| Some((member.name.clone(), weight(member)?))).collect(),
        )
    }

    /// The clusters of a group that would do, in the order of their names.
    fn pool<'a>(
        &self,
        group: &Group,
        members: &'a BTreeMap<ClusterName, Member>,
        holding: &BTreeSet<ClusterName>,
    ) -> (Vec<&'a Member>, BTreeMap<ClusterName, Exclusion>) {
        let (mut pool, mut excluded) = (Vec::new(), BTreeMap::new());
        for member in members.values() {
            match self.exclusion(group, member, holding.contains(&member.name)) {
                Some(why) => drop(excluded.insert(member.name.clone(), why)),
                None => pool.push(member),
            }
        }
        (pool, excluded)
    }

    fn exclusion(&self, group: &Group, member: &Member, holds: bool) -> Option<Exclusion> {
        if member.leaving {
            return Some(Exclusion::Leaving);
        }
        if let Some(mismatch) = group.clusters.mismatch(member) {
            return Some(Exclusion::Affinity(mismatch));
        }
        if let Some(taint) = taints::untolerated(&member.taints, &self.tolerations, holds) {
            return Some(Exclusion::Taint(taints::shown(taint)));
        }
        self.spread.as_ref().and_then(|spread| spread.lacking(member)).map(Exclusion::Lacks)
    }

    fn choose(
        &self,
        pool: &[&Member],
        holding: &BTreeSet<ClusterName>,
    ) -> Result<BTreeSet<ClusterName>, String> {
        match &self.spread {
            _ if pool.is_empty() => Err("no cluster will do".to_owned()),
            None => Ok(pool.iter().map(|member| member.name.clone()).collect()),
            Some(spread) => spread.choose(pool, holding),
        }
    }
}

// === impl Exclusion ===

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("the cluster is being removed"),
            Self::Affinity(mismatch) => mismatch.fmt(f),
            Self::Taint(taint) => write!(f, "its taint {taint} is not tolerated"),
            Self::Lacks(field) => write!(f, "its Cluster says no {field}, which spreadConstraints go by"),
            Self::Spread => f.write_str("spreadConstraints leave it out"),
        }
    }
}
