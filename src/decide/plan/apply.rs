//! What `kubectl apply` makes of an object that is there, and the fields in which two objects differ.

use json_patch::PatchOperation;
use serde_json::Value;

/// Where `kubectl apply` remembers what it was given last.
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
/// As many fields as are told.
const FIELDS: usize = 8;
/// As long as a value is told as it is.
const SHORT: usize = 40;
/// What an API server writes and nobody applies.
const OWN: [&str; 5] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"];

/// What becomes of an object by `kubectl apply`: what is given, over what is there, without what was given the last time and is not
/// any more. Lists are taken as a whole.
pub fn applied(live: &Value, given: &Value) -> Value {
    let mut object = live.clone();
    let last = live.pointer(LAST_APPLIED).and_then(Value::as_str);
    if let Some(last) = last.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        leave_out(&mut object, &last, given);
    }
    json_patch::merge(&mut object, given);
    object
}

/// Leaves out what was given the last time and is not any more.
fn leave_out(object: &mut Value, last: &Value, given: &Value) {
    let (Some(object), Some(last)) = (object.as_object_mut(), last.as_object()) else { return };
    for (field, was) in last {
        match given.get(field) {
            // kubectl writes an empty one whether it was given or not.
            None if field == "annotations" && was.as_object().is_some_and(serde_json::Map::is_empty) => {}
            None => {
                object.remove(field);
            }
            Some(given) => {
                if let Some(inner) = object.get_mut(field) {
                    leave_out(inner, was, given);
                }
            }
        }
    }
}

/// The fields in which two objects differ, such as `spec.replicas: 1 → 2`. What only API servers write does not count. Values of
/// Secrets are not told.
pub fn differences(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (bare(before), bare(after));
    let secret = after["kind"] == "Secret";
    let json_patch::Patch(operations) = json_patch::diff(&before, &after);
    let said = |operation: &PatchOperation| {
        let path = operation.path().to_string();
        let old = before.pointer(&path).filter(|_| !secret);
        match operation {
            PatchOperation::Replace(new) if !secret => match (old.and_then(value), value(&new.value)) {
                (Some(old), Some(new)) => format!("{}: {old} → {new}", field(&path)),
                _ => field(&path),
            },
            PatchOperation::Add(new) if !secret => match value(&new.value) {
                Some(new) => format!("{}: {new}", field(&path)),
                None => format!("{} is added", field(&path)),
            },
            PatchOperation::Remove(_) => format!("{} is removed", field(&path)),
            _ => field(&path),
        }
    };
    let mut told: Vec<_> = operations.iter().take(FIELDS).map(said).collect();
    if let Some(more) = operations.len().checked_sub(FIELDS).filter(|more| *more > 0) {
        told.push(format!("and {more} fields more"));
    }
    told
}

/// An object without what only API servers write.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        OWN.iter().for_each(|field| drop(metadata.remove(*field)));
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

/// A value that is short enough to be told.
fn value(value: &Value) -> Option<String> {
    let text = value.to_string();
    (!value.is_object() && !value.is_array() && text.chars().count() <= SHORT).then_some(text)
}

/// A field as users write it: `spec.ports[0].port`.
fn field(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(index) => path += &format!("[{index}]"),
            Err(_) if part.contains(['.', '/']) => path += &format!("[{part}]"),
            Err(_) if path.is_empty() => path = part,
            Err(_) => path += &format!(".{part}"),
        }
    }
    path
}
