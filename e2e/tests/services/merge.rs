//! One service out of several exports.

use std::sync::Arc;

use anyhow::{Result, ensure};
use tombolo_e2e::bed::Bed;

use super::ground::*;

pub(crate) async fn g1_g15_a_conflict_is_told_on_all_exports_and_its_end_too(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "conflict", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    condition(&scene, 1, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    // A later second: exports are as old as their creation says.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    exported(&scene, 2, &[("http", 8080)], 1).await?;
    for member in [1, 2] {
        let message =
            condition(&scene, member, "ServiceExport serve", ("Conflict", "True", "PortConflict")).await?;
        ensure!(message.contains("\"member1\"") && message.contains("1/2"), "{message}");
    }
    // The older one's traffic goes on; the younger one's port is withheld.
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1", "member2  "]).await?;
    scene.apply(2, service(2, &[("http", 80)], 1)).await?;
    for member in [1, 2] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    }
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"]).await
}

pub(crate) async fn g5_g7_ports_are_a_union_and_a_losing_one_is_withheld(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "union", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("http", 80), ("admin", 90)], 1).await?;
    reaches(&scene, 3, &["member1 admin:8090,http:8080 10.1.0.1"]).await?;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    exported(&scene, 2, &[("http", 81), ("more", 70)], 1).await?;
    reaches(&scene, 3, &["member1 admin:8090,http:8080 10.1.0.1", "member2 more:8070 10.2.0.1"]).await?;
    let ports = scene.field(3, "ServiceImport serve", "/spec/ports").await?;
    let mut names: Vec<_> = ports
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| format!("{}:{}", port["name"], port["port"]))
        .collect();
    names.sort();
    ensure!(names == ["\"admin\":90", "\"http\":80", "\"more\":70"], "{names:?}");
    Ok(())
}
