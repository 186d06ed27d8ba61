//! Exports: their condition, their record and their source slices.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tombolo_e2e::{bed::Bed, scene::object};

use super::ground::{HERE, condition, export, scene, service, settles, slice, sources, written};

const RECORD: &str = "/metadata/annotations/tombolo.dev~1export-record";

pub(crate) async fn b10_an_external_name_is_no_service_to_export(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "external").await?;
    let name = object(
        "Service",
        "serve",
        json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } }),
    );
    scene.apply(HERE, [name, export("serve")]).await?;
    condition(&scene, HERE, "ServiceExport serve", ("Valid", "False", "InvalidServiceType")).await?;
    scene.still_says(HERE, "ServiceExport serve", RECORD, json!(null)).await?;
    sources(&scene, HERE, "serve", &[]).await.map(drop)
}

pub(crate) async fn b11_an_export_without_a_service_says_so_and_recovers_when_it_comes(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "no-service").await?;
    scene.apply(HERE, [export("serve")]).await?;
    let message = condition(&scene, HERE, "ServiceExport serve", ("Valid", "False", "NoService")).await?;
    ensure!(message.contains("there is no Service no-service/serve"), "{message}");
    scene.apply(HERE, [service("serve", json!({}))]).await?;
    condition(&scene, HERE, "ServiceExport serve", ("Valid", "True", "Valid")).await?;
    let record = scene.field(HERE, "ServiceExport serve", RECORD).await?;
    ensure!(record.as_str().is_some_and(|record| record.contains(r#""port":80"#)), "{record}");
    sources(&scene, HERE, "serve", &[0]).await.map(drop)
}

pub(crate) async fn b11_a_service_deleted_and_made_again_is_withdrawn_and_comes_back(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "made-again").await?;
    let endpoints = slice("by-hand", "serve", 2);
    scene.apply(HERE, [service("serve", json!({})), endpoints, export("serve")]).await?;
    sources(&scene, HERE, "serve", &[2]).await?;
    scene.delete(HERE, &["Service serve"]).await?;
    condition(&scene, HERE, "ServiceExport serve", ("Valid", "False", "NoService")).await?;
    sources(&scene, HERE, "serve", &[]).await?;
    scene.says(HERE, "ServiceExport serve", RECORD, json!(null)).await?;
    scene.apply(HERE, [service("serve", json!({}))]).await?;
    condition(&scene, HERE, "ServiceExport serve", ("Valid", "True", "Valid")).await?;
    sources(&scene, HERE, "serve", &[2]).await.map(drop)
}

pub(crate) async fn b12_a_valid_export_says_so_in_two_writes_and_its_record_follows_the_service(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "record").await?;
    scene.apply(HERE, [service("serve", json!({}))]).await?;
    let mark = bed.audit("member1").mark()?;
    scene.apply(HERE, [export("serve")]).await?;
    condition(&scene, HERE, "ServiceExport serve", ("Valid", "True", "Valid")).await?;
    settles(&scene, HERE).await?;
    let writes = written(&scene, HERE, mark)?;
    let to_export = writes.iter().filter(|write| write.contains("serviceexports")).count();
    ensure!(to_export == 2 && writes.len() == 3, "a new export took {writes:#?}");

    let more = json!({ "sessionAffinity": "ClientIP", "ports": [{ "name": "web", "port": 81 }] });
    scene.apply(HERE, [service("serve", more)]).await?;
    let record = r#"{"format":1,"ports":[{"name":"web","port":81,"protocol":"TCP"}],"clientIpSeconds":10800,"ipFamilies":["IPv4"]}"#;
    scene.says(HERE, "ServiceExport serve", RECORD, record).await?;
    scene
        .edit(
            HERE,
            "ServiceExport serve",
            json!({ "metadata": { "annotations": { "tombolo.dev/export-record": "lies" } } }),
        )
        .await?;
    scene.says(HERE, "ServiceExport serve", RECORD, record).await
}

pub(crate) async fn a_derived_service_cannot_be_exported(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "derived-export").await?;
    scene.apply(HERE, [super::ground::import("serve", json!({})), export("derived-serve")]).await?;
    let message =
        condition(&scene, HERE, "ServiceExport derived-serve", ("Valid", "False", "InvalidServiceType"))
            .await?;
    ensure!(message.contains("derived from ServiceImport derived-export/serve"), "{message}");
    Ok(())
}

pub(crate) async fn source_slices_follow_and_what_somebody_edits_or_deletes_is_put_right(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "follow").await?;
    scene.apply(HERE, [service("serve", json!({})), slice("by-hand", "serve", 1), export("serve")]).await?;
    let [source] = &sources(&scene, HERE, "serve", &[1]).await?[..] else { unreachable!() };
    let name = source.metadata.name.clone().context("it has a name")?;
    ensure!(source.ports.as_ref().is_some_and(|ports| ports[0].port == Some(8080)), "{source:?}");
    scene.apply(HERE, [slice("by-hand", "serve", 3)]).await?;
    sources(&scene, HERE, "serve", &[3]).await?;
    let what = format!("EndpointSlice {name}");
    scene.edit(HERE, &what, json!({ "endpoints": [] })).await?;
    sources(&scene, HERE, "serve", &[3]).await?;
    scene.edit(HERE, &what, json!({ "metadata": { "labels": null } })).await?;
    sources(&scene, HERE, "serve", &[3]).await?;
    scene.delete(HERE, &[&what]).await?;
    sources(&scene, HERE, "serve", &[3]).await?;
    scene.delete(HERE, &["EndpointSlice by-hand"]).await?;
    sources(&scene, HERE, "serve", &[0]).await.map(drop)
}

pub(crate) async fn f7_slices_of_many_endpoints_are_split_and_a_service_without_any_has_an_empty_one(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "many").await?;
    scene.apply(HERE, [service("serve", json!({})), export("serve")]).await?;
    sources(&scene, HERE, "serve", &[0]).await?;
    scene.apply(HERE, [slice("by-hand", "serve", 250)]).await?;
    sources(&scene, HERE, "serve", &[50, 100, 100]).await?;
    scene.apply(HERE, [slice("by-hand", "serve", 99)]).await?;
    sources(&scene, HERE, "serve", &[99]).await.map(drop)
}

pub(crate) async fn one_endpoint_change_is_one_write(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "one-write").await?;
    scene.apply(HERE, [service("serve", json!({})), slice("by-hand", "serve", 10), export("serve")]).await?;
    condition(&scene, HERE, "ServiceExport serve", ("Valid", "True", "Valid")).await?;
    sources(&scene, HERE, "serve", &[10]).await?;
    settles(&scene, HERE).await?;
    for number in [11, 12, 11] {
        let mark = bed.audit("member1").mark()?;
        scene.apply(HERE, [slice("by-hand", "serve", number)]).await?;
        sources(&scene, HERE, "serve", &[number]).await?;
        settles(&scene, HERE).await?;
        let writes = written(&scene, HERE, mark)?;
        ensure!(writes.len() == 1 && writes[0].contains(" update endpointslices"), "{writes:#?}");
    }
    Ok(())
}

pub(crate) async fn b5_deleting_an_export_removes_its_source_slices(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "un-export").await?;
    scene.apply(HERE, [service("serve", json!({})), slice("by-hand", "serve", 1), export("serve")]).await?;
    sources(&scene, HERE, "serve", &[1]).await?;
    scene.delete(HERE, &["ServiceExport serve"]).await?;
    sources(&scene, HERE, "serve", &[]).await?;
    scene.find(HERE, "EndpointSlice by-hand").await.map(drop)
}
