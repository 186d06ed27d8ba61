//! What the hub says of a member: whether a hub runs at all, and how its Cluster stands.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use crate::{
    api::{
        Cluster,
        names::{condition, object},
    },
    shell::clock,
};

/// Between two looks at a Cluster.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether a hub runs, and if not, how one sees that.
pub async fn running(hub: &Client, namespace: &str) -> Result<Result<(), String>> {
    let leases: Api<Lease> = Api::namespaced(hub.clone(), namespace);
    let lease = leases.get_opt(object::HUB).await.context("failed to read the hub's Lease")?;
    Ok(fresh(lease.as_ref(), clock::seconds())
        .map_err(|why| format!("Lease {namespace}/{} {why}", object::HUB)))
}

/// Whether somebody renews a Lease, and if not, how one sees that.
pub(crate) fn fresh(lease: Option<&Lease>, now: i64) -> Result<(), String> {
    let spec = lease.ok_or("is not there")?.spec.as_ref().ok_or("says nothing")?;
    if spec.holder_identity.as_deref().is_none_or(str::is_empty) {
        return Err("has no holder".to_owned());
    }
    let renewed = spec.renew_time.as_ref().ok_or("was never renewed")?.0.as_second();
    let age = now - renewed;
    // One renewal late may be the clock's fault, ours or theirs.
    if age > 2 * i64::from(spec.lease_duration_seconds.unwrap_or_default()) {
        return Err(format!("was renewed {age} s ago"));
    }
    Ok(())
}

/// Waits until the hub says that a member is ready. After that time, what it says instead.
pub async fn ready(hub: &Client, name: &str, patience: Duration) -> Result<Result<(), String>> {
    let (clusters, started) = (Api::<Cluster>::all(hub.clone()), Instant::now());
    loop {
        let cluster = clusters.get(name).await.with_context(|| format!("failed to read Cluster {name}"))?;
        let ready = cluster
            .status
            .iter()
            .flat_map(|status| &status.conditions)
            .find(|it| it.type_ == condition::READY);
        match ready {
            Some(ready) if ready.status == "True" => return Ok(Ok(())),
            _ if started.elapsed() < patience => tokio::time::sleep(PAUSE).await,
            Some(ready) => {
                return Ok(Err(format!("Ready is {}: {}: {}", ready.status, ready.reason, ready.message)));
            }
            None => return Ok(Err("its Cluster has no condition Ready".to_owned())),
        }
    }
}

/// Waits until a Cluster is gone, and says whenever what the hub says of it changes. False if it is still there after that time.
/// Another Cluster of the same name counts as gone.
pub async fn gone(hub: &Client, cluster: &Cluster, patience: Duration, say: &dyn Fn(&str)) -> Result<bool> {
    let (clusters, started) = (Api::<Cluster>::all(hub.clone()), Instant::now());
    let (name, uid) = (cluster.name_any(), cluster.uid());
    let mut last = conditions(cluster);
    loop {
        let found =
            clusters.get_opt(&name).await.with_context(|| format!("failed to read Cluster {name}"))?;
        let Some(found) = found.filter(|found| found.uid() == uid) else { return Ok(true) };
        let now = conditions(&found);
        now.iter().filter(|line| !last.contains(line)).for_each(|line| say(line));
        last = now;
        if started.elapsed() >= patience {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What the conditions of a Cluster say, a line each.
fn conditions(cluster: &Cluster) -> Vec<String> {
    let all = cluster.status.iter().flat_map(|status| &status.conditions);
    all.map(|it| format!("{} is {}: {}: {}", it.type_, it.status, it.reason, it.message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, renewed: &str) -> Lease {
        let spec =
            format!("{{holderIdentity: '{holder}', leaseDurationSeconds: 10, renewTime: '{renewed}'}}");
        serde_saphyr::from_str(&format!("{{apiVersion: coordination.k8s.io/v1, kind: Lease, spec: {spec}}}"))
            .unwrap()
    }

    #[test]
    fn a_hub_runs_if_somebody_renews_its_lease() {
        let renewed = "1970-01-01T00:16:40.000000Z";
        for (lease, now, said) in [
            (None, 0, Err("is not there")),
            (Some(lease("one", renewed)), 1_005, Ok(())),
            (Some(lease("one", renewed)), 1_020, Ok(())),
            (Some(lease("one", renewed)), 1_100, Err("was renewed 100 s ago")),
            (Some(lease("", renewed)), 1_005, Err("has no holder")),
        ] {
            assert_eq!(fresh(lease.as_ref(), now), said.map_err(str::to_owned));
        }
    }
}
