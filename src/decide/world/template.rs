//! What is kept of a template.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    api::{names::karmada, propagation::ConflictResolution},
    decide::{
        copy::{self, ObjectKey},
        select::Object,
    },
};

/// A template: what policies select it by, and its body as text, a tenth of what it takes as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The objects that its pods name.
    pub dependencies: Box<[ObjectKey]>,
    /// The replicas that may be divided.
    pub replicas: Option<u32>,
    /// Whether members keep the replicas that they have.
    pub retain_replicas: bool,
    /// What happens to an object of the same name that a member has, where it says so itself.
    pub conflict_resolution: Option<ConflictResolution>,
    /// Why it is none, though policies may speak of it.
    pub never: Option<&'static str>,
    body: Box<str>,
}

// === impl Template ===

impl Template {
    /// What is kept of an object.
    pub fn of(key: &ObjectKey, object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let dependencies = copy::dependencies(object).into_iter();
        Self {
            uid: text("/metadata/uid").into(),
            labels: labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
            dependencies: dependencies.filter(|dependency| dependency != key).collect(),
            replicas: copy::replicas(object),
            retain_replicas: copy::retains_replicas(object),
            conflict_resolution: conflict_resolution(object),
            never: copy::never(object),
            body: copy::strip(object).to_string().into(),
        }
    }

    /// The object as it goes to members, before overrides.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// What selectors see of it.
    pub fn object<'a>(&'a self, key: &'a ObjectKey) -> Object<'a> {
        Object { kind: &key.kind, namespace: &key.namespace, name: &key.name, labels: &self.labels }
    }
}

/// What Karmada's annotation says; anything else than its two words says nothing, as there.
fn conflict_resolution(object: &Value) -> Option<ConflictResolution> {
    match object.pointer("/metadata/annotations")?.get(karmada::CONFLICT_RESOLUTION)?.as_str()? {
        "overwrite" => Some(ConflictResolution::Overwrite),
        "abort" => Some(ConflictResolution::Abort),
        _ => None,
    }
}
