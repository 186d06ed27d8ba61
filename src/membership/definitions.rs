//! The definitions of the Multi-Cluster Services API in a member: put where they are missing or older, never over newer ones.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::decide::definition::Release;

/// Whether ours is to be written where this one, or none, is found.
pub fn outdated(found: Option<&CustomResourceDefinition>, ours: &CustomResourceDefinition) -> bool {
    let release = |of: &CustomResourceDefinition| Release::of(of.metadata.labels.as_ref());
    found.is_none_or(|found| release(found) < release(ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{
        crds::{Role, definitions},
        names::mcs,
    };

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
