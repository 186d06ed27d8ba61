//! Whether a cluster is the hub or a member, told by the kinds that its API server serves.

use anyhow::{Context, Result, bail};
use kube::Client;

use crate::api::{mcs, propagation};

/// What a cluster is to Tombolo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// Where templates and policies are.
    Hub,
    /// Where Services are.
    Member,
}

// === impl Side ===

impl Side {
    /// What a cluster is; what is said by `--on` where it is both. None where it serves none of the kinds.
    pub async fn of(client: &Client, on: Option<Self>) -> Result<Option<Self>> {
        let groups = client.list_api_groups().await.context("failed to ask the API server what it serves")?;
        let serves = |group: &str| groups.groups.iter().any(|found| found.name == group);
        let found = match (serves(propagation::GROUP), serves(mcs::GROUP)) {
            (true, _) => Some(Self::Hub),
            (false, true) => Some(Self::Member),
            (false, false) => None,
        };
        if on == Some(Self::Hub) && found != Some(Self::Hub) {
            bail!("--on: this cluster is no hub: it serves no {}", propagation::GROUP);
        }
        Ok(on.or(found))
    }
}
