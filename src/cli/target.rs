//! The hub that a command asks, by the flags that kubectl has too.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use kube::Client;

use super::paint::{self, Progress};
use crate::{
    api::{cluster, names::object, propagation},
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
        let groups = Progress::during("asking the hub which kinds it serves", hub.list_api_groups()).await;
        let groups = groups.context("failed to ask the hub which kinds it serves")?;
        if !is_hub(groups.groups.iter().map(|group| &*group.name)) {
            bail!(no_hub(connection::context(target).as_deref(), &config.cluster_url.to_string()));
        }
        Ok((hub, config.default_namespace))
    }
}

/// Whether a cluster that serves these groups of kinds is a hub.
fn is_hub<'a>(mut groups: impl Iterator<Item = &'a str>) -> bool {
    groups.any(|group| [propagation::GROUP, cluster::GROUP].contains(&group))
}

/// That a cluster is no hub, and how one names one.
fn no_hub(context: Option<&str>, url: &str) -> String {
    let named = context.map_or_else(|| url.to_owned(), |context| format!("context {context} ({url})"));
    format!(
        "{named} is no hub: it serves neither {} nor {}, as members do not; name the hub with --hub-context or --hub-kubeconfig, or make \
         this one a hub with `tombolo crds | kubectl apply --server-side --force-conflicts -f -`",
        propagation::GROUP,
        cluster::GROUP
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_no_hub_and_is_named_with_the_way_out() {
        assert!(is_hub(["apps", "policy.karmada.io"].into_iter()));
        assert!(is_hub(["cluster.karmada.io"].into_iter()), "whose members can still be left");
        assert!(!is_hub(["apps", "multicluster.x-k8s.io", "about.k8s.io"].into_iter()));
        let said = no_hub(Some("member1"), "https://10.0.0.1/");
        assert!(said.starts_with("context member1 (https://10.0.0.1/) is no hub"), "{said}");
        assert!(said.contains("name the hub with --hub-context"), "{said}");
        assert!(no_hub(None, "https://10.0.0.1/").starts_with("https://10.0.0.1/ is no hub"));
    }
}
