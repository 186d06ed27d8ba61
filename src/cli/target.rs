//! The hub that a command asks, by the flags that kubectl has too.

use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::Client;

use super::paint;
use crate::{
    api::names::object,
    shell::{
        client::attended,
        connection::{self, Target},
    },
};

/// Flags that name the hub.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct HubFlags {
    /// The hub's kubeconfig; without it $KUBECONFIG, ~/.kube/config or the pod's own service account.
    #[arg(long, visible_alias = "kubeconfig", value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// The hub's context; without it the current one.
    #[arg(long, visible_alias = "context", value_name = "NAME")]
    hub_context: Option<String>,
    /// Tombolo's own namespace on the hub.
    #[arg(long, default_value = object::NAMESPACE, value_name = "NAME")]
    pub hub_namespace: String,
}

// === impl HubFlags ===

impl HubFlags {
    /// A client of the hub, and the namespace that its context names.
    pub async fn connect(&self) -> Result<(Client, String)> {
        let target = Target {
            kubeconfig: self.hub_kubeconfig.as_deref(),
            context: self.hub_context.as_deref(),
            prefix: "--hub-",
        };
        let config = connection::way(target).await.context("failed to find the hub")?;
        let hub = attended(&config, paint::warn).context("failed to set up the hub's client")?;
        Ok((hub, config.default_namespace))
    }
}
