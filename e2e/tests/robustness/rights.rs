//! A hub that may not read: what it cannot see is unknown, not gone.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    audit::HUB,
    bed::Bed,
    fleet,
    tombolo::{Component, Identity, Manner},
    wait::until,
};

use super::ground::{
    PATIENCE, changes, copies, create_namespace, leads, maps, marks, place, program, put, stop, told,
    until_says,
};

/// How long the rights are gone; a quarter of it is longer than a Lease and than any wait between two attempts at first.
const GONE: Duration = Duration::from_secs(60);
const OBJECTS: usize = 20;

pub(crate) async fn a_hub_that_may_not_read_deletes_nothing_and_goes_on_when_it_may(
    bed: Arc<Bed>,
) -> Result<()> {
    bed.prepare_hub()?;
    grant(
        &bed,
        "[{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }, { nonResourceURLs: ['*'], verbs: ['*'] }]",
    )?;
    let hub = start(&bed, true).await?;
    fleet::register_all(&bed).await?;
    create_namespace(&bed.hub.client, "shop").await?;
    place(&bed.hub.client, "shop", "all", &[]).await?;
    for number in 0..OBJECTS {
        put(&bed.hub.client, "shop", &format!("object-{number}"), "all", "1").await?;
    }
    let last = format!("object-{}", OBJECTS - 1);
    for member in &bed.members {
        until_says(&member.client, "shop", &last, "1").await?;
    }
    let before = marks(&bed)?;

    revoke(&bed)?;
    tokio::time::sleep(GONE).await;
    nothing_deleted(&bed, &before, "all rights were gone").await?;
    // One that starts blind.
    stop(hub).await?;
    let hub = start(&bed, false).await?;
    tokio::time::sleep(GONE / 4).await;
    nothing_deleted(&bed, &before, "a hub started without rights").await?;
    // One that sees members and policies, but no templates; then templates, but no policies.
    for hidden in ["configmaps", "propagationpolicies"] {
        let shown = json!(all_but(&bed, hidden)?);
        grant(
            &bed,
            &format!(
                "[{{ apiGroups: ['*'], resources: {shown}, verbs: ['*'] }}, {{ nonResourceURLs: ['*'], verbs: ['*'] }}]"
            ),
        )?;
        tokio::time::sleep(GONE / 4).await;
        nothing_deleted(&bed, &before, &format!("{hidden} were hidden")).await?;
    }

    grant(
        &bed,
        "[{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }, { nonResourceURLs: ['*'], verbs: ['*'] }]",
    )?;
    put(&bed.hub.client, "shop", &last, "all", "2").await?;
    maps(&bed.hub.client, "shop").delete("object-0", &Default::default()).await?;
    for member in &bed.members {
        until_says(&member.client, "shop", &last, "2").await?;
        until("what was deleted goes", PATIENCE, async || {
            let there = copies(&member.client, "shop").await?;
            ensure!(there.len() == OBJECTS - 1, "{} are there", there.len());
            Ok(())
        })
        .await?;
    }
    ensure!(leads(&hub).await?, "the hub does not lead again");
    Ok(())
}

async fn nothing_deleted(bed: &Bed, before: &[(String, tombolo_e2e::audit::Mark)], when: &str) -> Result<()> {
    let mut changes = changes(bed, before)?;
    changes.retain(|(cluster, request)| request.verb.starts_with("delete") && cluster != "hub");
    ensure!(changes.is_empty(), "when {when}, it deleted: {}", told(&changes));
    for member in &bed.members {
        let there = copies(&member.client, "shop").await?;
        ensure!(there.len() == OBJECTS, "when {when}, {} had {} objects", member.name, there.len());
    }
    Ok(())
}

async fn start(bed: &Bed, wait: bool) -> Result<Component> {
    bed.start_hub_so(&program().await?, "tombolo-hub", &[], Manner { identity: Identity::User, wait }).await
}

fn grant(bed: &Bed, rules: &str) -> Result<()> {
    let manifests = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{ name: hub }}\nrules: {rules}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{ name: hub }}\n\
         roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hub }}\n\
         subjects: [{{ kind: User, name: {HUB} }}]\n"
    );
    bed.kubectl("hub").apply(&manifests).map(drop)
}

fn revoke(bed: &Bed) -> Result<()> {
    bed.kubectl("hub").run(&["delete", "clusterrolebinding", "hub"]).map(drop)
}

/// All resources but one.
fn all_but(bed: &Bed, hidden: &str) -> Result<Vec<String>> {
    let all = bed.kubectl("hub").run(&["api-resources", "--output=name"])?;
    let names = all.lines().map(|name| name.split('.').next().unwrap_or(name).to_owned());
    let names = names.flat_map(|name| [format!("{name}/status"), name]);
    Ok(names.filter(|name| name != hidden).collect())
}
