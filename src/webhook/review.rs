//! One admission request, from the bytes that an API server sent to the bytes that it gets back.
//!
//! Objects are kept as raw JSON, never decoded into types and back: what a type does not know would be lost, and a patch computed
//! from the difference would take it from the user. (That is why kube's own `AdmissionReview` is not used here.)
//! Whatever comes in, an `AdmissionReview` with a clear message goes out.

use k8s_openapi::ByteString;
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::decide::{
    admit::{self, Operation, Request, Verdict},
    view::View,
};

/// Which of the two webhooks was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Says yes or no.
    Validate,
    /// Fills in defaults.
    Mutate,
}

// === impl Route ===

impl Route {
    /// As it is called in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::Mutate => "mutate",
        }
    }
}

/// The kinds that metrics know by name.
pub const KINDS: [&str; 8] = [
    "ServiceExport",
    "ServiceImport",
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "ClusterOverridePolicy",
    "Cluster",
    "Service",
];
/// What metrics call all others, and what is no request.
pub const OTHER: &str = "other";

/// An answer, and what metrics say of it.
#[derive(Debug)]
pub struct Judged {
    /// The `AdmissionReview` that goes out.
    pub answer: Value,
    /// What it is about: one of [`KINDS`], or [`OTHER`].
    pub kind: &'static str,
    /// `allowed`, `warned`, `unjudged` (admitted by what little the hub knew) or `refused`.
    pub verdict: &'static str,
}

// === impl Judged ===

impl Judged {
    /// A refusal of what is no request.
    pub fn none(refusal: Value) -> Self {
        Self { answer: refusal, kind: OTHER, verdict: "refused" }
    }

    fn of(route: Route, view: &View, uid: &str, request: &Request, verdict: &Verdict) -> Self {
        let kind = KINDS.into_iter().find(|kind| *kind == request.kind.kind).unwrap_or(OTHER);
        let knew = route == Route::Mutate || (kind != OTHER && view.is_synced());
        let word = match (verdict.allowed(), knew, verdict.warnings.is_empty()) {
            (false, ..) => "refused",
            (true, false, _) => "unjudged",
            (true, true, false) => "warned",
            (true, true, true) => "allowed",
        };
        Self { answer: respond(uid, request, verdict), kind, verdict: word }
    }
}

/// What an API server sends.
#[derive(Debug, Deserialize)]
struct Review {
    request: Option<Incoming>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    uid: String,
    kind: Kind,
    operation: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
    #[serde(default)]
    user_info: User,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

/// Answers a request.
pub fn answer(route: Route, view: &View, body: &[u8]) -> Value {
    judge(route, view, body).answer
}

/// Answers a request, and says what metrics count of that.
pub fn judge(route: Route, view: &View, body: &[u8]) -> Judged {
    let review: Review = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(e) => return Judged::none(refusal("", &format!("the request is no AdmissionReview: {e}"))),
    };
    let Some(incoming) = review.request else {
        return Judged::none(refusal("", "the AdmissionReview has no request"));
    };
    let uid = incoming.uid.clone();
    let request = match incoming.parse() {
        Ok(request) => request,
        Err(message) => return Judged::none(refusal(&uid, &message)),
    };
    let verdict = match route {
        Route::Validate => admit::admit(view, &request),
        Route::Mutate => admit::mutate(view, &request),
    };
    Judged::of(route, view, &uid, &request, &verdict)
}

/// A refusal of what is no request at all.
pub fn refusal(uid: &str, message: &str) -> Value {
    envelope(&json!({ "uid": uid, "allowed": false, "status": { "code": 400, "message": message } }))
}

// === impl Incoming ===

impl Incoming {
    fn parse(self) -> Result<Request, String> {
        let operation = match self.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            other => {
                return Err(format!(
                    "the operation {other:?} is unknown; CREATE, UPDATE, DELETE and CONNECT are known"
                ));
            }
        };
        Ok(Request {
            kind: GroupVersionKind {
                group: self.kind.group,
                version: self.kind.version,
                kind: self.kind.kind,
            },
            operation,
            namespace: self.namespace,
            name: self.name,
            object: self.object,
            old_object: self.old_object,
            user: self.user_info.username,
            dry_run: self.dry_run,
        })
    }
}

fn respond(uid: &str, request: &Request, verdict: &Verdict) -> Value {
    let mut response = json!({ "uid": uid, "allowed": verdict.allowed() });
    if let Some(message) = verdict.message(request) {
        response["status"] = json!({ "code": 422, "reason": "Invalid", "message": message });
    }
    if !verdict.warnings.is_empty() {
        response["warnings"] = json!(verdict.warnings);
    }
    if verdict.allowed() && !verdict.patch.0.is_empty() {
        let patch = serde_json::to_vec(&verdict.patch).unwrap_or_default();
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(ByteString(patch));
    }
    envelope(&response)
}

fn envelope(response: &Value) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn said(body: &[u8]) -> String {
        let answer = answer(Route::Validate, &View::new("tombolo-system"), body);
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["allowed"], false);
        answer["response"]["status"]["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_no_request_gets_an_answer_that_says_so() {
        assert!(said(b"").starts_with("the request is no AdmissionReview"));
        assert!(said(b"{\"kind\":\"AdmissionReview\"").starts_with("the request is no AdmissionReview"));
        assert_eq!(said(b"{}"), "the AdmissionReview has no request");
        let strange = json!({ "request": { "uid": "1", "kind": { "version": "v1", "kind": "Service" }, "operation": "PATCH" } });
        assert!(said(strange.to_string().as_bytes()).contains("the operation \"PATCH\" is unknown"));
    }

    #[test]
    fn an_answer_carries_the_requests_uid() {
        let request = json!({ "request": {
            "uid": "abc", "operation": "CREATE", "kind": { "group": "", "version": "v1", "kind": "ConfigMap" }, "object": {},
        } });
        let answer = answer(Route::Mutate, &View::new("tombolo-system"), request.to_string().as_bytes());
        assert_eq!(answer["response"]["uid"], "abc");
        assert_eq!(answer["response"]["allowed"], true);
    }

    #[test]
    fn metrics_are_told_the_kind_and_whether_anything_was_judged() {
        let told = |route, synced: bool, kind: &str, spec: Value| {
            let mut view = View::new("tombolo-system");
            if synced {
                view.retain_clusters(&BTreeSet::new());
                view.retain_namespaces(&BTreeSet::new());
                view.retain_services(&BTreeSet::new());
                view.retain_exports(&BTreeSet::new());
                view.retain_imports(&BTreeSet::new());
                view.retain_propagation_policies(&BTreeSet::new());
                view.retain_cluster_propagation_policies(&BTreeSet::new());
                view.retain_override_policies(&BTreeSet::new());
                view.retain_cluster_override_policies(&BTreeSet::new());
            }
            let group = if kind == "Service" { "" } else { "multicluster.x-k8s.io" };
            let request = json!({ "request": {
                "uid": "1", "operation": "CREATE", "namespace": "shop", "name": "serve",
                "kind": { "group": group, "version": if group.is_empty() { "v1" } else { "v1alpha1" }, "kind": kind },
                "object": { "metadata": { "name": "serve", "namespace": "shop" }, "spec": spec },
            } });
            let judged = judge(route, &view, request.to_string().as_bytes());
            (judged.kind, judged.verdict)
        };
        let import = json!({ "type": "ClusterSetIP", "ports": [] });
        assert_eq!(
            told(Route::Validate, false, "ServiceImport", import.clone()),
            ("ServiceImport", "unjudged")
        );
        assert_eq!(told(Route::Mutate, false, "ServiceImport", import), ("ServiceImport", "allowed"));
        assert_eq!(told(Route::Validate, true, "Service", json!({})), ("Service", "allowed"));
        assert_eq!(
            told(Route::Validate, true, "ServiceImport", json!({ "type": 1 })),
            ("ServiceImport", "refused")
        );
        assert_eq!(told(Route::Validate, true, "Gadget", json!({})), (OTHER, "unjudged"));
        let nothing = judge(Route::Validate, &View::new("tombolo-system"), b"");
        assert_eq!((nothing.kind, nothing.verdict), (OTHER, "refused"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200), mutate in any::<bool>()) {
            let route = if mutate { Route::Mutate } else { Route::Validate };
            let answer = answer(route, &View::new("tombolo-system"), &body);
            prop_assert_eq!(&answer["kind"], "AdmissionReview");
        }
    }
}
