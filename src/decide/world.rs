//! What is to be where: the templates of the hub, the clusters that each is assigned to, and the copies that members have.
//!
//! Feed it with templates, with the copies that members hold and with the view's [`Changes`]; every call gives back the pairs of
//! cluster and object to look at ([`Dirty`]). Then ask [`World::desired`] what is to be in that cluster. The same state gives the
//! same answer, in whatever order it came (`tests/properties.rs`).
//!
//! Placement depends on what is where already (taints, spreading), so copies are input. A copy's stamps are what is left of a
//! policy that is gone.

mod along;
mod assign;
mod desired;
mod outcome;
mod template;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use self::{along::may_name, assign::exchanged};
pub use self::{
    assign::{Assignment, Share},
    desired::{Absence, Desired, Found, Wanted},
    outcome::{Failures, Outcome, Reason, Unseen, on_its_way},
    template::Template,
};
use super::{
    copy::{self, ObjectKey},
    ids::ClusterName,
    policies::{PolicyKey, Reach},
    select::GroupKind,
    sum::Sum,
    view::{Changes, View},
};

/// Pairs of cluster and object to look at.
pub type Dirty = BTreeSet<(ClusterName, ObjectKey)>;

/// What is to be where.
#[derive(Debug)]
pub struct World {
    hub: Arc<str>,
    /// Which kinds of policies there are, as copies have it; empty while that is not known.
    policy_kinds: Arc<str>,
    kinds: BTreeMap<GroupKind, Kind>,
    /// Kinds that were looked for on the hub and are not served there.
    unserved: BTreeSet<GroupKind>,
    templates: BTreeMap<ObjectKey, Template>,
    /// Templates that came to be while this replica led and had read all others of their kind: no member has them that it has not read.
    newcomers: BTreeSet<ObjectKey>,
    leads: bool,
    assigned: BTreeMap<ObjectKey, Assignment>,
    /// Templates that name another object in their pods, by that object.
    dependents: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    by_policy: BTreeMap<PolicyKey, BTreeSet<ObjectKey>>,
    /// Policies that came to hold for other objects, or whose objects came or went somewhere, since somebody asked.
    stirred: BTreeSet<PolicyKey>,
    /// Templates whose policies name overrides that must be there.
    need_overrides: BTreeSet<ObjectKey>,
    held: BTreeMap<ObjectKey, BTreeMap<ClusterName, Held>>,
    /// Members whose copies are all known.
    known: BTreeSet<ClusterName>,
    /// Members that have a ServiceImport which the exchange of services wrote, by its name: these are none of the copies above.
    importers: BTreeMap<ObjectKey, BTreeSet<ClusterName>>,
    /// Members whose ServiceImports are all known.
    imports_known: BTreeSet<ClusterName>,
}

/// A kind that the hub watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The version in which its templates are kept, with the group.
    pub api_version: Arc<str>,
    /// The UID of its CustomResourceDefinition, where it has one.
    pub crd: Option<Arc<str>>,
    /// Whether all templates of the kind are known.
    synced: bool,
}

/// A copy that a member has, as far as it matters to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// It stays when its template goes.
    pub preserve: bool,
    /// It goes when its policy does.
    pub delete_with_policy: bool,
    /// It is there only because another object names it.
    pub dependency: bool,
    /// The replicas that it was given.
    pub replicas: Option<u32>,
}

/// Comes after every namespace in order.
const PAST_ALL: &str = "\u{10ffff}";

// === impl Kind ===

impl Kind {
    /// Whether all templates of the kind are known.
    pub fn is_synced(&self) -> bool {
        self.synced
    }
}

// === impl World ===

impl World {
    /// A world of which nothing is known yet.
    pub fn new(hub: Arc<str>) -> Self {
        Self {
            hub,
            policy_kinds: Arc::default(),
            kinds: BTreeMap::new(),
            unserved: BTreeSet::new(),
            templates: BTreeMap::new(),
            newcomers: BTreeSet::new(),
            leads: false,
            assigned: BTreeMap::new(),
            dependents: BTreeMap::new(),
            by_policy: BTreeMap::new(),
            need_overrides: BTreeSet::new(),
            stirred: BTreeSet::new(),
            held: BTreeMap::new(),
            known: BTreeSet::new(),
            importers: BTreeMap::new(),
            imports_known: BTreeSet::new(),
        }
    }

    /// The hub's id.
    pub fn hub(&self) -> &Arc<str> {
        &self.hub
    }

    /// How many templates are known, and a number that is another if one comes, goes or is made anew.
    pub fn templates(&self) -> Sum {
        Sum::of(self.templates.iter().map(|(key, template)| (key, &template.uid)))
    }

    /// How many copies members have, and a number that is another if one comes or goes.
    pub fn copies(&self) -> Sum {
        Sum::of(self.held.iter().flat_map(|(key, held)| held.keys().map(move |cluster| (key, cluster))))
    }

    /// A kind that the hub watches.
    pub fn kind(&self, kind: &GroupKind) -> Option<&Kind> {
        self.kinds.get(kind)
    }

    /// A template.
    pub fn template(&self, key: &ObjectKey) -> Option<&Template> {
        self.templates.get(key)
    }

    /// The clusters that an object is assigned to.
    pub fn assignment(&self, key: &ObjectKey) -> Option<&Assignment> {
        self.assigned.get(key)
    }

    /// The templates that a policy holds for.
    pub fn held_by(&self, policy: &PolicyKey) -> impl Iterator<Item = &ObjectKey> {
        self.by_policy.get(policy).into_iter().flatten()
    }

    /// The policies of which there is something to tell since the last time this was asked.
    pub fn take_stirred(&mut self) -> BTreeSet<PolicyKey> {
        std::mem::take(&mut self.stirred)
    }

    /// The members that have a copy of an object.
    pub fn holders(&self, key: &ObjectKey) -> impl Iterator<Item = &ClusterName> {
        self.held.get(key).into_iter().flat_map(BTreeMap::keys)
    }

    /// The copies of a kind that a member has.
    pub fn held_in(&self, cluster: &ClusterName, kind: &GroupKind) -> BTreeSet<ObjectKey> {
        let of_kind = self.held.range(first_of(kind)..).take_while(|(key, _)| key.kind == *kind);
        let held = of_kind.filter(|(_, clusters)| clusters.contains_key(cluster));
        held.map(|(key, _)| key.clone()).collect()
    }

    /// The kinds of which members have copies.
    pub fn held_kinds(&self) -> BTreeSet<GroupKind> {
        let mut kinds = BTreeSet::new();
        let mut next = self.held.first_key_value();
        while let Some((ObjectKey { kind, .. }, _)) = next {
            // From one kind to the next, past all objects: no name begins with what ends this range.
            let last = ObjectKey { namespace: PAST_ALL.into(), ..first_of(kind) };
            next = self.held.range(last..).next();
            kinds.insert(kind.clone());
        }
        kinds
    }

    /// Whether any member has a copy of a kind.
    pub fn holds_any(&self, kind: &GroupKind) -> bool {
        let first = ObjectKey { kind: kind.clone(), namespace: "".into(), name: "".into() };
        self.held.range(first..).next().is_some_and(|(key, _)| key.kind == *kind)
    }

    /// Takes note of which kinds of policies there are: made anew, they are others.
    pub fn set_policy_kinds(&mut self, kinds: Arc<str>) -> Dirty {
        if self.policy_kinds == kinds {
            return Dirty::new();
        }
        self.policy_kinds = kinds;
        let keys = self.templates.keys().chain(self.held.keys());
        keys.flat_map(|key| self.everywhere(key)).collect()
    }

    /// Takes note of the kinds that were looked for on the hub and are not served there.
    pub fn set_unserved(&mut self, kinds: BTreeSet<GroupKind>) -> Dirty {
        if self.unserved == kinds {
            return Dirty::new();
        }
        self.unserved = kinds;
        let named = self.held.keys().filter(|key| copy::may_be_named(&key.kind));
        named.flat_map(|key| self.everywhere(key)).collect()
    }

    /// Takes note that the hub begins to watch a kind.
    pub fn open_kind(&mut self, kind: GroupKind, api_version: Arc<str>, crd: Option<Arc<str>>) {
        self.kinds.insert(kind, Kind { api_version, crd, synced: false });
    }

    /// Takes note that the hub no longer watches a kind: of its templates nothing is known.
    pub fn close_kind(&mut self, view: &View, kind: &GroupKind) {
        self.kinds.remove(kind);
        let templates: Vec<_> = self.keys_of(kind).cloned().collect();
        for key in templates {
            self.newcomers.remove(&key);
            self.forget(&key);
            // No cluster is told: what is not known is left alone.
            self.reassign(view, &key);
        }
    }

    /// Takes note that this replica begins to lead, or no longer does: what came to be under another, any member may have. Who begins to
    /// lead has read no member as a whole, since it watched only the kinds that it knew of.
    pub fn set_leads(&mut self, view: &View, leads: bool) -> Dirty {
        self.leads = leads;
        self.newcomers.clear();
        if leads {
            self.known.clear();
        }
        // What members were given meanwhile counts too.
        let keys: Vec<_> = self.templates.keys().cloned().collect();
        keys.iter().flat_map(|key| self.shift(view, key)).collect()
    }

    /// Takes note of a template.
    pub fn apply_template(&mut self, view: &View, key: &ObjectKey, object: &Value) -> Dirty {
        let template = Template::of(key, object);
        if self.templates.get(key) == Some(&template) {
            return Dirty::new();
        }
        let newcomer = self.leads && !self.templates.contains_key(key);
        if newcomer && self.kinds.get(&key.kind).is_some_and(Kind::is_synced) {
            self.newcomers.insert(key.clone());
        }
        let mut named = self.forget(key).into_vec();
        for dependency in &template.dependencies {
            self.dependents.entry(dependency.clone()).or_default().insert(key.clone());
        }
        named.extend(template.dependencies.iter().cloned());
        let new = self.templates.insert(key.clone(), template).is_none();
        let mut dirty = self.look_at(view, key);
        dirty.extend(self.look_at_named(view, &named));
        if new && may_name(&key.kind) {
            // A copy that had lost its template has it again: what it may have named is certain.
            for cluster in self.holders(key) {
                dirty.extend(self.dependencies_in(cluster, &key.namespace));
            }
        }
        dirty
    }

    /// Takes note that a template is gone.
    pub fn delete_template(&mut self, view: &View, key: &ObjectKey) -> Dirty {
        let mut dirty = self.everywhere(key);
        self.newcomers.remove(key);
        let named = self.forget(key);
        dirty.extend(self.look_at(view, key));
        dirty.extend(self.look_at_named(view, &named));
        dirty
    }

    /// Takes note that these are all templates of a kind.
    pub fn retain_templates(&mut self, view: &View, kind: &GroupKind, all: &BTreeSet<ObjectKey>) -> Dirty {
        let gone: Vec<_> = self.keys_of(kind).filter(|key| !all.contains(*key)).cloned().collect();
        let mut dirty = Dirty::new();
        for key in &gone {
            dirty.extend(self.delete_template(view, key));
        }
        let first = self.kinds.get_mut(kind).is_some_and(|kind| !std::mem::replace(&mut kind.synced, true));
        if first {
            // Until now nobody could tell what is to be there: all of it has to be looked at, copies without a template too.
            let held: Vec<_> = self.held.keys().filter(|key| key.kind == *kind).cloned().collect();
            let known: Vec<_> = self.keys_of(kind).cloned().collect();
            // And what its templates might have named.
            let named: Vec<_> =
                self.held.keys().filter(|key| copy::may_be_named(&key.kind)).cloned().collect();
            for key in held.iter().chain(&known).chain(&named) {
                dirty.extend(self.everywhere(key));
            }
        }
        dirty
    }

    /// Takes note of what changed in the view.
    pub fn reconsider(&mut self, view: &View, changes: &Changes) -> Dirty {
        if changes.synced {
            let keys: Vec<_> = self.templates.keys().cloned().collect();
            return keys.iter().flat_map(|key| self.look_at(view, key)).collect();
        }
        let waiting = self.need_overrides.iter().filter(|_| changes.overrides);
        let reached = changes.reach.iter().flat_map(|reach| self.reached(reach));
        let reached: BTreeSet<ObjectKey> = reached.chain(waiting).cloned().collect();
        // An override may change what is in a cluster without changing the assignment.
        let mut dirty: Dirty = reached.iter().flat_map(|key| self.look_at(view, key)).collect();
        // Templates that were not read might have been taken along with what they name; by now they may not.
        if changes.reach.iter().any(|reach| reach.kind.as_ref().is_some_and(|kind| self.is_unread(kind))) {
            let named = self.held.keys().filter(|key| copy::may_be_named(&key.kind));
            dirty.extend(named.flat_map(|key| self.everywhere(key)));
        }
        if changes.members.is_empty() {
            return dirty;
        }
        // Any placement may choose differently when a member comes, goes or changes; most do not.
        let keys: Vec<_> = self.templates.keys().cloned().collect();
        for key in &keys {
            dirty.extend(self.shift(view, key));
            // Overrides may see that member differently.
            let there = self.everywhere(key).into_iter();
            dirty.extend(there.filter(|(cluster, _)| changes.members.contains(cluster)));
        }
        for member in &changes.members {
            // Copies without a template too, if it leaves.
            let held = self.held.iter().filter(|(_, clusters)| clusters.contains_key(member));
            dirty.extend(held.map(|(key, _)| (member.clone(), key.clone())));
        }
        dirty
    }

    /// Takes note of a copy that a member has, or that it no longer has it.
    pub fn hold(&mut self, view: &View, cluster: &ClusterName, key: &ObjectKey, held: Option<Held>) -> Dirty {
        if exchanged(&key.kind) {
            return self.hold_import(view, cluster, key, held.is_some());
        }
        // Whoever marked it: what nothing can name is there for its own sake.
        let held =
            held.map(|held| Held { dependency: held.dependency && copy::may_be_named(&key.kind), ..held });
        let before = self.held.get(key).and_then(|clusters| clusters.get(cluster));
        if before == held.as_ref() {
            return Dirty::new();
        }
        match held {
            Some(held) => {
                self.held.entry(key.clone()).or_default().insert(cluster.clone(), held);
            }
            None => {
                let Some(clusters) = self.held.get_mut(key) else { return Dirty::new() };
                clusters.remove(cluster);
                if clusters.is_empty() {
                    self.held.remove(key);
                }
            }
        }
        self.stirred.extend(self.assigned.get(key).and_then(|assignment| assignment.policy.clone()));
        let mut dirty = Dirty::new();
        if self.is_held_back(cluster, key) {
            // What it names there may be other than what its template names by now.
            dirty.extend(self.dependencies_in(cluster, &key.namespace));
        }
        // Where there is no choice, placement does not depend on what is where.
        if self.assigned.get(key).is_some_and(|assignment| !assignment.depends_on_holders) {
            return dirty;
        }
        dirty.extend(self.shift(view, key));
        // What it names may be there for its sake alone.
        let named = self.templates.get(key).into_iter().flat_map(|template| &template.dependencies);
        dirty.extend(named.map(|named| (cluster.clone(), named.clone())));
        let gone = !self.templates.contains_key(key) && !self.holders(key).any(|holder| holder == cluster);
        if gone && may_name(&key.kind) {
            // Without a template it may have named anything.
            let unread = self.is_unread(&key.kind);
            dirty.extend(self.named_in(cluster, Some(&key.namespace), |held| unread || held.dependency));
        }
        dirty
    }

    /// Takes note that all copies of a member are known.
    pub fn set_known(&mut self, view: &View, cluster: &ClusterName) -> Dirty {
        if !self.known.insert(cluster.clone()) {
            return Dirty::new();
        }
        let mut dirty = self.stop_waiting_for(view, cluster);
        dirty.extend(self.named_in(cluster, None, |_| true));
        dirty
    }

    /// Takes note whether a member has a ServiceImport that the exchange of services wrote.
    pub fn hold_import(&mut self, view: &View, cluster: &ClusterName, key: &ObjectKey, there: bool) -> Dirty {
        let changed = if there {
            self.importers.entry(key.clone()).or_default().insert(cluster.clone())
        } else {
            let Some(importers) = self.importers.get_mut(key) else { return Dirty::new() };
            let changed = importers.remove(cluster);
            if importers.is_empty() {
                self.importers.remove(key);
            }
            changed
        };
        if changed && self.assigned.get(key).is_some_and(|assignment| assignment.depends_on_holders) {
            self.shift(view, key)
        } else {
            Dirty::new()
        }
    }

    /// Takes note that all ServiceImports of a member are known.
    pub fn set_imports_known(&mut self, view: &View, cluster: &ClusterName) -> Dirty {
        if !self.imports_known.insert(cluster.clone()) {
            return Dirty::new();
        }
        self.stop_waiting_for(view, cluster)
    }

    /// Looks again at what waited for a member.
    fn stop_waiting_for(&mut self, view: &View, cluster: &ClusterName) -> Dirty {
        let open = self.assigned.iter().filter(|(_, assignment)| assignment.awaits.contains(cluster));
        let open: Vec<_> = open.map(|(key, _)| key.clone()).collect();
        open.iter().flat_map(|key| self.look_at(view, key)).collect()
    }

    /// Forgets a member that is gone.
    pub fn forget_member(&mut self, view: &View, cluster: &ClusterName) -> Dirty {
        self.known.remove(cluster);
        self.imports_known.remove(cluster);
        let held = self.held.iter().filter(|(_, clusters)| clusters.contains_key(cluster));
        let held: Vec<_> = held.map(|(key, _)| key.clone()).collect();
        let imported = self.importers.iter().filter(|(_, clusters)| clusters.contains(cluster));
        let imported: Vec<_> = imported.map(|(key, _)| key.clone()).collect();
        let mut dirty: Dirty = held.iter().flat_map(|key| self.hold(view, cluster, key, None)).collect();
        dirty.extend(imported.iter().flat_map(|key| self.hold_import(view, cluster, key, false)));
        dirty
    }

    /// All that concerns a cluster: what it holds and what it is to hold.
    pub fn all_of(&self, cluster: &ClusterName) -> BTreeSet<ObjectKey> {
        let held = self.held.iter().filter(|(_, clusters)| clusters.contains_key(cluster));
        let assigned =
            self.assigned.iter().filter(|(_, assignment)| assignment.targets.contains_key(cluster));
        held.map(|(key, _)| key).chain(assigned.map(|(key, _)| key)).cloned().collect()
    }

    /// Whether there may be templates of a kind that are not known.
    fn is_unread(&self, kind: &GroupKind) -> bool {
        !self.kinds.get(kind).is_some_and(Kind::is_synced)
    }

    fn keys_of<'a>(&'a self, kind: &'a GroupKind) -> impl Iterator<Item = &'a ObjectKey> {
        self.templates.range(first_of(kind)..).map(|(key, _)| key).take_while(move |key| key.kind == *kind)
    }

    /// The templates that a change of a policy may concern.
    fn reached<'a>(&'a self, reach: &'a Reach) -> Box<dyn Iterator<Item = &'a ObjectKey> + 'a> {
        let covered = |key: &&ObjectKey| {
            reach.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
                && reach.name.as_ref().is_none_or(|name| *name == key.name)
        };
        match &reach.kind {
            Some(kind) => match (&reach.namespace, &reach.name) {
                (Some(namespace), Some(name)) => {
                    let key =
                        ObjectKey { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() };
                    Box::new(self.templates.get_key_value(&key).into_iter().map(|(key, _)| key))
                }
                _ => Box::new(self.keys_of(kind).filter(covered)),
            },
            None => Box::new(self.templates.keys().filter(covered)),
        }
    }

    /// Every cluster that has an object or is to have it.
    fn everywhere(&self, key: &ObjectKey) -> Dirty {
        let targets = self.assigned.get(key).into_iter().flat_map(|assignment| assignment.targets.keys());
        targets.chain(self.holders(key)).map(|cluster| (cluster.clone(), key.clone())).collect()
    }

    /// Forgets a template; gives back what its pods named.
    fn forget(&mut self, key: &ObjectKey) -> Box<[ObjectKey]> {
        let Some(template) = self.templates.remove(key) else { return Box::default() };
        for dependency in &template.dependencies {
            if let Some(dependents) = self.dependents.get_mut(dependency) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(dependency);
                }
            }
        }
        template.dependencies
    }
}

/// Comes before every object of a kind in order.
fn first_of(kind: &GroupKind) -> ObjectKey {
    ObjectKey { kind: kind.clone(), namespace: "".into(), name: "".into() }
}
