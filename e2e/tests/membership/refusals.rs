//! Who cannot join, and that nothing is written then.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client};
use tombolo::{api::Cluster, membership::member};
use tombolo_e2e::{bed::Bed, wait::until};

use super::refused;

const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn a4_the_hub_itself_and_a_second_name_for_a_member_are_refused(
    bed: Arc<Bed>,
) -> Result<()> {
    let complaint = refused(&bed, &["join", "itself"]).await?;
    ensure!(complaint.contains("itself cannot join: this is the hub itself"), "it said {complaint}");
    let hub = bed.kubectl("hub");
    ensure!(
        hub.run(&["-n", "tombolo-system", "get", "configmaps"])
            .is_ok_and(|all| !all.contains("tombolo-member")),
        "it wrote"
    );

    bed.join("member2", &["--wait=false"]).await?;
    let complaint = refused(&bed, &["join", "another", "--context", "member2"]).await?;
    ensure!(
        complaint.contains("this cluster is a member of this hub already, as member2;"),
        "it said {complaint}"
    );
    let complaint = refused(&bed, &["join", "member2", "--context", "member3"]).await?;
    ensure!(
        complaint.contains("Cluster member2 on the hub is another cluster (spec.id "),
        "it said {complaint}"
    );
    let complaint = refused(&bed, &["join", "Member_2", "--context", "member2"]).await?;
    ensure!(complaint.contains("'Member_2' for '<NAME>'"), "it said {complaint}");
    let complaint = refused(&bed, &["join", "tombolo-hub", "--context", "member3"]).await?;
    ensure!(
        complaint.contains("Secret tombolo-system/tombolo-hub on the hub is not one that"),
        "it said {complaint}"
    );
    let complaint =
        refused(&bed, &["join", "other", "--context", "member3", "--hub-context", "member3"]).await?;
    ensure!(complaint.contains("the hub does not know the kind Cluster"), "it said {complaint}");
    Ok(())
}

pub(super) async fn a_member_of_another_hub_is_refused_and_taken_over_only_if_one_says_so(
    bed: Arc<Bed>,
) -> Result<()> {
    bed.join("member4", &["--wait=false"]).await?;
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let old = member::config(&bed.hub.client, &clusters.get("member4").await?).await?;
    let member = bed.kubectl("member4");
    let patch = r#"{"data":{"hub":"0123456789abcdef","cluster":"theirs"}}"#;
    member.run(&[
        "-n",
        "tombolo-system",
        "patch",
        "configmap",
        "tombolo-member",
        "--type=merge",
        "-p",
        patch,
    ])?;
    let complaint = refused(&bed, &["join", "member4", "--context", "member4", "--agent", "none"]).await?;
    ensure!(
        complaint.contains("this cluster is a member of another hub (id 0123456789abcdef), as theirs;"),
        "it said {complaint}"
    );

    let said = bed.join("member4", &["--take-over", "--wait=false"]).await?;
    ensure!(said.contains("taken over from hub 0123456789abcdef, where it was theirs"), "it said {said}");
    let new = member::config(&bed.hub.client, &clusters.get("member4").await?).await?;
    let kube_system = |config| -> Result<Api<Namespace>> { Ok(Api::all(Client::try_from(config)?)) };
    kube_system(new)?.get("kube-system").await.context("the new token works")?;
    let before = kube_system(old)?;
    until("the other hub's token is refused", PATIENCE, async || match before.get("kube-system").await {
        Err(kube::Error::Api(status)) if status.code == 401 => Ok(()),
        other => anyhow::bail!("it got {other:?}"),
    })
    .await?;
    let again = bed.join("member4", &["--wait=false"]).await?;
    ensure!(!again.contains("created") && !again.contains("changed"), "it said {again}");
    Ok(())
}

pub(super) async fn a_cluster_with_another_controller_of_the_api_is_refused_and_nothing_is_written(
    bed: Arc<Bed>,
) -> Result<()> {
    let member = bed.kubectl("member3");
    member.run(&["create", "namespace", "submariner-operator"])?;
    let deployment = [
        "create",
        "deployment",
        "submariner-lighthouse-agent",
        "--image=example.invalid/a:1",
        "--replicas=0",
    ];
    member.run(&[&deployment[..], &["-n", "submariner-operator"]].concat())?;
    let line = ["join", "member3", "--context", "member3"];
    let complaint = refused(&bed, &line).await?;
    ensure!(
        complaint.contains(
            "Submariner's Lighthouse (Deployment submariner-operator/submariner-lighthouse-agent) serves"
        ),
        "it said {complaint}"
    );
    member.run(&["-n", "submariner-operator", "delete", "deployment", "submariner-lighthouse-agent"])?;
    member.run(&[
        "-n",
        "kube-system",
        "create",
        "configmap",
        "cilium-config",
        "--from-literal=clustermesh-enable-mcs-api=true",
    ])?;
    let complaint = refused(&bed, &line).await?;
    ensure!(complaint.contains("Cilium (ConfigMap kube-system/cilium-config) serves"), "it said {complaint}");

    ensure!(member.run(&["get", "namespace", "tombolo-system"]).is_err(), "it wrote to the member");
    let secrets: Api<Secret> = Api::namespaced(bed.hub.client.clone(), "tombolo-system");
    ensure!(secrets.get_opt("member3").await?.is_none(), "it wrote to the hub");
    Ok(())
}
