//! What outlives restarts, reinstalls and kinds that vanish: imports, their addresses and what they reach.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    proxy::{Mode, Proxy},
    scene::{HUB, PATIENCE, Scene, object, places},
    wait::until,
};

use super::ground::Fleet;
use crate::words::*;

const HTTP: &[(&str, u16)] = &[("http", 80)];

/// All that an importer has of the service, with its versions.
async fn picture(scene: &Scene, member: usize) -> Result<Vec<Value>> {
    let mut all = vec![
        scene.find(member, "ServiceImport serve").await?,
        scene.find(member, "Service derived-serve").await?,
    ];
    for slice in slices(scene, member).await? {
        all.push(serde_json::to_value(slice)?);
    }
    Ok(all)
}

pub(crate) async fn e2_an_address_outlives_restarts_reinstalls_and_a_move_to_another_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[1, 2, 3]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1"]).await?;
    let before = address(&scene, 3).await?;
    let same = async |what: &str| -> Result<()> {
        let now = address(&scene, 3).await?;
        ensure!(now == before, "{what}: its address was {before} and is {now}");
        Ok(())
    };
    fleet.start_hub().await?;
    fleet.start_agent(3).await?;
    same("a restart").await?;
    // As Helm installs anew: everything goes, and comes back within seconds.
    scene.delete(1, &["ServiceExport serve", "Service serve", "EndpointSlice serve-1"]).await?;
    exported(&scene, 1, HTTP, 2).await?;
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    same("a reinstall").await?;
    scene.delete(3, &["Service derived-serve"]).await?;
    same("a deletion by a user").await?;
    exported(&scene, 2, HTTP, 1).await?;
    scene.delete(1, &["ServiceExport serve"]).await?;
    reaches(&scene, 3, &["member2 http:8080 10.2.0.1"]).await?;
    same("a move").await
}

pub(crate) async fn a_hub_restarted_while_the_oldest_exporter_is_unreachable_changes_nothing(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[HUB, 1, 2, 3]).await?;
    let import = object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": [] } }));
    scene.apply(HUB, [import, places("import", &["ServiceImport serve"], &[3])]).await?;
    let proxy = Proxy::start(fleet.bed.member(1))?;
    scene.edit(HUB, "Cluster member1", json!({ "spec": { "apiEndpoint": proxy.url } })).await?;
    exported(&scene, 1, &[("http", 80), ("admin", 90)], 1).await?;
    let first = "member1 admin:8090,http:8080 10.1.0.1";
    reaches(&scene, 3, &[first]).await?;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    exported(&scene, 2, &[("http", 81), ("admin", 90)], 1).await?;
    reaches(&scene, 3, &[first, "member2 admin:8090 10.2.0.1"]).await?;
    condition(&scene, HUB, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
    until("the hub names both clusters", PATIENCE, async || {
        let clusters = scene.field(HUB, "ServiceImport serve", "/status/clusters").await?;
        ensure!(clusters == json!([{ "cluster": "member1" }, { "cluster": "member2" }]), "{clusters}");
        Ok(())
    })
    .await?;
    condition(&scene, 2, "ServiceExport serve", ("Conflict", "True", "PortConflict")).await?;
    let before = [picture(&scene, 3).await?, told(&scene).await?].concat();
    proxy.set(Mode::Fail);
    fleet.start_hub().await?;
    // The hub is at work again: another's endpoints change, and nothing else.
    scene.apply(2, [slice(2, &[("http", 81), ("admin", 90)], 2)]).await?;
    reaches(&scene, 3, &[first, "member2 admin:8090 10.2.0.1,10.2.0.2"]).await?;
    // What it has to say it says within a second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let after = [picture(&scene, 3).await?, told(&scene).await?].concat();
    let kept = before.iter().filter(|object| !object.to_string().contains("10.2.0.1"));
    for object in kept {
        ensure!(after.contains(object), "it changed: {object}");
    }
    proxy.set(Mode::Pass);
    scene.apply(1, [slice(1, &[("http", 80), ("admin", 90)], 2)]).await?;
    let first = "member1 admin:8090,http:8080 10.1.0.1,10.1.0.2";
    reaches(&scene, 3, &[first, "member2 admin:8090 10.2.0.1,10.2.0.2"]).await
}

pub(crate) async fn a_tainted_member_keeps_what_it_imports_and_offers_what_it_exports_though_it_does_not_answer(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[HUB, 1, 2, 3]).await?;
    let proxy = Proxy::start(fleet.bed.member(1))?;
    scene.edit(HUB, "Cluster member1", json!({ "spec": { "apiEndpoint": proxy.url } })).await?;
    scene.apply(1, service(1, HTTP, 1)).await?;
    let import = object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": [] } }));
    scene.apply(HUB, [export(), places("export", &["ServiceExport serve"], &[1])]).await?;
    scene.apply(HUB, [import, places("import", &["ServiceImport serve"], &[2, 3])]).await?;
    for importer in [2, 3] {
        reaches(&scene, importer, &["member1 http:8080 10.1.0.1"]).await?;
    }
    let before = picture(&scene, 2).await?;
    let unchanged = async |when: &str| -> Result<()> {
        let now = picture(&scene, 2).await?;
        ensure!(now == before, "{when} it is {now:?}, and was {before:?}");
        Ok(())
    };
    for tainted in ["Cluster member1", "Cluster member2"] {
        let taints = json!([{ "key": "repair", "effect": "NoSchedule" }]);
        scene.edit(HUB, tainted, json!({ "spec": { "taints": taints } })).await?;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    unchanged("tainted").await?;
    proxy.set(Mode::Fail);
    until("the hub knows that member1 does not answer", PATIENCE, async || {
        let told = scene.field(HUB, "Cluster member1", "/status/conditions").await?;
        let ready = told.as_array().into_iter().flatten().find(|one| one["type"] == "Ready");
        ensure!(ready.is_some_and(|one| one["status"] != "True"), "{told}");
        Ok(())
    })
    .await?;
    fleet.start_hub().await?;
    // The hub is at work again, and what the policy says counts.
    scene.apply(HUB, [places("import", &["ServiceImport serve"], &[2])]).await?;
    imported_in_exactly(&scene, &[2]).await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    unchanged("after a restart without member1").await?;
    scene.apply(HUB, [places("export", &["ServiceExport serve"], &[3])]).await?;
    reaches(&scene, 2, &[]).await
}

/// What is said of the service on the hub and in the younger exporter.
async fn told(scene: &Scene) -> Result<Vec<Value>> {
    let import = scene.field(HUB, "ServiceImport serve", "/status").await?;
    Ok(vec![import, scene.field(2, "ServiceExport serve", "/status").await?])
}

pub(crate) async fn a_record_of_a_newer_format_withdraws_nothing(bed: Arc<Bed>) -> Result<()> {
    let mut fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[1, 2]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    let before = picture(&scene, 2).await?;
    // An agent of a newer release took over.
    fleet.stop_agent(1);
    let record = json!({ "metadata": { "annotations": { "tombolo.dev/export-record": "{\"format\":9}" } } });
    scene.edit(1, "ServiceExport serve", record).await?;
    let said = condition(&scene, 1, "ServiceExport serve", ("Ready", "False", "Failed")).await?;
    ensure!(said.contains("format 9"), "{said}");
    fleet.start_hub().await?;
    exported(&scene, 2, HTTP, 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"]).await?;
    let after = picture(&scene, 2).await?;
    ensure!(after[1]["spec"] == before[1]["spec"], "{}", after[1]);
    fleet.start_agent(1).await?;
    condition(&scene, 1, "ServiceExport serve", ("Ready", "True", "Exported")).await.map(drop)
}

pub(crate) async fn definitions_deleted_and_made_again_on_the_hub_or_in_a_member_delete_no_derived_service(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[HUB, 1, 2]).await?;
    let spec = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80 }] } });
    let import = object("ServiceImport", "serve", spec);
    let policy = places("import", &["ServiceImport serve"], &[2]);
    scene.apply(HUB, [import.clone(), policy]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    let before = scene.find(2, "Service derived-serve").await?;
    let kinds = ["crd", "serviceimports.multicluster.x-k8s.io", "serviceexports.multicluster.x-k8s.io"];
    for (cluster, charts) in [("hub", "tombolo-hub"), ("member2", "tombolo-agent")] {
        let kubectl = fleet.bed.kubectl(cluster);
        kubectl.run(&[&["delete"], &kinds[..]].concat())?;
        let crds = format!("{}/../charts/{charts}/crds", env!("CARGO_MANIFEST_DIR"));
        kubectl.run(&["apply", "--server-side", "-f", &crds])?;
        kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", "-f", &crds])?;
        if cluster == "hub" {
            scene.apply(HUB, [import.clone()]).await?;
        }
        // It goes on where it was: what is exported now is reached.
        scene.apply(1, [slice(1, HTTP, 2)]).await?;
        until("its endpoints follow", PATIENCE, async || {
            let found = reached(&scene, 2).await?;
            ensure!(found == ["member1 http:8080 10.1.0.1,10.1.0.2"], "it reaches {found:?}");
            Ok(())
        })
        .await?;
        scene.apply(1, [slice(1, HTTP, 1)]).await?;
        let after = scene.find(2, "Service derived-serve").await?;
        ensure!(
            after["metadata"]["uid"] == before["metadata"]["uid"],
            "in {cluster}: it is another: {after}"
        );
        // Nobody was asked to import it but member2, which has it again.
        scene.arrives(&[2], "ServiceImport serve").await?;
        scene.is_absent(&[1], "ServiceImport serve").await?;
        ensure!(after["spec"]["clusterIP"] == before["spec"]["clusterIP"], "{after}");
    }
    Ok(())
}

pub(crate) async fn exports_whose_definition_an_exporter_loses_and_gets_again_withdraw_nothing(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[1, 2]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    let uids = async || -> Result<Vec<Value>> {
        Ok(picture(&scene, 2).await?.iter().map(|object| object["metadata"]["uid"].clone()).collect())
    };
    let before = uids().await?;
    let kubectl = fleet.bed.kubectl("member1");
    kubectl.run(&["delete", "crd", "serviceexports.multicluster.x-k8s.io"])?;
    let crds = format!("{}/../charts/tombolo-agent/crds", env!("CARGO_MANIFEST_DIR"));
    kubectl.run(&["apply", "--server-side", "-f", &crds])?;
    kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", "-f", &crds])?;
    // Both have seen by then that it exports nothing at the moment.
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(uids().await? == before, "something was withdrawn");
    scene.apply(1, [export(), slice(1, HTTP, 2)]).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    ensure!(uids().await? == before, "something was made anew");
    Ok(())
}

pub(crate) async fn a_member_that_leaves_keeps_no_derived_service_and_nobody_reaches_it_any_more(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[1, 2]).await?;
    let own = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "own", "port": 99, "protocol": "TCP" }] } });
    scene.apply(2, [object("ServiceImport", "mine", own)]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    exported(&scene, 2, HTTP, 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"]).await?;
    scene.arrives(&[2], "Service derived-mine").await?;
    let meant = json!({ "metadata": { "annotations": { "tombolo.dev/delete-while-exporting": "true" } } });
    scene.edit(HUB, "Cluster member2", meant).await?;
    let left = fleet.bed.tombolo(&["unjoin", "member2"]).await?;
    ensure!(left.status.success(), "{}", String::from_utf8_lossy(&left.stderr));
    // At once: it was waited for.
    scene.is_absent(&[2], "ServiceImport serve").await?;
    scene.is_absent(&[2], "Service derived-serve").await?;
    ensure!(slices(&scene, 2).await?.is_empty(), "slices are left");
    // What the user made stays.
    scene.find(2, "Service derived-mine").await?;
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1"]).await
}
