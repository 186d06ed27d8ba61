//! The kinds that an API server serves, and in which versions.

use std::{collections::BTreeMap, sync::Arc};

use kube::{
    Api, Client, Discovery,
    api::{ApiResource, DynamicObject},
    core::discovery::Scope,
    discovery::verbs,
};

use crate::decide::{copy::ObjectKey, select::GroupKind};

/// The kinds that an API server serves.
#[derive(Clone, Debug, Default)]
pub struct Served(BTreeMap<GroupKind, Vec<Version>>);

/// A version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// How it is reached.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// Asks an API server.
pub async fn discover(client: &Client) -> kube::Result<Served> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut versions = Vec::new();
    for group in discovery.groups() {
        let preferred = group.preferred_version_or_latest();
        let others = group.versions().filter(|version| *version != preferred);
        for (resource, can) in
            std::iter::once(preferred).chain(others).flat_map(|version| group.versioned_resources(version))
        {
            let whole = [verbs::LIST, verbs::WATCH].iter().all(|verb| can.supports_operation(verb));
            if whole {
                let namespaced = can.scope == Scope::Namespaced;
                versions.push(Version { resource, namespaced });
            }
        }
    }
    Ok(versions.into_iter().collect())
}

// === impl Served ===

impl FromIterator<Version> for Served {
    /// Of each kind the version that is preferred comes first.
    fn from_iter<I: IntoIterator<Item = Version>>(versions: I) -> Self {
        let mut kinds: BTreeMap<GroupKind, Vec<Version>> = BTreeMap::new();
        for version in versions {
            let Version { resource, .. } = &version;
            let kind =
                GroupKind { group: resource.group.as_str().into(), kind: resource.kind.as_str().into() };
            kinds.entry(kind).or_default().push(version);
        }
        Self(kinds)
    }
}

impl Served {
    /// Whether a kind is served.
    pub fn has(&self, kind: &GroupKind) -> bool {
        self.0.contains_key(kind)
    }

    /// All kinds, each in the version that the API server prefers.
    pub fn kinds(&self) -> impl Iterator<Item = (&GroupKind, &Version)> {
        self.0.iter().filter_map(|(kind, versions)| Some((kind, versions.first()?)))
    }

    /// The version that the API server prefers.
    pub fn preferred(&self, kind: &GroupKind) -> Option<&Version> {
        self.0.get(kind)?.first()
    }

    /// A version of a kind, by group and version as objects write them.
    pub fn version(&self, kind: &GroupKind, api_version: &str) -> Option<&Version> {
        self.0.get(kind)?.iter().find(|version| version.resource.api_version == api_version)
    }

    /// Whether what a CustomResourceDefinition of this name defines is served.
    pub fn has_defined(&self, crd: &str) -> bool {
        self.0.values().flatten().any(|version| version.crd_name() == crd)
    }

    /// The first version of a kind that another API server has too.
    pub fn common(&self, kind: &GroupKind, other: &Self) -> Option<&Version> {
        let versions = self.0.get(kind)?;
        versions.iter().find(|version| other.version(kind, &version.resource.api_version).is_some())
    }
}

// === impl Version ===

impl Version {
    /// Where an object of this version is found.
    pub fn api(&self, client: &Client, key: &ObjectKey) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), &key.namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// The name of the CustomResourceDefinition that a kind has if it has one.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    /// Group and version as objects write them.
    pub fn api_version(&self) -> Arc<str> {
        self.resource.api_version.as_str().into()
    }
}
