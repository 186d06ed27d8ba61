//! Copies: what a template becomes in a member, and whose an object in a member is.
//!
//! A template, as the hub's API server gives it, goes through [`strip`], the division of replicas, the overrides, and last
//! [`render`], which puts our marks on; [`Rendered::body`] is what is applied. Of what a member has, [`ownership`] says
//! whether it is ours to write or delete, [`holds`] whether our last apply still stands, [`says_all`] whether it may be
//! adopted, and [`let_go`] how it is given back.
//!
//! Nothing is written on the strength of a label: only an origin that speaks of this very object makes it ours
//!. All that is in a body can be listed in our managedFields entry: else it would be applied for ever.

mod deps;
mod managed;
mod origin;
mod quantity;
mod render;
mod strip;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use self::{
    deps::{NAMED, dependencies, may_be_named},
    managed::{CREATE_ONLY, MANAGER, covers, holds, let_go, listing, made, ours, says_all, scaled},
    origin::{FORMAT, Origin, Ownership, ownership},
    render::{
        Rendered, Stamps, completions, hash, leave_replicas, render, replicas, retains_replicas,
        set_completions, set_replicas,
    },
    strip::{is_bookkeeping, never, strip},
};
use super::select::GroupKind;

/// An object of a cluster, whatever version it is read in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: GroupKind,
    /// Its namespace; empty for an object of the whole cluster.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

// === impl ObjectKey ===

impl ObjectKey {
    /// The object that a manifest speaks of; none if it has no kind or no name.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = kind_of(object).filter(|kind| !kind.kind.is_empty())?;
        let name = text("/metadata/name").filter(|name| !name.is_empty())?;
        let namespace = text("/metadata/namespace").unwrap_or_default();
        Some(Self { kind, namespace: namespace.into(), name: name.into() })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// The kind that a manifest says it is of.
fn kind_of(object: &Value) -> Option<GroupKind> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    Some(GroupKind::new(text("apiVersion")?, text("kind")?))
}
