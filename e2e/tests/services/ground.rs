//! What these tests share: Services with endpoints, exports, and words for what importers see.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tombolo_e2e::{
    bed::Bed,
    fleet::until_ready,
    scene::{HUB, PATIENCE, Scene, object, with},
    wait::until,
};

static READY: OnceCell<()> = OnceCell::const_new();

/// A scene in a namespace that the given members have; the hub has it if asked for.
pub(crate) async fn scene(bed: &Arc<Bed>, namespace: &str, places: &[usize]) -> Result<Scene> {
    READY
        .get_or_try_init(async || {
            for member in &bed.members {
                until_ready(&bed.hub.client, &member.name, "True").await?;
            }
            anyhow::Ok(())
        })
        .await?;
    let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
    for place in places {
        scene.apply(*place, [scene.here()]).await?;
    }
    Ok(scene)
}

/// A Service of the given ports, each with a name and a number, and a slice with endpoints from `10.<member>.0.1` on.
pub(crate) fn service(member: usize, ports: &[(&str, u16)], endpoints: usize) -> [Value; 2] {
    let of_service: Vec<_> = ports
        .iter()
        .map(|(name, port)| json!({ "name": name, "port": port, "targetPort": 8000 + port }))
        .collect();
    [object("Service", "serve", json!({ "spec": { "ports": of_service } })), slice(member, ports, endpoints)]
}

pub(crate) fn slice(member: usize, ports: &[(&str, u16)], endpoints: usize) -> Value {
    let ports: Vec<_> = ports
        .iter()
        .map(|(name, port)| json!({ "name": name, "port": 8000 + port, "protocol": "TCP" }))
        .collect();
    let endpoints: Vec<_> = (1..=endpoints)
        .map(|number| {
            json!({ "addresses": [format!("10.{member}.0.{number}")], "conditions": { "ready": true }, "zone": "zone-a",
                    "hostname": format!("pod-{number}"), "nodeName": "node-a" })
        })
        .collect();
    let labels = json!({ "metadata": { "labels": { "kubernetes.io/service-name": "serve" } } });
    let body = json!({ "addressType": "IPv4", "endpoints": endpoints, "ports": ports });
    with(object("EndpointSlice", "serve-1", body), labels)
}

pub(crate) fn export() -> Value {
    object("ServiceExport", "serve", json!({}))
}

/// Exports `serve` in a member.
pub(crate) async fn exported(
    scene: &Scene,
    member: usize,
    ports: &[(&str, u16)],
    endpoints: usize,
) -> Result<()> {
    scene.apply(member, service(member, ports, endpoints)).await?;
    scene.apply(member, [export()]).await
}

/// The slices of other clusters and its own that a member's import of `serve` has.
pub(crate) async fn slices(scene: &Scene, member: usize) -> Result<Vec<EndpointSlice>> {
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(member).clone(), &scene.namespace);
    let of_import = ListParams::default().labels("multicluster.kubernetes.io/service-name=serve");
    let mut slices = api.list(&of_import).await?.items;
    slices.sort_by_key(ResourceExt::name_any);
    Ok(slices)
}

/// What a member's import reaches: `member1 http:8080 10.1.0.1,10.1.0.2`, a line for each slice.
pub(crate) async fn reached(scene: &Scene, member: usize) -> Result<Vec<String>> {
    let lines = slices(scene, member).await?.into_iter().map(|slice| {
        let labels = slice.metadata.labels.unwrap_or_default();
        let from = labels.get("multicluster.kubernetes.io/source-cluster").cloned().unwrap_or_default();
        let ports = slice.ports.iter().flatten();
        let mut ports: Vec<_> = ports
            .map(|port| {
                format!("{}:{}", port.name.as_deref().unwrap_or_default(), port.port.unwrap_or_default())
            })
            .collect();
        ports.sort();
        let addresses: Vec<_> =
            slice.endpoints.iter().flat_map(|endpoint| endpoint.addresses.clone()).collect();
        format!("{from} {} {}", ports.join(","), addresses.join(","))
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    Ok(lines)
}

/// Waits until a member's import reaches exactly that.
pub(crate) async fn reaches(scene: &Scene, member: usize, wanted: &[&str]) -> Result<()> {
    until(&format!("member{member} reaches {wanted:?}"), PATIENCE, async || {
        let found = reached(scene, member).await?;
        ensure!(found == wanted, "it reaches {found:?}");
        Ok(())
    })
    .await
}

/// Waits until a member has the import with an address, and gives that back.
pub(crate) async fn address(scene: &Scene, member: usize) -> Result<String> {
    until(&format!("member{member} has an address for it"), PATIENCE, async || {
        let ip = scene.field(member, "ServiceImport serve", "/spec/ips/0").await?;
        let ip = ip.as_str().context("it is no text")?.to_owned();
        let derived = scene.field(member, "Service derived-serve", "/spec/clusterIP").await?;
        ensure!(derived == ip.as_str(), "the derived Service has {derived}, not {ip}");
        Ok(ip)
    })
    .await
}

/// Waits until a condition of an object is so, and gives back its message.
pub(crate) async fn condition(
    scene: &Scene,
    place: usize,
    what: &str,
    wanted: (&str, &str, &str),
) -> Result<String> {
    let (kind, status, reason) = wanted;
    until(&format!("{kind} of {what} is {status} for {reason}"), PATIENCE, async || {
        let found = scene.field(place, what, "/status/conditions").await?;
        let of_kind = found.as_array().into_iter().flatten().find(|found| found["type"] == kind);
        let of_kind = of_kind.with_context(|| format!("it says {found}"))?;
        ensure!(of_kind["status"] == status && of_kind["reason"] == reason, "it says {of_kind}");
        Ok(of_kind["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

/// Waits until exactly these members have the import and its derived Service.
pub(crate) async fn imported_in_exactly(scene: &Scene, members: &[usize]) -> Result<()> {
    for member in 1..=3 {
        if members.contains(&member) {
            scene.arrives(&[member], "Service derived-serve").await?;
        } else {
            scene.goes(&[member], "ServiceImport serve").await?;
            scene.goes(&[member], "Service derived-serve").await?;
        }
    }
    Ok(())
}

/// The hub, which has a namespace only where a test asks for it.
pub(crate) const ON_THE_HUB: usize = HUB;
