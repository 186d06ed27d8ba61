//! The index of policies: see [`super`].

use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use super::{Candidate, Match, Policy, PolicyKey, Reach, Verdict, entries::Kinds, never};
use crate::decide::{
    fault::Fault,
    select::{GroupKind, Object, Resources},
};

/// All policies of one spec, namespaced and cluster-wide.
///
/// Matching costs what the few policies cost that could match: those that name the object, those that ask for one of its
/// labels, and the globs and catch-alls of its kind in its namespace (`benches/policies.rs`). The same policies make the
/// same index, in whatever order they came and whatever was there before.
#[derive(Debug)]
pub struct Index<T> {
    /// Tombolo's own namespace, where nothing is a template.
    system_namespace: Arc<str>,
    policies: BTreeMap<PolicyKey, Arc<Policy<T>>>,
    faulty: BTreeMap<PolicyKey, Vec<Fault>>,
    /// By namespace; the cluster-wide ones have the empty one.
    scopes: BTreeMap<Arc<str>, Kinds<T>>,
    /// What policies say, by fingerprint, with the number of those that say it.
    bodies: BTreeMap<u64, Vec<(Arc<T>, usize)>>,
}

/// A policy as its object says it is.
#[derive(Debug)]
pub(in crate::decide) struct Compiled<T> {
    pub(in crate::decide) priority: i32,
    pub(in crate::decide) deleting: bool,
    pub(in crate::decide) selectors: Vec<Resources>,
    pub(in crate::decide) body: T,
    pub(in crate::decide) fingerprint: u64,
}

/// A change of one policy that has not happened (yet): admission asks what would hold after it.
#[derive(Debug)]
pub struct Edit<T> {
    key: PolicyKey,
    /// None: it would be gone.
    policy: Option<Arc<Policy<T>>>,
}

// === impl Index ===

impl<T> Index<T> {
    /// An empty index. Tombolo's own namespace is given because nothing in it may be selected.
    pub fn new(system_namespace: &str) -> Self {
        Self {
            system_namespace: system_namespace.into(),
            policies: BTreeMap::new(),
            faulty: BTreeMap::new(),
            scopes: BTreeMap::new(),
            bodies: BTreeMap::new(),
        }
    }

    pub(in crate::decide) fn system_namespace(&self) -> &str {
        &self.system_namespace
    }

    /// A policy that takes part in matching.
    pub fn get(&self, key: &PolicyKey) -> Option<&Arc<Policy<T>>> {
        self.policies.get(key)
    }

    /// All policies that take part in matching, in order.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy<T>>> {
        self.policies.values()
    }

    /// The kinds that policies speak of.
    pub fn kinds(&self) -> BTreeSet<GroupKind> {
        self.scopes.values().flat_map(Kinds::kinds).cloned().collect()
    }

    /// Whether any policy says something.
    pub fn any(&self, says: impl Fn(&T) -> bool) -> bool {
        self.bodies.values().flatten().any(|(body, _)| says(body))
    }

    /// The keys of all policies, also of those that take no part in matching.
    pub fn keys(&self) -> impl Iterator<Item = &PolicyKey> {
        self.policies.keys().chain(self.faulty.keys())
    }

    /// Why a policy takes no part in matching; nothing if it does.
    pub fn faults(&self, key: &PolicyKey) -> &[Fault] {
        self.faulty.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The policy that holds for an object.
    pub fn winner(&self, object: &Object<'_>) -> Option<Match<'_, T>> {
        self.best(object, |policy| !policy.deleting)
    }

    /// The policy that would hold for an object after a change.
    pub fn winner_after<'a>(&'a self, edit: &'a Edit<T>, object: &Object<'_>) -> Option<Match<'a, T>> {
        let others = self.best(object, |policy| !policy.deleting && policy.key != edit.key);
        let edited = self.edited_match(edit, object).filter(|edited| !edited.policy.deleting);
        others.into_iter().chain(edited).min_by(Match::precedence)
    }

    /// All policies that speak of an object: the one that holds first, then the others by precedence, then those that
    /// are being deleted.
    pub fn explain(&self, object: &Object<'_>) -> Vec<Candidate<'_, T>> {
        let holder = self.winner(object);
        let verdict = |matched: Match<'_, T>| match holder {
            _ if matched.policy.deleting => Verdict::Deleting,
            Some(holder) if holder.policy.key != matched.policy.key => matched.loses_by(&holder),
            _ => Verdict::Holds,
        };
        let mut candidates: Vec<_> = self
            .all(object, |_| true)
            .into_iter()
            .map(|matched| Candidate { matched, verdict: verdict(matched) })
            .collect();
        candidates.sort_by_key(|candidate| candidate.verdict == Verdict::Deleting);
        candidates
    }

    /// Takes note of a policy that is gone, and says which objects that may concern.
    pub fn delete(&mut self, key: &PolicyKey) -> BTreeSet<Reach> {
        self.faulty.remove(key);
        self.remove(key).iter().flat_map(|policy| Reach::of(policy)).collect()
    }

    /// Takes note of a policy, and says which objects that may concern: none if nothing changed.
    pub(in crate::decide) fn put(
        &mut self,
        key: PolicyKey,
        compiled: Result<Compiled<T>, Vec<Fault>>,
    ) -> BTreeSet<Reach>
    where
        T: PartialEq,
    {
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(faults) => {
                let before = self.delete(&key);
                self.faulty.insert(key, faults);
                return before;
            }
        };
        if self.policies.get(&key).is_some_and(|policy| policy.is(&compiled)) {
            return BTreeSet::new();
        }
        let mut reach = self.delete(&key);
        let policy = self.insert(key, compiled);
        reach.extend(Reach::of(&policy));
        reach
    }

    /// What would become of a policy.
    pub(in crate::decide) fn edit(key: PolicyKey, compiled: Compiled<T>) -> Edit<T> {
        let Compiled { priority, deleting, selectors, body, fingerprint } = compiled;
        let policy = Policy {
            key: key.clone(),
            priority,
            deleting,
            selectors: selectors.into(),
            body: Arc::new(body),
            fingerprint,
        };
        Edit { key, policy: Some(Arc::new(policy)) }
    }

    /// All policies that speak of an object and count, by precedence.
    pub(in crate::decide) fn all(
        &self,
        object: &Object<'_>,
        counts: impl Fn(&Policy<T>) -> bool,
    ) -> Vec<Match<'_, T>> {
        let mut found: Vec<Match<'_, T>> =
            self.scopes_of(object).flat_map(|kinds| kinds.all(object, &counts)).collect();
        found.sort_by(|a, b| a.precedence(b).then(a.selector.cmp(&b.selector)));
        // Of a policy's selectors the closest comes first.
        let mut seen = BTreeSet::new();
        found.retain(|matched| seen.insert(&matched.policy.key));
        found
    }

    /// All policies that would speak of an object after a change, by precedence.
    pub(in crate::decide) fn all_after<'a>(
        &'a self,
        edit: &'a Edit<T>,
        object: &Object<'_>,
    ) -> Vec<Match<'a, T>> {
        let mut found = self.all(object, |policy| policy.key != edit.key);
        found.extend(self.edited_match(edit, object));
        found.sort_by(Match::precedence);
        found
    }

    fn edited_match<'a>(&self, edit: &'a Edit<T>, object: &Object<'_>) -> Option<Match<'a, T>> {
        let never = never::object(object, &self.system_namespace).is_some();
        edit.policy.as_ref().filter(|_| !never).and_then(|policy| policy.matches(object))
    }

    fn best(&self, object: &Object<'_>, counts: impl Fn(&Policy<T>) -> bool) -> Option<Match<'_, T>> {
        // Any policy of the namespace goes before any cluster-wide one.
        self.scopes_of(object).find_map(|kinds| kinds.best(object, &counts))
    }

    /// The policies of an object's namespace, then the cluster-wide ones; none for what is never a template.
    fn scopes_of(&self, object: &Object<'_>) -> impl Iterator<Item = &Kinds<T>> {
        let own = (!object.namespace.is_empty()).then(|| self.scopes.get(object.namespace)).flatten();
        let never = never::object(object, &self.system_namespace).is_some();
        own.into_iter().chain(self.scopes.get("")).filter(move |_| !never)
    }

    fn insert(&mut self, mut key: PolicyKey, compiled: Compiled<T>) -> Arc<Policy<T>>
    where
        T: PartialEq,
    {
        let Compiled { priority, deleting, mut selectors, body, fingerprint } = compiled;
        let scope = key.namespace.clone().unwrap_or_default();
        // What repeats is kept once.
        let scope = match self.scopes.get_key_value(&scope) {
            Some((kept, _)) => kept.clone(),
            None => scope,
        };
        key.namespace = key.namespace.map(|_| scope.clone());
        let kinds = self.scopes.entry(scope).or_default();
        for selector in &mut selectors {
            if let Some(kept) = kinds.kept(&selector.kind) {
                selector.kind = kept.clone();
            }
        }
        let body = share(&mut self.bodies, fingerprint, body);
        let selectors = selectors.into();
        let policy = Arc::new(Policy { key: key.clone(), priority, deleting, selectors, body, fingerprint });
        kinds.insert(&policy);
        self.policies.insert(key, policy.clone());
        policy
    }

    fn remove(&mut self, key: &PolicyKey) -> Option<Arc<Policy<T>>> {
        let policy = self.policies.remove(key)?;
        let scope = key.namespace.clone().unwrap_or_default();
        if let Some(kinds) = self.scopes.get_mut(&scope) {
            kinds.remove(&policy);
            if kinds.is_empty() {
                self.scopes.remove(&scope);
            }
        }
        release(&mut self.bodies, &policy);
        Some(policy)
    }
}

fn share<T: PartialEq>(
    bodies: &mut BTreeMap<u64, Vec<(Arc<T>, usize)>>,
    fingerprint: u64,
    body: T,
) -> Arc<T> {
    let same = bodies.entry(fingerprint).or_default();
    if let Some((kept, users)) = same.iter_mut().find(|(kept, _)| **kept == body) {
        *users += 1;
        return kept.clone();
    }
    let body = Arc::new(body);
    same.reserve_exact(1);
    same.push((body.clone(), 1));
    body
}

fn release<T>(bodies: &mut BTreeMap<u64, Vec<(Arc<T>, usize)>>, policy: &Policy<T>) {
    let btree_map::Entry::Occupied(mut entry) = bodies.entry(policy.fingerprint) else { return };
    let same = entry.get_mut();
    if let Some(place) = same.iter().position(|(kept, _)| Arc::ptr_eq(kept, &policy.body)) {
        same[place].1 -= 1;
        if same[place].1 == 0 {
            same.remove(place);
        }
    }
    if same.is_empty() {
        entry.remove();
    }
}

// === impl Policy ===

impl<T: PartialEq> Policy<T> {
    pub(super) fn is(&self, compiled: &Compiled<T>) -> bool {
        self.priority == compiled.priority
            && self.deleting == compiled.deleting
            && self.fingerprint == compiled.fingerprint
            && *self.selectors == *compiled.selectors
            && *self.body == compiled.body
    }
}

// === impl Edit ===

impl<T> Edit<T> {
    /// That a policy were gone.
    pub fn deletion(key: PolicyKey) -> Self {
        Self { key, policy: None }
    }
}

// === fingerprints ===

/// A number that is the same for what serializes the same.
pub(in crate::decide) fn fingerprint(value: &impl serde::Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    // What does not serialize would only not be shared.
    hasher.write(&serde_json::to_vec(value).unwrap_or_default());
    hasher.finish()
}
