//! Faults of services.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, object, places},
};

use super::ground::*;

fn export() -> Value {
    object("ServiceExport", "serve", json!({}))
}

fn import() -> Value {
    let ports = json!([{ "name": "http", "port": 80 }]);
    object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": ports } }))
}

fn service(port: u16) -> Value {
    object("Service", "serve", json!({ "spec": { "ports": [{ "name": "http", "port": port }] } }))
}

pub(crate) async fn fault_11_ports_that_differ_between_clusters(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "differ", &[1, 2]).await?;
    // The hub does not know of these, so admission cannot refuse what comes of them; the import it would refuse once it does.
    scene.apply(1, [service(80)]).await?;
    scene.apply(2, [service(8080)]).await?;
    scene.apply(HUB, [import(), places("import", &["ServiceImport serve"], &[2])]).await?;
    scene.apply(HUB, [export(), places("export", &["ServiceExport serve"], &[1, 2])]).await?;
    let cause = "is not well: the clusters do not agree on it (PortConflict)";
    for kind in ["serviceexport", "serviceimport", "service"] {
        let what = format!("{kind}/serve");
        let words =
            [cause, "http", "\"member1\"", "make the Services alike; until then the oldest export decides"];
        begins(&scene, &what, &words).await?;
    }
    Ok(())
}

pub(crate) async fn fault_12_a_service_of_type_external_name(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "external", &[1]).await?;
    let external = json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } });
    scene.apply(1, [object("Service", "serve", external)]).await?;
    scene.apply(HUB, [export(), places("export", &["ServiceExport serve"], &[1])]).await?;
    let cause = "its Service cannot be exported: member1:";
    let words = [
        "is not well",
        cause,
        "ExternalName",
        "change spec.type of the Service, or delete the ServiceExport",
    ];
    begins(&scene, "serviceexport/serve", &words).await.map(drop)
}

pub(crate) async fn fault_13_a_service_that_is_placed_elsewhere(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "elsewhere", &[]).await?;
    scene.apply(HUB, [service(80), places("workload", &["Service serve"], &[2])]).await?;
    scene.apply(HUB, [export(), places("export", &["ServiceExport serve"], &[1])]).await?;
    let cause = "the ServiceExport is placed on member1, the Service on member2";
    let words = ["is not well: there is no Service to export", cause, "place both on the same clusters"];
    begins(&scene, "serviceexport/serve", &words).await?;
    begins(&scene, "svc/serve", &words).await?;
    // Put right, all is well as soon as somebody imports it.
    scene.apply(HUB, [places("workload", &["Service serve"], &[1])]).await?;
    begins(&scene, "svcex/serve", &["is on its way: nobody imports it yet"]).await?;
    scene.apply(HUB, [import(), places("import", &["ServiceImport serve"], &[2])]).await?;
    let text = begins(&scene, "svcim/serve", &["is well: member2 reaches member1"]).await?;
    ensure!(text.contains("✓ member1  http 80/TCP, since 20"), "{text}");
    Ok(())
}

pub(crate) async fn fault_14_an_export_in_the_wrong_namespace(bed: Arc<Bed>) -> Result<()> {
    let right = scene(&bed, "export-right", &[]).await?;
    let wrong = scene(&bed, "export-wrong", &[]).await?;
    let named = |kind: &str, rest| object(kind, "stray", rest);
    let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 80 }] } });
    right.apply(HUB, [named("Service", ports), places("workload", &["Service stray"], &[1])]).await?;
    wrong
        .apply(HUB, [named("ServiceExport", json!({})), places("export", &["ServiceExport stray"], &[1])])
        .await?;
    let cause = "the hub has a Service stray in namespace export-right";
    let words =
        ["is not well: there is no Service to export", cause, "has to be in the namespace of its Service"];
    begins(&wrong, "serviceexport/stray", &words).await.map(drop)
}
