//! What is exported in members alone is imported by every member with the namespace.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, object},
    wait::until,
};

use super::ground::*;

pub(crate) async fn c1_c2_one_export_is_imported_in_every_member_with_the_namespace(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "automatic", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 2).await?;
    condition(&scene, 1, "ServiceExport serve", ("Valid", "True", "Valid")).await?;
    condition(&scene, 1, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    address(&scene, 2).await?;
    let endpoints = "member1 http:8080 10.1.0.1,10.1.0.2";
    reaches(&scene, 2, &[endpoints]).await?;
    // The exporter imports too.
    address(&scene, 1).await?;
    reaches(&scene, 1, &[endpoints]).await?;
    imported_in_exactly(&scene, &[1, 2]).await?;
    let clusters = scene.field(2, "ServiceImport serve", "/status/clusters").await?;
    ensure!(clusters == json!([{ "cluster": "member1" }]), "{clusters}");
    condition(&scene, 2, "ServiceImport serve", ("Ready", "True", "Ready")).await.map(drop)
}

pub(crate) async fn c3_a_namespace_that_comes_later_gets_the_import_and_one_that_goes_loses_it(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "late", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    address(&scene, 1).await?;
    scene.is_absent(&[3], "ServiceImport serve").await?;
    scene.apply(3, [scene.here()]).await?;
    address(&scene, 3).await?;
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1"]).await?;
    scene.delete(3, &["Namespace late"]).await?;
    scene.goes(&[3], "Namespace late").await?;
    // It does not come back with the next change (A7).
    scene.apply(1, [slice(1, &[("http", 80)], 2)]).await?;
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    exported(&scene, 2, &[("http", 80)], 1).await?;
    condition(&scene, 2, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    scene.is_absent(&[3], "Namespace late").await
}

pub(crate) async fn c4_f5_the_import_and_its_slices_go_with_the_last_export(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "last", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    exported(&scene, 2, &[("http", 80)], 1).await?;
    let both = ["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"];
    reaches(&scene, 3, &both).await?;
    let before = address(&scene, 3).await?;
    scene.delete(1, &["ServiceExport serve"]).await?;
    reaches(&scene, 3, &both[1..]).await?;
    ensure!(address(&scene, 3).await? == before, "its address changed");
    scene.delete(2, &["ServiceExport serve"]).await?;
    reaches(&scene, 3, &[]).await?;
    imported_in_exactly(&scene, &[]).await
}

pub(crate) async fn b3_a_service_without_an_export_of_its_own_is_not_part_of_it(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "bare", &[1, 2]).await?;
    scene.apply(2, service(2, &[("http", 80)], 1)).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await
}

pub(crate) async fn b11_a_deleted_service_is_withdrawn_and_keeps_its_address_until_it_is_back(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "withdrawn", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    let before = address(&scene, 2).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    scene.delete(1, &["Service serve"]).await?;
    condition(&scene, 1, "ServiceExport serve", ("Valid", "False", "NoService")).await?;
    condition(&scene, 1, "ServiceExport serve", ("Ready", "False", "Pending")).await?;
    reaches(&scene, 2, &[]).await?;
    ensure!(address(&scene, 2).await? == before, "its address changed");
    scene.apply(1, service(1, &[("http", 80)], 2)).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    ensure!(address(&scene, 2).await? == before, "its address changed");
    Ok(())
}

pub(crate) async fn an_export_that_is_made_again_at_once_keeps_the_address(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "again", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    let before = address(&scene, 2).await?;
    let uid = scene.field(2, "ServiceImport serve", "/metadata/uid").await?;
    let gone = Instant::now();
    scene.delete(1, &["ServiceExport serve", "Service serve", "EndpointSlice serve-1"]).await?;
    // Its endpoints go at once, its import is there for some seconds longer.
    reaches(&scene, 2, &[]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    // On a machine that is busy it may have been longer than that.
    let at_once = gone.elapsed() < Duration::from_secs(4);
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    ensure!(address(&scene, 2).await? == before, "its address changed");
    let now = scene.field(2, "ServiceImport serve", "/metadata/uid").await?;
    ensure!(now == uid || !at_once, "it is another import");
    Ok(())
}

pub(crate) async fn e3_f1_to_f4_f10_slices_say_where_they_are_from_and_keep_what_dns_needs(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "marks", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    let slice = serde_json::to_value(slices(&scene, 2).await?.remove(0))?;
    let labels = &slice["metadata"]["labels"];
    ensure!(labels["multicluster.kubernetes.io/source-cluster"] == "member1", "{labels}");
    ensure!(labels["kubernetes.io/service-name"] == "derived-serve", "{labels}");
    ensure!(labels["endpointslice.kubernetes.io/managed-by"] == "hub.tombolo.dev", "{labels}");
    let endpoint = &slice["endpoints"][0];
    ensure!(endpoint["hostname"] == "pod-1" && endpoint["zone"] == "zone-a", "{endpoint}");
    ensure!(endpoint["conditions"]["ready"] == true && endpoint.get("nodeName").is_none(), "{endpoint}");
    let announced = "/metadata/annotations/multicluster.kubernetes.io~1derived-service";
    let derived = scene.field(2, "ServiceImport serve", announced).await?;
    ensure!(derived == "derived-serve", "{derived}");
    let mut ending = self::slice(1, &[("http", 80)], 1);
    ending["endpoints"][0]["conditions"] = json!({ "ready": false, "serving": true, "terminating": true });
    scene.apply(1, [ending.clone()]).await?;
    until("that it ends and serves still is told", PATIENCE, async || {
        let found = serde_json::to_value(slices(&scene, 2).await?.remove(0))?;
        let conditions = &found["endpoints"][0]["conditions"];
        ensure!(*conditions == ending["endpoints"][0]["conditions"], "{conditions}");
        Ok(())
    })
    .await
}

pub(crate) async fn d2_a_headless_service_is_imported_without_an_address(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "headless", &[1, 2]).await?;
    let ports = json!([{ "name": "http", "port": 80 }]);
    let headless = object("Service", "serve", json!({ "spec": { "clusterIP": "None", "ports": ports } }));
    scene.apply(1, [headless, slice(1, &[("http", 80)], 2), export()]).await?;
    scene.arrives(&[2], "Service derived-serve").await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    let import = scene.find(2, "ServiceImport serve").await?;
    ensure!(import["spec"]["type"] == "Headless" && import["spec"].get("ips").is_none(), "{import}");
    until("the derived Service is headless", PATIENCE, async || {
        let ip = scene.field(2, "Service derived-serve", "/spec/clusterIP").await?;
        ensure!(ip == "None", "it has {ip}");
        Ok(())
    })
    .await
}
