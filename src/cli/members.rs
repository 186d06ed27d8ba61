//! Asks members themselves, with the credentials that the hub has for them, for commands that only look.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use kube::{Client, ResourceExt};

use super::list::{listed, versioned};
use crate::{
    api::{Cluster, ServiceExport, ServiceImport, mcs},
    decide::overview::{Found, MemberRead},
    membership::member,
    shell::client::client,
};

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What members have in a namespace, or in all. That one does not answer is no failure.
pub async fn ask<'a>(
    hub: &Client,
    clusters: impl IntoIterator<Item = &'a Cluster>,
    namespace: Option<&str>,
) -> Vec<MemberRead> {
    join_all(clusters.into_iter().map(|cluster| read(hub, cluster, namespace))).await
}

async fn read(hub: &Client, cluster: &Cluster, namespace: Option<&str>) -> MemberRead {
    let found = match tokio::time::timeout(PATIENCE, found(hub, cluster, namespace)).await {
        Ok(found) => found.map_err(|e| format!("{e:#}")),
        Err(_) => Err(format!("it did not answer within {} s", PATIENCE.as_secs())),
    };
    MemberRead { name: cluster.name_any(), found }
}

async fn found(hub: &Client, cluster: &Cluster, namespace: Option<&str>) -> Result<Found> {
    let config = member::config(hub, cluster).await?;
    let client = client(&config, None).context("failed to set up its client")?;
    let version = mcs::Version::default();
    let (exports, imports) = tokio::try_join!(
        listed(versioned::<ServiceExport>(&client, namespace, &version)),
        listed(versioned::<ServiceImport>(&client, namespace, &version)),
    )?;
    Ok(Found { exports, imports })
}
