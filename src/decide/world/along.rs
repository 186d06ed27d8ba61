//! What goes along with workloads: the objects that their pods name, where policies want these taken along.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use super::{Assignment, Desired, Dirty, Held, Share, World, first_of};
use crate::{
    api::{mcs, propagation::ConflictResolution},
    decide::{
        copy::{self, ObjectKey},
        ids::ClusterName,
        policies::PolicyKey,
        select::GroupKind,
        view::View,
    },
};

// === impl World ===

impl World {
    /// The clusters where what may name others is held back.
    pub(super) fn held_back(&self, key: &ObjectKey) -> BTreeSet<ClusterName> {
        self.holders(key).filter(|cluster| self.is_held_back(cluster, key)).cloned().collect()
    }

    /// Whether what may name others is held back in a cluster.
    pub(super) fn is_held_back(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let assignment = self.assigned.get(key).filter(|_| may_name(&key.kind));
        assignment.is_some_and(|assignment| assignment.held_back_in(cluster).is_some())
    }

    /// Adds the clusters of those that name it, where their policies want what they name to go along.
    pub(super) fn add_dependents(&self, key: &ObjectKey, assignment: &mut Assignment) {
        let mut brought: BTreeMap<&ClusterName, Share> = BTreeMap::new();
        for dependent in self.dependents.get(key).into_iter().flatten() {
            let Some(theirs) = self.assigned.get(dependent) else { continue };
            if theirs.says.as_ref().is_none_or(|says| !says.propagate_deps) {
                continue;
            }
            for (cluster, share) in &theirs.targets {
                let held_back = theirs.held_back_in(cluster).map(|why| held_back_with(dependent, &why));
                let along = Share { replicas: None, dependency: true, held_back, ..share.clone() };
                match brought.entry(cluster) {
                    Entry::Vacant(entry) => drop(entry.insert(along)),
                    Entry::Occupied(mut entry) => entry.get_mut().join(along),
                }
            }
        }
        for (cluster, share) in brought {
            // Where its own policy places it, that alone counts.
            assignment.targets.entry(cluster.clone()).or_insert(share);
        }
    }

    /// Why a copy that is there for others stays where it is though nothing brings it there any more: something that names it is held back
    /// in that cluster, and what that has there stays as it is, whatever its template names by now.
    pub(super) fn stays_with(&self, cluster: &ClusterName, key: &ObjectKey) -> Option<String> {
        let held_back = |copy: &ObjectKey| self.assigned.get(copy)?.held_back_in(cluster);
        let mut naming = self.dependents.get(key).into_iter().flatten();
        let named = naming.find_map(|copy| Some(held_back_with(copy, &held_back(copy)?)));
        named.or_else(|| {
            let why = |copy: &ObjectKey| {
                Some(format!("{copy}, which may name it there, is held back: {}", held_back(copy)?))
            };
            self.naming_in(cluster, &key.namespace).find_map(why)
        })
    }

    /// The policy by which a cluster has its share of an object: its own, or that of whatever names it there.
    pub(super) fn placed_by<'a>(
        &'a self,
        cluster: &ClusterName,
        key: &ObjectKey,
        assignment: &'a Assignment,
        share: &Share,
    ) -> Option<&'a PolicyKey> {
        if !share.dependency {
            return assignment.policy.as_ref();
        }
        let dependents = self.dependents.get(key).into_iter().flatten();
        let mut theirs = dependents.filter_map(|dependent| self.assigned.get(dependent));
        theirs.find_map(|theirs| {
            let along = theirs.says.as_ref().is_some_and(|says| says.propagate_deps);
            theirs.policy.as_ref().filter(|_| along && theirs.targets.contains_key(cluster))
        })
    }

    /// Why it cannot be told whether anything names an object in a cluster; none if it can. What counts is what the cluster has copies of in
    /// that namespace, and what policies take along there that have yet to be read.
    pub(super) fn unread(&self, view: &View, cluster: &ClusterName, key: &ObjectKey) -> Option<Desired> {
        const UNREAD: Desired = Desired::Unknown("the hub has not read all templates that may name it yet");
        if !copy::may_be_named(&key.kind) {
            return None;
        }
        if !self.known.contains(cluster) {
            return Some(Desired::Unknown("the hub has not read all copies there yet"));
        }
        let unread = |kind: &GroupKind| self.is_unread(kind);
        let beside = |kind: &&GroupKind| {
            let first = ObjectKey { namespace: key.namespace.clone(), ..first_of(kind) };
            let copies = self.held.range(first..);
            let mut near =
                copies.take_while(|(copy, _)| copy.kind == **kind && copy.namespace == key.namespace);
            near.any(|(_, clusters)| clusters.contains_key(cluster))
        };
        if let Some(kind) = self.held_kinds().iter().filter(|kind| unread(kind)).find(beside) {
            if !self.unserved.contains(kind) {
                return Some(UNREAD);
            }
            return Some(Desired::Faulty(format!(
                "it is no longer to be there, but a copy of the kind {kind} there may name it, which the hub does not serve any more: it \
                 stays until that copy is deleted there, or the hub serves the kind"
            )));
        }
        let mut along = view.propagations().policies().filter(|policy| {
            let near = policy.key.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace);
            near && policy.body.propagate_deps
        });
        // Of a kind that the hub does not serve there is nothing that could name anything.
        let waits = along.any(|policy| {
            let mut kinds = policy.selectors.iter().map(|selector| &selector.kind);
            kinds.any(|kind| unread(kind) && !self.unserved.contains(kind))
        });
        waits.then_some(UNREAD)
    }

    /// Whether a copy that is there for others is still named by something in that cluster.
    pub(super) fn is_named_in(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        self.dependents.get(key).into_iter().flatten().any(|dependent| {
            let assigned = self.assigned.get(dependent);
            let frozen_there = assigned.is_some_and(|assignment| assignment.frozen)
                && self.held.get(dependent).is_some_and(|clusters| clusters.contains_key(cluster));
            frozen_there
                || assigned.is_some_and(|theirs| {
                    theirs.targets.contains_key(cluster)
                        && theirs.says.as_ref().is_some_and(|says| says.propagate_deps)
                })
        })
    }

    /// Whether a cluster may have a copy that names an object, though no template does: one that has lost its own, which is not believed
    /// until that copy is gone, or one that was not seen yet.
    pub(super) fn may_be_needed(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let orphan = |copy: &ObjectKey| !self.templates.contains_key(copy);
        !self.known.contains(cluster) || self.naming_in(cluster, &key.namespace).any(orphan)
    }

    /// The copies that a cluster has in a namespace and that may name others.
    fn naming_in(&self, cluster: &ClusterName, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let near = self.held.iter().filter(move |(copy, clusters)| {
            *copy.namespace == *namespace && may_name(&copy.kind) && clusters.contains_key(cluster)
        });
        near.map(|(copy, _)| copy)
    }

    /// What a cluster has in a namespace only because other objects name it.
    pub(super) fn dependencies_in(&self, cluster: &ClusterName, namespace: &str) -> Dirty {
        self.named_in(cluster, Some(namespace), |held| held.dependency)
    }

    /// What a cluster has in a namespace, or anywhere, that others may name.
    pub(super) fn named_in(
        &self,
        cluster: &ClusterName,
        namespace: Option<&str>,
        counts: impl Fn(&Held) -> bool,
    ) -> Dirty {
        let kinds = copy::NAMED.map(|kind| GroupKind { group: "".into(), kind: kind.into() });
        let near = kinds.iter().flat_map(|kind| {
            let first = ObjectKey { namespace: namespace.unwrap_or_default().into(), ..first_of(kind) };
            let is_near = move |key: &ObjectKey| {
                key.kind == *kind && namespace.is_none_or(|name| name == &*key.namespace)
            };
            self.held.range(first..).take_while(move |(key, _)| is_near(key))
        });
        let there = near.filter(|(_, clusters)| clusters.get(cluster).is_some_and(&counts));
        there.map(|(key, _)| (cluster.clone(), key.clone())).collect()
    }
}

// === impl Share ===

impl Share {
    /// Adds what another that brings the object to the same cluster says of it. Whichever does more to what is there yields: it is held back
    /// only if all are, stays if any wants that, and writes over a user's object only if all would. (Karmada's first and second are
    /// likewise, but there one `Overwrite` is enough, so that a policy which says `Abort` has objects written over.)
    fn join(&mut self, other: Self) {
        self.held_back = self.held_back.take().filter(|_| other.held_back.is_some());
        self.preserve |= other.preserve;
        self.delete_with_policy &= other.delete_with_policy;
        if other.conflict_resolution != ConflictResolution::Overwrite {
            self.conflict_resolution = other.conflict_resolution;
        }
    }
}

/// Whether objects of a kind may have pods that name others.
pub(super) fn may_name(kind: &GroupKind) -> bool {
    !copy::may_be_named(kind) && &*kind.group != mcs::GROUP
}

/// What is said of an object while something that names it is held back.
fn held_back_with(dependent: &ObjectKey, why: &str) -> String {
    format!("{dependent}, which names it, is held back: {why}")
}
