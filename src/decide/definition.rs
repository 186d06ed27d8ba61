//! The definition of a kind of the Multi-Cluster Services API in a cluster: which version is spoken there, and which words it has.

use std::collections::BTreeMap;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};

use crate::api::{mcs::Version, names::mcs};

/// The definition of a kind of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its UID: another one is another kind, even of the same name.
    pub uid: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The version in which the kind is spoken of.
    pub version: Version,
    /// Whether its status has a word for where the endpoints are.
    pub says_where: bool,
    /// Whether an import has words for its traffic: `internalTrafficPolicy` and `trafficDistribution`.
    pub says_traffic: bool,
    /// Whether it is served and not about to go.
    pub usable: bool,
}

/// How ServiceImports are spoken of in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The version.
    pub version: Version,
    /// Whether there are words for traffic: what has none would be written again and again.
    pub traffic: bool,
}

/// How new a definition is: the release of the API, and the revision of the schema within it, which begins anew with every release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    version: (u64, u64, u64),
    revision: u64,
}

// === impl Release ===

impl Release {
    /// What a definition says of itself by its labels. Those before v0.4.0 say nothing and are older than any that does.
    pub fn of(labels: Option<&BTreeMap<String, String>>) -> Self {
        let label = |key| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        Self {
            version: label(mcs::RELEASE_VERSION).and_then(version).unwrap_or_default(),
            revision: label(mcs::SCHEMA_REVISION).and_then(|text| text.parse().ok()).unwrap_or_default(),
        }
    }
}

/// `v0.5.2`, and what comes after it in pre-releases does not count.
fn version(text: &str) -> Option<(u64, u64, u64)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut numbers = text.split(['-', '+']).next()?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().unwrap_or(Some(0))?))
}

// === impl Definition ===

impl Definition {
    /// What matters of a definition; none if it serves no version that we speak.
    pub fn of(definition: &CustomResourceDefinition) -> Option<Self> {
        let served = |version: &Version| {
            definition.spec.versions.iter().find(|found| found.name == version.name() && found.served)
        };
        let version =
            [Version::V1Beta1, Version::V1Alpha1].into_iter().find(|version| served(version).is_some())?;
        let schema =
            served(&version).and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
        let has = |part: &str, field: &str| {
            let part = schema.and_then(|schema| schema.properties.as_ref()?.get(part)?.properties.as_ref());
            part.is_some_and(|fields| fields.contains_key(field))
        };
        let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let established = conditions
            .into_iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True");
        Some(Self {
            uid: definition.metadata.uid.clone().unwrap_or_default(),
            created: definition.metadata.creation_timestamp.as_ref().map(|Time(at)| *at),
            version,
            says_where: has("status", "endpointSliceObjects"),
            says_traffic: has("spec", "internalTrafficPolicy") && has("spec", "trafficDistribution"),
            usable: established && definition.metadata.deletion_timestamp.is_none(),
        })
    }

    /// Whether an object was made before it, so for one of an earlier definition.
    pub fn is_younger_than(&self, object: &ObjectMeta) -> bool {
        let made = object.creation_timestamp.as_ref().map(|Time(at)| *at);
        made.zip(self.created).is_some_and(|(made, created)| made < created)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinitionCondition, CustomResourceDefinitionStatus,
    };

    use super::*;
    use crate::api::crds::{Role, definitions};

    /// Our own definition of ServiceImports, as an API server has it.
    fn definition() -> CustomResourceDefinition {
        let all = definitions(Role::Member).into_iter();
        let mut definition = all.last().unwrap();
        assert_eq!(definition.spec.names.kind, "ServiceImport");
        definition.metadata.uid = Some("one".to_owned());
        let established = CustomResourceDefinitionCondition {
            type_: "Established".to_owned(),
            status: "True".to_owned(),
            ..CustomResourceDefinitionCondition::default()
        };
        let conditions = Some(vec![established]);
        definition.status =
            Some(CustomResourceDefinitionStatus { conditions, ..CustomResourceDefinitionStatus::default() });
        definition
    }

    #[test]
    fn the_newest_version_that_is_served_is_spoken() {
        let mut definition = definition();
        assert_eq!(Definition::of(&definition).unwrap().version, Version::V1Beta1);
        definition.spec.versions.retain(|version| version.name == "v1alpha1");
        assert_eq!(Definition::of(&definition).unwrap().version, Version::V1Alpha1);
        definition.spec.versions[0].served = false;
        assert_eq!(Definition::of(&definition), None);
    }

    #[test]
    fn an_older_definition_has_no_word_for_where_the_endpoints_are() {
        let mut definition = definition();
        assert!(Definition::of(&definition).unwrap().says_where);
        for version in &mut definition.spec.versions {
            let schema = version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
            let status = schema.properties.as_mut().unwrap().get_mut("status").unwrap();
            status.properties.as_mut().unwrap().remove("endpointSliceObjects");
        }
        assert!(!Definition::of(&definition).unwrap().says_where);
    }

    #[test]
    fn an_older_definition_has_no_words_for_an_imports_traffic() {
        let mut definition = definition();
        assert!(Definition::of(&definition).unwrap().says_traffic);
        for version in &mut definition.spec.versions {
            let schema = version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
            let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
            spec.properties.as_mut().unwrap().remove("trafficDistribution");
        }
        assert!(!Definition::of(&definition).unwrap().says_traffic);
    }

    #[test]
    fn a_definition_that_is_not_served_yet_or_is_about_to_go_is_not_used() {
        let mut definition = definition();
        assert!(Definition::of(&definition).unwrap().usable);
        definition.metadata.deletion_timestamp =
            Some(serde_json::from_str(r#""2026-01-01T00:00:00Z""#).unwrap());
        assert!(!Definition::of(&definition).unwrap().usable);
        definition.metadata.deletion_timestamp = None;
        definition.status = None;
        assert!(!Definition::of(&definition).unwrap().usable);
    }
}
