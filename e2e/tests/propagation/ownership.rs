//! Whose an object in a member is.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kube::{Api, api::DynamicObject, core::GroupVersionKind};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, PATIENCE, Scene, annotated, config_map, object, places, with},
    wait::until,
};

use crate::scene;

/// The labels and annotations of an object.
async fn marks(scene: &Scene, member: usize, what: &str) -> Result<Value> {
    let metadata = scene.field(member, what, "/metadata").await?;
    Ok(json!({ "metadata": { "labels": metadata["labels"], "annotations": metadata["annotations"] } }))
}

pub(crate) async fn a_clone_with_our_marks_is_not_touched(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "clone").await?;
    let policy = places("p", &["ConfigMap one"], &[1]);
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    let clone = with(config_map("two", json!({ "a": "mine" })), marks(&scene, 1, "ConfigMap one").await?);
    scene.apply(1, [clone]).await?;
    scene.settles().await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[1], "ConfigMap one").await?;
    scene.settles().await?;
    scene.still_says(1, "ConfigMap two", "/data/a", "mine").await?;
    // Where a template of its name comes, it is somebody else's like any other.
    scene.apply(HUB, [config_map("two", json!({ "a": "b" })), places("q", &["ConfigMap two"], &[1])]).await?;
    scene.reports("PropagationPolicy q", "Failed", &["is not ours and differs"]).await?;
    scene.still_says(1, "ConfigMap two", "/data/a", "mine").await
}

pub(crate) async fn a_template_that_says_so_itself_overwrites_what_is_there(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "own-word").await?;
    scene.apply(1, [scene.here(), config_map("one", json!({ "a": "mine" }))]).await?;
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), places("p", &["ConfigMap one"], &[1])]).await?;
    scene.reports("PropagationPolicy p", "Failed", &["is not ours and differs"]).await?;
    let own_word = "work.karmada.io/conflict-resolution";
    scene.apply(HUB, [annotated(config_map("one", json!({ "a": "b" })), own_word, "overwrite")]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "b").await
}

pub(crate) async fn a_child_that_inherited_our_marks_is_not_touched(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "child").await?;
    let service = object(
        "Service",
        "web",
        json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
    );
    scene.apply(HUB, [service, places("p", &["Service web"], &[1])]).await?;
    scene.arrives(&[1], "Service web").await?;
    // The slice that Kubernetes makes for the Service inherits its labels. It is none of ours, whatever it says.
    let slices: Api<DynamicObject> = Api::namespaced_with(
        scene.client(1).clone(),
        "child",
        &kube::api::ApiResource::from_gvk(&GroupVersionKind::gvk("discovery.k8s.io", "v1", "EndpointSlice")),
    );
    let slice = until("the Service has a slice", PATIENCE, async || {
        let found = slices.list(&Default::default()).await?.items;
        found.into_iter().next().context("there is none")
    })
    .await?;
    let labels = slice.metadata.labels.context("it has labels")?;
    ensure!(labels.contains_key("tombolo.dev/hub"), "it did not inherit our label: {labels:?}");
    let child = json!({ "kind": "ConfigMap", "metadata": { "name": "of-web" } });
    let child = with(with(config_map("of-web", json!({})), marks(&scene, 1, "Service web").await?), child);
    scene.apply(1, [child]).await?;
    scene.settles().await?;
    scene.find(1, "ConfigMap of-web").await?;
    ensure!(slices.list(&Default::default()).await?.items.len() == 1, "the slice is gone");
    Ok(())
}

pub(crate) async fn an_equal_object_of_a_user_is_kept_current_and_survives_shrinking(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "adopted").await?;
    for member in [1, 2] {
        scene.apply(member, [scene.here(), config_map("one", json!({ "a": "b", "own": "mine" }))]).await?;
    }
    let policy = places("p", &["ConfigMap one"], &[1, 2]);
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.says(1, "ConfigMap one", "/metadata/annotations/tombolo.dev~1adopted", "true").await?;
    scene.says(2, "ConfigMap one", "/metadata/annotations/tombolo.dev~1adopted", "true").await?;
    scene.apply(HUB, [config_map("one", json!({ "a": "c" }))]).await?;
    scene.says(1, "ConfigMap one", "/data", json!({ "a": "c", "own": "mine" })).await?;
    scene.says(2, "ConfigMap one", "/data", json!({ "a": "c", "own": "mine" })).await?;
    scene.apply(HUB, [places("p", &["ConfigMap one"], &[1])]).await?;
    is_let_go(&scene, 2, "ConfigMap one").await?;
    scene.still_says(2, "ConfigMap one", "/data", json!({ "a": "c", "own": "mine" })).await?;
    scene.still_says(1, "ConfigMap one", "/metadata/annotations/tombolo.dev~1adopted", "true").await
}

pub(crate) async fn an_equal_object_of_a_user_survives_the_deletion_of_its_template(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "adopted-too").await?;
    scene.apply(1, [scene.here(), config_map("one", json!({ "a": "b" }))]).await?;
    let policy = places("p", &["ConfigMap one"], &[1, 2]);
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.arrives(&[2], "ConfigMap one").await?;
    scene.says(1, "ConfigMap one", "/metadata/annotations/tombolo.dev~1adopted", "true").await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[2], "ConfigMap one").await?;
    is_let_go(&scene, 1, "ConfigMap one").await?;
    scene.still_says(1, "ConfigMap one", "/data", json!({ "a": "b" })).await
}

/// Waits until an object bears no mark of ours: no label, no annotation, no manager.
pub(crate) async fn is_let_go(scene: &Scene, member: usize, what: &str) -> Result<()> {
    until(&format!("{what} is let go"), PATIENCE, async || {
        let metadata = scene.field(member, what, "/metadata").await?.to_string();
        ensure!(!metadata.contains("tombolo"), "it says {metadata}");
        Ok(())
    })
    .await
}

pub(crate) async fn a_different_object_stays_where_conflicts_abort_and_it_is_said_why(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "abort").await?;
    scene.apply(1, [scene.here(), config_map("one", json!({ "a": "mine" }))]).await?;
    let policy = places("p", &["ConfigMap one"], &[1, 2]);
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene
        .reports("PropagationPolicy p", "Failed", &["member1", "differs from the template", "Overwrite"])
        .await?;
    scene.arrives(&[2], "ConfigMap one").await?;
    until("an event says so", PATIENCE, async || {
        let events = scene.events("one").await?;
        ensure!(
            events.iter().any(|note| note.starts_with("member1: ") && note.contains("differs")),
            "{events:?}"
        );
        Ok(())
    })
    .await?;
    scene.still_says(1, "ConfigMap one", "/data/a", "mine").await?;
    scene.still_says(1, "ConfigMap one", "/metadata/labels", Value::Null).await?;
    // The way out that it names: made equal, it is adopted.
    scene.apply(1, [config_map("one", json!({ "a": "b" }))]).await?;
    scene.says(1, "ConfigMap one", "/metadata/annotations/tombolo.dev~1adopted", "true").await?;
    scene.reports("PropagationPolicy p", "Propagated", &[]).await
}

pub(crate) async fn a_different_object_is_taken_where_conflicts_overwrite(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overwrite").await?;
    scene.apply(1, [scene.here(), config_map("one", json!({ "a": "mine", "own": "mine" }))]).await?;
    let policy =
        with(places("p", &["ConfigMap one"], &[1]), json!({ "spec": { "conflictResolution": "Overwrite" } }));
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "b").await?;
    scene.still_says(1, "ConfigMap one", "/metadata/annotations/tombolo.dev~1adopted", Value::Null).await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[1], "ConfigMap one").await
}
