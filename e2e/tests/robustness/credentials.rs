//! Tokens that come and go, and a hub that has nobody yet.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tombolo_e2e::{bed::Bed, fleet, wait::until};

use super::ground::{
    PATIENCE, changes, condition, create_namespace, hub, marks, nothing, place, put, told, until_says,
};

pub(crate) async fn a_token_that_expired_is_said_and_a_new_one_is_used_without_a_restart(
    bed: Arc<Bed>,
) -> Result<()> {
    let _hub = hub(&bed, &[]).await?;
    fleet::register_all(&bed).await?;
    create_namespace(&bed.hub.client, "shop").await?;
    place(&bed.hub.client, "shop", "all", &["member1".to_owned()]).await?;
    put(&bed.hub.client, "shop", "object", "all", "1").await?;
    let member = &bed.member(1).client;
    until_says(member, "shop", "object", "1").await?;

    // Its token ends with it.
    let secrets: Api<Secret> = Api::namespaced(member.clone(), "tombolo-system");
    secrets.delete("tombolo-hub", &Default::default()).await?;
    until("the hub says that its token is not accepted", PATIENCE, async || {
        let (truth, reason, taints) = condition(&bed.hub.client, "member1").await?;
        ensure!(truth == "False" && reason == "CredentialsExpired", "it says {truth} {reason}, {taints:?}");
        Ok(())
    })
    .await?;
    put(&bed.hub.client, "shop", "object", "all", "2").await?;
    fleet::register(&bed, bed.member(1), &nothing()).await?;
    until_says(member, "shop", "object", "2").await?;
    fleet::until_ready(&bed.hub.client, "member1", "True").await
}

pub(crate) async fn a_hub_without_members_is_ready_and_quiet(bed: Arc<Bed>) -> Result<()> {
    let mut hub = hub(&bed, &[]).await?;
    hub.check().await?;
    create_namespace(&bed.hub.client, "shop").await?;
    put(&bed.hub.client, "shop", "object", "all", "1").await?;
    place(&bed.hub.client, "shop", "all", &[]).await?;
    // What it has to say of the policy is said by then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = marks(&bed)?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = changes(&bed, &before)?;
    ensure!(after.is_empty(), "it writes though nothing happens: {}", told(&after));
    hub.check().await?;
    let log = std::fs::read_to_string(bed.dir().join("logs/hub/tombolo-hub.log"))?;
    let loud: Vec<_> = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    ensure!(loud.is_empty(), "it complains: {loud:#?}");
    Ok(())
}
