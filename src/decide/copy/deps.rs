//! What a workload needs beside it to run: Karmada's `propagateDeps`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ObjectKey, kind_of};
use crate::decide::select::GroupKind;

/// Made in every namespace of every cluster.
const ROOT_CA: &str = "kube-root-ca.crt";
/// Kinds that pods name, all of the core.
pub const NAMED: [&str; 4] = ["ConfigMap", "PersistentVolumeClaim", "Secret", "ServiceAccount"];
/// Fields of a volume's source that name a Secret.
const SECRET_FIELDS: [&str; 3] = ["/nodePublishSecretRef/name", "/secretName", "/secretRef/name"];

/// What is found, in one namespace.
struct Found<'a> {
    namespace: &'a str,
    keys: BTreeSet<ObjectKey>,
}

/// Whether objects of a kind may be named by pods.
pub fn may_be_named(kind: &GroupKind) -> bool {
    kind.group.is_empty() && NAMED.contains(&&*kind.kind)
}

/// The ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims that a workload's pods name.
///
/// Claims that a StatefulSet makes by its templates are none, nor is what every namespace has.
pub fn dependencies(object: &Value) -> BTreeSet<ObjectKey> {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let mut found = Found { namespace, keys: BTreeSet::new() };
    if let Some(pod) = pod_spec(object) {
        found.pod(pod);
    }
    found.keys
}

/// The spec of the pods that an object makes, if it makes any.
fn pod_spec(object: &Value) -> Option<&Value> {
    let kind = kind_of(object)?;
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => object.get("spec"),
        ("batch", "CronJob") => object.pointer("/spec/jobTemplate/spec/template/spec"),
        _ => object.pointer("/spec/template/spec"),
    }
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

// === impl Found ===

impl Found<'_> {
    fn pod(&mut self, spec: &Value) {
        for field in ["serviceAccountName", "serviceAccount"] {
            self.add("ServiceAccount", spec.get(field));
        }
        for secret in items(spec, "imagePullSecrets") {
            self.add("Secret", secret.get("name"));
        }
        for field in ["containers", "initContainers", "ephemeralContainers"] {
            for container in items(spec, field) {
                self.container(container);
            }
        }
        for volume in items(spec, "volumes") {
            self.volume(volume);
        }
    }

    fn container(&mut self, container: &Value) {
        for from in items(container, "envFrom") {
            self.add("ConfigMap", from.pointer("/configMapRef/name"));
            self.add("Secret", from.pointer("/secretRef/name"));
        }
        for variable in items(container, "env") {
            self.add("ConfigMap", variable.pointer("/valueFrom/configMapKeyRef/name"));
            self.add("Secret", variable.pointer("/valueFrom/secretKeyRef/name"));
        }
    }

    fn volume(&mut self, volume: &Value) {
        self.add("ConfigMap", volume.pointer("/configMap/name"));
        self.add("PersistentVolumeClaim", volume.pointer("/persistentVolumeClaim/claimName"));
        for source in volume.get("projected").into_iter().flat_map(|projected| items(projected, "sources")) {
            self.add("ConfigMap", source.pointer("/configMap/name"));
            self.add("Secret", source.pointer("/secret/name"));
        }
        // Each kind of storage names its Secret in one of a few ways.
        for (_, source) in volume.as_object().into_iter().flatten().filter(|(_, source)| source.is_object()) {
            for field in SECRET_FIELDS {
                self.add("Secret", source.pointer(field));
            }
        }
    }

    fn add(&mut self, kind: &str, name: Option<&Value>) {
        let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) else { return };
        if (kind, name) == ("ServiceAccount", "default") || (kind, name) == ("ConfigMap", ROOT_CA) {
            return;
        }
        let kind = GroupKind::new("v1", kind);
        self.keys.insert(ObjectKey { kind, namespace: self.namespace.into(), name: name.into() });
    }
}
