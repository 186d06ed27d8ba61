//! Address families between clusters that have both and one that has IPv6 only.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{Scene, object, with},
};

use super::ground::Fleet;
use crate::words::*;

fn dual() -> Vec<Value> {
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
    let spec = json!({ "spec": { "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"], "ports": ports } });
    let slice = |name: &str, family: &str, address: &str| {
        let labels = json!({ "metadata": { "labels": { "kubernetes.io/service-name": "serve" } } });
        let body = json!({
            "addressType": family, "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        });
        with(object("EndpointSlice", name, body), labels)
    };
    let service = object("Service", "serve", spec);
    vec![service, slice("serve-4", "IPv4", "10.1.0.1"), slice("serve-6", "IPv6", "fd00:1::1"), export()]
}

async fn families(scene: &Scene, member: usize, wanted: &[&str]) -> Result<()> {
    scene.says(member, "ServiceImport serve", "/spec/ipFamilies", json!(wanted)).await?;
    let ips = scene.field(member, "ServiceImport serve", "/spec/ips").await?;
    let ips: Vec<_> = ips.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let are: Vec<_> = ips.iter().map(|ip| if ip.contains(':') { "IPv6" } else { "IPv4" }).collect();
    ensure!(are == wanted, "the addresses are {ips:?}");
    Ok(())
}

pub(crate) async fn b8_e1_e5_f11_g14_families_are_those_of_the_exports_that_an_importer_has(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[1, 2, 3]).await?;
    scene.apply(1, dual()).await?;
    for (member, wanted) in [(2, &["IPv4", "IPv6"][..]), (3, &["IPv6"])] {
        address(&scene, member).await?;
        families(&scene, member, wanted).await?;
        condition(&scene, member, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
        let both = ["member1 http:8080 10.1.0.1", "member1 http:8080 fd00:1::1"];
        reaches(&scene, member, &both).await?;
        for slice in slices(&scene, member).await? {
            let family = if slice.endpoints[0].addresses[0].contains(':') { "IPv6" } else { "IPv4" };
            ensure!(slice.address_type == family, "{slice:?}");
        }
    }
    let before = address(&scene, 2).await?;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    // One that lacks the family of the first address is not reached by it, and takes it from nobody.
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
    let one = || [object("Service", "serve", json!({ "spec": { "ports": ports } })), export()];
    scene.apply(3, one()).await?;
    for member in [1, 3] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "True", "IPFamilyConflict")).await?;
    }
    families(&scene, 2, &["IPv4", "IPv6"]).await?;
    ensure!(address(&scene, 2).await? == before, "its address changed");
    scene.delete(3, &["ServiceExport serve"]).await?;
    condition(&scene, 1, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    // Through the family that both have all pods are reached: no conflict.
    exported(&scene, 2, &[("http", 80)], 1).await?;
    condition(&scene, 2, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    ensure!(address(&scene, 2).await? == before, "its address changed");
    // One that has neither of them in common with the older ones is not reached by anybody.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    scene.apply(3, one()).await?;
    for member in [1, 2, 3] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "True", "IPFamilyConflict")).await?;
    }
    ensure!(address(&scene, 2).await? == before, "its address changed");
    scene.delete(3, &["ServiceExport serve"]).await?;
    for member in [1, 2] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    }
    Ok(())
}
