//! Why an object of the hub is where it is, or is not: `tombolo explain`.
//!
//! [`Read`] is what was read of the hub, [`explain`] the only way in. It asks the same rules as the hub itself (policies,
//! placement, merge) and adds what the hub has written on its objects, since what happens in a member only a member knows. Members
//! themselves are asked only for a service that they may share without the hub's objects.
//! The first finding that is not well is the cause; it names the field and the way out.

mod cluster;
mod members;
mod overriding;
mod policy;
mod read;
mod selected;
mod service;
mod template;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub use self::read::{PolicyRead, Read};
pub(in crate::decide) use self::{
    policy::shown,
    read::{conflict, of, one_line},
    template::against,
};
use super::{copy::ObjectKey, policies::PolicyKey};

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A member.
    Cluster(String),
    /// A PropagationPolicy or ClusterPropagationPolicy.
    Policy(PolicyKey),
    /// An OverridePolicy or ClusterOverridePolicy.
    Override(PolicyKey),
    /// A template. Of a Service, ServiceExport or ServiceImport the whole service is explained.
    Object(ObjectKey),
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// As it should be.
    Well,
    /// Not yet, and nobody has to do anything about it.
    Pending,
    /// Not, until somebody does something about it.
    NotWell,
    /// It is not on the hub.
    Absent,
}

/// Why an object is where it is, or is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The object, by kind and name.
    pub object: String,
    /// How it is.
    pub state: State,
    /// Why, in words.
    pub cause: String,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
    /// All that was found.
    pub parts: Vec<Part>,
}

/// What was found of one side of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Of what it speaks.
    pub title: String,
    /// What was found, a row each.
    pub rows: Vec<Row>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// How it is.
    pub state: State,
    /// Of what it speaks, such as a cluster or a policy.
    pub of: String,
    /// What there is to say.
    pub text: String,
}

/// A reason why something is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    state: State,
    cause: String,
    way_out: Option<String>,
}

/// What is found of an object, the most important first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    findings: Vec<Finding>,
    parts: Vec<Part>,
}

/// Explains an object.
pub fn explain(read: &Read, subject: &Subject) -> Explanation {
    let (object, account) = match subject {
        Subject::Cluster(name) => (format!("Cluster {name}"), cluster::account(read, name)),
        Subject::Policy(key) => (policy::shown(key), policy::account(read, key)),
        Subject::Override(key) => (overriding::shown(key), overriding::account(read, key)),
        Subject::Object(key) => match service::of_object(read, key) {
            Some(service) => (named(key), service::account(read, key, &service)),
            None => (named(key), members::account(read, key)),
        },
    };
    account.sum(object, read)
}

// === impl Finding ===

impl Finding {
    fn new(state: State, cause: impl Into<String>) -> Self {
        Self { state, cause: cause.into(), way_out: None }
    }

    fn not_well(cause: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { way_out: Some(way_out.into()), ..Self::new(State::NotWell, cause) }
    }
}

// === impl Row ===

impl Row {
    fn new(state: State, of: impl Into<String>, text: impl Into<String>) -> Self {
        Self { state, of: of.into(), text: text.into() }
    }
}

// === impl Account ===

impl Account {
    fn absent(cause: impl Into<String>, way_out: impl Into<String>) -> Self {
        let finding = Finding { state: State::Absent, ..Finding::not_well(cause, way_out) };
        Self { findings: vec![finding], parts: Vec::new() }
    }

    fn part(&mut self, title: &str, rows: Vec<Row>) {
        if !rows.is_empty() {
            self.parts.push(Part { title: title.to_owned(), rows });
        }
    }

    /// The worst that was found; of several the first.
    fn worst(&self) -> Option<&Finding> {
        self.findings.iter().rev().max_by_key(|finding| finding.state)
    }

    fn is_well(&self) -> bool {
        self.worst().is_none_or(|worst| worst.state == State::Well)
    }

    fn sum(mut self, object: String, read: &Read) -> Explanation {
        // Without a hub nothing goes on: what waits, waits for that.
        if let (State::Pending, Err(why)) = (self.worst().map_or(State::Well, |worst| worst.state), &read.hub)
        {
            let cause = format!("no hub is at work: {why}");
            self.findings.insert(0, Finding::not_well(cause, "start `tombolo hub`, or look at its log"));
        }
        let worst = self.worst().cloned();
        let Finding { state, cause, way_out } =
            worst.unwrap_or_else(|| Finding::new(State::Well, "there is nothing to do"));
        Explanation { object, state, cause, way_out, parts: self.parts }
    }
}

// === impl State ===

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Well => "is well",
            Self::Pending => "is on its way",
            Self::NotWell => "is not well",
            Self::Absent => "is not on the hub",
        })
    }
}

// === impl Explanation ===

impl Explanation {
    /// The first line: how it is, why, and the way out.
    pub fn headline(&self) -> String {
        let Self { object, state, cause, way_out, .. } = self;
        let way_out = way_out.as_ref().map(|way_out| format!("; {way_out}")).unwrap_or_default();
        format!("{object} {state}: {cause}{way_out}")
    }
}

/// An object in words. Its group goes without saying: whoever asks has named it.
fn named(key: &ObjectKey) -> String {
    match &*key.namespace {
        "" => format!("{} {}", key.kind.kind, key.name),
        namespace => format!("{} {namespace}/{}", key.kind.kind, key.name),
    }
}

/// Names in a row: `a, b and c`.
fn listed(items: impl IntoIterator<Item = impl fmt::Display>) -> String {
    const NAMED: usize = 10;
    let mut items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    if items.len() > NAMED {
        let more = items.len() - NAMED + 1;
        items.truncate(NAMED - 1);
        items.push(format!("{more} more"));
    }
    match items.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
