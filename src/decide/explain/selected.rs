//! Why no policy selects an object: one that nearly does is most likely the one that was meant to.

use super::{Finding, Read, listed, policy::shown, read};
use crate::decide::{
    copy::ObjectKey,
    policies::{Candidate, PolicyKey, Propagation},
    select::{By, Object, Resources},
};

/// Why no policy holds for an object.
pub(super) fn unselected(
    read: &Read,
    key: &ObjectKey,
    object: &Object<'_>,
    candidates: &[Candidate<'_, Propagation>],
) -> Finding {
    let own = format!("kind: {}, name: {}", object.kind.kind, object.name);
    let place = match object.namespace {
        "" => "a ClusterPropagationPolicy".to_owned(),
        namespace => format!("a PropagationPolicy in namespace {namespace}"),
    };
    let way_out = format!("name it in spec.resourceSelectors of {place} ({own})");
    if let Some(candidate) = candidates.first() {
        let cause =
            format!("no policy selects it: {} is being deleted", shown(&candidate.matched.policy.key));
        return Finding::not_well(cause, way_out);
    }
    if let Some((key, why)) = faulty(read, object) {
        let cause = format!("no policy selects it: {} takes no part: {why}", shown(&key));
        return Finding::not_well(cause, "correct the policy");
    }
    if let Some(finding) = elsewhere(read, key, object) {
        return finding;
    }
    match near(read, object).as_slice() {
        [] => Finding::not_well("no policy selects it", way_out),
        near => Finding::not_well(format!("no policy selects it: {}", listed(near)), way_out),
    }
}

/// A policy with faults that speaks of the kind.
fn faulty(read: &Read, object: &Object<'_>) -> Option<(PolicyKey, String)> {
    let propagations = read.view.propagations();
    let mut in_scope = read.policies.iter().filter(|(key, policy)| {
        key.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace)
            && policy.spec.resource_selectors.iter().any(|selector| selector.kind == *object.kind.kind)
    });
    in_scope.find_map(|(key, _)| Some((key.clone(), propagations.faults(key).first()?.to_string())))
}

/// A policy that selects just such an object, but in another namespace.
fn elsewhere(read: &Read, own: &ObjectKey, object: &Object<'_>) -> Option<Finding> {
    // One that has what it selects was not meant for this one.
    let served: &[String] = read.namesakes.get(own).map_or(&[], Vec::as_slice);
    let idle = |key: &PolicyKey| {
        let status = read.policies.get(key).map(|policy| &policy.status);
        let has_one = key.namespace.as_ref().is_some_and(|own| served.iter().any(|other| **other == **own));
        !has_one && status.is_some_and(|status| status.matched.unwrap_or_default() == 0)
    };
    let policies = read.view.propagations().policies();
    let policies = policies.filter(|policy| !policy.deleting && idle(&policy.key));
    let mut found = policies.filter_map(|policy| {
        // What a whole kind is selected by was meant for its own namespace.
        let means = |selector: &Resources| {
            let anywhere = Resources { namespace: None, ..selector.clone() };
            !matches!(selector.by, By::All) && anywhere.rank(object).is_some()
        };
        let index = policy.selectors.iter().position(means)?;
        Some((&policy.key, index))
    });
    let (key, index) = found.next()?;
    Some(match &key.namespace {
        Some(namespace) => Finding::not_well(
            format!(
                "no policy selects it: {} selects such an object, but only in its own namespace {namespace}",
                shown(key)
            ),
            format!("move the policy to namespace {}, or write a ClusterPropagationPolicy", object.namespace),
        ),
        None => Finding::not_well(
            format!(
                "no policy selects it: {} selects such an object, but not in namespace {}",
                shown(key),
                object.namespace
            ),
            format!("change spec.resourceSelectors[{index}].namespace of the policy, or leave it out"),
        ),
    })
}

/// Policies that speak of the kind in the object's namespace, and what they go by.
fn near(read: &Read, object: &Object<'_>) -> Vec<String> {
    let policies = read.view.propagations().policies().filter(|policy| {
        !policy.deleting
            && policy.key.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace)
    });
    let near = policies.filter_map(|policy| {
        let selector = policy.selectors.iter().find(|selector| selector.kind == *object.kind)?;
        let by = match &selector.by {
            By::Name(name) => format!("the name {name}"),
            By::Glob(glob) => format!("the name {}", glob.as_str()),
            By::Labels(_) => "labels that it has not".to_owned(),
            By::All => "another namespace".to_owned(),
        };
        Some(format!("{} selects the kind by {by}", shown(&policy.key)))
    });
    near.take(3).map(|text| read::one_line(&text)).collect()
}
