//! ClusterProperties (KEP-2149): a cluster's id, and the clusterset that it belongs to, as others in the cluster read them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::select::labels::is_subdomain;

/// The API group.
pub const GROUP: &str = "about.k8s.io";
/// The kind, as its objects are called in a path.
pub const PLURAL: &str = "clusterproperties";
/// The property that is a cluster's id.
pub const ID: &str = "cluster.clusterset.k8s.io";
/// The property that is there while the cluster belongs to a clusterset.
pub const SET: &str = "clusterset.k8s.io";

/// An id is shorter than that (KEP-2149).
pub const LONGEST: usize = 128;

/// Whether a text can be a cluster's id: an RFC-1123 subdomain (KEP-2149).
pub fn is_id(text: &str) -> bool {
    text.len() < LONGEST && is_subdomain(text)
}

/// A property as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it says.
    pub value: String,
    /// Whether the agent made it.
    pub ours: bool,
    /// Whether it goes with the membership.
    pub owned: bool,
}

/// What is to be done about a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is as it should be, or somebody else's that says the same.
    Nothing,
    /// It is to be made.
    Create,
    /// It is ours, and was changed.
    Repair,
    /// It is somebody else's and says something else: his word stands.
    Foreign,
}

/// What is to be done about the property that should have this value.
pub fn due(found: Option<&Found>, value: &str) -> Due {
    match found {
        None => Due::Create,
        Some(found) if found.ours && (found.value != value || !found.owned) => Due::Repair,
        Some(found) if found.value != value => Due::Foreign,
        Some(_) => Due::Nothing,
    }
}

/// The version in which a cluster speaks of properties; none while it does not.
pub fn version(definition: &CustomResourceDefinition) -> Option<&str> {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut established = conditions.filter(|it| it.type_ == "Established" && it.status == "True");
    let usable = definition.metadata.deletion_timestamp.is_none() && established.next().is_some();
    let served = definition.spec.versions.iter().find(|version| version.served);
    served.filter(|_| usable).map(|version| version.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_dns_name_in_lower_case_of_less_than_128_characters() {
        for id in ["blue", "eu-west.example", "d2f2bbd9-1c0c-4e2c-8b58-0c9e0d2b3c11", &"a".repeat(127)] {
            assert!(is_id(id), "{id}");
        }
        for none in ["", "Blue", "a_b", "-a", "a.", "a..b", "a b", &"a".repeat(128)] {
            assert!(!is_id(none), "{none}");
        }
    }

    #[test]
    fn what_is_missing_is_made_what_is_ours_is_put_right_and_what_is_anothers_is_left() {
        let found = |value: &str, ours, owned| Found { value: value.to_owned(), ours, owned };
        for (found, expected) in [
            (None, Due::Create),
            (Some(found("a", true, true)), Due::Nothing),
            (Some(found("b", true, true)), Due::Repair),
            (Some(found("a", true, false)), Due::Repair),
            (Some(found("a", false, false)), Due::Nothing),
            (Some(found("b", false, false)), Due::Foreign),
        ] {
            assert_eq!(due(found.as_ref(), "a"), expected, "{found:?}");
        }
    }
}
