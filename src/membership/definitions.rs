//! The definitions of the Multi-Cluster Services API in a member: put where they are missing or older, never over newer ones.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;

use crate::api::names::mcs;

/// The release of a definition: that of the API, and the revision of the schema within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    version: (u64, u64, u64),
    revision: u64,
}

// === impl Release ===

impl Release {
    /// What a definition says of itself. Those before v0.4.0 say nothing and are older than any that does.
    pub fn of(definition: &CustomResourceDefinition) -> Self {
        let label = |key| definition.labels().get(key).map(String::as_str);
        Self {
            version: label(mcs::RELEASE_VERSION).and_then(version).unwrap_or_default(),
            revision: label(mcs::SCHEMA_REVISION).and_then(|text| text.parse().ok()).unwrap_or_default(),
        }
    }
}

/// Whether ours is to be written where this one, or none, is found.
pub fn outdated(found: Option<&CustomResourceDefinition>, ours: &CustomResourceDefinition) -> bool {
    found.is_none_or(|found| Release::of(found) < Release::of(ours))
}

/// `v0.5.2`, and what comes after it in pre-releases does not count.
fn version(text: &str) -> Option<(u64, u64, u64)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut numbers = text.split(['-', '+']).next()?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().unwrap_or(Some(0))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::crds::{Role, definitions};

    fn labelled(release: Option<&str>, revision: Option<&str>) -> CustomResourceDefinition {
        let mut definition = definitions(Role::Member).remove(0);
        let labels = [(mcs::RELEASE_VERSION, release), (mcs::SCHEMA_REVISION, revision)];
        definition.metadata.labels = Some(
            labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect(),
        );
        definition
    }

    #[test]
    fn definitions_are_put_where_they_are_missing_or_older_and_never_over_newer_ones() {
        let ours = labelled(Some("v0.5.2"), Some("1"));
        assert!(outdated(None, &ours));
        for (release, revision, older) in [
            (None, None, true),
            (Some("v0.4.0"), Some("9"), true),
            (Some("v0.5.2"), Some("0"), true),
            (Some("v0.5.2-rc.1"), Some("0"), true),
            (Some("v0.5.2"), Some("1"), false),
            (Some("v0.5.2"), Some("2"), false),
            (Some("v0.10.0"), Some("0"), false),
            (Some("v1.0"), None, false),
            (Some("newest"), Some("0"), true),
        ] {
            assert_eq!(
                outdated(Some(&labelled(release, revision)), &ours),
                older,
                "{release:?} {revision:?}"
            );
        }
    }
}
