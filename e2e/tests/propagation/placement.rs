//! Where objects are placed, and how that changes.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, Scene, config_map, members, places, with},
};

use crate::scene;

/// A policy for one `ConfigMap` with a placement.
fn placed(placement: &Value) -> Value {
    let mut policy = places("p", &["ConfigMap one"], &[]);
    policy["spec"]["placement"].clone_from(placement);
    policy
}

fn one() -> Value {
    config_map("one", json!({ "a": "b" }))
}

pub(crate) async fn placements_grow_shrink_and_move(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "moves").await?;
    scene.apply(HUB, [one()]).await?;
    for members in [&[1][..], &[1, 2], &[2], &[1, 3], &[1, 2, 3]] {
        scene.apply(HUB, [places("p", &["ConfigMap one"], members)]).await?;
        scene.is_in_exactly(members, "ConfigMap one").await?;
    }
    Ok(())
}

pub(crate) async fn a_suspended_policy_sends_nothing_until_it_is_resumed(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "suspended").await?;
    let policy = |suspended: bool| {
        with(
            places("p", &["ConfigMap one"], &[1, 2]),
            json!({ "spec": { "suspension": { "dispatching": suspended } } }),
        )
    };
    scene.apply(HUB, [one(), policy(true)]).await?;
    scene.reports("PropagationPolicy p", "HeldBack", &["suspended"]).await?;
    scene.settles().await?;
    scene.is_absent(&[1, 2], "ConfigMap one").await?;
    scene.apply(HUB, [policy(false)]).await?;
    scene.arrives(&[1, 2], "ConfigMap one").await?;
    // What is there stays as it is while it is suspended again.
    scene.apply(HUB, [policy(true)]).await?;
    scene.reports("PropagationPolicy p", "HeldBack", &["suspended"]).await?;
    scene.apply(HUB, [config_map("one", json!({ "a": "c" }))]).await?;
    scene.settles().await?;
    scene.still_says(1, "ConfigMap one", "/data/a", "b").await?;
    scene.apply(HUB, [places("p", &["ConfigMap one"], &[1, 2])]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "c").await
}

pub(crate) async fn a_policy_is_suspended_for_single_clusters(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "suspended-one").await?;
    let on =
        json!({ "spec": { "suspension": { "dispatchingOnClusters": { "clusterNames": ["member2"] } } } });
    scene.apply(HUB, [one(), with(places("p", &["ConfigMap one"], &[1, 2]), on)]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.settles().await?;
    scene.is_absent(&[2], "ConfigMap one").await?;
    scene.apply(HUB, [places("p", &["ConfigMap one"], &[1, 2])]).await?;
    scene.arrives(&[2], "ConfigMap one").await
}

/// Gives a Cluster a label, or takes it.
async fn label(scene: &Scene, member: usize, key: &str, value: impl Into<Value>) -> Result<()> {
    let labels = json!({ "metadata": { "labels": { key: value.into() } } });
    scene.edit(HUB, &format!("Cluster member{member}"), labels).await
}

pub(crate) async fn labels_of_clusters_decide_and_may_change(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "by-label").await?;
    label(&scene, 1, "by-label", "yes").await?;
    let affinity = json!({ "labelSelector": { "matchLabels": { "by-label": "yes" } } });
    scene.apply(HUB, [one(), placed(&json!({ "clusterAffinity": affinity }))]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    label(&scene, 2, "by-label", "yes").await?;
    scene.is_in_exactly(&[1, 2], "ConfigMap one").await?;
    label(&scene, 1, "by-label", Value::Null).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await
}

pub(crate) async fn the_first_group_of_clusters_that_fits_is_taken(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "by-group").await?;
    let groups = json!([
        { "affinityName": "first", "labelSelector": { "matchLabels": { "by-group": "yes" } } },
        { "affinityName": "second", "clusterNames": members(&[3]) },
    ]);
    scene.apply(HUB, [one(), placed(&json!({ "clusterAffinities": groups }))]).await?;
    scene.is_in_exactly(&[3], "ConfigMap one").await?;
    label(&scene, 2, "by-group", "yes").await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    label(&scene, 2, "by-group", Value::Null).await?;
    scene.is_in_exactly(&[3], "ConfigMap one").await
}

pub(crate) async fn spreading_takes_as_many_clusters_as_asked_for(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spread").await?;
    let spread = |least: u32, most: u32| {
        let constraint = json!({ "spreadByField": "cluster", "minGroups": least, "maxGroups": most });
        placed(
            &json!({ "clusterAffinity": { "clusterNames": members(&[1, 2, 3]) }, "spreadConstraints": [constraint] }),
        )
    };
    let count = async || {
        let mut places = Vec::new();
        for member in 1..=3 {
            places.extend(scene.get(member, "ConfigMap one").await?.map(|_| member));
        }
        anyhow::Ok(places)
    };
    let two = async || {
        tombolo_e2e::wait::until("it is in two members", tombolo_e2e::scene::PATIENCE, async || {
            let places = count().await?;
            anyhow::ensure!(places.len() == 2, "it is in {places:?}");
            Ok(places)
        })
        .await
    };
    scene.apply(HUB, [one(), spread(2, 2)]).await?;
    let first = two().await?;
    scene.settles().await?;
    anyhow::ensure!(count().await? == first, "it is in {:?} as well as {first:?}", count().await?);
    scene.apply(HUB, [spread(3, 3)]).await?;
    scene.arrives(&[1, 2, 3], "ConfigMap one").await?;
    scene.apply(HUB, [spread(4, 4)]).await?;
    scene.reports("PropagationPolicy p", "Unplaced", &[]).await?;
    scene.settles().await?;
    anyhow::ensure!(count().await? == [1, 2, 3], "what cannot be met takes nothing away");
    Ok(())
}
