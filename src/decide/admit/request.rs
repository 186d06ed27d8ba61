//! What an API server asks of admission, and the answer.

use json_patch::Patch;
use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::decide::fault::Fault;

/// As many faults as a message lists.
const FAULTS: usize = 100;
/// The longest warning; API servers cut off what is longer.
const WARNING: usize = 256;
/// As many warnings as an answer has; API servers drop those beyond 4096 characters in all.
const WARNINGS: usize = 16;

/// An object that somebody wants to write or delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its kind, in the version that the webhook is registered for.
    pub kind: GroupVersionKind,
    /// What is to be done.
    pub operation: Operation,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name; may be empty where the API server is to make one up.
    pub name: String,
    /// The object as it would be; none when it is deleted.
    pub object: Option<Value>,
    /// The object as it is; none when it is created.
    pub old_object: Option<Value>,
    /// Who asks.
    pub user: String,
    /// Whether nothing would be stored in any case.
    pub dry_run: bool,
}

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// It is to be stored for the first time.
    Create,
    /// It is to be stored in place of another.
    Update,
    /// It is to go.
    Delete,
    /// It is to be connected to.
    Connect,
}

/// What becomes of a [`Request`]. It is refused if it has a fault, and then for all of its faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What is wrong, by field.
    pub faults: Vec<Fault>,
    /// What is legal and probably not meant; nothing where there are faults.
    pub warnings: Vec<String>,
    /// What is to be filled in.
    pub patch: Patch,
}

// === impl Request ===

impl Request {
    /// The object in words: `ServiceImport shop/serve`.
    pub fn subject(&self) -> String {
        let Self { kind, namespace, .. } = self;
        let name = match self.object_name() {
            "" => "without a name",
            name => name,
        };
        if namespace.is_empty() {
            format!("{} {name}", kind.kind)
        } else {
            format!("{} {namespace}/{name}", kind.kind)
        }
    }

    /// The object's name, wherever it stands; empty where the API server is to make one up.
    pub(super) fn object_name(&self) -> &str {
        let object = self.object.as_ref().or(self.old_object.as_ref());
        let name = object.and_then(|object| object.pointer("/metadata/name")).and_then(Value::as_str);
        name.filter(|name| !name.is_empty()).unwrap_or(&self.name)
    }
}

// === impl Verdict ===

impl Verdict {
    /// Whether the request may go on.
    pub fn allowed(&self) -> bool {
        self.faults.is_empty()
    }

    /// Why the request is refused, for the one who made it: what is refused, then a line for each fault. None if it is
    /// not.
    pub fn message(&self, request: &Request) -> Option<String> {
        if self.allowed() {
            return None;
        }
        let mut lines: Vec<_> = self.faults.iter().take(FAULTS).map(ToString::to_string).collect();
        if let Some(more) = self.faults.len().checked_sub(FAULTS).filter(|more| *more > 0) {
            lines.push(format!("and {more} faults more"));
        }
        Some(format!("{} is refused:\n{}", request.subject(), lines.join("\n")))
    }

    pub(super) fn fault(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.faults.push(Fault { path: path.into(), message: message.into() });
    }

    /// Faults that others found. What is refused as a whole needs no faults inside.
    pub(super) fn more_faults(&mut self, faults: Vec<Fault>) {
        let refused: Vec<_> = self.faults.iter().map(|fault| fault.path.clone()).collect();
        let inside = |fault: &Fault| refused.iter().any(|path| fault.path.starts_with(path.as_str()));
        self.faults.extend(faults.into_iter().filter(|fault| !inside(fault)));
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// As an API server passes it on: no warning twice, none too long, not too many, no line breaks. And none beside a
    /// fault: of an object that is not stored, only what keeps it out is worth reading.
    pub(super) fn fit(mut self) -> Self {
        let mut seen = std::collections::BTreeSet::new();
        self.faults.dedup();
        if !self.allowed() {
            self.warnings.clear();
        }
        self.warnings.retain(|warning| seen.insert(warning.clone()));
        let more = self.warnings.len().saturating_sub(WARNINGS);
        if more > 0 {
            self.warnings.truncate(WARNINGS);
            self.warnings.push(format!("and {more} warnings more"));
        }
        for warning in &mut self.warnings {
            *warning = shortened(warning);
        }
        self
    }
}

fn shortened(warning: &str) -> String {
    let line = warning.chars().map(|c| if c.is_control() { ' ' } else { c });
    // Counted in bytes, as the API server does.
    let mut short = String::with_capacity(warning.len().min(WARNING));
    for c in line {
        if short.len() + c.len_utf8() + '…'.len_utf8() > WARNING && warning.len() > WARNING {
            short.push('…');
            break;
        }
        short.push(c);
    }
    short
}
