//! Who this hub is: a random id in a Secret, made by whoever comes first and never changed.
//!
//! It is written to every member and into the origin of every copy, so that two hubs never take each other's objects for
//! their own. A hub restored from backup keeps its id; one that lost the Secret is another hub.

use std::{fmt::Write, sync::Arc};

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};

use crate::api::names::object;

/// The field manager of everything that the hub writes to its own API server; it never changes between releases.
const MANAGER: &str = "tombolo-hub";
/// Random bytes in an id.
const LENGTH: usize = 16;
/// Between reading and making it, somebody else may make or delete it. Twice in a row is not chance.
const TRIES: usize = 3;

/// The id of the hub whose own namespace this is. It is made if there is none.
pub async fn hub_id(client: &Client, namespace: &str) -> Result<Arc<str>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for _ in 0..TRIES {
        if let Some(id) = find(client, namespace).await? {
            return Ok(id);
        }
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match secrets.create(&params, &secret(&random()?)).await {
            Ok(made) => return read(&made, namespace),
            // Another replica, or `tombolo join`, was first.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(e) => {
                return Err(e).with_context(|| {
                    format!("failed to keep the hub's id in Secret {namespace}/{}", object::HUB)
                });
            }
        }
    }
    Err(anyhow!("Secret {namespace}/{}, the hub's id, comes and goes", object::HUB))
}

/// The id of the hub whose own namespace this is, if it has one yet.
pub async fn find(client: &Client, namespace: &str) -> Result<Option<Arc<str>>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets
        .get_opt(object::HUB)
        .await
        .with_context(|| format!("failed to read the hub's id in Secret {namespace}/{}", object::HUB))?;
    found.map(|secret| read(&secret, namespace)).transpose()
}

fn read(secret: &Secret, namespace: &str) -> Result<Arc<str>> {
    let place = || format!("Secret {namespace}/{}, key {}", object::HUB, object::HUB_ID);
    let id = secret.data.as_ref().and_then(|data| data.get(object::HUB_ID));
    let id = id
        .with_context(|| format!("{}: missing; delete the Secret only if no cluster is a member", place()))?;
    let id = std::str::from_utf8(&id.0).with_context(|| format!("{}: is no text", place()))?;
    // It becomes a label's value.
    let fits =
        (8..=63).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    ensure!(fits, "{}: must be 8 to 63 lower-case letters and digits", place());
    Ok(id.into())
}

fn secret(id: &str) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(object::HUB.to_owned()), ..ObjectMeta::default() },
        data: Some([(object::HUB_ID.to_owned(), ByteString(id.as_bytes().to_vec()))].into()),
        type_: Some("Opaque".to_owned()),
        // Whatever changes it would turn all members' copies into somebody else's.
        immutable: Some(true),
        ..Secret::default()
    }
}

fn random() -> Result<String> {
    let mut bytes = [0; LENGTH];
    let source = rustls::crypto::ring::default_provider().secure_random;
    source.fill(&mut bytes).map_err(|_| anyhow!("failed to get random bytes for the hub's id"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_random_and_reads_as_it_was_made() {
        let (one, two) = (random().unwrap(), random().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), 2 * LENGTH);
        assert_eq!(*read(&secret(&one), "ns").unwrap(), *one);
    }

    #[test]
    fn a_secret_without_a_usable_id_is_named_with_its_key() {
        let of = |id: &str| read(&secret(id), "ns").unwrap_err().to_string();
        assert_eq!(of(""), "Secret ns/tombolo-hub, key id: must be 8 to 63 lower-case letters and digits");
        assert!(of("ABCDEFGH").contains("must be 8 to 63"));
        assert!(of("a/b/c/d/e").contains("must be 8 to 63"));
        let empty = read(&Secret::default(), "ns").unwrap_err().to_string();
        assert!(empty.starts_with("Secret ns/tombolo-hub, key id: missing"), "{empty}");
    }
}
