//! Which clusters a template is assigned to, and by which policy.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Dirty, World};
use crate::{
    api::propagation::ConflictResolution,
    decide::{
        copy::ObjectKey,
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
        let held_back = self.held_back(key);
        dirty.extend(self.shift(view, key));
        dirty.extend(self.everywhere(key));
        for cluster in held_back.difference(&self.held_back(key)) {
            // What it named there before may go now.
            dirty.extend(self.dependencies_in(cluster, &key.namespace));
        }
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
}

// === impl Assignment ===

impl Assignment {
    /// Why nothing is written to a cluster for now.
    pub fn held_back(&self, member: &Member) -> Option<String> {
        let share = || self.targets.get(&member.name)?.held_back.clone();
        self.held_back_in(&member.name).or_else(share)
    }

    /// Why its own policy lets nothing be written to a cluster for now.
    pub(super) fn held_back_in(&self, cluster: &ClusterName) -> Option<String> {
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
