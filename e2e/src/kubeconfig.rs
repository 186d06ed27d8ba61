//! Kubeconfig files, with the certificates inside so that they can be copied elsewhere.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::pki::{Authority, Pair, write};

/// A way into a cluster: one context of a kubeconfig.
#[derive(Debug, Clone)]
pub struct Access {
    /// Name of the cluster and of the context.
    pub name: String,
    server: String,
    authority: String,
    proof: Proof,
}

/// What shows who one is.
#[derive(Debug, Clone)]
enum Proof {
    Pair { cert: String, key: String },
    Token(String),
}

// === impl Access ===

impl Access {
    /// Reads the key pair; the context gets the name.
    pub fn new(name: &str, server: &str, authority: &Authority, pair: &Pair) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            server: server.to_owned(),
            authority: encode(authority.certificate.as_bytes()),
            proof: Proof::Pair { cert: read(&pair.cert)?, key: read(&pair.key)? },
        })
    }

    /// The way in of whoever has a token.
    pub fn with_token(name: &str, server: &str, authority: &Authority, token: &str) -> Self {
        Self {
            name: name.to_owned(),
            server: server.to_owned(),
            authority: encode(authority.certificate.as_bytes()),
            proof: Proof::Token(token.to_owned()),
        }
    }

    /// A client that gives up soon and never retries by itself: whoever waits does that.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::from_yaml(&render(std::slice::from_ref(self)))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        config.connect_timeout = Some(std::time::Duration::from_secs(5));
        Ok(Client::try_from(config)?)
    }
}

/// The URL of a server on an address.
pub fn url(address: IpAddr, port: u16) -> String {
    format!("https://{}", std::net::SocketAddr::new(address, port))
}

/// Writes one kubeconfig with a context for each; the first is the current one.
pub fn save(path: &Path, all: &[Access]) -> Result<()> {
    write(path, &render(all))
}

fn read(path: &Path) -> Result<String> {
    Ok(encode(&fs::read(path).with_context(|| format!("failed to read {}", path.display()))?))
}

fn encode(bytes: &[u8]) -> String {
    match serde_json::to_value(ByteString(bytes.to_owned())) {
        Ok(serde_json::Value::String(text)) => text,
        other => unreachable!("bytes are written as one string, not {other:?}"),
    }
}

fn render(all: &[Access]) -> String {
    let mut text = String::from("apiVersion: v1\nkind: Config\npreferences: {}\nclusters:\n");
    for Access { name, server, authority, .. } in all {
        text += &format!(
            "- name: {name}\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}\n"
        );
    }
    text += "users:\n";
    for Access { name, proof, .. } in all {
        let proof = match proof {
            Proof::Pair { cert, key } => {
                format!("    client-certificate-data: {cert}\n    client-key-data: {key}\n")
            }
            Proof::Token(token) => format!("    token: {token}\n"),
        };
        text += &format!("- name: {name}\n  user:\n{proof}");
    }
    text += "contexts:\n";
    for Access { name, .. } in all {
        text += &format!("- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n");
    }
    if let Some(first) = all.first() {
        text += &format!("current-context: {}\n", first.name);
    }
    text
}
