//! The search for a choice of clusters that meets all spread constraints: see [`super::spread`].

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::spread::{Bounds, Spread, Topology};
use crate::decide::{ids::ClusterName, select::Member};

/// Choices of groups that are looked at before giving up. One topology constraint needs as many as there are groups.
pub(super) const STEPS: usize = 10_000;

/// A region, zone or provider.
type Group<'a> = (Topology, &'a str);

/// The search, and where it is.
pub(super) struct Search<'a> {
    spread: &'a Spread,
    holding: &'a BTreeSet<ClusterName>,
    steps: usize,
    /// The groups chosen so far. Each must get a cluster.
    chosen: BTreeSet<Group<'a>>,
}

/// The groups of one topology to choose from.
struct Choice<'a> {
    topology: Topology,
    /// The preferred first, each with its number of clusters.
    groups: Vec<(&'a str, usize)>,
    /// How many are to be chosen.
    wanted: usize,
}

// === impl Search ===

impl<'a> Search<'a> {
    pub(super) fn new(spread: &'a Spread, holding: &'a BTreeSet<ClusterName>) -> Self {
        Self { spread, holding, steps: 0, chosen: BTreeSet::new() }
    }

    /// The first choice, by preference, that meets all constraints. The pool is in order of preference.
    pub(super) fn choose(&mut self, pool: &[&'a Member]) -> Option<Vec<&'a Member>> {
        self.topology(0, pool)
    }

    /// Whether there may be a choice that was not looked at.
    pub(super) fn gave_up(&self) -> bool {
        self.steps >= STEPS
    }

    /// Chooses groups of one topology after another, as few as will do, then clusters.
    fn topology(&mut self, level: usize, pool: &[&'a Member]) -> Option<Vec<&'a Member>> {
        let Some(&(topology, bounds)) = self.spread.topologies.get(level) else { return self.pick(pool) };
        let mut sizes: BTreeMap<&'a str, (usize, usize)> = BTreeMap::new();
        for &member in pool {
            for value in topology.values(member) {
                let (held, all) = sizes.entry(value).or_default();
                *held += usize::from(self.holding.contains(&member.name));
                *all += 1;
            }
        }
        let mut order: Vec<_> = sizes.into_iter().collect();
        order.sort_by_key(|(name, (held, _))| (Reverse(*held), *name));
        let groups: Vec<_> = order.into_iter().map(|(name, (_, all))| (name, all)).collect();
        let most = bounds.max.min(groups.len()).min(self.spread.clusters.max);
        let mut choice = Choice { topology, groups, wanted: 0 };
        for wanted in bounds.min..=most {
            choice.wanted = wanted;
            let found = self.groups(level, pool, &choice, &mut Vec::new());
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Chooses the wanted number of groups, by preference, that leave clusters enough.
    fn groups(
        &mut self,
        level: usize,
        pool: &[&'a Member],
        choice: &Choice<'a>,
        taken: &mut Vec<usize>,
    ) -> Option<Vec<&'a Member>> {
        if taken.len() == choice.wanted {
            return self.within(level, pool, choice, taken);
        }
        for next in taken.last().map_or(0, |last| last + 1)..choice.groups.len() {
            self.steps += 1;
            if self.gave_up() {
                return None;
            }
            taken.push(next);
            let enough = choice.most_clusters(taken).is_some_and(|most| most >= self.spread.clusters.min);
            let found = if enough { self.groups(level, pool, choice, taken) } else { None };
            taken.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Goes on with the clusters that are in no other groups than those taken.
    fn within(
        &mut self,
        level: usize,
        pool: &[&'a Member],
        choice: &Choice<'a>,
        taken: &[usize],
    ) -> Option<Vec<&'a Member>> {
        let names: BTreeSet<&'a str> = taken.iter().map(|place| choice.groups[*place].0).collect();
        let inside = |member: &Member| choice.topology.values(member).all(|value| names.contains(value));
        let pool: Vec<&'a Member> = pool.iter().copied().filter(|member| inside(member)).collect();
        let groups: Vec<Group<'a>> = names.iter().map(|name| (choice.topology, *name)).collect();
        self.chosen.extend(&groups);
        let found = self.topology(level + 1, &pool);
        self.chosen.retain(|group| !groups.contains(group));
        found
    }

    /// As many clusters as are allowed, at least one in each chosen group.
    fn pick(&self, pool: &[&'a Member]) -> Option<Vec<&'a Member>> {
        let Bounds { min, max } = self.spread.clusters;
        let (mut rest, mut picked) = (pool.to_vec(), Vec::new());
        let mut uncovered = self.chosen.clone();
        while !uncovered.is_empty() && picked.len() < max {
            let gain =
                |member: &'a Member| groups_of(self.spread, member).filter(|g| uncovered.contains(g)).count();
            let gains = rest.iter().enumerate().map(|(place, member)| (gain(member), Reverse(place)));
            let (1.., Reverse(place)) = gains.max()? else { return None };
            let member = rest.remove(place);
            for group in groups_of(self.spread, member) {
                uncovered.remove(&group);
            }
            picked.push(member);
        }
        let room = max - picked.len();
        picked.extend(rest.into_iter().take(room));
        (uncovered.is_empty() && picked.len() >= min).then_some(picked)
    }
}

/// The groups of all topologies that a cluster is in.
fn groups_of<'a>(spread: &'a Spread, member: &'a Member) -> impl Iterator<Item = Group<'a>> {
    let topologies = spread.topologies.iter().map(|(topology, _)| *topology);
    topologies.flat_map(|topology| topology.values(member).map(move |value| (topology, value)))
}

// === impl Choice ===

impl Choice<'_> {
    /// The most clusters that those taken can be part of a choice with, if there are groups enough for one.
    fn most_clusters(&self, taken: &[usize]) -> Option<usize> {
        let after = taken.last().map_or(0, |last| last + 1);
        let mut others: Vec<usize> = self.groups[after..].iter().map(|(_, size)| *size).collect();
        others.sort_unstable_by_key(|size| Reverse(*size));
        let others = others.get(..self.wanted - taken.len())?;
        Some(taken.iter().map(|place| self.groups[*place].1).chain(others.iter().copied()).sum())
    }
}
