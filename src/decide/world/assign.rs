//! Which clusters a template is assigned to, and by which policy.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use super::{Desired, Dirty, Held, World, first_of};
use crate::{
    api::propagation::ConflictResolution,
    decide::{
        copy::{self, ObjectKey},
        divide::{Division, divide},
        ids::ClusterName,
        placement::Placement,
        policies::{PolicyKey, Propagation},
        select::{GroupKind, Member, Pattern},
        view::View,
    },
};

/// The clusters that an object is assigned to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The policy that holds for it; none if there is none, or if it is there only for others.
    pub policy: Option<PolicyKey>,
    /// What that policy says.
    pub says: Option<Arc<Propagation>>,
    /// The clusters.
    pub targets: BTreeMap<ClusterName, Share>,
    /// Whether copies stay where they are: there is no policy any more, or its placement cannot be met.
    pub frozen: bool,
    /// Nothing is written for it until what this says has come about.
    pub waits: Option<String>,
    /// Why it is assigned to no cluster though a policy holds for it.
    pub unplaced: Option<String>,
    /// Whether the choice depends on what is where already.
    pub(super) depends_on_holders: bool,
    /// The members whose copies are not known and that the choice waits for.
    pub(super) awaits: BTreeSet<ClusterName>,
}

/// What one cluster gets of an object, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Its part of the replicas, where they are divided.
    pub replicas: Option<u32>,
    /// Whether it gets it only because another object there names it.
    pub dependency: bool,
    /// Whether copies stay when the template goes.
    pub preserve: bool,
    /// Whether copies go when the policy does.
    pub delete_with_policy: bool,
    /// What happens to an object of the same name that is there already.
    pub conflict_resolution: ConflictResolution,
    /// Why nothing is written there for now though its own policy would let it: all that bring it there are held back.
    pub held_back: Option<String>,
}

// === impl World ===

impl World {
    /// Assigns an object anew, and what its pods name; all that have it are to look at it.
    pub(super) fn look_at(&mut self, view: &View, key: &ObjectKey) -> Dirty {
        let mut dirty = self.everywhere(key);
        dirty.extend(self.shift(view, key));
        dirty.extend(self.everywhere(key));
        dirty
    }

    /// Assigns anew what a template named; whoever has it is to look at it.
    pub(super) fn look_at_named(&mut self, view: &View, named: &[ObjectKey]) -> Dirty {
        let mut dirty = Dirty::new();
        for key in named {
            dirty.extend(self.everywhere(key));
            dirty.extend(self.shift_one(view, key));
        }
        dirty
    }

    /// Assigns an object anew, and what its pods name; where that makes no difference, nobody has to look.
    pub(super) fn shift(&mut self, view: &View, key: &ObjectKey) -> Dirty {
        let before = self.assigned.get(key).cloned();
        let mut dirty = self.shift_one(view, key);
        if before.as_ref() != self.assigned.get(key) {
            // What it names may be somewhere for its sake alone, which that object's own assignment does not say.
            let named =
                self.templates.get(key).map(|template| template.dependencies.clone()).unwrap_or_default();
            dirty.extend(self.look_at_named(view, &named));
        }
        dirty
    }

    fn shift_one(&mut self, view: &View, key: &ObjectKey) -> Dirty {
        let before = self.assigned.get(key).cloned();
        let mut concerned = self.everywhere(key);
        self.reassign(view, key);
        if before.as_ref() == self.assigned.get(key) {
            return Dirty::new();
        }
        concerned.extend(self.everywhere(key));
        concerned
    }

    pub(super) fn reassign(&mut self, view: &View, key: &ObjectKey) {
        let after = self.assign(view, key);
        let before = self.assigned.get(key).and_then(|assignment| assignment.policy.as_ref());
        let policy = after.as_ref().and_then(|assignment| assignment.policy.as_ref());
        if self.assigned.get(key) != after.as_ref() {
            // What becomes of it may be told differently, whether any cluster has to look or not.
            self.stirred.extend(before.into_iter().chain(policy).cloned());
        }
        if before != policy {
            if let Some(before) = before.cloned()
                && let Some(keys) = self.by_policy.get_mut(&before)
            {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_policy.remove(&before);
                }
            }
            if let Some(policy) = policy {
                self.by_policy.entry(policy.clone()).or_default().insert(key.clone());
            }
        }
        match after {
            Some(assignment) => {
                if assignment.says.as_ref().is_some_and(|says| !says.dependent_overrides.is_empty()) {
                    self.need_overrides.insert(key.clone());
                } else {
                    self.need_overrides.remove(key);
                }
                self.assigned.insert(key.clone(), assignment);
            }
            None => {
                self.need_overrides.remove(key);
                self.assigned.remove(key);
            }
        }
    }

    /// None where there is no template.
    fn assign(&self, view: &View, key: &ObjectKey) -> Option<Assignment> {
        let template = self.templates.get(key)?;
        let never =
            template.never.is_some() || view.leads_into(&key.kind, &key.namespace, &key.name).is_some();
        let winner = view.propagations().winner(&template.object(key)).filter(|_| !never);
        let mut assignment = match winner {
            Some(winner) => self.placed(view, key, &winner.policy.key, &winner.policy.body),
            None => Assignment { frozen: true, depends_on_holders: true, ..Assignment::default() },
        };
        if !never {
            self.add_dependents(key, &mut assignment);
        }
        Some(assignment)
    }

    fn placed(
        &self,
        view: &View,
        key: &ObjectKey,
        policy: &PolicyKey,
        says: &Arc<Propagation>,
    ) -> Assignment {
        let mut assignment = Assignment {
            policy: Some(policy.clone()),
            says: Some(says.clone()),
            waits: missing_overrides(view, policy, says),
            depends_on_holders: says.placement.depends_on_holders(view.members()),
            ..Assignment::default()
        };
        let holding = self.holding(key);
        let placed = says.placement.place(view.members(), &holding);
        if assignment.depends_on_holders {
            let unread = self.may_hold(view, key, &says.placement, &holding);
            if says.placement.may_change(view.members(), &holding, &unread, &placed) {
                // Whoever has it already is to be preferred; that is not known yet.
                let names: Vec<_> = unread.iter().map(ClusterName::as_str).collect();
                assignment.frozen = true;
                assignment.unplaced = Some(format!(
                    "it is not known yet whether {} has a copy: those that are known stay where they are until it answers, or is no \
                     member any more",
                    names.join(" or ")
                ));
                assignment.awaits = unread;
                return assignment;
            }
        }
        if placed.targets.is_empty() {
            assignment.unplaced = Some(
                placed.unsatisfied.clone().unwrap_or_else(|| "no cluster meets its placement".to_owned()),
            );
        }
        assignment.frozen = placed.unsatisfied.is_some();
        let replicas = self.shares(view, key, &says.placement, &placed.targets);
        for cluster in placed.targets {
            let share = Share {
                replicas: replicas.get(&cluster).copied(),
                dependency: false,
                preserve: says.preserve_resources_on_deletion,
                delete_with_policy: says.delete_with_policy,
                conflict_resolution: says.conflict_resolution.clone(),
                held_back: None,
            };
            assignment.targets.insert(cluster, share);
        }
        assignment
    }

    /// The members that have an object, whoever wrote it there.
    fn holding(&self, key: &ObjectKey) -> BTreeSet<ClusterName> {
        if exchanged(&key.kind) {
            self.importers.get(key).cloned().unwrap_or_default()
        } else {
            self.holders(key).cloned().collect()
        }
    }

    /// Whether its policy would leave an object in a cluster that has it: a taint keeps away what is not there yet, and a choice prefers
    /// what is.
    pub fn would_keep(&self, view: &View, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let Some(says) = self.assigned.get(key).and_then(|assignment| assignment.says.as_ref()) else {
            return false;
        };
        let mut holding = self.holding(key);
        holding.insert(cluster.clone());
        says.placement.place(view.members(), &holding).targets.contains(cluster)
    }

    fn shares(
        &self,
        view: &View,
        key: &ObjectKey,
        placement: &Placement,
        targets: &BTreeSet<ClusterName>,
    ) -> BTreeMap<ClusterName, u32> {
        let members = targets.iter().filter_map(|cluster| view.members().get(cluster));
        let division = placement.division(members);
        let replicas = self.templates.get(key).and_then(|template| template.replicas);
        match (replicas, &division) {
            (Some(replicas), Division::Weighted(_)) => divide(replicas, targets, &division),
            // Each has what the template says.
            _ => BTreeMap::new(),
        }
    }

    /// Adds the clusters of those that name it, where their policies want what they name to go along.
    fn add_dependents(&self, key: &ObjectKey, assignment: &mut Assignment) {
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
    /// in that cluster, and what that has there stays as it is.
    pub(super) fn stays_with(&self, cluster: &ClusterName, key: &ObjectKey) -> Option<String> {
        self.dependents.get(key).into_iter().flatten().find_map(|dependent| {
            let why = self.assigned.get(dependent)?.held_back_in(cluster)?;
            Some(held_back_with(dependent, &why))
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

    /// Whether an object, and whatever names it, is assigned as the policies say by now.
    pub fn is_settled(&self, view: &View, key: &ObjectKey) -> bool {
        let naming = self.dependents.get(key).into_iter().flatten();
        let says =
            |of: Option<&Assignment>| of.map(|of| (of.policy.clone(), of.says.clone(), of.targets.clone()));
        naming.chain([key]).all(|key| says(self.assign(view, key).as_ref()) == says(self.assigned.get(key)))
    }

    /// The members of which it is not known whether they have an object, among those that a placement may choose: they were given objects of
    /// its kind before this hub read any, and it is none that came to be since. A ServiceImport any member in use may have.
    fn may_hold(
        &self,
        view: &View,
        key: &ObjectKey,
        placement: &Placement,
        holding: &BTreeSet<ClusterName>,
    ) -> BTreeSet<ClusterName> {
        if self.newcomers.contains(key) {
            return BTreeSet::new();
        }
        let unread = view.members().values().filter(|member| {
            !self.is_read(&member.name, &key.kind) && !holding.contains(&member.name) && !member.leaving
        });
        let given = |name: &ClusterName| match exchanged(&key.kind) {
            true => view.server_of(name).is_some(),
            false => view.was_given(name, &key.kind),
        };
        let could = unread.filter(|member| given(&member.name) && placement.may_choose(member));
        could.map(|member| member.name.clone()).collect()
    }

    /// Whether it is known which objects of a kind a member has.
    pub(super) fn is_read(&self, cluster: &ClusterName, kind: &GroupKind) -> bool {
        let read = if exchanged(kind) { &self.imports_known } else { &self.known };
        read.contains(cluster)
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
        let orphan = |copy: &ObjectKey| {
            copy.namespace == key.namespace && may_name(&copy.kind) && !self.templates.contains_key(copy)
        };
        !self.known.contains(cluster)
            || self.held.iter().any(|(copy, clusters)| orphan(copy) && clusters.contains_key(cluster))
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

/// Whether objects of a kind may have pods that name others.
pub(super) fn may_name(kind: &GroupKind) -> bool {
    !copy::may_be_named(kind) && &*kind.group != crate::api::mcs::GROUP
}

// === impl Assignment ===

impl Assignment {
    /// Why nothing is written to a cluster for now.
    pub fn held_back(&self, member: &Member) -> Option<String> {
        let share = || self.targets.get(&member.name)?.held_back.clone();
        self.held_back_in(&member.name).or_else(share)
    }

    /// Why its own policy lets nothing be written to a cluster for now.
    fn held_back_in(&self, cluster: &ClusterName) -> Option<String> {
        if let Some(waits) = &self.waits {
            return Some(waits.clone());
        }
        let suspension = self.says.as_ref()?.suspension.as_ref()?;
        if suspension.dispatching == Some(true) {
            return Some("its policy is suspended".to_owned());
        }
        let names = suspension.dispatching_on_clusters.iter().flat_map(|some| &some.cluster_names);
        let mut patterns = names.filter_map(|name| Pattern::parse(name).ok());
        patterns
            .any(|pattern| pattern.matches(cluster.as_str()))
            .then(|| "its policy is suspended for this cluster".to_owned())
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

/// What is said of an object while something that names it is held back.
fn held_back_with(dependent: &ObjectKey, why: &str) -> String {
    format!("{dependent}, which names it, is held back: {why}")
}

/// What a policy waits for: overrides that it names and that are not there.
fn missing_overrides(view: &View, policy: &PolicyKey, says: &Propagation) -> Option<String> {
    let missing: Vec<&str> = says
        .dependent_overrides
        .iter()
        .filter(|name| {
            let key = PolicyKey { namespace: policy.namespace.clone(), name: name.as_str().into() };
            view.overrides().get(&key).is_none()
        })
        .map(String::as_str)
        .collect();
    (!missing.is_empty())
        .then(|| format!("it waits for the overrides that dependentOverrides names: {}", missing.join(", ")))
}

/// Whether the exchange of services writes objects of a kind, and not the propagator.
pub(super) fn exchanged(kind: &GroupKind) -> bool {
    &*kind.group == crate::api::mcs::GROUP && &*kind.kind == "ServiceImport"
}
