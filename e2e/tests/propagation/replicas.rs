//! Replicas: who decides on them, and how they are divided.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, deployment, labelled, members, places, with},
};

use crate::scene;

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn changed(mut workload: Value) -> Value {
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/team/app:v2".into();
    workload
}

pub(crate) async fn replicas_that_an_autoscaler_set_stay(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "scaled").await?;
    scene.apply(HUB, [deployment("web", 1), places("p", &["Deployment web"], &[1, 2])]).await?;
    scene.arrives(&[1, 2], "Deployment web").await?;
    scene.scale(1, "Deployment web", 5).await?;
    scene.settles().await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 5).await?;
    scene.apply(HUB, [changed(deployment("web", 2))]).await?;
    scene.says(1, "Deployment web", IMAGE, "example.com/team/app:v2").await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 5).await?;
    scene.says(2, "Deployment web", "/spec/replicas", 2).await?;
    scene.scale(1, "Deployment web", 3).await?;
    scene.settles().await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 3).await
}

pub(crate) async fn replicas_that_are_to_be_retained_stay(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "retained").await?;
    let retained = |workload| labelled(workload, "resourcetemplate.karmada.io/retain-replicas", "true");
    scene.apply(HUB, [retained(deployment("web", 2)), places("p", &["Deployment web"], &[1])]).await?;
    scene.says(1, "Deployment web", "/spec/replicas", 2).await?;
    scene.apply(HUB, [retained(changed(deployment("web", 6)))]).await?;
    scene.says(1, "Deployment web", IMAGE, "example.com/team/app:v2").await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 2).await?;
    scene.scale(1, "Deployment web", 4).await?;
    scene.settles().await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 4).await
}

pub(crate) async fn replicas_are_divided_by_weight_and_divided_again(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "divided").await?;
    let weights = json!([
        { "targetCluster": { "clusterNames": members(&[1]) }, "weight": 2 },
        { "targetCluster": { "clusterNames": members(&[2]) }, "weight": 1 },
    ]);
    let scheduling = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": { "staticWeightList": weights },
    });
    let policy = with(
        places("p", &["Deployment web"], &[1, 2]),
        json!({ "spec": { "placement": { "replicaScheduling": scheduling } } }),
    );
    scene.apply(HUB, [deployment("web", 6), policy]).await?;
    scene.says(1, "Deployment web", "/spec/replicas", 4).await?;
    scene.says(2, "Deployment web", "/spec/replicas", 2).await?;
    scene.apply(HUB, [deployment("web", 9)]).await?;
    scene.says(1, "Deployment web", "/spec/replicas", 6).await?;
    scene.says(2, "Deployment web", "/spec/replicas", 3).await?;
    // Without its policy each keeps its part, whatever else changes.
    scene.delete(HUB, &["PropagationPolicy p"]).await?;
    scene.settles().await?;
    scene.apply(HUB, [changed(deployment("web", 9))]).await?;
    scene.says(1, "Deployment web", IMAGE, "example.com/team/app:v2").await?;
    scene.still_says(1, "Deployment web", "/spec/replicas", 6).await
}
