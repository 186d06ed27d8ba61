//! Selectors of policies, found by what they ask for.

use std::{cmp::Ordering, collections::BTreeMap, iter, ops::Bound, sync::Arc};

use super::{Match, Policy};
use crate::decide::select::{By, GroupKind, Object, Rank};

/// One selector of a policy, or the policy itself where it has none.
#[derive(Debug)]
pub(super) struct Entry<T> {
    policy: Arc<Policy<T>>,
    selector: Option<usize>,
}

/// Selectors, the one of highest precedence first.
#[derive(Clone, Debug)]
pub(super) struct Entries<T>(Vec<Entry<T>>);

/// The selectors of one namespace, or of all cluster-wide policies.
#[derive(Clone, Debug)]
pub(super) struct Kinds<T> {
    kinds: BTreeMap<GroupKind, Bucket<T>>,
    /// Policies that speak of everything.
    any: Entries<T>,
}

/// The selectors of one kind.
#[derive(Clone, Debug)]
struct Bucket<T> {
    /// By the name that they ask for.
    named: BTreeMap<Arc<str>, Entries<T>>,
    /// By key and value of a label that they ask for.
    labelled: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Entries<T>>>,
    /// By what every name begins with that they ask for.
    globs: BTreeMap<Arc<str>, Entries<T>>,
    /// The rest: label selectors without such a label, and those that ask for nothing.
    rest: Entries<T>,
}

// === impl Entry ===

impl<T> Entry<T> {
    fn rank(&self) -> Rank {
        self.selector.map_or(Rank::All, |index| self.policy.selectors[index].by.rank())
    }

    fn as_match(&self) -> Match<'_, T> {
        Match { policy: &self.policy, selector: self.selector, rank: self.rank() }
    }

    fn matches(&self, object: &Object<'_>) -> bool {
        match self.selector {
            Some(index) => self.policy.selectors[index].matches_within_kind(object),
            None => self.policy.reaches(object),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        self.as_match().precedence(&other.as_match()).then(self.selector.cmp(&other.selector))
    }
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { policy: self.policy.clone(), selector: self.selector }
    }
}

// === impl Entries ===

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Entries<T> {
    fn insert(&mut self, entry: Entry<T>) {
        if let Err(place) = self.0.binary_search_by(|other| other.order(&entry)) {
            // Most lists have one entry: the usual growth would take four times the room.
            if self.0.len() < 4 {
                self.0.reserve_exact(1);
            }
            self.0.insert(place, entry);
        }
    }

    fn remove(&mut self, entry: &Entry<T>) {
        if let Ok(place) = self.0.binary_search_by(|other| other.order(entry)) {
            self.0.remove(place);
        }
    }

    /// The first that matches, unless `best` is at least as good.
    fn first<'a>(
        &'a self,
        object: &Object<'_>,
        best: Option<Match<'a, T>>,
        counts: impl Fn(&Policy<T>) -> bool,
    ) -> Option<Match<'a, T>> {
        for entry in &self.0 {
            let found = entry.as_match();
            if best.is_some_and(|best| best.precedence(&found).is_le()) {
                break;
            }
            if counts(&entry.policy) && entry.matches(object) {
                return Some(found);
            }
        }
        best
    }
}

// === impl Kinds ===

impl<T> Default for Kinds<T> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), any: Entries::default() }
    }
}

impl<T> Kinds<T> {
    /// The kinds that are spoken of.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &GroupKind> {
        self.kinds.keys()
    }

    pub(super) fn insert(&mut self, policy: &Arc<Policy<T>>) {
        if policy.selectors.is_empty() {
            self.any.insert(Entry { policy: policy.clone(), selector: None });
        }
        for (index, selector) in policy.selectors.iter().enumerate() {
            let entry = Entry { policy: policy.clone(), selector: Some(index) };
            let bucket = self.kinds.entry(selector.kind.clone()).or_default();
            bucket.entries(&selector.by).insert(entry);
        }
    }

    pub(super) fn remove(&mut self, policy: &Arc<Policy<T>>) {
        if policy.selectors.is_empty() {
            self.any.remove(&Entry { policy: policy.clone(), selector: None });
        }
        for (index, selector) in policy.selectors.iter().enumerate() {
            let Some(bucket) = self.kinds.get_mut(&selector.kind) else { continue };
            bucket.entries(&selector.by).remove(&Entry { policy: policy.clone(), selector: Some(index) });
            bucket.tidy(&selector.by);
            if bucket.is_empty() {
                self.kinds.remove(&selector.kind);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.any.0.is_empty()
    }

    /// The kind as it is kept here, so that it is kept once.
    pub(super) fn kept(&self, kind: &GroupKind) -> Option<&GroupKind> {
        self.kinds.get_key_value(kind).map(|(kept, _)| kept)
    }

    /// The match of highest precedence among the policies that count.
    pub(super) fn best<'a>(
        &'a self,
        object: &Object<'_>,
        counts: impl Fn(&Policy<T>) -> bool,
    ) -> Option<Match<'a, T>> {
        self.lists(object).fold(None, |best, entries| entries.first(object, best, &counts))
    }

    /// Every selector that matches, of the policies that count.
    pub(super) fn all<'a>(
        &'a self,
        object: &Object<'_>,
        counts: impl Fn(&Policy<T>) -> bool,
    ) -> impl Iterator<Item = Match<'a, T>> {
        let entries = self.lists(object).flat_map(|entries| &entries.0);
        entries.filter(move |entry| counts(&entry.policy) && entry.matches(object)).map(Entry::as_match)
    }

    /// The lists that may have something for an object.
    fn lists<'a>(&'a self, object: &Object<'_>) -> impl Iterator<Item = &'a Entries<T>> {
        let bucket = self.kinds.get(object.kind);
        let named = bucket.and_then(|bucket| bucket.named.get(object.name));
        let labelled = bucket.filter(|bucket| !bucket.labelled.is_empty()).map(|bucket| {
            let pairs = object.labels.iter();
            pairs.filter_map(|(key, value)| bucket.labelled.get(key.as_str())?.get(value.as_str()))
        });
        let globs = bucket.into_iter().flat_map(|bucket| prefixes(&bucket.globs, object.name));
        let rest = bucket.map(|bucket| &bucket.rest);
        named.into_iter().chain(globs).chain(labelled.into_iter().flatten()).chain(rest).chain([&self.any])
    }
}

// === impl Bucket ===

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Self {
            named: BTreeMap::new(),
            labelled: BTreeMap::new(),
            globs: BTreeMap::new(),
            rest: Entries::default(),
        }
    }
}

impl<T> Bucket<T> {
    /// The list that a selector belongs to.
    fn entries(&mut self, by: &By) -> &mut Entries<T> {
        match by {
            By::Name(name) => self.named.entry(name.clone()).or_default(),
            By::Labels(labelled) => match &labelled.required {
                Some((key, value)) => {
                    self.labelled.entry(key.clone()).or_default().entry(value.clone()).or_default()
                }
                None => &mut self.rest,
            },
            By::Glob(glob) => self.globs.entry(glob.literal_prefix().into()).or_default(),
            By::All => &mut self.rest,
        }
    }

    /// Drops the list that a selector belonged to, if nothing is left in it.
    fn tidy(&mut self, by: &By) {
        match by {
            By::Name(name) => drop_empty(&mut self.named, name),
            By::Glob(glob) => drop_empty(&mut self.globs, glob.literal_prefix()),
            By::Labels(labelled) => {
                let Some((key, value)) = &labelled.required else { return };
                let Some(values) = self.labelled.get_mut(key) else { return };
                drop_empty(values, value);
                if values.is_empty() {
                    self.labelled.remove(key);
                }
            }
            By::All => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.labelled.is_empty() && self.globs.is_empty() && self.rest.0.is_empty()
    }
}

fn drop_empty<T>(lists: &mut BTreeMap<Arc<str>, Entries<T>>, key: &str) {
    if lists.get(key).is_some_and(|entries| entries.0.is_empty()) {
        lists.remove(key);
    }
}

/// The lists whose keys a name begins with, the longest first.
///
/// Of the keys up to the name in order, the last is the longest that it begins with, or none that it begins with is
/// longer than what the two have in common. So a few steps find them all.
fn prefixes<'a, T>(
    lists: &'a BTreeMap<Arc<str>, Entries<T>>,
    name: &str,
) -> impl Iterator<Item = &'a Entries<T>> {
    let mut upto = Bound::Included(name);
    iter::from_fn(move || {
        loop {
            let (key, entries) = lists.range::<str, _>((Bound::Unbounded, upto)).next_back()?;
            if name.starts_with(&**key) {
                upto = Bound::Excluded(&name[..key.len()]);
                return Some(entries);
            }
            let common =
                key.chars().zip(name.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
            upto = Bound::Included(&name[..common]);
        }
    })
}
