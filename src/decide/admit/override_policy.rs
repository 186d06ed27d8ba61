//! An OverridePolicy or ClusterOverridePolicy: what it selects and changes, and what that does to the ports of services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Request, Verdict,
    conflicts::{self, About, Rule, Subject},
    decoded,
    propagation_policy::edited_key,
    ready, references,
    selection::Selection,
    state::{Change, Part, State},
    supported, vain, winners,
};
use crate::{
    api::{OverridePolicy, overrides::OverrideSpec},
    decide::{
        fault::Fault,
        ids::ServiceKey,
        overrides::Override,
        policies::Edit,
        view::{self, View},
    },
};

/// As many objects of a kind as are looked at for whether the policy can change them.
const EXAMINED: usize = 20;

/// What is wrong with the object by itself.
pub(super) fn form(view: &View, request: &Request, object: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    supported(request, object, &mut verdict);
    let Some(policy) = decoded::<OverridePolicy>(object, &mut verdict) else {
        return verdict;
    };
    vain::selectors(&policy.spec.resource_selectors, &mut verdict);
    vain::overriders(&policy.spec, &mut verdict);
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
    references::of_override(&references::known(view), &policy.spec, verdict);
    let selection = Selection::new(view, &request.namespace, &policy.spec.resource_selectors);
    selection.refuse_ways_in(verdict);
    winners::warn_of_nothing(&selection, verdict);
    let after = State::after(view, Change::Override(&edited));
    inapplicable(&selection, &after, request, verdict);

    let old = request.old_object.as_ref().and_then(read);
    let mut services = affected(&selection, &policy.spec);
    if let Some(old) = &old {
        let selection = Selection::new(view, &request.namespace, &old.spec.resource_selectors);
        services.extend(affected(&selection, &old.spec));
    }
    let old = old.and_then(|old| edit(view, request, old).ok());
    let old = old.unwrap_or_else(|| Edit::deletion(edited_key(request)));
    let before = State::after(view, Change::Override(&old));
    let field = if policy.spec.override_rules.is_empty() { "spec.overriders" } else { "spec.overrideRules" };
    let subject = Subject { about: About::Policy(field), rule: Rule::of(view::resolves(object)) };
    conflicts::judge(&before, &after, &services, subject, verdict);
}

/// The exported services whose ports a policy may change.
pub(super) fn affected(selection: &Selection<'_>, spec: &OverrideSpec) -> BTreeSet<ServiceKey> {
    let rules = spec.override_rules.iter().map(|rule| &rule.overriders).chain([&spec.overriders]);
    if !rules.into_iter().any(|rule| !rule.plaintext.is_empty() || !rule.field_overrider.is_empty()) {
        return BTreeSet::new();
    }
    let selected = [Part::Service, Part::Import].into_iter().flat_map(|part| selection.services(part));
    selected.filter(|key| selection.is_exported(key)).cloned().collect()
}

/// Warns of what the policy cannot do to the objects that it selects.
fn inapplicable(selection: &Selection<'_>, state: &State<'_>, request: &Request, verdict: &mut Verdict) {
    let own = edited_key(request);
    for part in [Part::Service, Part::Import] {
        for key in selection.services(part).into_iter().take(EXAMINED) {
            let Some(template) = state.template(part, key) else { continue };
            let clusters = state.placed(part, key).unwrap_or_default();
            let failed = state.offers(part, key, template, &clusters).into_iter();
            let failed = failed.filter_map(|(cluster, offer)| Some((cluster, offer.err()?)));
            if let Some((cluster, failure)) = failed.into_iter().find(|(_, failure)| failure.policy == own) {
                let kind = &part.kind().kind;
                verdict.warn(format!(
                    "{kind} {key} cannot be changed so for cluster {cluster}: {}",
                    failure.fault
                ));
            }
        }
    }
}

pub(super) fn edit(
    view: &View,
    request: &Request,
    policy: OverridePolicy,
) -> Result<Edit<Override>, Vec<Fault>> {
    let OverridePolicy { mut metadata, spec, .. } = policy;
    metadata.namespace = Some(request.namespace.clone());
    metadata.name = Some(request.object_name().to_owned());
    view.overrides().edited(&metadata, &spec)
}

/// Both kinds read alike.
fn read(object: &Value) -> Option<OverridePolicy> {
    serde::Deserialize::deserialize(object).ok()
}
