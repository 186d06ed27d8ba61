//! The annotation that proves whose a copy is.
//!
//! Controllers copy labels and annotations onto what they make, and users clone manifests: so an origin names the object
//! that it is on, and one that names another proves nothing.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::ObjectKey;
use crate::{api::names::annotation, decide::select::GroupKind};

/// The format that is written. A higher one is of a newer release.
pub const FORMAT: u32 = 1;

/// Where a copy comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The hub's id.
    pub hub: Arc<str>,
    /// The template's UID.
    pub template: Arc<str>,
    /// The UID of the CustomResourceDefinition of the template's kind, for a custom one.
    pub crd: Option<Arc<str>>,
    /// The copy itself.
    pub object: ObjectKey,
}

/// Whose an object in a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This hub's.
    Ours(Origin),
    /// Of a format that is not known here: neither ours nor free, so it is left as it is.
    Newer,
    /// A copy of another hub, with that hub's id.
    OtherHub(Arc<str>),
    /// No copy: without an origin, or with one that is garbage or speaks of another object (a clone).
    None,
}

/// An origin as it is written. The order of the fields is the order in the text.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    format: u32,
    #[serde(borrow)]
    hub: Cow<'a, str>,
    #[serde(borrow)]
    template: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    crd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// What every format has.
#[derive(Deserialize)]
struct Format {
    format: serde_json::Number,
}

/// Whose an object with these annotations is, asked by a hub.
pub fn ownership(annotations: &BTreeMap<String, String>, object: &ObjectKey, hub: &str) -> Ownership {
    let Some(text) = annotations.get(annotation::ORIGIN) else { return Ownership::None };
    let Ok(Format { format }) = serde_json::from_str(text) else { return Ownership::None };
    if format.as_u64() != Some(u64::from(FORMAT)) {
        return Ownership::Newer;
    }
    let Ok(wire) = serde_json::from_str::<Wire<'_>>(text) else { return Ownership::None };
    let origin = Origin::from(wire);
    if origin.object != *object {
        Ownership::None
    } else if *origin.hub != *hub {
        Ownership::OtherHub(origin.hub)
    } else {
        Ownership::Ours(origin)
    }
}

// === impl Origin ===

impl Origin {
    /// The annotation's value: the same for the same origin, byte for byte.
    pub fn text(&self) -> String {
        let ObjectKey { kind, namespace, name } = &self.object;
        let wire = Wire {
            format: FORMAT,
            hub: Cow::Borrowed(&self.hub),
            template: Cow::Borrowed(&self.template),
            crd: self.crd.as_deref().map(Cow::Borrowed),
            group: Cow::Borrowed(&kind.group),
            kind: Cow::Borrowed(&kind.kind),
            namespace: Cow::Borrowed(namespace),
            name: Cow::Borrowed(name),
        };
        serde_json::to_string(&wire).expect("a struct of texts and a number is always JSON")
    }
}

impl From<Wire<'_>> for Origin {
    fn from(wire: Wire<'_>) -> Self {
        let kind = GroupKind { group: (*wire.group).into(), kind: (*wire.kind).into() };
        let object = ObjectKey { kind, namespace: (*wire.namespace).into(), name: (*wire.name).into() };
        let crd = wire.crd.map(|crd| (*crd).into());
        Self { hub: (*wire.hub).into(), template: (*wire.template).into(), crd, object }
    }
}
