//! What is amiss with a set-up: [`hub`] looks at a hub, [`member`] at a member, each as an administrator sees it.
//!
//! [`connectivity`] lets pods of members dial each other, which only who asks for it wants.
//!
//! Invariant: nothing else is changed; what is tried out is a dry run. A look that fails is a [`Finding`] itself, so that one missing right does not
//! hide all others.

mod common;
pub mod connectivity;
mod hub;
mod member;
mod rights;
mod webhook;

use anyhow::Result;
use kube::Client;

pub use self::{hub::hub, member::member};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is as it should be.
    Well,
    /// It works, but not as one would want, or it could not be found out.
    Doubtful,
    /// It does not work.
    Sick,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub about: &'static str,
    /// What was found.
    pub says: String,
    /// What to do about it; empty if nothing.
    pub way_out: String,
}

/// A cluster that is looked at.
struct Look<'a> {
    client: &'a Client,
    /// Tombolo's own namespace.
    namespace: &'a str,
    found: Vec<Finding>,
}

// === impl Finding ===

impl Finding {
    fn well(about: &'static str, says: impl Into<String>) -> Self {
        Self { severity: Severity::Well, about, says: says.into(), way_out: String::new() }
    }

    fn doubtful(about: &'static str, says: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { severity: Severity::Doubtful, about, says: says.into(), way_out: way_out.into() }
    }

    fn sick(about: &'static str, says: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { severity: Severity::Sick, about, says: says.into(), way_out: way_out.into() }
    }
}

// === impl Look ===

impl<'a> Look<'a> {
    fn new(client: &'a Client, namespace: &'a str) -> Self {
        Self { client, namespace, found: Vec::new() }
    }

    /// Takes note of what was found, or that it could not be found out.
    fn note(&mut self, about: &'static str, looked: Result<Vec<Finding>>) {
        match looked {
            Ok(found) => self.found.extend(found),
            Err(e) => self.found.push(Finding::doubtful(about, format!("cannot be found out: {e:#}"), "")),
        }
    }
}
