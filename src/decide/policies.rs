//! Policies: which of them holds for an object.
//!
//! [`Index`] keeps track of all PropagationPolicies and ClusterPropagationPolicies ([`Propagations`]) or of all
//! OverridePolicies and ClusterOverridePolicies ([`super::overrides::Overrides`]). Feed it by `apply` and `delete`, ask it
//! by [`Index::winner`] and [`Index::explain`]. Precedence is Karmada's, looked at anew each time:
//!
//! 1. any policy of the object's namespace before any cluster-wide one, whatever their priorities;
//! 2. the highest `priority`;
//! 3. the closest selector: name, glob, labels, kind ([`Rank`]);
//! 4. the name that sorts first.
//!
//! A policy that is being deleted holds for nothing; one that is suspended holds all the same. A policy with faults is as
//! if it were not there, and [`Index::faults`] says why. Nothing holds for what is never a template ([`never`]).

mod entries;
mod index;
pub mod never;
mod propagation;
mod reach;
#[cfg(test)]
mod tests;
pub mod validate;

use std::{
    cmp::{Ordering, Reverse},
    fmt,
    sync::Arc,
};

use kube::core::ObjectMeta;

pub(super) use index::{Compiled, fingerprint};
pub use index::{Edit, Index};
pub use propagation::{Propagation, Propagations};
pub use reach::Reach;

use super::select::{Object, Rank, Resources};

/// A policy's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    /// None for a cluster-wide policy.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
}

/// A policy, compiled. `T` is what it says about the objects that it holds for.
#[derive(Debug)]
pub struct Policy<T> {
    /// Which it is.
    pub key: PolicyKey,
    /// Its `priority`; 0 for overrides, which have none.
    pub priority: i32,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it speaks of; everything if empty.
    pub selectors: Box<[Resources]>,
    /// What it says. Policies that say the same share it.
    pub body: Arc<T>,
    /// Finds policies that say the same.
    pub(super) fingerprint: u64,
}

/// That a policy speaks of an object, and how closely it names it.
#[derive(Debug)]
pub struct Match<'a, T> {
    /// The policy.
    pub policy: &'a Arc<Policy<T>>,
    /// The closest of its selectors that match; none where it speaks of everything.
    pub selector: Option<usize>,
    /// How closely that names the object.
    pub rank: Rank,
}

/// A policy that speaks of an object, and what became of that.
#[derive(Debug)]
pub struct Candidate<'a, T> {
    /// The policy.
    pub matched: Match<'a, T>,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// Whether a policy holds for an object that it speaks of, or by what it loses to the one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It is being deleted.
    Deleting,
    /// A policy of the object's namespace goes before it.
    ClusterWide,
    /// Another has a higher priority.
    Priority,
    /// Another names the object more closely.
    Rank,
    /// Another's name sorts before its own.
    Name,
}

// === impl PolicyKey ===

impl PolicyKey {
    /// The key of a policy.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).map(Arc::from),
            name: metadata.name.as_deref().unwrap_or_default().into(),
        }
    }

    /// The key that a copy is stamped with, as it is shown; none where it is not of the form that is known here.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/').map_or((None, text), |(of, name)| (Some(of), name));
        let is_name = |part: &str| !part.is_empty() && !part.contains(['/', ' ', '{']);
        (is_name(name) && namespace.is_none_or(is_name))
            .then(|| Self { namespace: namespace.map(Arc::from), name: name.into() })
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

// === impl Policy ===

impl<T> Policy<T> {
    /// The closest match of its selectors, whether or not it is being deleted.
    fn matches(self: &Arc<Self>, object: &Object<'_>) -> Option<Match<'_, T>> {
        if self.key.namespace.as_deref().is_some_and(|namespace| namespace != object.namespace) {
            return None;
        }
        if self.selectors.is_empty() {
            return self.reaches(object).then_some(Match { policy: self, selector: None, rank: Rank::All });
        }
        let ranks = self.selectors.iter().map(|selector| selector.rank(object)).enumerate();
        let (selector, rank) = ranks
            .filter_map(|(index, rank)| Some((index, rank?)))
            .max_by_key(|(index, rank)| (*rank, Reverse(*index)))?;
        Some(Match { policy: self, selector: Some(selector), rank })
    }

    /// Whether a policy that speaks of everything means this too: a namespaced one never the kinds that rule over
    /// others.
    fn reaches(&self, object: &Object<'_>) -> bool {
        self.key.namespace.is_none() || !never::rules_over_others(object.kind)
    }
}

// === impl Match ===

impl<T> Clone for Match<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Match<'_, T> {}

impl<T> Match<'_, T> {
    /// Orders by precedence, the stronger first.
    fn precedence(&self, other: &Match<'_, T>) -> Ordering {
        let key = |m: &Self| (m.policy.key.namespace.is_none(), Reverse(m.policy.priority), Reverse(m.rank));
        let other_key =
            (other.policy.key.namespace.is_none(), Reverse(other.policy.priority), Reverse(other.rank));
        key(self).cmp(&other_key).then_with(|| self.policy.key.name.cmp(&other.policy.key.name))
    }

    /// By what it loses to another that holds.
    fn loses_by(&self, holder: &Match<'_, T>) -> Verdict {
        if self.policy.key.namespace.is_none() && holder.policy.key.namespace.is_some() {
            Verdict::ClusterWide
        } else if self.policy.priority != holder.policy.priority {
            Verdict::Priority
        } else if self.rank != holder.rank {
            Verdict::Rank
        } else {
            Verdict::Name
        }
    }
}

// === impl Verdict ===

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "it holds",
            Self::Deleting => "it is being deleted",
            Self::ClusterWide => "a policy of the object's own namespace goes before it",
            Self::Priority => "another has a higher priority",
            Self::Rank => "another names the object more closely",
            Self::Name => "another's name sorts before its own",
        })
    }
}
