//! Feeds arbitrary bytes, and requests made of arbitrary JSON, to both routes of the webhook.
//!
//! Whatever comes, nothing may panic or hang; the answer is an AdmissionReview that carries the request's uid; a refusal has a
//! message; a patch can be applied to the object that it is for, and changes nothing when it is made again for the result.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tombolo::{
    api::{Cluster, PropagationPolicy, ServiceImport},
    decide::{
        admit::{Operation, Request, mutate},
        view::View,
    },
    webhook::review::{Route, answer},
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    body: &'a [u8],
    kind: u8,
    operation: u8,
    namespace: &'a str,
    name: &'a str,
    /// What is put where the object is, as JSON.
    object: &'a str,
    old_object: &'a str,
}

const KINDS: [(&str, &str, &str); 8] = [
    ("multicluster.x-k8s.io", "v1alpha1", "ServiceImport"),
    ("multicluster.x-k8s.io", "v1beta1", "ServiceExport"),
    ("policy.karmada.io", "v1alpha1", "PropagationPolicy"),
    ("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy"),
    ("policy.karmada.io", "v1alpha1", "OverridePolicy"),
    ("policy.karmada.io", "v1alpha1", "ClusterOverridePolicy"),
    ("cluster.karmada.io", "v1alpha1", "Cluster"),
    ("", "v1", "Service"),
];
const OPERATIONS: [(&str, Operation); 3] =
    [("CREATE", Operation::Create), ("UPDATE", Operation::Update), ("DELETE", Operation::Delete)];

static VIEW: LazyLock<View> = LazyLock::new(|| {
    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("the view's own objects are right")
    }
    let mut view = View::new("tombolo-system");
    view.apply_cluster(object::<Cluster>(json!({
        "metadata": { "name": "member1" }, "spec": { "syncMode": "Push" },
    })));
    view.apply_import(object::<ServiceImport>(json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": { "namespace": "a", "name": "a" },
        "spec": { "type": "ClusterSetIP", "ports": [{ "port": 80, "name": "http" }] },
    })));
    view.apply_propagation_policy(object::<PropagationPolicy>(json!({
        "metadata": { "namespace": "a", "name": "all" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Service", "name": "*" }] },
    })));
    view
});

fuzz_target!(|input: Input<'_>| {
    for route in [Route::Validate, Route::Mutate] {
        let said = answer(route, &VIEW, input.body);
        assert_eq!(said["kind"], "AdmissionReview");
    }
    let (group, version, kind) = KINDS[usize::from(input.kind) % KINDS.len()];
    let (operation, parsed) = OPERATIONS[usize::from(input.operation) % OPERATIONS.len()];
    let object: Option<Value> = serde_json::from_str(input.object).ok();
    let old_object: Option<Value> = serde_json::from_str(input.old_object).ok();
    let review = json!({ "request": {
        "uid": "u", "kind": { "group": group, "version": version, "kind": kind }, "operation": operation,
        "namespace": input.namespace, "name": input.name, "object": object, "oldObject": old_object,
    } });
    let said = answer(Route::Validate, &VIEW, review.to_string().as_bytes());
    assert_eq!(said["response"]["uid"], "u");
    if said["response"]["allowed"] == false {
        assert!(said["response"]["status"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let mut request = Request {
        kind: kube::core::GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() },
        operation: parsed,
        namespace: input.namespace.into(),
        name: input.name.into(),
        object,
        old_object,
        user: String::new(),
        dry_run: false,
    };
    let verdict = mutate(&VIEW, &request);
    if let Some(object) = &mut request.object {
        json_patch::patch(object, &verdict.patch).expect("a patch fits its object");
        assert!(mutate(&VIEW, &request).patch.0.is_empty(), "mutating again changes something");
    }
});
