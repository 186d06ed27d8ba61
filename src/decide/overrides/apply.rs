//! Applies the overriders of a rule to an object.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    jsonptr::{Pointer, PointerBuf},
};
use serde_json::{Map, Value, map::Entry};

use super::{document, image::Image};
use crate::{
    api::overrides::{
        AddRemove, CommandArgsOverrider, ImageOverrider, LabelAnnotationOverrider, Operator, Overriders,
    },
    decide::{
        fault::{Fault, Path, Shown},
        select::GroupKind,
    },
};

/// What an object is. No override may change it.
pub(super) const IDENTITY: [&str; 6] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/ownerReferences",
    "/metadata/finalizers",
];

/// The kinds whose containers overrides find by themselves, as in Karmada, and where their pods are described.
const WORKLOADS: [(&str, &str, &str); 6] = [
    ("", "Pod", "/spec/containers"),
    ("apps", "DaemonSet", "/spec/template/spec/containers"),
    ("apps", "Deployment", "/spec/template/spec/containers"),
    ("apps", "ReplicaSet", "/spec/template/spec/containers"),
    ("apps", "StatefulSet", "/spec/template/spec/containers"),
    ("batch", "Job", "/spec/template/spec/containers"),
];

/// Applies all overriders, in Karmada's order. After a fault the object is half changed: throw it away.
pub(super) fn overriders(all: &Overriders, object: &mut Value, path: &Path<'_>) -> Result<(), Fault> {
    each(&all.image_overrider, "imageOverrider", path, object, images)?;
    each(&all.command_overrider, "commandOverrider", path, object, |entry, object| {
        words(entry, "command", object)
    })?;
    each(&all.args_overrider, "argsOverrider", path, object, |entry, object| words(entry, "args", object))?;
    each(&all.labels_overrider, "labelsOverrider", path, object, |entry, object| {
        metadata(entry, "labels", object)
    })?;
    each(&all.annotations_overrider, "annotationsOverrider", path, object, |entry, object| {
        metadata(entry, "annotations", object)
    })?;
    each(&all.field_overrider, "fieldOverrider", path, object, document::patch_field)?;
    each(&all.plaintext, "plaintext", path, object, |entry, object| {
        patch(object, &entry.path, &entry.operator, entry.value.as_ref())
    })
}

/// Applies overriders of one sort, and sees to it that none changes what the object is.
fn each<T>(
    entries: &[T],
    field: &str,
    path: &Path<'_>,
    object: &mut Value,
    change: impl Fn(&T, &mut Value) -> Result<(), String>,
) -> Result<(), Fault> {
    for (index, entry) in entries.iter().enumerate() {
        let before = IDENTITY.map(|pointer| object.pointer(pointer).cloned());
        let changed = change(entry, object).and_then(|()| {
            let after = IDENTITY.map(|pointer| object.pointer(pointer).cloned());
            match IDENTITY.iter().zip(before.iter().zip(&after)).find(|(_, (before, after))| before != after)
            {
                Some((pointer, _)) => Err(format!("it changes {pointer}, which no override may")),
                None => Ok(()),
            }
        });
        changed.map_err(|message| path.field(field).index(index).fault(message))?;
    }
    Ok(())
}

/// Does one step of a JSON patch.
pub(super) fn patch(
    document: &mut Value,
    path: &str,
    operator: &Operator,
    value: Option<&Value>,
) -> Result<(), String> {
    let place = PointerBuf::parse(path).map_err(|_| not_a_pointer(path))?;
    let (did, value) = (operator_name(operator), || value.cloned().ok_or("it has no value".to_owned()));
    let operation = match operator {
        Operator::Add => PatchOperation::Add(AddOperation { path: place, value: value()? }),
        Operator::Replace => PatchOperation::Replace(ReplaceOperation { path: place, value: value()? }),
        Operator::Remove => PatchOperation::Remove(RemoveOperation { path: place }),
        Operator::Other(other) => return Err(format!("{} is not an operator", Shown(other))),
    };
    json_patch::patch(document, &[operation])
        .map_err(|_| format!("cannot {did} {}: there is no such place", Shown(path)))
}

/// Why a text is no JSON pointer.
pub(super) fn not_a_pointer(text: &str) -> String {
    format!(
        "{} is not a JSON pointer; begin it with '/', and write ~1 for a '/' and ~0 for a '~' in a name",
        Shown(text)
    )
}

/// The string at a place.
pub(super) fn string_at<'a>(object: &'a mut Value, path: &str) -> Result<&'a mut String, String> {
    let pointer = Pointer::parse(path).map_err(|_| not_a_pointer(path))?;
    match object.pointer_mut(pointer.as_str()) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("what is at {} is not a string", Shown(path))),
        None => Err(format!("there is nothing at {}", Shown(path))),
    }
}

/// Changes images: the one that is pointed at, or those of all containers where the kind has them.
fn images(entry: &ImageOverrider, object: &mut Value) -> Result<(), String> {
    if let Some(predicate) = &entry.predicate {
        let image = string_at(object, &predicate.path)?;
        *image = Image::overridden(image, entry)?;
        return Ok(());
    }
    for container in containers(object) {
        if let Some(Value::String(image)) = container.get_mut("image") {
            *image = Image::overridden(image, entry)?;
        }
    }
    Ok(())
}

/// Adds words to, or removes them from, the command or the arguments of the containers of a name.
fn words(entry: &CommandArgsOverrider, field: &str, object: &mut Value) -> Result<(), String> {
    let named = |container: &&mut Map<String, Value>| {
        container.get("name").and_then(Value::as_str) == Some(&entry.container_name)
    };
    for container in containers(object).filter(named) {
        match (&entry.operator, container.get_mut(field)) {
            (AddRemove::Add, None | Some(Value::Null)) => {
                container.insert(field.to_owned(), entry.value.clone().into());
            }
            (AddRemove::Add, Some(Value::Array(list))) => {
                list.extend(entry.value.iter().cloned().map(Value::from));
            }
            (AddRemove::Remove, Some(Value::Array(list))) => {
                list.retain(|word| {
                    !word.as_str().is_some_and(|word| entry.value.iter().any(|gone| gone == word))
                });
            }
            (AddRemove::Remove, None | Some(Value::Null)) => {}
            (AddRemove::Other(other), _) => return Err(format!("{} is not an operator", Shown(other))),
            (AddRemove::Add | AddRemove::Remove, Some(_)) => {
                return Err(format!("the container's {field} is not a list"));
            }
        }
    }
    Ok(())
}

/// Changes labels or annotations. Only what is there is replaced or removed.
fn metadata(entry: &LabelAnnotationOverrider, field: &str, object: &mut Value) -> Result<(), String> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return Err("the object has no metadata".to_owned());
    };
    if metadata.get(field).is_none_or(Value::is_null) {
        if entry.operator != Operator::Add {
            return Ok(());
        }
        metadata.insert(field.to_owned(), Map::new().into());
    }
    let Some(Value::Object(entries)) = metadata.get_mut(field) else {
        return Err(format!("the object's {field} are not a map"));
    };
    for (key, value) in &entry.value {
        match (&entry.operator, entries.entry(key.as_str())) {
            (Operator::Add, place) => *place.or_insert(Value::Null) = value.as_str().into(),
            (Operator::Replace, Entry::Occupied(mut place)) => drop(place.insert(value.as_str().into())),
            (Operator::Remove, Entry::Occupied(place)) => drop(place.remove()),
            (Operator::Replace | Operator::Remove, Entry::Vacant(_)) => {}
            (Operator::Other(other), _) => return Err(format!("{} is not an operator", Shown(other))),
        }
    }
    Ok(())
}

fn containers(object: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupKind::new(text("apiVersion"), text("kind"));
    let place = WORKLOADS.iter().find(|(group, name, _)| *group == &*kind.group && *name == &*kind.kind);
    let list = place.and_then(|(_, _, pointer)| object.pointer_mut(pointer)).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn operator_name(operator: &Operator) -> &str {
    match operator {
        Operator::Add => "add",
        Operator::Remove => "remove",
        Operator::Replace => "replace",
        Operator::Other(other) => other,
    }
}
