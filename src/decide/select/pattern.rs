//! Names and globs.

use std::{cmp::Ordering, fmt, sync::Arc};

use globset::{ErrorKind, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::decide::fault::{Fault, Path, Shown};

/// What makes a name a glob.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];
/// The longest glob. Twice the longest name leaves room for alternatives, and bounds what compiling one costs.
const LONGEST: usize = 512;

/// A name, or a glob where it has `*`, `?`, `[` or `{`. A backslash takes a special character's meaning away.
#[derive(Clone)]
pub enum Pattern {
    /// Matches that name.
    Plain(Arc<str>),
    /// Matches the names of a form.
    Glob(Arc<Glob>),
}

/// A compiled glob.
pub struct Glob {
    text: Box<str>,
    /// How much of the text stands for itself. Most names are told apart by it, at no cost.
    literal: usize,
    /// A set of one: it needs no regular expression for the common `web-*`, and its making can fail but not panic.
    set: GlobSet,
}

/// A list of names and globs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Sorted.
    plain: Box<[Arc<str>]>,
    globs: Box<[Pattern]>,
}

// === impl Pattern ===

impl Pattern {
    /// Compiles a pattern. The error is for the one who wrote it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.contains(SPECIAL) {
            return Ok(Self::Plain(text.into()));
        }
        if text.len() > LONGEST {
            return Err(format!("the glob {} has {} bytes, {LONGEST} are allowed", Shown(text), text.len()));
        }
        let wrong =
            |error: globset::Error| format!("{} is not a glob: {}", Shown(text), reason(error.kind()));
        let glob =
            GlobBuilder::new(text).backslash_escape(true).empty_alternates(true).build().map_err(wrong)?;
        let set = GlobSetBuilder::new().add(glob).build().map_err(wrong)?;
        let literal = text.find(|c| SPECIAL.contains(&c) || c == '\\').unwrap_or(text.len());
        Ok(Self::Glob(Arc::new(Glob { text: text.into(), literal, set })))
    }

    /// Compiles a pattern, or reports why it cannot be.
    pub fn compile(text: &str, path: &Path<'_>, faults: &mut Vec<Fault>) -> Option<Self> {
        Self::parse(text).map_err(|message| faults.push(path.fault(message))).ok()
    }

    /// Whether it matches a name.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Plain(text) => **text == *name,
            Self::Glob(glob) => name.starts_with(&glob.text[..glob.literal]) && glob.set.is_match(name),
        }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Glob(glob) => &glob.text,
        }
    }

    /// What every name that it matches begins with.
    pub fn literal_prefix(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Glob(glob) => &glob.text[..glob.literal],
        }
    }
}

/// What is wrong with a glob, and the way out.
fn reason(error: &ErrorKind) -> String {
    match error {
        ErrorKind::UnclosedClass => "it has a [ without a ]; close it with ]".to_owned(),
        ErrorKind::UnclosedAlternates => "it has a { without a }; close it with }".to_owned(),
        ErrorKind::UnopenedAlternates => "it has a } without a {; put the { before it".to_owned(),
        ErrorKind::InvalidRange(from, to) => format!("{from}-{to} runs backwards; write {to}-{from}"),
        ErrorKind::DanglingEscape => "it ends with a \\ that stands before nothing; leave it out".to_owned(),
        _ => "it cannot be worked out; use several simpler ones".to_owned(),
    }
}

// A text compiles to one pattern only.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => write!(f, "{text:?}"),
            Self::Glob(glob) => write!(f, "glob {:?}", glob.text),
        }
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

// === impl Names ===

impl Names {
    /// Sorts patterns into names and globs.
    pub fn new(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let (mut plain, mut globs) = (Vec::new(), Vec::new());
        for pattern in patterns {
            match pattern {
                Pattern::Plain(name) => plain.push(name),
                glob @ Pattern::Glob(_) => globs.push(glob),
            }
        }
        plain.sort_unstable();
        plain.dedup();
        globs.sort_unstable();
        globs.dedup();
        Self { plain: plain.into(), globs: globs.into() }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.globs.is_empty()
    }

    /// Whether any of them matches a name.
    pub fn matches(&self, name: &str) -> bool {
        self.plain.binary_search_by(|plain| (**plain).cmp(name)).is_ok()
            || self.globs.iter().any(|glob| glob.matches(name))
    }
}
