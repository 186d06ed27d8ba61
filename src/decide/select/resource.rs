//! Which objects a policy speaks of.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::core::{Selector, SelectorExt};

use super::{Pattern, labels};
use crate::{
    api::propagation::ResourceSelector,
    decide::{
        fault::{Fault, Path, Shown},
        ids::Namespace,
    },
};

/// A kind, whatever its version: selectors match by group and kind, since one object is served in all of
/// its kind's versions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The API group; empty for the core.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
}

/// What selectors see of an object.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// Its kind.
    pub kind: &'a GroupKind,
    /// Its namespace; empty for an object of the whole cluster.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// How closely a selector names an object: the implicit priority of its policy, as Karmada has it, with globs between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// By its kind alone.
    All,
    /// By labels.
    Labels,
    /// By the form of its name.
    Glob,
    /// By name.
    Name,
}

/// One of a policy's `resourceSelectors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    pub(in crate::decide) kind: GroupKind,
    /// None means any, and in a namespaced policy its own.
    pub(in crate::decide) namespace: Option<Pattern>,
    pub(in crate::decide) by: By,
}

/// What a selector goes by, kind and namespace aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) enum By {
    Name(Arc<str>),
    Glob(Pattern),
    Labels(Box<Labelled>),
    All,
}

/// A label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) struct Labelled {
    pub(in crate::decide) selector: Selector,
    /// A label that every object it matches has, if there is such a one.
    pub(in crate::decide) required: Option<(Arc<str>, Arc<str>)>,
}

// === impl GroupKind ===

impl GroupKind {
    /// The kind of an object, by what it says of itself.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self { group: group.into(), kind: kind.into() }
    }

    fn compile(selector: &ResourceSelector, path: &Path<'_>, faults: &mut Vec<Fault>) -> Option<Self> {
        let before = faults.len();
        let (group, version) = selector.api_version.split_once('/').unwrap_or(("", &selector.api_version));
        let grouped = selector.api_version.contains('/');
        if version.is_empty() || version.contains('/') || (grouped && !labels::is_subdomain(group)) {
            faults.push(path.field("apiVersion").fault(format!(
                "{} is not an API version; write group/version, such as apps/v1, or v1 for the core group",
                Shown(&selector.api_version)
            )));
        }
        if selector.kind.is_empty() {
            faults.push(path.field("kind").fault("it is empty; name the kind, such as Deployment"));
        }
        (faults.len() == before).then(|| Self { group: group.into(), kind: selector.kind.as_str().into() })
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}

impl fmt::Debug for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Rank ===

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "its kind",
            Self::Labels => "labels",
            Self::Glob => "a glob",
            Self::Name => "name",
        })
    }
}

// === impl Resources ===

impl Resources {
    /// Compiles a selector of a policy in `own` namespace, or reports everything that is wrong with it.
    ///
    /// A namespaced policy selects in its own namespace only (karmada#7176). With a name, the label selector does not
    /// count, but it must make sense all the same.
    pub fn compile(
        selector: &ResourceSelector,
        own: Option<&str>,
        path: &Path<'_>,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        let before = faults.len();
        let kind = GroupKind::compile(selector, path, faults);
        let namespace = selector
            .namespace
            .as_ref()
            .and_then(|text| compile_namespace(text, own, &path.field("namespace"), faults));
        let labelled = match &selector.label_selector {
            None => Some(By::All),
            Some(wire) => {
                let required = wire.match_labels.iter().flatten().next();
                let required = required.map(|(key, value)| (key.as_str().into(), value.as_str().into()));
                labels::compile(wire, &path.field("labelSelector"), faults)
                    .map(|selector| By::Labels(Box::new(Labelled { selector, required })))
            }
        };
        let named = selector.name.as_ref().map(|name| Pattern::compile(name, &path.field("name"), faults));
        let by = match named {
            None => labelled?,
            Some(Some(Pattern::Plain(name))) => By::Name(name),
            Some(Some(glob)) => By::Glob(glob),
            Some(None) => return None,
        };
        Some(Self { kind: kind?, namespace, by }).filter(|_| faults.len() == before)
    }

    /// How closely it names an object, if it matches it at all.
    pub fn rank(&self, object: &Object<'_>) -> Option<Rank> {
        let matches = self.kind == *object.kind && self.matches_within_kind(object);
        matches.then(|| self.by.rank())
    }

    /// Whether it matches an object of its kind.
    pub(in crate::decide) fn matches_within_kind(&self, object: &Object<'_>) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| namespace.matches(object.namespace))
            && match &self.by {
                By::Name(name) => **name == *object.name,
                By::Glob(glob) => glob.matches(object.name),
                By::Labels(labelled) => labelled.selector.matches(object.labels),
                By::All => true,
            }
    }
}

/// The namespace of a selector, or none where it goes without saying or is wrong.
fn compile_namespace(
    text: &str,
    own: Option<&str>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Pattern> {
    if let Some(own) = own {
        if text != own {
            faults.push(path.fault(format!(
                "a policy of namespace {own} cannot select in {}; leave the namespace out, or use a cluster-wide policy",
                Shown(text)
            )));
        }
        return None;
    }
    let pattern = Pattern::compile(text, path, faults)?;
    if let Pattern::Plain(name) = &pattern
        && let Err(error) = name.parse::<Namespace>()
    {
        faults.push(path.fault(error.to_string()));
    }
    Some(pattern)
}

/// The name that a selector asks for, if it asks for one.
pub(in crate::decide) fn by_name(selector: &Resources) -> Option<&Arc<str>> {
    match &selector.by {
        By::Name(name) => Some(name),
        By::Glob(_) | By::Labels(_) | By::All => None,
    }
}

// === impl By ===

impl By {
    pub(in crate::decide) fn rank(&self) -> Rank {
        match self {
            Self::Name(_) => Rank::Name,
            Self::Glob(_) => Rank::Glob,
            Self::Labels(_) => Rank::Labels,
            Self::All => Rank::All,
        }
    }
}
