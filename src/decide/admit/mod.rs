//! Admission: what becomes of an object that somebody wants to write to the hub.
//!
//! [`mutate`] and [`admit`] are the two routes of the webhook. An object is judged first by itself (its *form*, one file a
//! kind), then beside what the hub holds, which is the [`View`]: `state` is the hub as it would be after the change,
//! `conflicts` compares the ports of a service before and after, `references` finds names of nothing, `vain` what has
//! no effect, `removal` says what a deletion hits.
//!
//! Invariants: a denial has a fault, and all faults at once; nothing that can be read makes it panic; an object that was
//! admitted may be written again unchanged.

pub mod cidr;
mod cluster;
mod conflicts;
mod mutate;
mod override_policy;
mod propagation_policy;
mod references;
mod removal;
mod request;
mod selection;
mod service;
mod service_export;
mod service_import;
mod state;
#[cfg(test)]
mod tests;
mod vain;
mod winners;

use std::str::FromStr;

use k8s_openapi::jiff::Timestamp;
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;

pub use self::{
    cluster::overlaps,
    request::{Operation, Request, Verdict},
};
use super::{
    fault::Shown,
    ids::{InvalidName, ServiceKey},
    merge::{Export, ServiceSpec},
    view::View,
};
use crate::api::{
    cluster as cluster_api, mcs,
    names::annotation,
    propagation::{self, PropagationSpec},
    support::{self, Support},
};

/// The kinds that are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::decide) enum Kind {
    ServiceExport,
    ServiceImport,
    PropagationPolicy,
    ClusterPropagationPolicy,
    OverridePolicy,
    ClusterOverridePolicy,
    Cluster,
    Service,
}

/// Judges a request. Its patch is empty.
pub fn admit(view: &View, request: &Request) -> Verdict {
    let verdict = match (Kind::of(&request.kind), request.operation) {
        (_, Operation::Connect) => Verdict::default(),
        (None, _) => unknown(&request.kind),
        (Some(kind), Operation::Delete) => removal::judge(view, kind, request),
        (Some(kind), Operation::Create | Operation::Update) => written(view, kind, request),
    };
    verdict.fit()
}

/// Fills in what a request leaves open. Refuses nothing: what is wrong, [`admit`] says.
pub fn mutate(view: &View, request: &Request) -> Verdict {
    match (Kind::of(&request.kind), request.operation) {
        (Some(kind), Operation::Create | Operation::Update) => mutate::mutate(view, kind, request),
        _ => Verdict::default(),
    }
}

/// Whether objects of a kind are judged at all.
pub(in crate::decide) fn is_judged(kind: &GroupVersionKind) -> bool {
    Kind::of(kind).is_some()
}

/// The clusters that a policy names and that are not among those that there are, a sentence each.
pub(in crate::decide) fn missing_clusters<'a>(
    known: impl IntoIterator<Item = &'a str>,
    spec: &PropagationSpec,
) -> Vec<String> {
    let mut verdict = Verdict::default();
    references::of_propagation(&known.into_iter().collect(), spec, &mut verdict);
    verdict.warnings
}

/// What clusters export of a service by the hub's own objects, overrides included, for a merge.
pub(in crate::decide) fn exported(view: &View, key: &ServiceKey) -> Vec<Export> {
    let found = state::State::now(view).exports(key).into_iter();
    let exports = found.map(|(cluster, exported)| Export {
        created: exported.created.unwrap_or_else(|| Timestamp::UNIX_EPOCH.into()),
        cluster,
        service: ServiceSpec {
            ports: exported.ports,
            service_type: exported.service_type,
            ..ServiceSpec::default()
        },
    });
    exports.collect()
}

fn written(view: &View, kind: Kind, request: &Request) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(object) = &request.object else {
        verdict.fault("object", "is missing from the request");
        return verdict;
    };
    let old = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
    // Whatever is wrong with it, what is being deleted must be able to lose its finalizers.
    if old.is_some() && object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return verdict;
    }
    verdict = form(view, kind, request, object);
    if let Some(old) = old {
        ratchet(&mut verdict, &form(view, kind, request, old));
    }
    beside(view, kind, request, object, &mut verdict);
    verdict
}

/// Judges an object by itself.
fn form(view: &View, kind: Kind, request: &Request, object: &Value) -> Verdict {
    let mut verdict = match kind {
        Kind::ServiceExport => service_export::form(request, object),
        Kind::ServiceImport => service_import::form(request, object),
        Kind::PropagationPolicy | Kind::ClusterPropagationPolicy => {
            propagation_policy::form(view, request, object)
        }
        Kind::OverridePolicy | Kind::ClusterOverridePolicy => override_policy::form(view, request, object),
        Kind::Cluster => cluster::form(request, object),
        Kind::Service => Verdict::default(),
    };
    let choices = [
        (annotation::PORT_CONFLICTS, annotation::PORT_CONFLICTS_RESOLVE),
        (annotation::ON_POLICY_DELETION, annotation::ON_POLICY_DELETION_DELETE),
    ];
    for (key, choice) in choices {
        let given = object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(key));
        let Some(given) = given.and_then(Value::as_str).filter(|given| *given != choice) else { continue };
        let message = format!("must be {choice:?}, not {}; leave it out for the default", Shown(given));
        // A Service is the API server's to refuse.
        if kind == Kind::Service {
            verdict.warn(format!("metadata.annotations[{key}]: {message}"));
        } else {
            verdict.fault(format!("metadata.annotations[{key}]"), message);
        }
    }
    verdict
}

/// Judges an object beside what the hub holds.
fn beside(view: &View, kind: Kind, request: &Request, object: &Value, verdict: &mut Verdict) {
    match kind {
        Kind::ServiceExport => service_export::beside(view, request, object, verdict),
        Kind::ServiceImport => service_import::beside(view, request, object, verdict),
        Kind::PropagationPolicy | Kind::ClusterPropagationPolicy => {
            propagation_policy::beside(view, request, object, verdict);
        }
        Kind::OverridePolicy | Kind::ClusterOverridePolicy => {
            override_policy::beside(view, request, object, verdict);
        }
        Kind::Cluster => cluster::beside(view, request, object, verdict),
        Kind::Service => service::beside(view, request, object, verdict),
    }
}

/// A fault that the stored object already has does not hold up other changes: it was admitted by an older release, or
/// while the webhook was away.
fn ratchet(verdict: &mut Verdict, stored: &Verdict) {
    let faults = std::mem::take(&mut verdict.faults);
    for fault in faults {
        if stored.faults.contains(&fault) {
            verdict.warn(format!("{fault} (stored so already)"));
        } else {
            verdict.faults.push(fault);
        }
    }
}

fn unknown(kind: &GroupVersionKind) -> Verdict {
    let mut verdict = Verdict::default();
    let name = Shown(&kind.kind);
    let version =
        if kind.group.is_empty() { kind.version.clone() } else { format!("{}/{}", kind.group, kind.version) };
    verdict.warn(format!(
        "this release of Tombolo does not know {name} in {}; nothing was checked",
        Shown(&version)
    ));
    verdict
}

/// Whether the view is complete enough to judge an object beside it; a warning if not.
fn ready(view: &View, verdict: &mut Verdict) -> bool {
    if !view.is_synced() {
        verdict.warn("Tombolo has just started and has not read the whole hub: neither port conflicts nor names were checked");
    }
    view.is_synced()
}

/// Reads an object as its type; a fault where it does not fit.
fn decoded<'a, T: Deserialize<'a>>(object: &'a Value, verdict: &mut Verdict) -> Option<T> {
    match T::deserialize(object) {
        Ok(object) => Some(object),
        Err(error) => {
            let shown: String = error.to_string().chars().take(200).collect();
            verdict.fault("spec", format!("cannot be read: {shown}"));
            None
        }
    }
}

/// A fault where an object's name is none of that kind. A name that the API server is to make up is not judged.
fn name_fault<T: FromStr<Err = InvalidName>>(request: &Request, object: &Value, verdict: &mut Verdict) {
    let name = request.object_name();
    let generated = object.pointer("/metadata/generateName").and_then(Value::as_str);
    if name.is_empty() && generated.is_some_and(|prefix| !prefix.is_empty()) {
        return;
    }
    if let Err(error) = name.parse::<T>() {
        verdict.fault("metadata.name", error.to_string());
    }
}

/// Fields that Tombolo does not act on (`docs/policy-fields.md`).
fn supported(request: &Request, object: &Value, verdict: &mut Verdict) {
    for finding in support::findings(&request.kind.kind, object) {
        match finding.support {
            Support::Acted => {}
            Support::Warned(reason) => verdict.warn(format!("{}: {reason}", finding.path)),
            Support::Refused(reason) => verdict.fault(finding.path, reason),
        }
    }
}

// === impl Kind ===

impl Kind {
    fn of(kind: &GroupVersionKind) -> Option<Self> {
        match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
            (mcs::GROUP, "v1alpha1" | "v1beta1", "ServiceExport") => Some(Self::ServiceExport),
            (mcs::GROUP, "v1alpha1" | "v1beta1", "ServiceImport") => Some(Self::ServiceImport),
            (propagation::GROUP, "v1alpha1", "PropagationPolicy") => Some(Self::PropagationPolicy),
            (propagation::GROUP, "v1alpha1", "ClusterPropagationPolicy") => {
                Some(Self::ClusterPropagationPolicy)
            }
            (propagation::GROUP, "v1alpha1", "OverridePolicy") => Some(Self::OverridePolicy),
            (propagation::GROUP, "v1alpha1", "ClusterOverridePolicy") => Some(Self::ClusterOverridePolicy),
            (cluster_api::GROUP, "v1alpha1", "Cluster") => Some(Self::Cluster),
            ("", "v1", "Service") => Some(Self::Service),
            _ => None,
        }
    }
}
