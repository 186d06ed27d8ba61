//! Services as the hub's own objects have them.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::core::ObjectMeta;
use serde::Serialize;

use crate::{
    api::{ServiceExport, ServiceImport, names::condition},
    decide::explain::{conflict, of as find, one_line},
};

/// An export on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether there is a Service to export.
    pub valid: String,
    /// Whether it is exported.
    pub ready: String,
    /// Whether the clusters do not agree.
    pub conflict: String,
    /// Since when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// By whom it is exported, or why not.
    pub message: String,
}

/// An import on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Import {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its ports, such as `80/TCP`.
    pub ports: Vec<String>,
    /// Whether all that import it reach somebody.
    pub ready: String,
    /// Whether its type is not that of the exports.
    pub conflict: String,
    /// The clusters that it comes from.
    pub clusters: Vec<String>,
    /// Since when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Who reaches whom, or with what it is in conflict.
    pub message: String,
}

/// What clusters do not agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The service's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// On what, in one word each.
    pub reason: String,
    /// In words.
    pub message: String,
}

// === impl Export ===

impl Export {
    pub(super) fn of(export: &ServiceExport) -> Self {
        let conditions = export.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let conflict = conflict(conditions);
        let unmet = [condition::PROPAGATED, condition::VALID, condition::READY].into_iter();
        let unmet = unmet.filter_map(|kind| find(conditions, kind)).find(|found| found.status != "True");
        let told = unmet.or(conflict).or_else(|| find(conditions, condition::READY));
        let (namespace, name, since) = place(&export.metadata);
        Self {
            namespace,
            name,
            valid: said(conditions, condition::VALID),
            ready: said(conditions, condition::READY),
            conflict: said(conditions, condition::CONFLICT),
            since,
            message: told.map_or_else(|| "no policy places it".to_owned(), |told| one_line(&told.message)),
        }
    }

    /// Whether it is as it should be.
    pub fn is_well(&self) -> bool {
        self.ready == "True" && self.valid != "False" && self.conflict != "True"
    }
}

// === impl Import ===

impl Import {
    pub(super) fn of(import: &ServiceImport) -> Self {
        let status = import.status.clone().unwrap_or_default();
        let ready = find(&status.conditions, condition::READY);
        let conflict = conflict(&status.conditions);
        let told = ready.filter(|ready| ready.status != "True").or(conflict).or(ready);
        let (namespace, name, since) = place(&import.metadata);
        let ports = import
            .spec
            .ports
            .iter()
            .map(|port| format!("{}/{}", port.port, port.protocol.as_deref().unwrap_or("TCP")));
        Self {
            namespace,
            name,
            ports: ports.collect(),
            ready: said(&status.conditions, condition::READY),
            conflict: said(&status.conditions, condition::CONFLICT),
            clusters: status.clusters.into_iter().map(|source| source.cluster).collect(),
            since,
            message: told.map_or_else(
                || "the hub has not looked at it yet".to_owned(),
                |told| one_line(&told.message),
            ),
        }
    }

    /// Whether it is as it should be.
    pub fn is_well(&self) -> bool {
        self.ready == "True" && self.conflict != "True"
    }
}

// === impl Conflict ===

impl Conflict {
    pub(super) fn of(export: &ServiceExport) -> Option<Self> {
        let conditions = &export.status.as_ref()?.conditions;
        let found = conflict(conditions)?;
        let (namespace, name, _) = place(&export.metadata);
        Some(Self { namespace, name, reason: found.reason.clone(), message: one_line(&found.message) })
    }
}

pub(super) fn place(metadata: &ObjectMeta) -> (String, String, Option<Timestamp>) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let since = metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
    (text(&metadata.namespace), text(&metadata.name), since)
}

/// The status of a condition; empty where nothing is said.
pub(super) fn said(conditions: &[Condition], kind: &str) -> String {
    find(conditions, kind).map(|found| found.status.clone()).unwrap_or_default()
}
