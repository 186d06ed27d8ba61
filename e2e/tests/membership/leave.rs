//! How members go.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use kube::{Api, Client};
use tombolo::{
    api::Cluster,
    hub::identity::hub_id,
    membership::{leave::leave, member},
};
use tombolo_e2e::{bed::Bed, wait::until};

use super::refused;

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn leaving_removes_what_join_made_with_the_hubs_own_rights(bed: Arc<Bed>) -> Result<()> {
    let kubeconfig = bed.kubeconfig("member7").display().to_string();
    let joined = bed
        .tombolo(&["join", "member7", "--kubeconfig", &kubeconfig, "--grant", "services", "--wait=false"])
        .await?;
    ensure!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let config = member::config(&bed.hub.client, &clusters.get("member7").await?).await?;
    let (as_hub, member) = (Client::try_from(config)?, bed.kubectl("member7"));
    let id = hub_id(&bed.hub.client, "tombolo-system").await?;

    for (hub, name) in [("another0", "member7"), (&*id, "another")] {
        leave(&as_hub, hub, name).await?;
        member.run(&[
            "-n",
            "tombolo-system",
            "get",
            "configmap/tombolo-member",
            "deployment/tombolo-agent",
        ])?;
    }
    // The bed's own agent has all rights, so it goes on and makes itself another Lease: this one is to go.
    let leases = ["-n", "tombolo-system", "get", "leases", "-o", "jsonpath={.items[*].metadata.uid}"];
    let lease = until("the agent has its Lease", PATIENCE, async || {
        let lease = member.run(&leases)?;
        ensure!(!lease.is_empty(), "there is none");
        Ok(lease)
    })
    .await?;
    leave(&as_hub, &id, "member7").await?;
    let kinds = "deployments,configmaps,serviceaccounts,secrets,roles,rolebindings";
    until("nothing of join's is left", PATIENCE, async || {
        ensure!(!member.run(&leases)?.contains(&lease), "the agent's Lease is there");
        let left = member.run(&["-n", "tombolo-system", "get", kinds, "-o", "name"])?;
        let left: Vec<_> = left.lines().filter(|name| name.contains("tombolo")).collect();
        ensure!(left.is_empty(), "there are {left:?}");
        let left = member.run(&["get", "clusterroles,clusterrolebindings", "-o", "name"])?;
        ensure!(!left.contains("tombolo"), "there are roles: {left}");
        Ok(())
    })
    .await?;
    let stays = member.run(&[
        "get",
        "namespace/tombolo-system",
        "crd/serviceexports.multicluster.x-k8s.io",
        "-o",
        "name",
    ])?;
    ensure!(stays.lines().count() == 2, "left are {stays}");
    until("leaving once more is no failure", PATIENCE, async || leave(&as_hub, &id, "member7").await).await
}

/// A cluster that nobody reaches, which a policy lets export.
const EXPORTING: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: leaving}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: exporting}
spec: {syncMode: Push, apiEndpoint: 'https://192.0.2.1:6443', secretRef: {namespace: tombolo-system, name: exporting}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: leaving}
spec: {ports: [{port: 80}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: web, namespace: leaving}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: leaving}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Service, name: web}
  - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: web}
  # There is no way into it, so it is tainted.
  placement: {clusterAffinity: {clusterNames: [exporting]}, clusterTolerations: [{operator: Exists}]}
";

pub(super) async fn a_member_that_exports_is_not_left_unless_forced(bed: Arc<Bed>) -> Result<()> {
    let file = bed.dir().join("exporting.yaml");
    std::fs::write(&file, EXPORTING)?;
    let applied = bed.kubectl("hub").run(&["apply", "-f", &file.display().to_string()]);
    std::fs::remove_file(&file)?;
    applied?;
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let line = ["unjoin", "exporting", "--delete-copies"];
    let complaint = refused(&bed, &line).await?;
    ensure!(complaint.contains("exporting stays a member, nothing was changed"), "it said {complaint}");
    ensure!(complaint.contains("cluster exporting still exports leaving/web"), "it said {complaint}");
    let there = clusters.get("exporting").await?;
    ensure!(
        there.metadata.annotations.iter().flatten().all(|it| !it.0.starts_with("tombolo.dev/delete")),
        "{there:?}"
    );

    let forced = bed.tombolo(&["unjoin", "exporting", "--force"]).await?;
    let said = String::from_utf8(forced.stdout)?;
    ensure!(forced.status.success(), "{}", String::from_utf8_lossy(&forced.stderr));
    ensure!(said.contains("exporting is no longer a member"), "it said {said}");
    ensure!(clusters.get_opt("exporting").await?.is_none(), "it is still there");
    Ok(())
}

pub(super) async fn unjoining_what_is_no_member_names_the_members(bed: Arc<Bed>) -> Result<()> {
    let complaint = refused(&bed, &["unjoin", "nobody"]).await?;
    ensure!(complaint.contains("the hub has no Cluster nobody; it has "), "it said {complaint}");
    Ok(())
}
