//! Labels as Kubernetes has them, and selectors by them.
//!
//! Karmada's webhook does not look at label selectors, and an invalid one silently matches nothing there. kube's own
//! conversion lets through what an API server refuses (no values, values that no label can have), so this checks first.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Selector;

use crate::decide::fault::{Fault, Path, Shown};

/// The longest name part of a key, and the longest value.
const NAME: usize = 63;
/// The longest prefix of a key.
const PREFIX: usize = 253;

/// Compiles a selector, or reports everything that is wrong with it.
pub fn compile(selector: &LabelSelector, path: &Path<'_>, faults: &mut Vec<Fault>) -> Option<Selector> {
    let before = faults.len();
    if let Some(labels) = &selector.match_labels {
        check(labels, &path.field("matchLabels"), faults);
    }
    let expressions = path.field("matchExpressions");
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        requirement_faults(requirement, &expressions.index(index), faults);
    }
    if faults.len() > before {
        return None;
    }
    Selector::try_from(selector.clone()).map_err(|error| faults.push(path.fault(error.to_string()))).ok()
}

/// Reports what cannot be the labels of an object.
pub fn check(labels: &BTreeMap<String, String>, path: &Path<'_>, faults: &mut Vec<Fault>) {
    for (key, value) in labels {
        let path = path.key(key);
        faults.extend(key_fault(key).map(|message| path.fault(message)));
        faults.extend(value_fault(value).map(|message| path.fault(message)));
    }
}

/// Why a text is no label key, if it is none. Keys of annotations differ: they may have capitals in their prefix.
pub fn key_fault(key: &str) -> Option<String> {
    key_fault_of("a label", key)
}

/// Why a text is no key of something that is written as labels are: `a taint`, say.
pub fn key_fault_of(what: &str, key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let wrong = if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        "the part before '/' must be a DNS name in lower case"
    } else if name.is_empty() || name.len() > NAME {
        "its name must have 1 to 63 characters"
    } else if !is_word(name) {
        "its name must be letters, digits, '-', '_' and '.', and begin and end with a letter or a digit"
    } else {
        return None;
    };
    Some(format!("{} is not {what} key: {wrong}", Shown(key)))
}

/// Why a text is no label value, if it is none.
pub fn value_fault(value: &str) -> Option<String> {
    value_fault_of("a label", value)
}

/// Why a text is no value of something that is written as labels are: `a taint`, say.
pub fn value_fault_of(what: &str, value: &str) -> Option<String> {
    let wrong = if value.len() > NAME {
        "it has more than 63 characters"
    } else if !value.is_empty() && !is_word(value) {
        "it must be letters, digits, '-', '_' and '.', and begin and end with a letter or a digit"
    } else {
        return None;
    };
    Some(format!("{} is not {what} value: {wrong}", Shown(value)))
}

fn requirement_faults(requirement: &LabelSelectorRequirement, path: &Path<'_>, faults: &mut Vec<Fault>) {
    faults.extend(key_fault(&requirement.key).map(|message| path.field("key").fault(message)));
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = path.field("values");
    match requirement.operator.as_str() {
        operator @ ("In" | "NotIn") => {
            if values.is_empty() {
                faults.push(listed.fault(format!("{operator} needs at least one value")));
            }
            for (index, value) in values.iter().enumerate() {
                faults.extend(value_fault(value).map(|message| listed.index(index).fault(message)));
            }
        }
        operator @ ("Exists" | "DoesNotExist") => {
            if !values.is_empty() {
                faults.push(
                    listed.fault(format!("{operator} takes no values; leave them out or use In or NotIn")),
                );
            }
        }
        other => faults.push(
            path.field("operator")
                .fault(format!("{} is not an operator; use In, NotIn, Exists or DoesNotExist", Shown(other))),
        ),
    }
}

/// Whether a text is a DNS name in lower case, as prefixes of keys and API groups are.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= PREFIX
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
                && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
                && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        })
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}
