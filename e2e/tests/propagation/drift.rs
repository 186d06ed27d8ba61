//! What others do to copies.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, PATIENCE, Scene, config_map, places},
    wait::until,
};

use crate::scene;

async fn sent(bed: &Arc<Bed>, namespace: &str) -> Result<Scene> {
    let scene = scene(bed, namespace).await?;
    let template = config_map("one", json!({ "a": "b", "c": "d" }));
    scene.apply(HUB, [template, places("p", &["ConfigMap one"], &[1])]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    Ok(scene)
}

pub(crate) async fn a_changed_copy_is_put_right(bed: Arc<Bed>) -> Result<()> {
    let scene = sent(&bed, "drift").await?;
    scene.edit(1, "ConfigMap one", json!({ "data": { "a": "other" } })).await?;
    scene.says(1, "ConfigMap one", "/data/a", "b").await?;
    scene.edit(1, "ConfigMap one", json!({ "data": { "a": null } })).await?;
    scene.says(1, "ConfigMap one", "/data", json!({ "a": "b", "c": "d" })).await?;
    scene.edit(1, "ConfigMap one", json!({ "data": null })).await?;
    scene.says(1, "ConfigMap one", "/data", json!({ "a": "b", "c": "d" })).await
}

pub(crate) async fn a_deleted_copy_is_made_again(bed: Arc<Bed>) -> Result<()> {
    let scene = sent(&bed, "recreated").await?;
    let before = scene.field(1, "ConfigMap one", "/metadata/uid").await?;
    scene.delete(1, &["ConfigMap one"]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    ensure!(scene.field(1, "ConfigMap one", "/metadata/uid").await? != before, "it was not deleted");
    Ok(())
}

pub(crate) async fn a_removed_label_of_ours_is_put_back(bed: Arc<Bed>) -> Result<()> {
    let scene = sent(&bed, "relabelled").await?;
    let before = scene.field(1, "ConfigMap one", "/metadata").await?;
    scene.edit(1, "ConfigMap one", json!({ "metadata": { "labels": { "tombolo.dev/hub": null } } })).await?;
    scene.says(1, "ConfigMap one", "/metadata/labels", before["labels"].clone()).await?;
    scene.still_says(1, "ConfigMap one", "/metadata/uid", before["uid"].clone()).await?;
    // The proof of ownership is put back too: nobody but us knows it.
    scene
        .edit(1, "ConfigMap one", json!({ "metadata": { "annotations": { "tombolo.dev/applied": null } } }))
        .await?;
    let mark = "/metadata/annotations/tombolo.dev~1applied";
    scene.says(1, "ConfigMap one", mark, before["annotations"]["tombolo.dev/applied"].clone()).await
}

pub(crate) async fn fields_of_others_stay(bed: Arc<Bed>) -> Result<()> {
    let scene = sent(&bed, "foreign").await?;
    let foreign = json!({ "metadata": { "annotations": { "operator": "x" }, "labels": { "theirs": "y" } }, "data": { "z": "z" } });
    scene.edit(1, "ConfigMap one", foreign).await?;
    scene.apply(HUB, [config_map("one", json!({ "a": "new" }))]).await?;
    scene.says(1, "ConfigMap one", "/data", json!({ "a": "new", "z": "z" })).await?;
    scene.still_says(1, "ConfigMap one", "/metadata/annotations/operator", "x").await?;
    scene.still_says(1, "ConfigMap one", "/metadata/labels/theirs", "y").await
}

async fn fights(bed: &Bed) -> Result<u64> {
    let metrics = bed.hub_process().context("the bed has a hub")?.says("/metrics").await?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("tombolo_propagation_fights_total "));
    Ok(line.with_context(|| format!("no such metric in {metrics}"))?.parse()?)
}

pub(crate) async fn a_fight_is_slowed_down_counted_and_reported(bed: Arc<Bed>) -> Result<()> {
    let scene = sent(&bed, "fight").await?;
    // Others may fight at the same time: only this one can be told from its own object.
    let before = fights(&bed).await?;
    let mut rounds = 0;
    until("the copy is no longer put right at once", PATIENCE, async || {
        scene.edit(1, "ConfigMap one", json!({ "data": { "a": "theirs" } })).await?;
        rounds += 1;
        let found = until("it is put right", std::time::Duration::from_secs(3), async || {
            ensure!(scene.field(1, "ConfigMap one", "/data/a").await? == "b", "not yet");
            Ok(())
        });
        ensure!(found.await.is_err(), "it was put right, {rounds} times");
        Ok(())
    })
    .await?;
    ensure!(rounds > 5, "the first few repairs are made at once, not {rounds}");
    scene.says(1, "ConfigMap one", "/data/a", "b").await?;
    until("it is counted", PATIENCE, async || {
        ensure!(fights(&bed).await? > before, "it is not");
        Ok(())
    })
    .await?;
    scene.reports("PropagationPolicy p", "Failed", &["keeps changing", "somebody"]).await
}
