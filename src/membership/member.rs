//! The way into a member: made of its Cluster and the Secret that the Cluster names, whoever wrote the two.
//!
//! [`config`] is the only entry. Karmada's own manifests work: keys `token` and `caBundle`, in a Secret of any namespace.

use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Config, ResourceExt, config::AuthInfo};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use thiserror::Error;

use crate::api::{
    Cluster,
    cluster::{ClusterSpec, SecretReference, SyncMode},
    names::karmada::{SECRET_CA_BUNDLE, SECRET_TOKEN},
};

/// Why there is no way into a member. The words are for whoever wrote the Cluster.
#[derive(Debug, Error)]
pub enum Error {
    /// A field of the Cluster does not do.
    #[error("Cluster {cluster}: {field}: {fault}")]
    Cluster {
        /// Its name.
        cluster: String,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// The hub's API server did not give the Secret.
    #[error("failed to read Secret {secret} of Cluster {cluster}")]
    Read {
        /// The Cluster's name.
        cluster: String,
        /// Namespace and name of the Secret.
        secret: String,
        /// The API server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is no such Secret.
    #[error(
        "Secret {secret}, which spec.secretRef of Cluster {cluster} names, does not exist; it holds {SECRET_TOKEN} and \
         {SECRET_CA_BUNDLE}, and `tombolo join {cluster}` makes it"
    )]
    NoSecret {
        /// The Cluster's name.
        cluster: String,
        /// Namespace and name of the Secret.
        secret: String,
    },
    /// A key of the Secret does not do.
    #[error("Secret {secret} of Cluster {cluster}, key {key}: {fault}")]
    Key {
        /// The Cluster's name.
        cluster: String,
        /// Namespace and name of the Secret.
        secret: String,
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        fault: String,
    },
}

/// The way into a member, as its Cluster and Secret on the hub have it now. Timeouts are kube's; nothing is retried.
pub async fn config(hub: &Client, cluster: &Cluster) -> Result<Config, Error> {
    versioned(hub, cluster).await.map(|(config, _)| config)
}

/// The same, with the resourceVersion of the Secret that it was made of.
pub async fn versioned(hub: &Client, cluster: &Cluster) -> Result<(Config, Option<String>), Error> {
    let name = cluster.name_any();
    let SecretReference { namespace, name: secret } = reference(&name, &cluster.spec)?;
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), namespace);
    let place = || format!("{namespace}/{secret}");
    match secrets.get_opt(secret).await {
        Ok(Some(found)) => Ok((config_of(cluster, &found)?, found.resource_version())),
        Ok(None) => Err(Error::NoSecret { cluster: name, secret: place() }),
        Err(source) => Err(Error::Read { cluster: name, secret: place(), source: Box::new(source) }),
    }
}

/// The same from a Secret that was read already.
pub fn config_of(cluster: &Cluster, secret: &Secret) -> Result<Config, Error> {
    let (name, spec) = (cluster.name_any(), &cluster.spec);
    let at = |field, fault: String| Error::Cluster { cluster: name.clone(), field, fault };
    let reference = reference(&name, spec)?;
    let keys = Keys { cluster: &name, reference, secret };
    let endpoint = spec.api_endpoint.as_deref();
    let endpoint =
        endpoint.ok_or_else(|| at("spec.apiEndpoint", "is missing: the URL of its API server".to_owned()))?;
    let mut config = Config::new(url(endpoint).map_err(|fault| at("spec.apiEndpoint", fault))?);
    config.auth_info = AuthInfo { token: Some(keys.token()?.into()), ..AuthInfo::default() };
    config.accept_invalid_certs = spec.insecure_skip_tls_verification;
    if !config.accept_invalid_certs {
        config.root_cert = keys.authorities()?;
    }
    if let Some(proxy) = &spec.proxy_url {
        let uri = proxy.parse().map_err(|_| at("spec.proxyURL", format!("{proxy:?} is no URL")))?;
        config.proxy_url = Some(uri);
    }
    // Whoever calls decides about retries.
    config.default_retry = false;
    Ok(config)
}

fn reference<'a>(cluster: &str, spec: &'a ClusterSpec) -> Result<&'a SecretReference, Error> {
    let at =
        |field, fault: &str| Error::Cluster { cluster: cluster.to_owned(), field, fault: fault.to_owned() };
    if spec.sync_mode != SyncMode::Push {
        return Err(at("spec.syncMode", "must be Push: Tombolo writes to members itself"));
    }
    let missing =
        || at("spec.secretRef", "is missing: namespace and name of the Secret that holds token and caBundle");
    spec.secret_ref.as_ref().filter(|it| !it.namespace.is_empty() && !it.name.is_empty()).ok_or_else(missing)
}

/// The token crosses the network, so only under TLS.
fn url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| format!("{text:?} is no URL, such as https://10.0.0.1:6443"))?;
    if uri.scheme_str() != Some("https") || uri.host().is_none_or(str::is_empty) {
        return Err(format!("{text:?} must begin with https:// and name a host"));
    }
    Ok(uri)
}

/// A member's Secret, as the one who wrote it sees it.
struct Keys<'a> {
    cluster: &'a str,
    reference: &'a SecretReference,
    secret: &'a Secret,
}

// === impl Keys ===

impl Keys<'_> {
    fn fault(&self, key: &'static str, fault: String) -> Error {
        let SecretReference { namespace, name } = self.reference;
        Error::Key { cluster: self.cluster.to_owned(), secret: format!("{namespace}/{name}"), key, fault }
    }

    fn value(&self, key: &str) -> Option<&[u8]> {
        let value = self.secret.data.as_ref()?.get(key)?;
        Some(value.0.trim_ascii()).filter(|value| !value.is_empty())
    }

    fn token(&self) -> Result<&str, Error> {
        let missing = || self.fault(SECRET_TOKEN, format!("is missing or empty{}", self.others()));
        let token = self.value(SECRET_TOKEN).ok_or_else(missing)?;
        // Anything else could not be sent as a header.
        let sendable = |token: &&str| token.bytes().all(|b| b.is_ascii_graphic());
        std::str::from_utf8(token).ok().filter(sendable).ok_or_else(|| {
            self.fault(SECRET_TOKEN, "is no token: it has characters that a header cannot have".to_owned())
        })
    }

    /// The authorities that the API server's certificate must come from; none stands for those of the machine, as in Karmada.
    fn authorities(&self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(bundle) = self.value(SECRET_CA_BUNDLE) else {
            // The name that a service account's own Secret has for it: copied as it was, and never looked at.
            return match self.value("ca.crt") {
                Some(_) => Err(self.fault(SECRET_CA_BUNDLE, format!("is missing{}", self.others()))),
                None => Ok(None),
            };
        };
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
        match certificates {
            Ok(certificates) if !certificates.is_empty() => {
                Ok(Some(certificates.into_iter().map(|certificate| certificate.to_vec()).collect()))
            }
            Ok(_) => Err(self.fault(SECRET_CA_BUNDLE, "holds no certificate: it must be PEM".to_owned())),
            Err(e) => Err(self.fault(SECRET_CA_BUNDLE, format!("is not PEM: {e}"))),
        }
    }

    fn others(&self) -> String {
        let keys: Vec<_> = self.secret.data.iter().flat_map(|data| data.keys()).map(String::as_str).collect();
        if keys.is_empty() { String::new() } else { format!("; it has {}", keys.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
