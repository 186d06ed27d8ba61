//! The names of what an import is served by: the derived Service, and the slices that belong to it.
//!
//! Hub and agent compute the same names, so that a member cannot point the hub at another Service.

use ring::digest::{SHA256, digest};

use super::ids::{ClusterName, ServiceKey};
use crate::api::names::DERIVED_PREFIX;

/// The longest name of a Service.
const LONGEST: usize = 63;
/// As many characters of a hash as tell names apart.
const HASH: usize = 10;

/// What the derived Service of an import is called: by its name, unless that is too long or taken.
pub fn plain_name(key: &ServiceKey) -> Option<String> {
    let name = format!("{DERIVED_PREFIX}{}", key.name);
    (name.len() <= LONGEST).then_some(name)
}

/// What it is called where [`plain_name`] cannot be: as mcs-api's own controller calls it.
pub fn hashed_name(key: &ServiceKey) -> String {
    format!("{DERIVED_PREFIX}{}", hash(&key.to_string()))
}

/// Whether a derived Service of an import can be called so.
pub fn is_name(key: &ServiceKey, name: &str) -> bool {
    plain_name(key).as_deref() == Some(name) || hashed_name(key) == name
}

/// What the imported slice is called that is made of a source slice.
pub fn slice_name(key: &ServiceKey, cluster: &ClusterName, source: &str) -> String {
    let ServiceKey { namespace, name } = key;
    format!("{name}-{cluster}-{}", hash(&format!("{cluster}/{namespace}/{source}")))
}

/// Whether an imported slice of a service, made of a source slice of a cluster, can be called so.
pub fn is_slice_name(key: &ServiceKey, cluster: &ClusterName, name: &str) -> bool {
    let hash = name.strip_prefix(&format!("{}-{cluster}-", key.name));
    hash.is_some_and(|hash| !hash.contains('-'))
}

/// What the source slice is called that is made of a slice of a Service; a part of it, where that has too many endpoints.
pub fn source_name(key: &ServiceKey, slice: &str, part: usize) -> String {
    format!("{}-source-{}", key.name, hash(&format!("{}/{slice}/{part}", key.namespace)))
}

/// The name of the service that a source slice of that name is of, if it can be one's.
pub fn source_of(name: &str) -> Option<&str> {
    name.rsplit_once('-')?.0.strip_suffix("-source")
}

/// The first characters of a text's SHA-256 in base32hex, lower case.
fn hash(text: &str) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let sum = digest(&SHA256, text.as_bytes());
    // Ten characters of five bits are in the first seven bytes.
    let bits = sum.as_ref()[..7].iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    (0..HASH).map(|at| char::from(DIGITS[(bits >> (56 - 5 * (at + 1)) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> ServiceKey {
        ServiceKey::parse(namespace, name).unwrap()
    }

    #[test]
    fn hashed_names_are_those_of_mcs_apis_own_controller() {
        for (namespace, name, hashed) in [
            ("demo", "serve", "derived-ovtkn0laet"),
            ("default", "foo", "derived-ihu8utvv70"),
            ("test", "myservice", "derived-ugeabue9o3"),
        ] {
            assert_eq!(hashed_name(&key(namespace, name)), hashed);
        }
    }

    #[test]
    fn a_name_that_would_be_too_long_has_no_plain_form() {
        assert_eq!(plain_name(&key("shop", "serve")).unwrap(), "derived-serve");
        assert!(plain_name(&key("shop", &"x".repeat(55))).is_some());
        assert!(plain_name(&key("shop", &"x".repeat(56))).is_none());
    }

    #[test]
    fn only_the_two_names_that_can_be_computed_are_accepted() {
        let key = key("shop", "serve");
        assert!(is_name(&key, "derived-serve") && is_name(&key, &hashed_name(&key)));
        assert!(!is_name(&key, "kubernetes") && !is_name(&key, "derived-other") && !is_name(&key, ""));
    }

    #[test]
    fn the_name_of_a_source_slice_tells_its_service() {
        for name in ["serve", "a-b", "serve-source", "serve-source-x"] {
            assert_eq!(source_of(&source_name(&key("shop", name), "any-slice", 7)), Some(name));
        }
        for name in ["serve", "serve-abcdefghij", "serve-sources-a", "source-a", ""] {
            assert_eq!(source_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_name_of_an_imported_slice_fits_one_service_and_cluster() {
        let (one, two) = ("member1".parse().unwrap(), "member2".parse().unwrap());
        let name = slice_name(&key("shop", "serve"), &one, "serve-source-a");
        assert!(is_slice_name(&key("shop", "serve"), &one, &name));
        assert!(!is_slice_name(&key("shop", "serve"), &two, &name));
        assert!(!is_slice_name(&key("shop", "other"), &one, &name));
        let of_another = slice_name(&key("shop", "serve"), &"member1-x".parse().unwrap(), "serve-source-a");
        assert!(!is_slice_name(&key("shop", "serve"), &one, &of_another));
    }

    #[test]
    fn slices_of_different_clusters_namespaces_and_sources_have_different_names() {
        let (one, two) = ("member1".parse().unwrap(), "member2".parse().unwrap());
        let name = slice_name(&key("shop", "serve"), &one, "serve-source-a");
        assert!(name.starts_with("serve-member1-"));
        assert_ne!(name, slice_name(&key("shop", "serve"), &two, "serve-source-a"));
        assert_ne!(name, slice_name(&key("mall", "serve"), &one, "serve-source-a"));
        assert_ne!(name, slice_name(&key("shop", "serve"), &one, "serve-source-b"));
    }
}
