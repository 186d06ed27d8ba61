//! What the hub has an export or import of is imported where policies place the import, and nowhere else.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{Scene, object, places},
};

use super::ground::*;

fn import() -> Value {
    object(
        "ServiceImport",
        "serve",
        json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80 }] } }),
    )
}

/// The Service and its export in member 1, by policies.
async fn exported_by_policy(scene: &Scene) -> Result<()> {
    let [service, slice] = service(1, &[("http", 80)], 2);
    scene.apply(ON_THE_HUB, [service, places("workload", &["Service serve"], &[1])]).await?;
    scene.arrives(&[1], "Service serve").await?;
    scene.apply(1, [slice]).await?;
    scene.apply(ON_THE_HUB, [export(), places("export", &["ServiceExport serve"], &[1])]).await?;
    scene.arrives(&[1], "ServiceExport serve").await
}

pub(crate) async fn the_walk_through_imports_in_member2_and_nowhere_else(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "walk", &[ON_THE_HUB, 1, 2, 3]).await?;
    exported_by_policy(&scene).await?;
    condition(&scene, 1, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    scene.apply(ON_THE_HUB, [import()]).await?;
    scene.settles().await?;
    scene.is_absent(&[1, 2, 3], "ServiceImport serve").await?;
    scene.apply(ON_THE_HUB, [places("import", &["ServiceImport serve"], &[2])]).await?;
    address(&scene, 2).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    scene.reports("PropagationPolicy import", "Propagated", &["member2", "\"applied\":1"]).await?;
    imported_in_exactly(&scene, &[2]).await
}

pub(crate) async fn a_placement_that_moves_takes_the_import_along(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "moves", &[ON_THE_HUB, 1, 2, 3]).await?;
    exported_by_policy(&scene).await?;
    scene.apply(ON_THE_HUB, [import(), places("import", &["ServiceImport serve"], &[2])]).await?;
    let before = address(&scene, 2).await?;
    scene.apply(ON_THE_HUB, [places("import", &["ServiceImport serve"], &[2, 3])]).await?;
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    ensure!(address(&scene, 2).await? == before, "its address changed");
    scene.apply(ON_THE_HUB, [places("import", &["ServiceImport serve"], &[3])]).await?;
    imported_in_exactly(&scene, &[3]).await?;
    reaches(&scene, 2, &[]).await
}

pub(crate) async fn withdrawn_on_the_hub_it_goes_everywhere(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "hub-withdraws", &[ON_THE_HUB, 1, 2]).await?;
    exported_by_policy(&scene).await?;
    scene.apply(ON_THE_HUB, [import(), places("import", &["ServiceImport serve"], &[2])]).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    scene.delete(ON_THE_HUB, &["ServiceExport serve"]).await?;
    scene.goes(&[1], "ServiceExport serve").await?;
    reaches(&scene, 2, &[]).await?;
    // The import is still wanted.
    address(&scene, 2).await?;
    scene.delete(ON_THE_HUB, &["ServiceImport serve"]).await?;
    imported_in_exactly(&scene, &[]).await
}
