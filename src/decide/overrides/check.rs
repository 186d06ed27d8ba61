//! Everything that is wrong with overriders, before there is an object to try them on.

use std::cmp::Ordering;

use json_patch::jsonptr::Pointer;
use serde_json::Value;

use super::{
    apply::{IDENTITY, not_a_pointer},
    image,
};
use crate::{
    api::overrides::{
        AddRemove, CommandArgsOverrider, DocumentPatch, FieldOverrider, ImageComponent, ImageOverrider,
        LabelAnnotationOverrider, Operator, Overriders,
    },
    decide::{
        fault::{Fault, Path, Shown},
        select::labels,
    },
};

/// Reports everything that is wrong with overriders.
pub(super) fn overriders(all: &Overriders, path: &Path<'_>, faults: &mut Vec<Fault>) {
    let listed = path.field("imageOverrider");
    for (index, entry) in all.image_overrider.iter().enumerate() {
        images(entry, &listed.index(index), faults);
    }
    for (field, entries) in
        [("commandOverrider", &all.command_overrider), ("argsOverrider", &all.args_overrider)]
    {
        let listed = path.field(field);
        for (index, entry) in entries.iter().enumerate() {
            words(entry, &listed.index(index), faults);
        }
    }
    let listed = path.field("labelsOverrider");
    for (index, entry) in all.labels_overrider.iter().enumerate() {
        let path = listed.index(index);
        known(&entry.operator, &path, faults);
        labels::check(&entry.value, &path.field("value"), faults);
    }
    let listed = path.field("annotationsOverrider");
    for (index, entry) in all.annotations_overrider.iter().enumerate() {
        annotations(entry, &listed.index(index), faults);
    }
    let listed = path.field("fieldOverrider");
    for (index, entry) in all.field_overrider.iter().enumerate() {
        field(entry, &listed.index(index), faults);
    }
    let listed = path.field("plaintext");
    for (index, entry) in all.plaintext.iter().enumerate() {
        let path = listed.index(index);
        changeable(&entry.path, &path.field("path"), faults);
        valued(&entry.operator, entry.value.as_ref(), &path, faults);
    }
}

fn images(entry: &ImageOverrider, path: &Path<'_>, faults: &mut Vec<Fault>) {
    if let Some(predicate) = &entry.predicate {
        changeable(&predicate.path, &path.field("predicate").field("path"), faults);
    }
    if let ImageComponent::Other(other) = &entry.component {
        faults.push(
            path.field("component").fault(format!(
                "{} is not a part of an image; use Registry, Repository or Tag",
                Shown(other)
            )),
        );
    }
    known(&entry.operator, path, faults);
    let at = path.field("value");
    match (&entry.operator, entry.value.as_deref()) {
        (Operator::Add | Operator::Replace, None) => {
            faults.push(at.fault("it is empty, and add and replace need a value"));
        }
        (Operator::Remove, Some(_)) => faults.push(at.fault("remove takes no value; leave it out")),
        (Operator::Replace, Some(value))
            if entry.component == ImageComponent::Tag
                && !image::is_tag(value)
                && !image::is_digest(value) =>
        {
            faults.push(at.fault(format!("{} is neither a tag nor a digest", Shown(value))));
        }
        _ => {}
    }
}

fn words(entry: &CommandArgsOverrider, path: &Path<'_>, faults: &mut Vec<Fault>) {
    if entry.container_name.is_empty() {
        faults.push(path.field("containerName").fault("it is empty; name the container"));
    }
    if let AddRemove::Other(other) = &entry.operator {
        faults.push(
            path.field("operator")
                .fault(format!("{} is not an operator here; use add or remove", Shown(other))),
        );
    }
    if entry.value.is_empty() {
        faults.push(path.field("value").fault("it is empty; give at least one word"));
    }
}

fn annotations(entry: &LabelAnnotationOverrider, path: &Path<'_>, faults: &mut Vec<Fault>) {
    known(&entry.operator, path, faults);
    let at = path.field("value");
    for key in entry.value.keys() {
        // Kubernetes looks at annotation keys in lower case.
        if labels::key_fault(&key.to_lowercase()).is_some() {
            faults.push(at.key(key).fault(format!(
                "{} is not an annotation key; use a name of letters, digits, '-', '_' and '.', or prefix/name",
                Shown(key)
            )));
        }
    }
}

fn field(entry: &FieldOverrider, path: &Path<'_>, faults: &mut Vec<Fault>) {
    changeable(&entry.field_path, &path.field("fieldPath"), faults);
    match (entry.json.is_empty(), entry.yaml.is_empty()) {
        (false, false) => {
            faults.push(path.field("yaml").fault("it cannot stand beside json; leave one of them out"));
        }
        (true, true) => faults.push(path.fault("it changes nothing; give json or yaml")),
        _ => {}
    }
    for (field, patches) in [("json", &entry.json), ("yaml", &entry.yaml)] {
        let listed = path.field(field);
        for (index, patch) in patches.iter().enumerate() {
            document(patch, &listed.index(index), faults);
        }
    }
}

fn document(patch: &DocumentPatch, path: &Path<'_>, faults: &mut Vec<Fault>) {
    if Pointer::parse(&patch.sub_path).is_err() {
        faults.push(path.field("subPath").fault(not_a_pointer(&patch.sub_path)));
    }
    valued(&patch.operator, patch.value.as_ref(), path, faults);
}

/// Reports a pointer that is none, or to something that no override may change.
fn changeable(pointer: &str, path: &Path<'_>, faults: &mut Vec<Fault>) {
    let Ok(parsed) = Pointer::parse(pointer) else {
        faults.push(path.fault(not_a_pointer(pointer)));
        return;
    };
    let meets = |identity: &&&'static str| {
        let identity = Pointer::from_static(identity);
        parsed.starts_with(identity) || identity.starts_with(parsed)
    };
    if let Some(identity) = IDENTITY.iter().find(meets) {
        let rule = format!("no override may change {identity}");
        faults.push(path.fault(match pointer.len().cmp(&identity.len()) {
            Ordering::Equal => rule,
            Ordering::Less => format!("{} cannot be changed as a whole, since {rule}", Shown(pointer)),
            Ordering::Greater => format!("{rule}, which {} is in", Shown(pointer)),
        }));
    }
}

/// Reports an operator without the value that it needs, or with one that it does not take.
fn valued(operator: &Operator, value: Option<&Value>, path: &Path<'_>, faults: &mut Vec<Fault>) {
    known(operator, path, faults);
    match (operator, value) {
        (Operator::Add | Operator::Replace, None) => {
            faults.push(path.field("value").fault("it is missing or null, and add and replace need a value"));
        }
        (Operator::Remove, Some(_)) => {
            faults.push(path.field("value").fault("remove takes no value; leave it out"));
        }
        _ => {}
    }
}

fn known(operator: &Operator, path: &Path<'_>, faults: &mut Vec<Fault>) {
    if let Operator::Other(other) = operator {
        faults.push(
            path.field("operator")
                .fault(format!("{} is not an operator; use add, remove or replace", Shown(other))),
        );
    }
}
