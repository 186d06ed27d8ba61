//! What became of a policy, for its status.

use std::collections::{BTreeMap, BTreeSet};

use super::{Assignment, Held, World, assign::exchanged};
use crate::{
    api::{
        names::reason,
        propagation::{ClusterOutcome, Failure, PolicyStatus},
    },
    decide::{
        copy::{ObjectKey, may_be_named},
        ids::ClusterName,
        policies::PolicyKey,
        select::GroupKind,
        view::View,
    },
};

/// What could not be written, by cluster and object, in the cluster's own words.
pub type Failures = BTreeMap<ClusterName, BTreeMap<ObjectKey, String>>;

/// The kinds whose templates the hub cannot see.
pub type Unseen = BTreeMap<GroupKind, Reason>;

/// As many failures are told one by one of a policy: its status is one object.
const TOLD: usize = 100;

/// Why the hub cannot see templates of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its API server does not have the kind.
    NotServed,
    /// It lacks the right.
    Forbidden,
}

/// What became of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How many objects it holds for.
    pub matched: i32,
    /// What each cluster made of it.
    pub clusters: Vec<ClusterOutcome>,
    /// Whether everything is where it should be.
    pub propagated: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, in words.
    pub message: String,
}

// === impl World ===

impl World {
    /// Whether enough is known to tell what became of a policy: all templates of its kinds, and what is in the clusters that they
    /// are assigned to. Clusters that are out of reach are not waited for.
    pub fn can_tell(
        &self,
        view: &View,
        policy: &PolicyKey,
        unseen: &Unseen,
        unreachable: &BTreeSet<ClusterName>,
    ) -> bool {
        let selectors =
            view.propagations().get(policy).into_iter().flat_map(|policy| policy.selectors.iter());
        let mut kinds = selectors.map(|selector| &selector.kind);
        let is_known = |key: &ObjectKey| {
            let Some(assignment) = self.assigned.get(key) else { return true };
            assignment
                .targets
                .keys()
                .all(|cluster| self.known.contains(cluster) || unreachable.contains(cluster))
                && assignment
                    .awaits
                    .iter()
                    .all(|cluster| self.is_read(cluster, &key.kind) || unreachable.contains(cluster))
        };
        kinds.all(|kind| unseen.contains_key(kind) || self.kinds.get(kind).is_some_and(|kind| kind.synced))
            && self.held_by(policy).all(is_known)
    }

    /// What became of a policy. Who has a ServiceImport is asked for, since the exchange of services writes these.
    pub fn outcome(
        &self,
        view: &View,
        policy: &PolicyKey,
        failures: &Failures,
        unseen: &Unseen,
        imported: impl Fn(&ClusterName, &ObjectKey) -> bool,
    ) -> Outcome {
        let keys: Vec<&ObjectKey> = self.held_by(policy).collect();
        let matched = i32::try_from(keys.len()).unwrap_or(i32::MAX);
        let mut clusters: BTreeMap<&ClusterName, ClusterOutcome> = BTreeMap::new();
        let (mut wanted, mut told, mut waits, mut unplaced) = (0, 0, None, None);
        let (mut stuck, mut along) = (BTreeSet::new(), BTreeSet::new());
        let mut tell = |outcome: &mut ClusterOutcome, key: &ObjectKey, failure: &str| {
            outcome.message.get_or_insert_with(|| shortened(format!("{key}: {failure}")));
            if told < TOLD {
                told += 1;
                let (object, message) = (key.to_string(), shortened(failure.to_owned()));
                outcome.failures.push(Failure { object, message });
            }
        };
        for key in keys {
            let Some(assignment) = self.assigned.get(key) else { continue };
            stuck.extend(self.stuck(key, assignment, failures));
            along.extend(self.named_in_vain(key, assignment, failures));
            let why = |why: &Option<String>| why.as_ref().map(|why| format!("{key}: {why}"));
            unplaced = unplaced.or_else(|| why(&assignment.unplaced));
            waits = waits.or_else(|| why(&assignment.waits));
            for cluster in assignment.targets.keys() {
                wanted += 1;
                let outcome = clusters.entry(cluster).or_insert_with(|| nothing_of(cluster));
                *outcome.wanted.get_or_insert_default() += 1;
                let held_back = view.members().get(cluster).and_then(|member| assignment.held_back(member));
                waits = waits.or_else(|| why(&held_back));
                if let Some(failure) = failures.get(cluster).and_then(|failures| failures.get(key)) {
                    outcome.failed += 1;
                    tell(outcome, key, failure);
                } else if self.held.get(key).is_some_and(|held| held.contains_key(cluster))
                    || (exchanged(&key.kind) && imported(cluster, key))
                {
                    outcome.applied += 1;
                }
            }
        }
        let (applied, failed) =
            clusters.values().fold((0, 0), |(a, f), outcome| (a + outcome.applied, f + outcome.failed));
        for (cluster, key, failure) in &along {
            let outcome = clusters.entry(cluster).or_insert_with(|| nothing_of(cluster));
            *outcome.wanted.get_or_insert_default() += 1;
            outcome.failed += 1;
            tell(outcome, key, failure);
        }
        // Told last, and counted nowhere: they are none of what is to be there.
        for (cluster, key, failure) in &stuck {
            let outcome = clusters.entry(cluster).or_insert_with(|| nothing_of(cluster));
            outcome.wanted.get_or_insert_default();
            tell(outcome, key, failure);
        }
        let failed = [
            (failed > 0).then(|| format!("{failed} of {wanted} could not be written")),
            (!along.is_empty()).then(|| format!("{} that they name could not be written", along.len())),
            (!stuck.is_empty())
                .then(|| format!("{} could not be removed where they should not be", stuck.len())),
        ];
        let failed: Vec<String> = failed.into_iter().flatten().collect();
        let faults = view.propagations().faults(policy);
        let blind = blind(view, policy, unseen);
        let (propagated, reason, message) = if let Some(fault) = faults.first() {
            (false, reason::INVALID, format!("it takes no part: {fault}"))
        } else if !failed.is_empty() {
            (false, reason::FAILED, failed.join(", "))
        } else if let Some((kind, why)) = blind {
            why.told(kind)
        } else if let Some(why) = waits {
            (false, reason::HELD_BACK, why)
        } else if let Some(why) = unplaced {
            (false, reason::UNPLACED, why)
        } else if applied < wanted {
            (false, reason::PENDING, format!("{applied} of {wanted} are where they should be"))
        } else if matched == 0 {
            (true, reason::NOTHING_SELECTED, "it holds for no object yet".to_owned())
        } else {
            (true, reason::PROPAGATED, format!("all {wanted} are where they should be"))
        };
        Outcome {
            matched,
            clusters: clusters.into_values().collect(),
            propagated,
            reason,
            message: shortened(message),
        }
    }
}

/// A cluster, an object and why that is not as it should be there.
type Amiss<'a> = (&'a ClusterName, &'a ObjectKey, &'a String);

// === impl World ===

impl World {
    /// The policies whose outcome an object is part of: the one that holds for it, and those of what names it.
    pub fn policies_of(&self, key: &ObjectKey) -> BTreeSet<PolicyKey> {
        let named_by = self.dependents.get(key).into_iter().flatten();
        let assigned = std::iter::once(key).chain(named_by).filter_map(|key| self.assigned.get(key));
        assigned.filter_map(|assignment| assignment.policy.clone()).collect()
    }

    /// Where a copy cannot be removed that should be nowhere but in its targets.
    fn stuck<'a>(
        &'a self,
        key: &'a ObjectKey,
        assignment: &'a Assignment,
        failures: &'a Failures,
    ) -> impl Iterator<Item = Amiss<'a>> {
        // What is frozen stays where it is, and so does what something there names.
        let stays = |cluster: &ClusterName, held: &Held| match held.dependency {
            true => self.is_named_in(cluster, key),
            false => assignment.frozen,
        };
        let elsewhere = self.held.get(key).into_iter().flatten().filter(move |(cluster, held)| {
            !assignment.targets.contains_key(*cluster) && !stays(cluster, held)
        });
        elsewhere.filter_map(move |(cluster, _)| Some((cluster, key, failures.get(cluster)?.get(key)?)))
    }

    /// Where what an object names does not get to, of what no policy of its own tells of.
    fn named_in_vain<'a>(
        &'a self,
        key: &ObjectKey,
        assignment: &'a Assignment,
        failures: &'a Failures,
    ) -> impl Iterator<Item = Amiss<'a>> {
        let along = assignment.says.as_ref().is_some_and(|says| says.propagate_deps);
        let named = self.templates.get(key).filter(|_| along).map(|template| &*template.dependencies);
        let own = |key: &ObjectKey| self.assigned.get(key).is_some_and(|theirs| theirs.policy.is_some());
        let named = named.unwrap_or_default().iter().filter(move |key| !own(key));
        named.flat_map(move |key| {
            let targets = assignment.targets.keys();
            targets.filter_map(move |cluster| Some((cluster, key, failures.get(cluster)?.get(key)?)))
        })
    }

    /// Whether an object has no template that could tell of it. A ServiceImport needs none: many are imported without.
    pub fn is_orphan(&self, key: &ObjectKey) -> bool {
        !exchanged(&key.kind) && !self.templates.contains_key(key)
    }

    /// Whether an object has neither a template nor a policy that could tell of it, so that its Cluster has to.
    pub fn is_told_by_none(&self, key: &ObjectKey) -> bool {
        self.is_orphan(key) || (!exchanged(&key.kind) && self.policies_of(key).is_empty())
    }

    /// The first failure in a cluster of what has lost its template, where nobody else would tell of it, and how many there are.
    pub fn orphans(&self, failures: &BTreeMap<ObjectKey, String>) -> Option<(usize, String)> {
        let mut orphans = failures.iter().filter(|(key, _)| self.is_orphan(key));
        let (key, why) = orphans.next()?;
        Some((1 + orphans.count(), format!("{key}: {why}")))
    }

    /// What became of one object; none if no policy places it.
    pub fn outcome_of(&self, view: &View, key: &ObjectKey, failures: &Failures) -> Option<Outcome> {
        let assignment = self.assigned.get(key)?;
        let mut missing = Vec::new();
        for cluster in assignment.targets.keys() {
            let held_back = view.members().get(cluster).and_then(|member| assignment.held_back(member));
            let failure = failures.get(cluster).and_then(|failures| failures.get(key)).cloned();
            let there = self.held.get(key).is_some_and(|held| held.contains_key(cluster));
            if let Some(why) = held_back.or(failure).or_else(|| (!there).then(|| "on its way".to_owned())) {
                missing.push(format!("{cluster}: {why}"));
            }
        }
        let names: Vec<_> = assignment.targets.keys().map(ClusterName::as_str).collect();
        let (propagated, reason, message) = if let Some(why) = &assignment.unplaced {
            (false, reason::UNPLACED, why.clone())
        } else if names.is_empty() {
            return None;
        } else if missing.is_empty() {
            (true, reason::PROPAGATED, format!("it is in {}", names.join(", ")))
        } else {
            (false, reason::PENDING, missing.join("; "))
        };
        let matched = 1;
        Some(Outcome { matched, clusters: Vec::new(), propagated, reason, message: shortened(message) })
    }
}

/// How many objects of a policy are on their way to a cluster, by its status.
pub fn on_its_way(status: &PolicyStatus, there: &ClusterOutcome) -> i32 {
    // A hub that does not say how many are to be there places all of them there.
    let wanted = there.wanted.or(status.matched).unwrap_or_default();
    (wanted - there.applied - there.failed).max(0)
}

fn nothing_of(cluster: &ClusterName) -> ClusterOutcome {
    ClusterOutcome { name: cluster.to_string(), ..ClusterOutcome::default() }
}

/// The first kind of a policy that the hub cannot see: one that it selects, or that what it selects may depend on.
fn blind<'a>(view: &View, policy: &PolicyKey, unseen: &'a Unseen) -> Option<(&'a GroupKind, Reason)> {
    let policy = view.propagations().get(policy)?;
    let selected = |kind: &GroupKind| policy.selectors.iter().any(|selector| selector.kind == *kind);
    let depends =
        |kind: &GroupKind, why| policy.body.propagate_deps && why == Reason::Forbidden && may_be_named(kind);
    let mut kinds = unseen.iter().map(|(kind, why)| (kind, *why));
    kinds.find(|(kind, why)| selected(kind) || depends(kind, *why))
}

// === impl Reason ===

impl Reason {
    /// What a policy says of it.
    fn told(self, kind: &GroupKind) -> (bool, &'static str, String) {
        match self {
            Self::NotServed => {
                (false, reason::KIND_NOT_SERVED, format!("the hub does not serve the kind {kind}"))
            }
            Self::Forbidden => {
                let message = format!(
                    "the hub may not read the kind {kind}: allow its account get, list and watch (its chart's values rbac.templates and rbac.extraRules)"
                );
                (false, reason::KIND_FORBIDDEN, message)
            }
        }
    }
}

/// A message of a length that a condition may have.
fn shortened(text: String) -> String {
    const MOST: usize = 1000;
    if text.chars().count() <= MOST { text } else { text.chars().take(MOST).chain(['…']).collect() }
}
