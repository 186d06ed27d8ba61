//! What is written how often, and what is put right.

use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, object},
    wait::until,
};

use super::ground::*;

pub(crate) async fn one_endpoint_change_is_one_write_and_one_more_in_each_importer(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "counted", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    for member in [1, 2, 3] {
        address(&scene, member).await?;
        reaches(&scene, member, &["member1 http:8080 10.1.0.1"]).await?;
    }
    let clusters = ["hub", "member1", "member2", "member3"];
    let marks: Vec<_> = clusters.iter().map(|cluster| bed.audit(cluster).mark()).collect::<Result<_>>()?;
    scene.apply(1, [slice(1, &[("http", 80)], 2)]).await?;
    for member in [1, 2, 3] {
        reaches(&scene, member, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    }
    let mut written = Vec::new();
    for (cluster, mark) in clusters.iter().zip(marks) {
        let audit = bed.audit(cluster);
        let by_hub =
            audit.by_hub(mark)?.into_iter().filter(|request| request.object_ref.namespace == "counted");
        written.push(by_hub.count() + audit.by_agent(mark, "counted")?.len());
    }
    // In the exporter its source slice and its own imported slice, by its agent; one in each other importer.
    ensure!(written == [0, 2, 1, 1], "{written:?} writes in {clusters:?}");
    Ok(())
}

pub(crate) async fn imported_slices_that_somebody_edits_or_deletes_are_put_right(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "repaired", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    let good = "member1 http:8080 10.1.0.1";
    reaches(&scene, 2, &[good]).await?;
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(2).clone(), "repaired");
    let name = slices(&scene, 2).await?.remove(0).metadata.name.unwrap_or_default();
    let patch = json!({ "endpoints": [] });
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    reaches(&scene, 2, &[good]).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    until("it is there again", PATIENCE, async || {
        ensure!(api.get_opt(&name).await?.is_some(), "it is not");
        Ok(())
    })
    .await?;
    reaches(&scene, 2, &[good]).await
}

pub(crate) async fn c5_an_import_that_a_user_made_stays_the_users(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "users", &[1, 2]).await?;
    let own = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "own", "port": 99, "protocol": "TCP" }] } });
    scene.apply(2, [object("ServiceImport", "serve", own)]).await?;
    let before = address(&scene, 2).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    condition(&scene, 1, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1"]).await?;
    let ports = scene.field(2, "ServiceImport serve", "/spec/ports/0/port").await?;
    ensure!(ports == 99 && address(&scene, 2).await? == before, "{ports}");
    scene.delete(1, &["ServiceExport serve"]).await?;
    scene.goes(&[1], "ServiceImport serve").await?;
    scene.find(2, "ServiceImport serve").await.map(drop)
}
