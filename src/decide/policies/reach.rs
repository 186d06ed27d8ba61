//! Which objects a change of a policy may concern.

use std::sync::Arc;

use super::{Policy, PolicyKey};
use crate::decide::select::{GroupKind, Object, Pattern, Resources, by_name};

/// Objects that a change of a policy may concern. None of a field means any.
///
/// It may cover more than the policy matches (of globs and labels it says any name), never less.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach {
    /// Their kind.
    pub kind: Option<GroupKind>,
    /// Their namespace.
    pub namespace: Option<Arc<str>>,
    /// Their name.
    pub name: Option<Arc<str>>,
}

// === impl Reach ===

impl Reach {
    /// Whether it covers an object.
    pub fn covers(&self, object: &Object<'_>) -> bool {
        self.kind.as_ref().is_none_or(|kind| kind == object.kind)
            && self.namespace.as_ref().is_none_or(|namespace| **namespace == *object.namespace)
            && self.name.as_ref().is_none_or(|name| **name == *object.name)
    }

    /// What a policy reaches.
    pub(super) fn of<T>(policy: &Policy<T>) -> impl Iterator<Item = Self> {
        let everything = Self { kind: None, namespace: policy.key.namespace.clone(), name: None };
        let selected = policy.selectors.iter().map(|selector| Self::selected(&policy.key, selector));
        policy.selectors.is_empty().then_some(everything).into_iter().chain(selected)
    }

    fn selected(key: &PolicyKey, selector: &Resources) -> Self {
        let namespace = match (&key.namespace, &selector.namespace) {
            (Some(own), _) => Some(own.clone()),
            (None, Some(Pattern::Plain(namespace))) => Some(namespace.clone()),
            (None, Some(Pattern::Glob(_)) | None) => None,
        };
        Self { kind: Some(selector.kind.clone()), namespace, name: by_name(selector).cloned() }
    }
}
