//! Objects that a policy selects and does not get: there are none, or another policy holds for them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Verdict,
    conflicts::listed,
    selection::Selection,
    state::{Part, State, object},
};
use crate::decide::{
    policies::{Match, PolicyKey, Propagation},
    select::{GroupKind, Object, by_name},
};

/// As many objects of a selector as are looked at.
const EXAMINED: usize = 100;

/// The policy that is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<'a> {
    pub(super) key: &'a PolicyKey,
    pub(super) priority: i32,
}

/// Warns of selectors that match nothing, and of objects that follow another policy.
pub(super) fn warn(selection: &Selection<'_>, state: &State<'_>, own: Own<'_>, verdict: &mut Verdict) {
    warn_of_nothing(selection, verdict);
    let nothing = BTreeMap::new();
    for (index, selector) in selection.selectors().iter().enumerate() {
        let mut lost: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut look = |object: &Object<'_>| {
            let Some(winner) = state.winner(object).filter(|winner| winner.policy.key != *own.key) else {
                return;
            };
            let text = format!("{} {}", object.kind.kind, shown(object));
            lost.entry(reason(selection, own, object, &winner)).or_default().insert(text);
        };
        let known = Part::ALL.into_iter().find(|part| selector.kind == *part.kind());
        if let Some(part) = known {
            for (key, template) in selection.matches(part, selector).take(EXAMINED) {
                look(&object(part, key, template));
            }
        } else if let Some(name) = by_name(selector) {
            // Of other kinds nothing is known here, but an object that is named can be asked for.
            let namespace = selection.namespace(selector).unwrap_or_default();
            look(&Object { kind: &selector.kind, namespace, name, labels: &nothing });
        }
        for (reason, objects) in lost {
            verdict.warn(format!("spec.resourceSelectors[{index}]: {reason} {}", listed(objects)));
        }
    }
}

/// Warns of selectors that match nothing.
pub(super) fn warn_of_nothing(selection: &Selection<'_>, verdict: &mut Verdict) {
    for (index, selector) in selection.selectors().iter().enumerate() {
        let known = Part::ALL.into_iter().find(|part| selector.kind == *part.kind());
        let found = match known {
            Some(part) => selection.matches(part, selector).next().is_some(),
            None if is_namespace(&selector.kind) => selection.matches_a_namespace(selector),
            None => continue,
        };
        if !found {
            verdict
                .warn(format!("spec.resourceSelectors[{index}]: it matches no {} yet", selector.kind.kind));
        }
    }
}

fn is_namespace(kind: &GroupKind) -> bool {
    kind.group.is_empty() && &*kind.kind == "Namespace"
}

fn shown(object: &Object<'_>) -> String {
    match object.namespace {
        "" => object.name.to_owned(),
        namespace => format!("{namespace}/{}", object.name),
    }
}

/// Which policy holds instead, and by what.
fn reason(
    selection: &Selection<'_>,
    own: Own<'_>,
    object: &Object<'_>,
    winner: &Match<'_, Propagation>,
) -> String {
    let holder = &winner.policy;
    let rank = selection.selectors().iter().filter_map(|selector| selector.rank(object)).max();
    let by = if own.key.namespace.is_none() && holder.key.namespace.is_some() {
        "a namespace's own policy goes before a cluster-wide one"
    } else if own.priority < holder.priority {
        "its priority is higher"
    } else if rank < Some(winner.rank) {
        "it names the object more closely"
    } else {
        "its name sorts first"
    };
    format!("{} holds instead ({by}) for", policy(&holder.key))
}

/// A policy in words.
pub(super) fn policy(key: &PolicyKey) -> String {
    let kind = if key.namespace.is_some() { "PropagationPolicy" } else { "ClusterPropagationPolicy" };
    format!("{kind} {key}")
}
