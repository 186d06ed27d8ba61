//! What a deletion hits. Only a Cluster that still exports is refused: a refused deletion would hold up that of its
//! namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Kind, Request, Verdict,
    conflicts::{self, About, Rule, Subject, listed},
    override_policy,
    propagation_policy::{self, edited_key},
    ready,
    selection::Selection,
    state::{Change, Part, State, object as object_of},
    winners,
};
use crate::{
    api::{OverridePolicy, PropagationPolicy, names::annotation},
    decide::{
        ids::{ClusterName, ServiceKey},
        policies::{Edit, PolicyKey},
        view::View,
    },
};

/// As many objects of a policy as are looked at.
const EXAMINED: usize = 200;

/// Judges a deletion.
pub(super) fn judge(view: &View, kind: Kind, request: &Request) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(object) = &request.old_object else {
        return verdict;
    };
    // It is being deleted already.
    if object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return verdict;
    }
    if !ready(view, &mut verdict) {
        return verdict;
    }
    let key = ServiceKey::parse(&request.namespace, request.object_name()).ok();
    match (kind, key) {
        (Kind::Cluster, _) => cluster(view, request, object, &mut verdict),
        (Kind::ServiceImport, Some(key)) => import(view, &key, &mut verdict),
        (Kind::ServiceExport, Some(key)) => export(view, &key, &mut verdict),
        (Kind::PropagationPolicy | Kind::ClusterPropagationPolicy, _) => {
            propagation(view, request, object, &mut verdict);
        }
        (Kind::OverridePolicy | Kind::ClusterOverridePolicy, _) => {
            overriding(view, request, object, &mut verdict);
        }
        _ => {}
    }
    verdict
}

fn cluster(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let (name, state) = (request.object_name(), State::now(view));
    let services: BTreeSet<_> = view.exports().keys().chain(view.all_records().keys()).collect();
    let exported = services.into_iter().filter(|key| state.exports(key).contains_key(name));
    let exported = listed(exported.map(ToString::to_string));
    if exported.is_empty() {
        return;
    }
    let annotations = object.pointer("/metadata/annotations");
    let asked = annotations.and_then(|annotations| annotations.get(annotation::DELETE_WHILE_EXPORTING));
    if asked.is_some_and(|asked| asked == "true") {
        verdict
            .warn(format!("cluster {name} still exports {exported}; its endpoints are withdrawn everywhere"));
        return;
    }
    let rule = annotation::DELETE_WHILE_EXPORTING;
    verdict.fault(
        "metadata.name",
        format!(
            "cluster {name} still exports {exported}; place the ServiceExports elsewhere first, or annotate the Cluster \
             with `{rule}: \"true\"` to withdraw its endpoints everywhere"
        ),
    );
}

fn import(view: &View, key: &ServiceKey, verdict: &mut Verdict) {
    let state = State::now(view);
    let clusters = state.placed(Part::Import, key).unwrap_or_default();
    if state.template(Part::Export, key).is_some() {
        if !clusters.is_empty() {
            verdict.warn(format!("{key} is no longer imported by {}, and then by nobody", names(&clusters)));
        }
    } else if !widened(view, key, &clusters, verdict) && !clusters.is_empty() {
        verdict.warn(format!("{key} is no longer imported by {}", names(&clusters)));
    }
}

fn export(view: &View, key: &ServiceKey, verdict: &mut Verdict) {
    let state = State::now(view);
    let exporting = state.placed(Part::Export, key).unwrap_or_default();
    let importing = state.placed(Part::Import, key).unwrap_or_default();
    if !exporting.is_empty() {
        let but = if importing.is_empty() {
            String::new()
        } else {
            format!(", but imported by {}", names(&importing))
        };
        verdict.warn(format!("{key} is no longer exported by {}{but}", names(&exporting)));
    }
    if state.template(Part::Import, key).is_none() {
        let after = State::after(view, Change::Template(Part::Export, key, None));
        if !after.exports(key).is_empty() {
            widened(view, key, &importing, verdict);
        }
    }
}

/// Warns where the hub would no longer say who imports a service that members export by themselves.
fn widened(view: &View, key: &ServiceKey, clusters: &BTreeSet<ClusterName>, verdict: &mut Verdict) -> bool {
    let exporting = view.records(key).into_iter().flat_map(BTreeMap::keys).cloned().collect::<BTreeSet<_>>();
    if exporting.is_empty() {
        return false;
    }
    let now = if clusters.is_empty() { "nobody".to_owned() } else { names(clusters) };
    let namespace = &key.namespace;
    verdict.warn(format!(
        "{key} is imported by {now} now, and after this by every cluster that has namespace {namespace}: it is exported by \
         {}, and nothing on the hub says who may import it",
        names(&exporting)
    ));
    true
}

fn propagation(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let Ok(policy) = <PropagationPolicy as serde::Deserialize>::deserialize(object) else { return };
    let own = edited_key(request);
    let Some(stored) = view.propagations().get(&own) else { return };
    let gone = Edit::deletion(own.clone());
    let (before, after) = (State::now(view), State::after(view, Change::Propagation(&gone)));
    let selection = Selection::new(view, &request.namespace, &policy.spec.resource_selectors);
    let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for part in Part::ALL {
        for key in selection.services(part).into_iter().take(EXAMINED) {
            let Some(template) = before.template(part, key) else { continue };
            let object = object_of(part, key, template);
            if before.winner(&object).is_none_or(|winner| winner.policy.key != own) {
                continue;
            }
            let now = before.placed(part, key).unwrap_or_default();
            let fate = match after.winner(&object) {
                Some(next) => {
                    taken_over(part, &now, &after.placed(part, key).unwrap_or_default(), &next.policy.key)
                }
                None if now.is_empty() => continue,
                None if stored.body.delete_with_policy => {
                    format!("deleted from {}, as the policy asks", names(&now))
                }
                None => {
                    format!("stays in {} and goes nowhere else, as no other policy holds for it", names(&now))
                }
            };
            left.entry(fate).or_default().insert(format!("{} {key}", part.kind().kind));
        }
    }
    for (fate, objects) in left {
        verdict.warn(format!("{fate}: {}", listed(objects)));
    }
    let services = propagation_policy::affected(&selection);
    tell(&before, &after, &services, verdict);
}

/// What becomes of an object that another policy holds for next.
fn taken_over(
    part: Part,
    now: &BTreeSet<ClusterName>,
    next: &BTreeSet<ClusterName>,
    policy: &PolicyKey,
) -> String {
    let (more, fewer) = (next - now, now - next);
    let more = match part {
        _ if more.is_empty() => String::new(),
        Part::Import => format!(", is imported by {} as well", names(&more)),
        Part::Service | Part::Export => format!(", goes to {} as well", names(&more)),
    };
    let fewer = if fewer.is_empty() { String::new() } else { format!(", leaves {}", names(&fewer)) };
    format!("follows {} then{more}{fewer}", winners::policy(policy))
}

fn overriding(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let Ok(policy) = <OverridePolicy as serde::Deserialize>::deserialize(object) else { return };
    let gone = Edit::deletion(edited_key(request));
    let (before, after) = (State::now(view), State::after(view, Change::Override(&gone)));
    let selection = Selection::new(view, &request.namespace, &policy.spec.resource_selectors);
    let mut hit: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for part in [Part::Service, Part::Import] {
        for key in selection.services(part).into_iter().take(EXAMINED) {
            let Some(template) = before.template(part, key) else { continue };
            let placed = before.placed(part, key).unwrap_or_default();
            let copies = |state: &State<'_>| state.copies(part, key, template, &placed, Value::clone);
            let (old, new) = (copies(&before), copies(&after));
            let differ: BTreeSet<_> = placed.iter().filter(|c| old.get(*c) != new.get(*c)).cloned().collect();
            if !differ.is_empty() {
                hit.entry(names(&differ)).or_default().insert(format!("{} {key}", part.kind().kind));
            }
        }
    }
    for (clusters, objects) in hit {
        verdict.warn(format!("this changes in {clusters}: {}", listed(objects)));
    }
    let services = override_policy::affected(&selection, &policy.spec);
    tell(&before, &after, &services, verdict);
}

fn tell(before: &State<'_>, after: &State<'_>, services: &BTreeSet<ServiceKey>, verdict: &mut Verdict) {
    let subject = Subject { about: About::Policy("spec"), rule: Rule::Tell };
    conflicts::judge(before, after, services, subject, verdict);
}

fn names(clusters: &BTreeSet<ClusterName>) -> String {
    listed(clusters.iter().map(ToString::to_string))
}
