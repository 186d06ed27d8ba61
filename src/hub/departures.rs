//! Clusters that are being deleted, or gone: whether somebody asked for that, or their whole kind is taken away.
//!
//! [`run`] is the only entry. Nobody leaves before a live look at the definition of Clusters has shown that it is there and older.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client};
use tokio::sync::Notify;

use super::certainty::cluster_kind;
use crate::{api::Cluster, decide::view::Departure, shell::clock, webhook::server::SharedView};

/// Between two looks while it is not certain who leaves.
const SOON: Duration = Duration::from_secs(1);
/// What one look may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Passes on that Clusters changed, and lets those leave of whom it is certain; never ends.
pub(super) async fn run(hub: Client, view: SharedView, clusters: Arc<Notify>, changed: Arc<Notify>) {
    let mut open = false;
    let mut said = false;
    loop {
        tokio::select! {
            () = clusters.notified() => changed.notify_one(),
            () = tokio::time::sleep(SOON), if open => {}
        }
        open = !view.read().departures().is_empty();
        if !open {
            said = false;
            continue;
        }
        match tokio::time::timeout(PATIENCE, judge(&hub, &view)).await {
            Ok(Ok(true)) => changed.notify_one(),
            Ok(Ok(false)) => {}
            Ok(Err(e)) => {
                tracing::warn!("failed to make certain that Clusters are to leave, trying again: {e}");
            }
            Err(_) => {
                tracing::warn!("failed to make certain that Clusters are to leave, trying again: no answer");
            }
        }
        open = !view.read().departures().is_empty();
        if open && !std::mem::replace(&mut said, true) {
            tracing::warn!(
                "Clusters vanish with their kind, or it is not certain that they do not: members stay as they are"
            );
        }
    }
}

/// Looks at the hub live; says whether anything came of it.
async fn judge(hub: &Client, view: &SharedView) -> kube::Result<bool> {
    // First: of what is seen after the definition was read, that says nothing.
    let open = view.read().departures().clone();
    let kind = cluster_kind(hub).await?;
    let clusters: Api<Cluster> = Api::all(hub.clone());
    for name in open.iter().filter(|(_, how)| **how == Departure::Gone).map(|(name, _)| name) {
        // A list that lacks it proves nothing.
        if let Some(there) = clusters.get_opt(name.as_str()).await? {
            view.write().see_cluster(there);
        }
    }
    Ok(view.write().judge_departures(&open, kind, clock::seconds()))
}
