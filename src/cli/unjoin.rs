//! `tombolo unjoin`: asks the hub to leave a member, and waits until it has.
//!
//! The hub's finalizer does the work, so `kubectl delete cluster` does the same; this asks first, and tells how it goes.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;

use super::{
    paint::{Progress, Tone, say, say_in},
    patience::patience,
    target::HubFlags,
};
use crate::{
    api::{
        Cluster,
        names::{annotation, condition},
    },
    decide::ids::ClusterName,
    membership::{report, write::words},
};

/// The field manager of what this command writes; it never changes between releases.
const MANAGER: &str = "tombolo-unjoin";
/// After that a member that does not answer is thought to be dead.
const SOON: Duration = Duration::from_secs(15);

/// Flags of `tombolo unjoin`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The member's name on the hub.
    #[arg(value_name = "NAME")]
    name: ClusterName,
    /// Leave it though it still exports, and do not wait for it if it does not answer.
    #[arg(long)]
    force: bool,
    /// Delete what was propagated there instead of letting it go.
    #[arg(long)]
    delete_copies: bool,
    #[command(flatten)]
    hub: HubFlags,
    /// How long to wait until the hub has left: in seconds, or as in 90s or 2m.
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = patience)]
    timeout: Duration,
}

// === impl Args ===

impl Args {
    /// Asks the hub to leave the member, and tells how it goes.
    pub async fn run(self) -> Result<()> {
        let (hub, _) = self.hub.connect().await?;
        let clusters: Api<Cluster> = Api::all(hub.clone());
        let cluster = Progress::during("asking the hub", async {
            let cluster = self.find(&clusters).await?;
            self.delete(&clusters, cluster).await
        });
        let cluster = cluster.await?;
        let what = format!("waiting until the hub has left {}", self.name);
        Progress::during(&what, self.follow(&hub, &clusters, cluster)).await
    }

    async fn find(&self, clusters: &Api<Cluster>) -> Result<Cluster> {
        let name = self.name.as_str();
        if let Some(found) =
            clusters.get_opt(name).await.with_context(|| format!("failed to read Cluster {name}"))?
        {
            return Ok(found);
        }
        let others =
            clusters.list(&ListParams::default()).await.context("failed to list the hub's Clusters")?;
        let others: Vec<_> = others.iter().map(ResourceExt::name_any).collect();
        let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        bail!(
            "the hub has no Cluster {name}; it has {others} (--hub-kubeconfig and --hub-context name another hub)"
        )
    }

    /// Says on the Cluster how it is to go, and deletes it. A refusal comes before anything is written.
    async fn delete(&self, clusters: &Api<Cluster>, cluster: Cluster) -> Result<Cluster> {
        let name = self.name.as_str();
        let params = DeleteParams::default()
            .preconditions(Preconditions { uid: cluster.uid(), resource_version: None });
        let going = cluster.metadata.deletion_timestamp.is_some();
        if !going && !self.force {
            let asked = clusters.delete(name, &DeleteParams { dry_run: true, ..params.clone() }).await;
            asked.map_err(words).with_context(|| {
                format!(
                    "{name} stays a member, nothing was changed; --force leaves it though it still exports"
                )
            })?;
        }
        let cluster = self.annotate(clusters, cluster).await?;
        if going {
            say(&format!("Cluster {name} is being deleted already"));
        } else {
            clusters
                .delete(name, &params)
                .await
                .map_err(words)
                .with_context(|| format!("failed to delete Cluster {name}"))?;
            say(&format!("Cluster {name} is being deleted"));
        }
        Ok(cluster)
    }

    async fn annotate(&self, clusters: &Api<Cluster>, cluster: Cluster) -> Result<Cluster> {
        let asked = [
            (annotation::FORCE_UNJOIN, self.force),
            (annotation::DELETE_WHILE_EXPORTING, self.force),
            (annotation::DELETE_COPIES, self.delete_copies),
        ];
        let asked: BTreeMap<_, _> =
            asked.into_iter().filter(|(_, set)| *set).map(|(key, _)| (key, "true")).collect();
        if asked.is_empty() {
            return Ok(cluster);
        }
        // The UID makes it fail where meanwhile another cluster got the name.
        let patch = json!({ "metadata": { "uid": cluster.metadata.uid, "annotations": asked } });
        let how = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = clusters.patch(self.name.as_str(), &how, &Patch::Merge(&patch)).await;
        patched.with_context(|| format!("failed to write Cluster {}", self.name))
    }

    async fn follow(&self, hub: &Client, clusters: &Api<Cluster>, cluster: Cluster) -> Result<()> {
        let name = self.name.as_str();
        let patience = self.timeout;
        let soon = SOON.min(patience);
        let mut gone = report::gone(hub, &cluster, soon, &say).await?;
        if !gone {
            if let Err(why) = report::running(hub, &self.hub.hub_namespace).await? {
                bail!("no hub runs ({why}), so nobody leaves {name}: it goes when a hub runs again");
            }
            let now =
                clusters.get_opt(name).await.with_context(|| format!("failed to read Cluster {name}"))?;
            if let Some(silence) = now.as_ref().and_then(silence).filter(|_| !self.force) {
                let line = format!(
                    "{name} does not answer ({silence}); the hub tries on. `tombolo unjoin {name} --force` does not wait \
                     for it: what was propagated there, its imports and the hub's ServiceAccount then stay there"
                );
                say_in(Tone::Waiting, &line);
            }
            let cluster = now.unwrap_or(cluster);
            gone = report::gone(hub, &cluster, patience.saturating_sub(soon), &say).await?;
        }
        ensure!(
            gone,
            "Cluster {name} is still being deleted after {} s; the hub goes on. `kubectl get cluster {name} -o yaml` shows \
             how far it is",
            patience.as_secs()
        );
        self.done();
        Ok(())
    }

    fn done(&self) {
        let copies = if self.delete_copies { "were deleted" } else { "stay, and are nobody's now" };
        let line = format!(
            "{} is no longer a member. What was propagated there: the copies {copies}; CustomResourceDefinitions and \
             Namespaces stay",
            self.name
        );
        say_in(Tone::Good, &line);
    }
}

/// What the hub says of a member that does not answer.
fn silence(cluster: &Cluster) -> Option<String> {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.into_iter().find(|it| it.type_ == condition::READY && it.status != "True")?;
    Some(ready.message.clone())
}
