//! The last step before a copy is applied: its share of the replicas, and our marks.
//!
//! The same template, stamps and version give the same bytes, so that the hash in `tombolo.dev/applied` tells what is
//! unchanged.

use std::{fmt::Write, sync::Arc};

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::{
    kind_of,
    origin::Origin,
    strip::{clean_metadata, drop_nulls},
};
use crate::api::names::{annotation, karmada, label};

/// Kinds whose replicas can be set though they say nothing of them.
const WORKLOADS: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];
/// As many bytes of the hash as are kept: enough that no two bodies share them.
const HASH_BYTES: usize = 16;

/// What is written on a copy beside what its template says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The hub's id, as a label to select by.
    pub hub: Arc<str>,
    /// Where the copy comes from; also what it is called and what kind it is of.
    pub origin: Origin,
    /// Which kinds of policies placed it.
    pub policies: Arc<str>,
    /// The policy that placed it, where that is known.
    pub policy: Option<Arc<str>>,
    /// It stays when its template goes.
    pub preserve: bool,
    /// It goes when its policy goes.
    pub delete_with_policy: bool,
    /// It was there before us: let go in the end, never deleted.
    pub adopted: bool,
    /// It is there only because another object there names it.
    pub dependency: bool,
    /// The replicas that it was given, where they are not simply those of its template.
    pub replicas: Option<u32>,
}

/// A copy, ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// What is applied, without a resourceVersion.
    pub body: Value,
    /// The hash of all that is applied, as the annotation has it.
    pub applied: Box<str>,
}

/// The replicas to divide; none where the kind has none. Of a Job, how many of its pods run at a time.
pub fn replicas(object: &Value) -> Option<u32> {
    count(object, if is_job(object) { "parallelism" } else { "replicas" })
}

/// How many pods of a Job have to succeed, where that is said.
pub fn completions(object: &Value) -> Option<u32> {
    count(object, "completions").filter(|_| is_job(object))
}

/// Sets the replicas of a workload, or of any object that says how many it has.
///
/// A Job's completions become the same part of the whole, rounded up so that no work is lost; [`set_completions`] does
/// better where it is known what all clusters get.
pub fn set_replicas(object: &mut Value, replicas: u32) {
    if is_job(object) {
        let whole = count(object, "parallelism").filter(|whole| *whole > 0);
        if let (Some(whole), Some(completions)) = (whole, completions(object)) {
            let part = (u64::from(completions) * u64::from(replicas)).div_ceil(u64::from(whole));
            set_completions(object, u32::try_from(part).unwrap_or(u32::MAX));
        }
        set(object, "parallelism", replicas);
    } else if count(object, "replicas").is_some() || is_workload(object) {
        set(object, "replicas", replicas);
    }
}

/// Sets how many pods of a Job have to succeed, where it says so.
pub fn set_completions(object: &mut Value, number: u32) {
    if completions(object).is_some() {
        set(object, "completions", number);
    }
}

/// Whether a template asks for its replicas to be left to the members: by a label, as in Karmada, or an annotation.
pub fn retains_replicas(object: &Value) -> bool {
    ["labels", "annotations"].into_iter().any(|field| {
        let marks = object.get("metadata").and_then(|metadata| metadata.get(field));
        marks.and_then(|marks| marks.get(karmada::RETAIN_REPLICAS)).is_some_and(|value| value == "true")
    })
}

/// Leaves the replicas to the member.
pub fn leave_replicas(object: &mut Value) {
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.remove("replicas");
    }
}

/// Makes a copy of what was stripped, divided and overridden: puts our marks on, last of all.
///
/// What an object is, and our marks, are by the stamps alone; `api_version` is of a version that the member serves. What
/// server-side apply would not list as ours is left out, or the copy would never be seen to be unchanged.
pub fn render(mut body: Value, api_version: &str, stamps: &Stamps) -> Rendered {
    if !body.is_object() {
        body = Value::Object(Map::new());
    }
    drop_nulls(&mut body);
    let key = &stamps.origin.object;
    body["apiVersion"] = api_version.into();
    body["kind"] = (*key.kind.kind).into();
    if let Value::Object(fields) = &mut body {
        fields.remove("status");
    }
    if !body["metadata"].is_object() {
        body["metadata"] = Value::Object(Map::new());
    }
    clean_metadata(&mut body);
    let metadata = &mut body["metadata"];
    metadata["name"] = (*key.name).into();
    if key.namespace.is_empty() {
        metadata.as_object_mut().map(|metadata| metadata.remove("namespace"));
    } else {
        metadata["namespace"] = (*key.namespace).into();
    }
    mark(metadata, "labels", label::HUB, &stamps.hub);
    mark(metadata, "annotations", annotation::ORIGIN, &stamps.origin.text());
    mark(metadata, "annotations", annotation::POLICIES, &stamps.policies);
    for (wanted, key, value) in [
        (stamps.preserve, annotation::PRESERVE_ON_DELETION, "true"),
        (stamps.adopted, annotation::ADOPTED, "true"),
        (stamps.dependency, annotation::DEPENDENCY, "true"),
        (stamps.delete_with_policy, annotation::ON_POLICY_DELETION, annotation::ON_POLICY_DELETION_DELETE),
    ] {
        if wanted {
            mark(metadata, "annotations", key, value);
        }
    }
    if let Some(policy) = &stamps.policy {
        mark(metadata, "annotations", annotation::POLICY, policy);
    }
    if let Some(replicas) = stamps.replicas {
        mark(metadata, "annotations", annotation::REPLICAS, &replicas.to_string());
    }
    let applied = hash(&body);
    mark(&mut body["metadata"], "annotations", annotation::APPLIED, &applied);
    Rendered { body, applied }
}

fn mark(metadata: &mut Value, field: &str, key: &str, value: &str) {
    let marks = &mut metadata[field];
    if !marks.is_object() {
        *marks = Value::Object(Map::new());
    }
    marks[key] = value.into();
}

/// The beginning of the SHA-256 of a body's JSON, whose fields are in the order of their names.
pub fn hash(body: &Value) -> Box<str> {
    let sum = digest(&SHA256, body.to_string().as_bytes());
    let mut text = String::with_capacity(2 * HASH_BYTES);
    for byte in sum.as_ref().iter().take(HASH_BYTES) {
        write!(text, "{byte:02x}").expect("a String takes any text");
    }
    text.into()
}

fn count(object: &Value, field: &str) -> Option<u32> {
    object.get("spec")?.get(field)?.as_u64()?.try_into().ok()
}

fn set(object: &mut Value, field: &str, number: u32) {
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.insert(field.to_owned(), number.into());
    }
}

fn is_job(object: &Value) -> bool {
    kind_of(object).is_some_and(|kind| (&*kind.group, &*kind.kind) == ("batch", "Job"))
}

fn is_workload(object: &Value) -> bool {
    kind_of(object).is_some_and(|kind| &*kind.group == "apps" && WORKLOADS.contains(&&*kind.kind))
}
