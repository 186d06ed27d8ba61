//! A PropagationPolicy or ClusterPropagationPolicy: what it selects, where that goes, and what that does to the ports of
//! services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Request, Verdict,
    conflicts::{self, About, Rule, Subject},
    decoded, ready, references,
    selection::Selection,
    state::{Change, Part, State},
    supported, vain,
    winners::{self, Own},
};
use crate::{
    api::PropagationPolicy,
    decide::{
        fault::Fault,
        ids::ServiceKey,
        policies::{Edit, PolicyKey, Propagation},
        view::{self, View},
    },
};

/// What is wrong with the object by itself.
pub(super) fn form(view: &View, request: &Request, object: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    supported(request, object, &mut verdict);
    let Some(policy) = decoded::<PropagationPolicy>(object, &mut verdict) else {
        return verdict;
    };
    vain::selectors(&policy.spec.resource_selectors, &mut verdict);
    if let Err(faults) = edit(view, request, policy) {
        verdict.more_faults(faults);
    }
    verdict
}

/// What is wrong with it beside what the hub holds.
pub(super) fn beside(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let Some(policy) = read(object) else { return };
    let Ok(edited) = edit(view, request, policy.clone()) else { return };
    if !ready(view, verdict) {
        return;
    }
    references::of_propagation(&references::known(view), &policy.spec, verdict);
    vain::placement(view, &policy.spec.placement, verdict);
    let selection = Selection::new(view, &request.namespace, &policy.spec.resource_selectors);
    selection.refuse_ways_in(verdict);
    let after = State::after(view, Change::Propagation(&edited));
    let own = Own { key: &edited_key(request), priority: policy.spec.priority };
    winners::warn(&selection, &after, own, verdict);
    for (index, name) in policy.spec.dependent_overrides.iter().enumerate() {
        let key = PolicyKey { name: name.as_str().into(), ..edited_key(request) };
        if view.overrides().get(&key).is_none() {
            let field = format!("spec.dependentOverrides[{index}]");
            verdict.warn(format!(
                "{field}: there is no override policy {key} yet; nothing is sent until there is"
            ));
        }
    }

    let old = request.old_object.as_ref().and_then(read);
    let mut services = affected(&selection);
    if let Some(old) = &old {
        services.extend(affected(&Selection::new(view, &request.namespace, &old.spec.resource_selectors)));
    }
    let old = old.and_then(|old| edit(view, request, old).ok());
    let old = old.unwrap_or_else(|| Edit::deletion(edited_key(request)));
    let before = State::after(view, Change::Propagation(&old));
    let subject = Subject { about: About::Policy("spec.placement"), rule: Rule::of(view::resolves(object)) };
    conflicts::judge(&before, &after, &services, subject, verdict);
}

/// The exported services of which a policy selects anything.
pub(super) fn affected(selection: &Selection<'_>) -> BTreeSet<ServiceKey> {
    let selected = Part::ALL.into_iter().flat_map(|part| selection.services(part));
    selected.filter(|key| selection.is_exported(key)).cloned().collect()
}

/// The key of the policy that a request is about.
pub(super) fn edited_key(request: &Request) -> PolicyKey {
    let namespace = Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    PolicyKey { namespace: namespace.map(Into::into), name: request.object_name().into() }
}

pub(super) fn edit(
    view: &View,
    request: &Request,
    policy: PropagationPolicy,
) -> Result<Edit<Propagation>, Vec<Fault>> {
    let PropagationPolicy { mut metadata, spec, .. } = policy;
    metadata.namespace = Some(request.namespace.clone());
    metadata.name = Some(request.object_name().to_owned());
    view.propagations().edited(&metadata, &spec)
}

/// Both kinds read alike.
fn read(object: &Value) -> Option<PropagationPolicy> {
    serde::Deserialize::deserialize(object).ok()
}
