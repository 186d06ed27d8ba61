//! Everything that is wrong with a policy, with field paths: what Karmada's webhook checks, and what it
//! forgets.
//!
//! Admission and the hub's index ask the same functions, so that no policy is admitted and then takes no part. What
//! Tombolo refuses as a whole ([`crate::api::support`]) is not looked into here, unless a placement could not be worked
//! out with it.

use super::never;
use crate::{
    api::{
        overrides::OverrideSpec,
        propagation::{Preemption, PropagationSpec, ResourceSelector, Suspension},
    },
    decide::{
        fault::{Fault, Path, Shown},
        ids::ClusterName,
        overrides::Rule,
        placement::Placement,
        select::{Pattern, Resources, by_name},
    },
};

/// Where a policy stands; what it may select depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The policy's namespace; none for a cluster-wide one.
    pub namespace: Option<&'a str>,
    /// Tombolo's own namespace.
    pub system_namespace: &'a str,
}

/// Everything that is wrong with a PropagationPolicy or ClusterPropagationPolicy.
pub fn validate_propagation(spec: &PropagationSpec, scope: Scope<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    propagation(spec, scope, &Path::root("spec"), &mut faults);
    faults
}

/// Everything that is wrong with an OverridePolicy or ClusterOverridePolicy.
pub fn validate_override(spec: &OverrideSpec, scope: Scope<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    overriding(spec, scope, &Path::root("spec"), &mut faults);
    faults
}

/// Compiles what a propagation policy selects and where it goes. What it returns counts only if there are no faults.
pub(super) fn propagation(
    spec: &PropagationSpec,
    scope: Scope<'_>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) -> Option<(Vec<Resources>, Placement)> {
    let listed = path.field("resourceSelectors");
    if spec.resource_selectors.is_empty() {
        faults.push(listed.fault("it is empty; name at least one kind"));
    }
    let selectors = resources(&spec.resource_selectors, scope, &listed, faults);
    if spec.preemption == Preemption::Always {
        for (index, selector) in spec.resource_selectors.iter().enumerate() {
            if selector.name.is_none() {
                faults.push(listed.index(index).field("name").fault(
                    "it is empty, which preemption Always does not allow; name the object, or leave preemption out",
                ));
            }
        }
    }
    if let Some(suspension) = &spec.suspension {
        suspended(suspension, &path.field("suspension"), faults);
    }
    let placement = Placement::compile(&spec.placement, &path.field("placement"), faults);
    Some((selectors, placement?))
}

/// Compiles what an override policy selects and changes. What it returns counts only if there are no faults.
pub(in crate::decide) fn overriding(
    spec: &OverrideSpec,
    scope: Scope<'_>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) -> (Vec<Resources>, Vec<Rule>) {
    let selectors = resources(&spec.resource_selectors, scope, &path.field("resourceSelectors"), faults);
    (selectors, Rule::compile_all(spec, path, faults))
}

/// Compiles resource selectors. Those that may never be selected are faults.
fn resources(
    selectors: &[ResourceSelector],
    scope: Scope<'_>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<Resources> {
    let mut compiled = Vec::with_capacity(selectors.len());
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        if let Some(selector) = Resources::compile(selector, scope.namespace, &path, faults) {
            forbidden(&selector, scope, &path, faults);
            compiled.push(selector);
        }
    }
    compiled
}

fn forbidden(selector: &Resources, scope: Scope<'_>, path: &Path<'_>, faults: &mut Vec<Fault>) {
    let (kind, system) = (&selector.kind, scope.system_namespace);
    if let Some(why) = never::kind(kind) {
        faults.push(path.field("kind").fault(format!("{kind} cannot be selected: {why}")));
    } else if scope.namespace.is_some() && never::rules_over_others(kind) {
        faults.push(path.field("kind").fault(format!(
            "{kind} cannot be selected by a policy of a namespace, since it rules over others; use a cluster-wide policy"
        )));
    }
    let (namespace, why) = match (&selector.namespace, scope.namespace) {
        (Some(Pattern::Plain(namespace)), _) => (Some(&**namespace), never::namespace(namespace, system)),
        // A glob that can match other namespaces too does so, and skips these.
        (Some(glob @ Pattern::Glob(_)), _) => (None, never::all_namespaces(glob.literal_prefix())),
        (None, Some(own)) => (Some(own), never::namespace(own, system)),
        (None, None) => (None, None),
    };
    if let Some(why) = why {
        let shown = selector.namespace.as_ref().map(Pattern::as_str).or(namespace).unwrap_or_default();
        faults.push(path.field("namespace").fault(format!("nothing can be selected in {shown}: {why}")));
    }
    if let Some(name) = by_name(selector)
        && let Some(why) = never::named(kind, namespace, name, system)
    {
        faults.push(path.field("name").fault(format!("{kind} {name} cannot be selected: {why}")));
    }
}

fn suspended(suspension: &Suspension, path: &Path<'_>, faults: &mut Vec<Fault>) {
    let names = suspension.dispatching_on_clusters.iter().flat_map(|some| &some.cluster_names);
    let on = path.field("dispatchingOnClusters");
    if suspension.dispatching == Some(true) && names.clone().next().is_some() {
        faults.push(on.fault(
            "it cannot stand beside dispatching: true, which holds for all clusters; leave one of them out",
        ));
    }
    let listed = on.field("clusterNames");
    for (index, name) in names.enumerate() {
        let fault = match Pattern::parse(name) {
            Ok(Pattern::Glob(_)) => {
                Some(format!("{} is a glob, which is not taken here; list the clusters", Shown(name)))
            }
            _ => name.parse::<ClusterName>().err().map(|error| error.to_string()),
        };
        faults.extend(fault.map(|message| listed.index(index).fault(message)));
    }
}
