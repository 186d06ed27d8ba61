//! A hub of manifests, and what admission says to one more.

mod clusters;
mod conflicts;
mod deletions;
mod documentation;
mod exports;
mod imports;
mod mutations;
mod policies;
mod properties;
mod requests;
mod selections;
mod walkthrough;

use json_patch::Patch;
use kube::core::{GroupVersionKind, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Operation, Request, Verdict, admit, mutate};
use crate::decide::{policies::PolicyKey, view::View};

/// Three clusters and a namespace.
pub(super) const MEMBERS: &str = "
{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member1}, spec: {syncMode: Push, id: one}}
---
{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member2}, spec: {syncMode: Push}}
---
{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member3}, spec: {syncMode: Push}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
";

/// `shop/serve` with port `http` 80, exported by member1.
pub(super) const EXPORTED: &str = "
{apiVersion: v1, kind: Service, metadata: {name: serve, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: serve, namespace: shop, creationTimestamp: 2026-11-16T08:00:00Z}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: serve, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Service, name: serve}
  - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: serve}
  placement: {clusterAffinity: {clusterNames: [member1]}}
";

/// What the hub holds.
pub(super) struct Hub {
    pub(super) view: View,
}

// === impl Hub ===

impl Hub {
    /// A hub without anything, all of it known.
    pub(super) fn empty() -> Self {
        let mut view = View::new("tombolo-system");
        view.retain_clusters(&Default::default());
        view.retain_namespaces(&Default::default());
        view.retain_services(&Default::default());
        view.retain_exports(&Default::default());
        view.retain_imports(&Default::default());
        view.retain_propagation_policies(&Default::default());
        view.retain_cluster_propagation_policies(&Default::default());
        view.retain_override_policies(&Default::default());
        view.retain_cluster_override_policies(&Default::default());
        Self { view }
    }

    /// A hub that holds some manifests.
    pub(super) fn of(manifests: &[&str]) -> Self {
        let mut hub = Self::empty();
        for manifest in manifests {
            hub.add(manifest);
        }
        hub
    }

    pub(super) fn add(&mut self, manifests: &str) {
        for object in objects(manifests) {
            store(&mut self.view, object);
        }
    }

    pub(super) fn create(&self, manifest: &str) -> Answer {
        self.ask(Operation::Create, Some(object(manifest)), None)
    }

    pub(super) fn update(&self, old: &str, new: &str) -> Answer {
        self.ask(Operation::Update, Some(object(new)), Some(object(old)))
    }

    pub(super) fn delete(&self, manifest: &str) -> Answer {
        self.ask(Operation::Delete, None, Some(object(manifest)))
    }

    pub(super) fn ask(&self, operation: Operation, object: Option<Value>, old: Option<Value>) -> Answer {
        let request = request(operation, object, old);
        let verdict = admit(&self.view, &request);
        assert_eq!(verdict.patch, Patch::default(), "admission fills nothing in");
        Answer { verdict, request }
    }
}

/// A verdict with its request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    request: Request,
}

// === impl Answer ===

impl Answer {
    /// The faults, a line each.
    pub(super) fn faults(&self) -> Vec<String> {
        self.verdict.faults.iter().map(ToString::to_string).collect()
    }

    pub(super) fn message(&self) -> String {
        self.verdict.message(&self.request).unwrap_or_default()
    }

    /// The warnings of a request that is admitted.
    pub(super) fn warnings(&self) -> &[String] {
        assert!(self.verdict.allowed(), "{}", self.message());
        &self.verdict.warnings
    }
}

/// A request about an object.
pub(super) fn request(operation: Operation, object: Option<Value>, old: Option<Value>) -> Request {
    let subject = object.as_ref().or(old.as_ref()).unwrap_or(&Value::Null);
    let text =
        |pointer: &str| subject.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    Request {
        kind: GroupVersionKind::gvk(group, version, &kind),
        operation,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        user: "jane".to_owned(),
        dry_run: false,
        object,
        old_object: old,
    }
}

/// The object with what mutation fills in.
pub(super) fn filled_in(view: &View, object: &Value) -> Value {
    let verdict = mutate(view, &request(Operation::Create, Some(object.clone()), None));
    assert!(verdict.allowed());
    let mut filled = object.clone();
    json_patch::patch(&mut filled, &verdict.patch).unwrap();
    filled
}

pub(super) fn object(manifest: &str) -> Value {
    let mut objects = objects(manifest);
    assert_eq!(objects.len(), 1, "{manifest}");
    objects.remove(0)
}

pub(super) fn objects(manifests: &str) -> Vec<Value> {
    let documents = manifests.split("\n---\n").filter(|document| !document.trim().is_empty());
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// Puts an object into a view, by its kind.
pub(super) fn store(view: &mut View, object: Value) {
    fn read<T: DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "Cluster" => view.apply_cluster(read(object)),
        "Namespace" => view.apply_namespace(read(object)),
        "Service" => view.apply_service(read(object)),
        "ServiceExport" => view.apply_export(read(object)),
        "ServiceImport" => view.apply_import(read(object)),
        "PropagationPolicy" => view.apply_propagation_policy(read(object)),
        "ClusterPropagationPolicy" => view.apply_cluster_propagation_policy(read(object)),
        "OverridePolicy" => view.apply_override_policy(read(object)),
        "ClusterOverridePolicy" => view.apply_cluster_override_policy(read(object)),
        other => panic!("{other} is no kind of the view"),
    }
}

/// Takes an object out of a view, by its kind.
pub(super) fn remove(view: &mut View, object: &Value) {
    let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
    let name = metadata.name.clone().unwrap_or_default();
    let service = || {
        crate::decide::ids::ServiceKey::parse(metadata.namespace.as_deref().unwrap_or_default(), &name)
            .unwrap()
    };
    let policy = PolicyKey::of(&metadata);
    match object["kind"].as_str().unwrap() {
        "Cluster" => view.delete_cluster(&name),
        "Namespace" => view.delete_namespace(&name),
        "Service" => view.delete_service(&service()),
        "ServiceExport" => view.delete_export(&service()),
        "ServiceImport" => view.delete_import(&service()),
        "PropagationPolicy" => view.delete_propagation_policy(&policy),
        "ClusterPropagationPolicy" => view.delete_cluster_propagation_policy(&policy),
        "OverridePolicy" => view.delete_override_policy(&policy),
        "ClusterOverridePolicy" => view.delete_cluster_override_policy(&policy),
        other => panic!("{other} is no kind of the view"),
    }
}
