//! Reads what a plan is made of: the hub's rules, and the objects that the documents concern.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;

use super::documents::Document;
use crate::{
    api::{
        cluster, mcs,
        propagation::{self, ResourceSelector},
    },
    decide::{
        copy::{self, ObjectKey},
        select::GroupKind,
    },
    hub::served::{Served, Version},
};

/// What the rules of a hub are made of.
const RULES: [(&str, &str); 9] = [
    (cluster::GROUP, "Cluster"),
    (propagation::GROUP, "PropagationPolicy"),
    (propagation::GROUP, "ClusterPropagationPolicy"),
    (propagation::GROUP, "OverridePolicy"),
    (propagation::GROUP, "ClusterOverridePolicy"),
    (mcs::GROUP, "ServiceExport"),
    (mcs::GROUP, "ServiceImport"),
    ("", "Service"),
    ("", "Namespace"),
];

/// Where it is read.
pub(super) struct Reading<'a> {
    pub(super) hub: &'a Client,
    pub(super) served: &'a Served,
}

/// Objects to read: those of a kind, of a namespace and a name if these are given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    kind: GroupKind,
    namespace: Option<String>,
    name: Option<String>,
}

// === impl Reading ===

impl Reading<'_> {
    /// Reads all that the hub decides by.
    pub(super) async fn rules(&self) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for (group, kind) in RULES {
            let kind = GroupKind { group: group.into(), kind: kind.into() };
            objects.extend(self.list(&Wanted { kind, namespace: None, name: None }).await?);
        }
        Ok(objects)
    }

    /// Reads an object as it is.
    pub(super) async fn live(&self, document: &Document) -> Result<Option<Value>> {
        let Some(version) = &document.version else { return Ok(None) };
        let found = version.api(self.hub, &document.key).get_opt(&document.key.name).await;
        let found = found.with_context(|| format!("failed to read {}", document.key))?;
        Ok(found.map(|object| value(&object, version)))
    }

    /// Reads the objects that policies, overrides or clusters among the documents may concern, and what is named by these or
    /// names what is among the documents.
    pub(super) async fn concerned(&self, documents: &[Document], known: &[Value]) -> Result<Vec<Value>> {
        let given = || documents.iter().map(|document| &document.object);
        let policies: Vec<_> = known.iter().chain(given()).collect();
        let wanted: BTreeSet<_> =
            documents.iter().flat_map(|document| concerned_by(document, &policies)).collect();
        let mut found = Vec::new();
        for wanted in &wanted {
            found.extend(self.list(wanted).await?);
        }
        let named: BTreeSet<_> = found.iter().chain(given()).flat_map(copy::dependencies).collect();
        for ObjectKey { kind, namespace, name } in named {
            let (namespace, name) = (Some(namespace.to_string()), Some(name.to_string()));
            found.extend(self.list(&Wanted { kind, namespace, name }).await?);
        }
        let known: BTreeSet<_> = known.iter().filter_map(ObjectKey::of).collect();
        found.retain(|object| ObjectKey::of(object).is_some_and(|key| !known.contains(&key)));
        Ok(found)
    }

    async fn list(&self, wanted: &Wanted) -> Result<Vec<Value>> {
        let Some(version) = self.served.preferred(&wanted.kind) else { return Ok(Vec::new()) };
        let api: Api<DynamicObject> = match wanted.namespace.as_ref().filter(|_| version.namespaced) {
            Some(namespace) => Api::namespaced_with(self.hub.clone(), namespace, &version.resource),
            None => Api::all_with(self.hub.clone(), &version.resource),
        };
        let mut which = ListParams::default();
        if let Some(name) = &wanted.name {
            which = which.fields(&format!("metadata.name={name}"));
        }
        let list = api.list(&which).await;
        let list = list.with_context(|| format!("failed to read objects of {}", wanted.kind))?;
        Ok(list.items.iter().map(|object| value(object, version)).collect())
    }
}

/// What a document may concern beside itself.
fn concerned_by(document: &Document, policies: &[&Value]) -> Vec<Wanted> {
    let ObjectKey { kind, namespace, .. } = &document.key;
    let all = |namespace: Option<&str>, which: &dyn Fn(&Value) -> bool| -> Vec<Wanted> {
        let selected = policies.iter().filter(|policy| which(policy)).flat_map(|policy| selected(policy));
        selected.filter_map(|wanted| wanted.within(namespace)).collect()
    };
    match (&*kind.group, &*kind.kind) {
        // As it is and as it would be.
        (propagation::GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => {
            all(None, &|policy| ObjectKey::of(policy).as_ref() == Some(&document.key))
        }
        // An override may be of everything; so may a member.
        (propagation::GROUP | cluster::GROUP, _) => {
            all(Some(&**namespace).filter(|namespace| !namespace.is_empty()), &|_| true)
        }
        // What is in it goes with it.
        ("", "Namespace") => all(Some(&document.key.name), &|_| true),
        _ if copy::may_be_named(kind) => {
            all(Some(namespace), &|policy| policy.pointer("/spec/propagateDeps") == Some(&true.into()))
        }
        _ => Vec::new(),
    }
}

/// What a policy selects.
fn selected(policy: &Value) -> Vec<Wanted> {
    let placing = |key: &ObjectKey| {
        &*key.kind.group == propagation::GROUP && key.kind.kind.ends_with("PropagationPolicy")
    };
    let Some(key) = ObjectKey::of(policy).filter(placing) else { return Vec::new() };
    let selectors = policy.pointer("/spec/resourceSelectors").cloned().unwrap_or_default();
    let selectors: Vec<ResourceSelector> = serde_json::from_value(selectors).unwrap_or_default();
    let plain = |text: &String| !text.contains(['*', '?', '[', '{', '\\']);
    let own = Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty());
    let wanted = selectors.into_iter().map(|selector| Wanted {
        kind: GroupKind::new(&selector.api_version, &selector.kind),
        namespace: own.clone().or(selector.namespace).filter(plain),
        name: selector.name.filter(plain),
    });
    wanted.collect()
}

// === impl Wanted ===

impl Wanted {
    /// The part of it that is in a namespace; all of it where none is given.
    fn within(self, namespace: Option<&str>) -> Option<Self> {
        let Some(namespace) = namespace else { return Some(self) };
        let there = self.namespace.as_deref().is_none_or(|own| own == namespace);
        there.then(|| Self { namespace: Some(namespace.to_owned()), ..self })
    }
}

/// An object as it is; in lists they do not say what they are.
fn value(object: &DynamicObject, version: &Version) -> Value {
    typed(serde_json::to_value(object).unwrap_or_default(), version)
}

/// An object that says what it is.
pub(super) fn typed(mut object: Value, version: &Version) -> Value {
    object["apiVersion"] = version.resource.api_version.as_str().into();
    object["kind"] = version.resource.kind.as_str().into();
    object
}
