//! What is wrong with an object, where, and what to do about it.
//!
//! A validation collects [`Fault`]s; it never stops at the first. [`Path`] says where it is while it walks an object, and
//! costs nothing until there is a fault to report.

use std::fmt;

/// As much of a user's text as a message repeats.
const SHOWN: usize = 80;

/// A fault of an object. Reads `spec.priority: …`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The field, such as `spec.placement.spreadConstraints[0].minGroups`.
    pub path: String,
    /// What is wrong with it and the way out.
    pub message: String,
}

/// A place in an object, on the way down from its root.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    above: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

/// A user's text in a message: quoted, and cut where it is long.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a str);

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

// === impl Path ===

impl<'a> Path<'a> {
    /// A field of the object itself.
    pub fn root(field: &'a str) -> Self {
        Self { above: None, step: Step::Field(field) }
    }

    /// A field inside.
    pub fn field<'b>(&'b self, field: &'b str) -> Path<'b> {
        Path { above: Some(self), step: Step::Field(field) }
    }

    /// An item of a list.
    pub fn index(&self, index: usize) -> Path<'_> {
        Path { above: Some(self), step: Step::Index(index) }
    }

    /// An entry of a map.
    pub fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { above: Some(self), step: Step::Key(key) }
    }

    /// A fault here.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault { path: self.to_string(), message: message.into() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Field(field) if self.above.is_none() => f.write_str(field),
            Step::Field(field) => write!(f, ".{field}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{}]", cut(key).unwrap_or(key)),
        }
    }
}

// === impl Shown ===

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match cut(self.0) {
            Some(beginning) => write!(f, "{beginning:?}…"),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The beginning of a text that is too long to be shown.
fn cut(text: &str) -> Option<&str> {
    text.char_indices().nth(SHOWN).map(|(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_as_path_and_message() {
        let spec = Path::root("spec");
        let (list, labels) = (spec.field("overrideRules"), spec.field("labels"));
        assert_eq!(
            list.index(2).field("x").fault("is wrong").to_string(),
            "spec.overrideRules[2].x: is wrong"
        );
        assert_eq!(labels.key("a/b").to_string(), "spec.labels[a/b]");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(Shown("web").to_string(), "\"web\"");
        let shown = Shown(&"é".repeat(1000)).to_string();
        assert_eq!(shown.chars().count(), SHOWN + 3, "{shown}");
    }
}
