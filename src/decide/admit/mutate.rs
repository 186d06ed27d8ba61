//! What is filled in where an object leaves it open, and nothing else.
//!
//! Computed on the object as it came, never on a typed reading of it: a field that this release does not know stays as
//! it is. Filling in twice is filling in once.

use serde_json::{Map, Value, json};

use super::{Kind, Request, Verdict};
use crate::{api::names::annotation, decide::view::View};

/// Seconds that a client stays with its endpoint, where nothing else is said. A Service's own default.
const AFFINITY_SECONDS: u32 = 10_800;

pub(super) fn mutate(view: &View, kind: Kind, request: &Request) -> Verdict {
    let Some(object) = &request.object else {
        return Verdict::default();
    };
    let mut filled = object.clone();
    match kind {
        Kind::ServiceExport => conflict_rule(view, request, &mut filled),
        Kind::ServiceImport => {
            import(&mut filled);
            conflict_rule(view, request, &mut filled);
        }
        Kind::PropagationPolicy | Kind::ClusterPropagationPolicy => {
            selectors(request, &mut filled);
            propagation(&mut filled);
        }
        Kind::OverridePolicy | Kind::ClusterOverridePolicy => selectors(request, &mut filled),
        Kind::Cluster => fill(filled.pointer_mut("/spec"), "syncMode", || json!("Push")),
        Kind::Service => {}
    }
    Verdict { patch: json_patch::diff(object, &filled), ..Verdict::default() }
}

fn import(object: &mut Value) {
    fill(object.pointer_mut("/spec"), "type", || json!("ClusterSetIP"));
    fill(object.pointer_mut("/spec"), "sessionAffinity", || json!("None"));
    for port in items(object.pointer_mut("/spec/ports")) {
        fill(Some(port), "protocol", || json!("TCP"));
    }
    if object.pointer("/spec/sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
        let empty = || Value::Object(Map::new());
        fill(object.pointer_mut("/spec"), "sessionAffinityConfig", empty);
        fill(object.pointer_mut("/spec/sessionAffinityConfig"), "clientIP", empty);
        let client = object.pointer_mut("/spec/sessionAffinityConfig/clientIP");
        fill(client, "timeoutSeconds", || json!(AFFINITY_SECONDS));
    }
}

/// The namespace's rule, so that one sees under which rule the object was admitted.
fn conflict_rule(view: &View, request: &Request, object: &mut Value) {
    if !view.resolves_in(&request.namespace) {
        return;
    }
    let metadata = object.pointer_mut("/metadata");
    fill(metadata, "annotations", || Value::Object(Map::new()));
    let annotations = object.pointer_mut("/metadata/annotations");
    fill(annotations, annotation::PORT_CONFLICTS, || json!(annotation::PORT_CONFLICTS_RESOLVE));
}

/// A namespaced policy selects in its own namespace.
fn selectors(request: &Request, object: &mut Value) {
    if request.namespace.is_empty() {
        return;
    }
    for selector in items(object.pointer_mut("/spec/resourceSelectors")) {
        fill(Some(selector), "namespace", || json!(request.namespace));
    }
}

fn propagation(object: &mut Value) {
    fill(object.pointer_mut("/spec"), "conflictResolution", || json!("Abort"));
    for constraint in items(object.pointer_mut("/spec/placement/spreadConstraints")) {
        if constraint.get("minGroups").is_some_and(|least| least == 0) {
            constraint["minGroups"] = json!(1);
        }
        fill(Some(constraint), "minGroups", || json!(1));
    }
}

/// Sets a field of an object that is absent, null or empty text, which Go writes alike.
fn fill(object: Option<&mut Value>, field: &str, value: impl FnOnce() -> Value) {
    let Some(fields) = object.and_then(Value::as_object_mut) else {
        return;
    };
    let open = fields.get(field).is_none_or(|value| value.is_null() || value == "");
    if open {
        fields.insert(field.to_owned(), value());
    }
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}
