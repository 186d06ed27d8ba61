//! Server-side apply's bookkeeping, read without a schema: whether our last apply still stands.
//!
//! A field that somebody else changes or removes is no longer listed under our name, and an item of a list-map or set goes
//! the same way; so managedFields, which metadata watches show, tell all drift of what is ours. In `fieldsV1`, `f:` is a
//! field, `k:` an item known by its key fields, `v:` an item known by its value, `.` the thing itself; an empty set is a
//! leaf, or a list or map that is atomic.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::quantity;
use crate::{
    api::names::{self, annotation, label},
    decide::policies::fingerprint,
};

/// Our name as a field manager. It never changes between releases.
pub const MANAGER: &str = "tombolo";
/// The resourceVersion with which an apply creates, or conflicts with what is there.
pub const CREATE_ONLY: &str = "1";
/// What metadata has of a body that no manager ever owns.
const UNLISTED: [&str; 4] = ["name", "namespace", "resourceVersion", "uid"];
/// What we write on a copy.
const MARKS: [&str; 9] = [
    annotation::ADOPTED,
    annotation::APPLIED,
    annotation::DEPENDENCY,
    annotation::ON_POLICY_DELETION,
    annotation::ORIGIN,
    annotation::POLICIES,
    annotation::POLICY,
    annotation::PRESERVE_ON_DELETION,
    annotation::REPLICAS,
];
/// Fields whose values, also those below them, are quantities.
const QUANTITIES: [&str; 5] = ["capacity", "hard", "limits", "requests", "sizeLimit"];

/// An item of a list as `fieldsV1` knows it.
struct Item<'a> {
    /// How it is listed.
    text: &'a str,
    /// Its key fields, or its value.
    key: Value,
    by_value: bool,
    used: bool,
}

/// The fields that are ours: what our last apply named, less what others changed since.
pub fn ours(entries: &[ManagedFieldsEntry]) -> Option<&Value> {
    entries.iter().find(|entry| is_ours(entry))?.fields_v1.as_ref().map(|fields| &fields.0)
}

/// Whether somebody scales the object by its `scale` subresource, as an autoscaler does.
pub fn scaled(entries: &[ManagedFieldsEntry]) -> bool {
    entries.iter().any(|entry| entry.subresource.as_deref() == Some("scale"))
}

/// Whether we made an object outright, as a Namespace that a copy needed, and did not let go of it since.
pub fn made(entries: &[ManagedFieldsEntry]) -> bool {
    entries.iter().any(|entry| {
        entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some("Update")
    })
}

/// Whether our entry still lists every field of the body that was applied, as far as that entry alone can tell.
pub fn covers(fields: &Value, body: &Value) -> bool {
    lists_all(fields, &[], body)
}

/// Whether our last apply of a body still stands, by the entries of all managers.
///
/// More than [`covers`] sees: an entry of an item that lost all of its fields looks like one that is atomic, unless another
/// manager's entry shows that it has fields. (If those were removed and not changed, nobody's does: see [`listing`].)
pub fn holds(entries: &[ManagedFieldsEntry], body: &Value) -> bool {
    let Some(fields) = ours(entries) else { return false };
    let others = entries.iter().filter(|entry| !is_ours(entry));
    let others: Vec<&Value> = others.filter_map(|entry| Some(&entry.fields_v1.as_ref()?.0)).collect();
    lists_all(fields, &others, body)
}

/// A fingerprint of what our entry lists, of use within one process: it is the same as long as nobody took any of it.
///
/// Kept from the answer to an apply, it tells what [`holds`] cannot: that somebody removed all there was in an entry of a
/// free-form map.
pub fn listing(entries: &[ManagedFieldsEntry]) -> Option<u64> {
    ours(entries).map(fingerprint)
}

/// Whether a live object already says all that a body says, our own marks aside: then it may be adopted.
pub fn says_all(live: &Value, body: &Value) -> bool {
    body.as_object().into_iter().flatten().all(|(field, wanted)| match field.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => ["annotations", "labels"].into_iter().all(|field| {
            let wanted = wanted.get(field).and_then(Value::as_object).into_iter().flatten();
            let mut wanted = wanted.filter(|(key, _)| !key.starts_with(names::PREFIX));
            let marks = live.get("metadata").and_then(|metadata| metadata.get(field));
            wanted.all(|(key, value)| marks.is_some_and(|marks| marks.get(key) == Some(value)))
        }),
        _ => says(live.get(field), wanted, is_quantity(field)),
    })
}

/// How an object is let go, as a JSON patch: without our marks and our name among its managers, and as it is otherwise.
///
/// It names the resourceVersion in `metadata`, so that it is a conflict (409) where the object has another by now: entries
/// are known by their place. What the user set for our agents stays.
pub fn let_go(metadata: &ObjectMeta) -> Value {
    let mut patch = vec![json!({
        "op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version
    })];
    let mut remove = |path: String| patch.push(json!({ "op": "remove", "path": path }));
    let escaped = |mark: &str| mark.replace('~', "~0").replace('/', "~1");
    if metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::HUB)) {
        remove(format!("/metadata/labels/{}", escaped(label::HUB)));
    }
    let annotations = metadata.annotations.as_ref();
    for mark in MARKS.iter().filter(|mark| annotations.is_some_and(|marks| marks.contains_key(**mark))) {
        remove(format!("/metadata/annotations/{}", escaped(mark)));
    }
    let entries = metadata.managed_fields.as_deref().unwrap_or_default().iter().enumerate();
    // From the last on, so that the places of those before do not change.
    for (index, _) in entries.rev().filter(|(_, entry)| entry.manager.as_deref() == Some(MANAGER)) {
        remove(format!("/metadata/managedFields/{index}"));
    }
    Value::Array(patch)
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().is_none_or(str::is_empty)
}

fn lists_all(fields: &Value, others: &[&Value], body: &Value) -> bool {
    body.as_object().into_iter().flatten().all(|(field, value)| match field.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => lists_metadata(fields.get("f:metadata"), value),
        _ => lists_field(Some(fields), others, field, value),
    })
}

/// Labels and annotations are never atomic, whatever an entry that lost all of them looks like.
fn lists_metadata(fields: Option<&Value>, metadata: &Value) -> bool {
    let listed = metadata.as_object().into_iter().flatten();
    let mut listed = listed.filter(|(field, _)| !UNLISTED.contains(&field.as_str()));
    listed.all(|(field, marks)| {
        let fields = fields.and_then(|fields| fields.get(format!("f:{field}")));
        let mut keys = marks.as_object().into_iter().flatten().map(|(key, _)| format!("f:{key}"));
        keys.all(|key| fields.is_some_and(|fields| fields.get(&key).is_some()))
    })
}

fn lists_field(fields: Option<&Value>, others: &[&Value], field: &str, value: &Value) -> bool {
    let name = format!("f:{field}");
    lists(fields.and_then(|fields| fields.get(&name)), &below(others, &name), value)
}

/// Whether a set of fields, ours of one place, has all that a value has; `others` are other managers' of the same place.
fn lists(fields: Option<&Value>, others: &[&Value], value: &Value) -> bool {
    let atomic = fields.is_some_and(is_empty) && others.iter().all(|fields| is_empty(fields));
    match value {
        // Listed if the list is atomic, and not if it is not; there is nothing in it to lose.
        Value::Array(items) if items.is_empty() => true,
        Value::Null => true,
        _ if atomic => true,
        Value::Object(inner) if !inner.is_empty() => {
            inner.iter().all(|(field, value)| lists_field(fields, others, field, value))
        }
        Value::Array(items) => fields.is_some_and(|fields| lists_items(fields, others, items)),
        _ => fields.is_some(),
    }
}

/// Whether all items are listed. Those that say all of their key come first: an item that leaves a part of it to a default
/// (the protocol of a port) might be any of those that are left.
fn lists_items(fields: &Value, others: &[&Value], items: &[Value]) -> bool {
    let mut listed: Vec<_> =
        fields.as_object().into_iter().flatten().filter_map(|(k, _)| Item::of(k)).collect();
    let mut rest = Vec::new();
    for item in items {
        match listed.iter_mut().find(|listed| listed.is(item)) {
            Some(found) if found.lists(fields, others, item) => found.used = true,
            Some(_) => return false,
            None => rest.push(item),
        }
    }
    rest.into_iter().all(|item| {
        let mut left = listed.iter_mut().filter(|listed| !listed.used && listed.may_be(item));
        match left.find(|listed| listed.lists(fields, others, item)) {
            Some(found) => {
                found.used = true;
                true
            }
            None => false,
        }
    })
}

fn below<'a>(others: &[&'a Value], name: &str) -> Vec<&'a Value> {
    others.iter().filter_map(|fields| fields.get(name)).collect()
}

fn is_empty(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

// === impl Item ===

impl<'a> Item<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (by_value, key) = match text.split_once(':')? {
            ("k", key) => (false, key),
            ("v", value) => (true, value),
            _ => return None,
        };
        Some(Self { text, key: serde_json::from_str(key).ok()?, by_value, used: false })
    }

    /// Whether it is this item for sure.
    fn is(&self, item: &Value) -> bool {
        if self.by_value { self.key == *item } else { self.fits(item, |given| given.is_some()) }
    }

    /// Whether it is this item if defaults are right.
    fn may_be(&self, item: &Value) -> bool {
        !self.by_value && self.fits(item, |_| true)
    }

    fn fits(&self, item: &Value, enough: impl Fn(Option<&Value>) -> bool) -> bool {
        item.is_object()
            && self.key.as_object().into_iter().flatten().all(|(field, value)| {
                let given = item.get(field);
                enough(given) && given.is_none_or(|given| given == value)
            })
    }

    fn lists(&self, fields: &Value, others: &[&Value], item: &Value) -> bool {
        lists(fields.get(self.text), &below(others, self.text), item)
    }
}

/// Whether what is there says what is wanted, and perhaps more.
fn says(live: Option<&Value>, wanted: &Value, quantities: bool) -> bool {
    match (live, wanted) {
        (_, Value::Null) => true,
        (None, Value::Array(wanted)) => wanted.is_empty(),
        (Some(Value::Object(live)), Value::Object(wanted)) => wanted
            .iter()
            .all(|(field, wanted)| says(live.get(field), wanted, quantities || is_quantity(field))),
        (Some(Value::Array(live)), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live.iter().zip(wanted).all(|(live, wanted)| says(Some(live), wanted, quantities))
        }
        (Some(live), wanted) => live == wanted || (quantities && quantity::equal(live, wanted)),
        (None, _) => false,
    }
}

fn is_quantity(field: &str) -> bool {
    QUANTITIES.contains(&field)
}
