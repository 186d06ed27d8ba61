//! A Service on the hub. The API server judges Services by itself; here only the ports of exported ones count, and only
//! where they change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Request, Verdict,
    conflicts::{self, About, Rule, Subject},
    ready,
    state::{Change, Part, State},
};
use crate::decide::{
    ids::ServiceKey,
    view::{Offer, Template, View},
};

/// What of a Service is told to other clusters' consumers and may conflict.
const JUDGED: [&str; 3] = ["/spec/ports", "/spec/type", "/spec/clusterIP"];

/// What is wrong with it beside what the hub holds.
pub(super) fn beside(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let old = request.old_object.as_ref();
    if old.is_some_and(|old| JUDGED.iter().all(|field| old.pointer(field) == object.pointer(field))) {
        return;
    }
    let Ok(key) = ServiceKey::parse(&request.namespace, request.object_name()) else { return };
    if !view.exports().contains_key(&key) && view.records(&key).is_none() {
        return;
    }
    if !ready(view, verdict) {
        return;
    }
    let (offer, template, old) = (Offer::of(object), Template::of(object), old.map(Template::of));
    if offer.external_name {
        verdict.warn(format!("spec.type: {key} is exported, and a Service of type ExternalName cannot be"));
    }
    let before = State::after(view, Change::Template(Part::Service, &key, old.as_ref()));
    let after = State::after(view, Change::Template(Part::Service, &key, Some(&template)));
    let subject = Subject { about: About::Service(&offer), rule: Rule::of(template.resolves) };
    conflicts::judge(&before, &after, &BTreeSet::from([key.clone()]), subject, verdict);
}
