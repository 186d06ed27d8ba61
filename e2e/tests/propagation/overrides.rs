//! Overrides: what differs from cluster to cluster, and what may not.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, config_map, deployment, overrides, places, with},
};

use crate::scene;

pub(crate) async fn overrides_change_labels_annotations_images_and_fields_per_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "overrides").await?;
    let overriders = json!({
        "labelsOverrider": [{ "operator": "add", "value": { "region": "south" } }],
        "annotationsOverrider": [{ "operator": "add", "value": { "note": "x" } }],
        "imageOverrider": [{ "component": "Registry", "operator": "replace", "value": "south.example.com" }],
        "plaintext": [{ "path": "/spec/replicas", "operator": "replace", "value": 7 }],
    });
    scene.apply(HUB, [overrides("o", &["Deployment web"], &[2], overriders)]).await?;
    scene.apply(HUB, [deployment("web", 1), places("p", &["Deployment web"], &[1, 2])]).await?;
    scene.arrives(&[1, 2], "Deployment web").await?;
    let image = "/spec/template/spec/containers/0/image";
    scene.says(2, "Deployment web", image, "south.example.com/team/app:v1").await?;
    scene.still_says(2, "Deployment web", "/metadata/labels/region", "south").await?;
    scene.still_says(2, "Deployment web", "/metadata/annotations/note", "x").await?;
    scene.still_says(2, "Deployment web", "/spec/replicas", 7).await?;
    scene.still_says(1, "Deployment web", image, "example.com/team/app:v1").await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 1).await?;
    scene.still_says(1, "Deployment web", "/metadata/labels/region", Value::Null).await
}

pub(crate) async fn overrides_hold_from_when_they_come_until_they_go(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-later").await?;
    scene
        .apply(HUB, [config_map("one", json!({ "a": "b" })), places("p", &["ConfigMap one"], &[1, 2])])
        .await?;
    scene.arrives(&[1, 2], "ConfigMap one").await?;
    let set =
        |value: &str| json!({ "plaintext": [{ "path": "/data/a", "operator": "replace", "value": value }] });
    scene.apply(HUB, [overrides("o", &["ConfigMap one"], &[1], set("one"))]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "one").await?;
    scene.apply(HUB, [overrides("o", &["ConfigMap one"], &[2], set("two"))]).await?;
    scene.says(2, "ConfigMap one", "/data/a", "two").await?;
    scene.says(1, "ConfigMap one", "/data/a", "b").await?;
    scene.delete(HUB, &["OverridePolicy o"]).await?;
    scene.says(2, "ConfigMap one", "/data/a", "b").await
}

pub(crate) async fn an_override_may_not_change_what_an_object_is(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-identity").await?;
    for path in [
        "/metadata/name",
        "/metadata/namespace",
        "/kind",
        "/apiVersion",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
    ] {
        let overriders = json!({ "plaintext": [{ "path": path, "operator": "replace", "value": "x" }] });
        let why = scene.refused(overrides("o", &["ConfigMap one"], &[1], overriders)).await?;
        ensure!(why.contains(path), "{path}: {why}");
    }
    let role = json!([{ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "name": "r" }]);
    let policy = with(places("p", &["Role r"], &[1]), json!({ "spec": { "resourceSelectors": role } }));
    let why = scene.refused(policy).await?;
    ensure!(why.contains("Role"), "{why}");
    Ok(())
}

pub(crate) async fn an_override_that_cannot_be_applied_is_said(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-faulty").await?;
    let overriders =
        json!({ "plaintext": [{ "path": "/data/missing/deep", "operator": "replace", "value": "x" }] });
    scene.apply(HUB, [overrides("o", &["ConfigMap one"], &[1], overriders)]).await?;
    scene
        .apply(HUB, [config_map("one", json!({ "a": "b" })), places("p", &["ConfigMap one"], &[1, 2])])
        .await?;
    scene.arrives(&[2], "ConfigMap one").await?;
    scene
        .reports("PropagationPolicy p", "Failed", &["member1", "the override", "/data/missing/deep"])
        .await?;
    scene.is_absent(&[1], "ConfigMap one").await?;
    scene.delete(HUB, &["OverridePolicy o"]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.reports("PropagationPolicy p", "Propagated", &[]).await
}

pub(crate) async fn what_waits_for_an_override_is_sent_when_it_is_there(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-waited-for").await?;
    let policy =
        with(places("p", &["ConfigMap one"], &[1]), json!({ "spec": { "dependentOverrides": ["o"] } }));
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.reports("PropagationPolicy p", "HeldBack", &["dependentOverrides names: o"]).await?;
    scene.settles().await?;
    scene.is_absent(&[1], "ConfigMap one").await?;
    let overriders = json!({ "plaintext": [{ "path": "/data/a", "operator": "replace", "value": "x" }] });
    scene.apply(HUB, [overrides("o", &["ConfigMap one"], &[1], overriders)]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.still_says(1, "ConfigMap one", "/data/a", "x").await
}
