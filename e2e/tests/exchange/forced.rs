//! Members that leave by `tombolo unjoin --force`.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    fleet::until_ready,
    process::Identity,
    scene::{HUB, object},
};

use super::ground::Fleet;
use crate::words::*;

const HTTP: &[(&str, u16)] = &[("http", 80)];

/// Has a member leave, and gives back what is said.
async fn unjoin(bed: &Bed, line: &[&str]) -> Result<(bool, String)> {
    let left = bed.tombolo(&[&["unjoin"], line].concat()).await?;
    let said = [left.stdout, left.stderr].concat();
    Ok((left.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

pub(crate) async fn a_member_whose_own_users_export_leaves_only_if_forced_and_then_without_derived_services(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[1, 2]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    exported(&scene, 2, HTTP, 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"]).await?;
    let (left, said) = unjoin(&fleet.bed, &["member2"]).await?;
    ensure!(!left && said.contains("cluster member2 still exports shop/serve"), "it said {said}");
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"]).await?;

    let (left, said) = unjoin(&fleet.bed, &["member2", "--force"]).await?;
    ensure!(left, "it said {said}");
    // At once: its agent was waited for.
    scene.is_absent(&[2], "ServiceImport serve").await?;
    scene.is_absent(&[2], "Service derived-serve").await?;
    ensure!(slices(&scene, 2).await?.is_empty(), "slices are left");
    scene.find(2, "ServiceExport serve").await?;
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1"]).await
}

pub(crate) async fn a_member_that_died_and_is_given_up_is_reached_by_nobody_any_more(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[HUB, 1, 2, 3]).await?;
    for manifest in [
        object("ConfigMap", "settings", json!({ "data": { "colour": "blue" } })),
        json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": { "name": "settings", "namespace": "shop" },
                "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "settings" }] } }),
    ] {
        scene.apply(HUB, [manifest]).await?;
    }
    scene.arrives(&[1, 2, 3], "ConfigMap settings").await?;
    for member in 1..=3 {
        exported(&scene, member, HTTP, 1).await?;
    }
    let all = ["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1", "member3 http:8080 10.3.0.1"];
    for member in 1..=2 {
        reaches(&scene, member, &all).await?;
    }
    let server = fleet.bed.member(3).pid("kube-apiserver").context("there is an API server")?;
    Identity::of(server).context("it does not run")?.signal(Signal::STOP);
    until_ready(&fleet.bed.hub.client, "member3", "Unknown").await?;
    let (left, said) = unjoin(&fleet.bed, &["member3", "--force"]).await?;
    ensure!(left, "it said {said}");
    for member in 1..=2 {
        reaches(&scene, member, &all[..2]).await?;
        scene.find(member, "ConfigMap settings").await?;
    }
    Ok(())
}
