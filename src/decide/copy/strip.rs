//! What of a template may go to a member, and what is never a template (7.6).
//!
//! What the hub's own API server and controllers put on an object is not the user's wish, and in a member it would fight
//! with what that cluster's own put there. [`strip`] is the entry; doing it twice changes nothing.

use serde_json::{Map, Value};

use super::kind_of;
use crate::api::{
    mcs::GROUP,
    names::{self, annotation, karmada, kubernetes, mcs},
};

type Fields = Map<String, Value>;

/// What of an object's metadata goes with it to a member.
const KEPT: [&str; 4] = ["annotations", "labels", "name", "namespace"];
/// Kinds on which our rule for port conflicts is the user's word to the member's agent.
const WITH_PORTS: [(&str, &str); 3] = [("", "Service"), (GROUP, "ServiceExport"), (GROUP, "ServiceImport")];
/// Labels that the API server gives a Job's pods, and so the Job where it has none of its own.
const JOB_LABELS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];

/// What of a template may go to a member.
///
/// Takes the object as the hub's API server gives it, managedFields included: only they tell a Service's families that
/// its user set from those that the server chose. Fields that are null go, since server-side apply would own them.
pub fn strip(object: &Value) -> Value {
    let Value::Object(fields) = object else { return Value::Null };
    let kept = fields.iter().filter(|(field, _)| *field != "status");
    let kept = kept.map(|(field, value)| {
        let value = if field == "metadata" { metadata(value) } else { value.clone() };
        (field.clone(), value)
    });
    let mut stripped = Value::Object(kept.collect());
    drop_nulls(&mut stripped);
    if let Value::Object(stripped) = &mut stripped {
        strip_kind(stripped, object);
    }
    clean_metadata(&mut stripped);
    stripped
}

/// What is kept of metadata; picked before it is cloned, since managedFields are the greater part of many objects.
fn metadata(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let kept = fields.filter(|(field, _)| KEPT.contains(&field.as_str()));
    Value::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect())
}

/// Why an object can never be a template, by what selectors do not see of it; none if it can.
pub fn never(object: &Value) -> Option<&'static str> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if owners.into_iter().flatten().any(|owner| owner.get("controller") == Some(&Value::Bool(true))) {
        return Some("a controller owns it, and would make it in each member too; select its owner instead");
    }
    if text("/apiVersion") != Some("v1") || text("/kind") != Some("Secret") {
        return None;
    }
    match text("/type")? {
        "kubernetes.io/service-account-token" => {
            Some("it holds a service account's token, which is worth something in this cluster only")
        }
        "bootstrap.kubernetes.io/token" => {
            Some("it holds a bootstrap token, by which nodes join this cluster only")
        }
        _ => None,
    }
}

/// Reduces metadata to what may go to a member: what it is called, and the user's own labels and annotations.
pub(super) fn clean_metadata(object: &mut Value) {
    let ports = kind_of(object).is_some_and(|kind| WITH_PORTS.contains(&(&kind.group, &kind.kind)));
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|field, _| KEPT.contains(&field.as_str()));
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(marks)) = metadata.get_mut(field) {
            marks.retain(|key, _| (ports && key == annotation::PORT_CONFLICTS) || !is_bookkeeping(key));
        }
    }
    metadata.retain(|_, value| !is_empty_map(value));
}

/// Takes out the fields that are null, at any depth. Items of lists stay: they have a place.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_empty_map(value: &Value) -> bool {
    value.as_object().is_some_and(Fields::is_empty)
}

/// Whether a label or annotation is some controller's own note about the object where it stands.
pub fn is_bookkeeping(key: &str) -> bool {
    key.starts_with(names::PREFIX)
        || key.starts_with(mcs::PREFIX)
        || kubernetes::BOOKKEEPING.contains(&key)
        || kubernetes::BOOKKEEPING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || karmada::BOOKKEEPING.contains(&key)
        || karmada::BOOKKEEPING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Takes out what the hub's cluster put into an object of a kind that Kubernetes itself knows.
fn strip_kind(stripped: &mut Fields, object: &Value) {
    let Some(kind) = kind_of(object) else { return };
    match (&*kind.group, &*kind.kind) {
        ("", "Service") => strip_service(stripped, object),
        ("", "Pod") => remove(stripped, "spec", &["nodeName", "preemptionPolicy", "priority"]),
        ("", "PersistentVolumeClaim") => remove(stripped, "spec", &["volumeName"]),
        ("", "PersistentVolume") => remove(stripped, "spec", &["claimRef"]),
        ("", "Namespace") => remove(stripped, "spec", &["finalizers"]),
        ("", "ServiceAccount") => strip_service_account(stripped, object),
        ("apps", "StatefulSet") => strip_stateful_set(stripped),
        ("batch", "Job") => strip_job(stripped, object),
        // Its rules are gathered by a controller, in each cluster from that cluster's roles.
        ("rbac.authorization.k8s.io", "ClusterRole") if stripped.contains_key("aggregationRule") => {
            stripped.remove("rules");
        }
        _ => {}
    }
}

/// Removes fields of a field, and that itself where nothing is left of it.
fn remove(object: &mut Fields, field: &str, fields: &[&str]) {
    let Some(Value::Object(inner)) = object.get_mut(field) else { return };
    inner.retain(|field, _| !fields.contains(&field.as_str()));
    if inner.is_empty() {
        object.remove(field);
    }
}

fn strip_service(stripped: &mut Fields, object: &Value) {
    let Some(Value::Object(spec)) = stripped.get_mut("spec") else { return };
    if spec.get("clusterIP").is_none_or(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(port) = port {
            port.remove("nodePort");
        }
    }
    for field in ["ipFamilies", "ipFamilyPolicy"] {
        if !may_be_set(object, field) {
            spec.remove(field);
        }
    }
}

/// Whether a user may have set a field of a Service's spec that the API server chooses otherwise.
///
/// What the server chooses after decoding is nobody's in managedFields. Without any of them nothing is known: then it stays.
fn may_be_set(object: &Value, field: &str) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let Some(entries) = entries.filter(|entries| !entries.is_empty()) else { return true };
    let listed = format!("f:{field}");
    entries
        .iter()
        .any(|entry| entry.pointer("/fieldsV1/f:spec").is_some_and(|spec| spec.get(&listed).is_some()))
}

/// Takes out the tokens that older clusters make for every account, as Karmada does: known by their name only.
fn strip_service_account(stripped: &mut Fields, object: &Value) {
    let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str) else { return };
    let Some(Value::Array(secrets)) = stripped.get_mut("secrets") else { return };
    let token = format!("{name}-token-");
    let is_token = |secret: &Value| {
        secret.get("name").and_then(Value::as_str).is_some_and(|secret| secret.starts_with(&token))
    };
    secrets.retain(|secret| !is_token(secret));
    if secrets.is_empty() {
        stripped.remove("secrets");
    }
}

fn strip_stateful_set(stripped: &mut Fields) {
    let claims = stripped.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
    for claim in claims.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(claim) = claim {
            claim.remove("status");
        }
    }
}

/// Takes out what the API server made up so that a Job finds its own pods; where the user did that, it stays.
///
/// And when it is to be deleted: a copy that goes by itself is made again, and would run again (karmada#2197).
fn strip_job(stripped: &mut Fields, object: &Value) {
    remove(stripped, "spec", &["ttlSecondsAfterFinished"]);
    if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(Value::Object(metadata)) = stripped.get_mut("metadata") {
        remove(metadata, "labels", &JOB_LABELS);
    }
    remove(stripped, "spec", &["selector"]);
    let template = stripped.get_mut("spec").and_then(|spec| spec.get_mut("template"));
    let Some(Value::Object(template)) = template else { return };
    if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
        remove(metadata, "labels", &JOB_LABELS);
    }
    remove(template, "metadata", &[]);
}
