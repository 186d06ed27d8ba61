//! Imports made by hand: the derived Service, its address, and what is said on the ServiceImport.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo::decide::{derived::hashed_name, ids::ServiceKey};
use tombolo_e2e::{
    bed::Bed,
    scene::{Scene, object, with},
};

use super::ground::{HERE, address, condition, import, scene, service, settles, slice};

const IMPORT: &str = "ServiceImport serve";
const DERIVED: &str = "Service derived-serve";
const ANNOUNCED: &str = "/metadata/annotations/multicluster.kubernetes.io~1derived-service";

pub(crate) async fn d1_an_import_made_by_hand_gets_a_derived_service_whose_address_it_shows(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "by-hand").await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let ip = address(&scene, HERE, "serve").await?;
    condition(&scene, HERE, IMPORT, ("Ready", "True", "Ready")).await?;
    scene.still_says(HERE, DERIVED, "/spec/clusterIP", ip).await?;
    scene.still_says(HERE, DERIVED, "/spec/selector", json!(null)).await?;
    scene.still_says(HERE, DERIVED, "/metadata/ownerReferences", json!(null)).await?;
    scene.still_says(HERE, IMPORT, ANNOUNCED, "derived-serve").await?;
    scene.still_says(HERE, IMPORT, "/spec/ipFamilies", json!(["IPv4"])).await?;
    scene.still_says(HERE, IMPORT, "/status/endpointSliceObjects", "Present").await
}

pub(crate) async fn a_derived_service_follows_its_import_and_what_somebody_edits_is_put_right(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "kept-current").await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let ip = address(&scene, HERE, "serve").await?;
    let more = json!({
        "ports": [
            { "name": "web", "port": 8080, "protocol": "TCP", "appProtocol": "http" },
            { "name": "dns", "port": 53, "protocol": "UDP" },
        ],
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 7 } },
        "internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose",
    });
    scene.apply(HERE, [import("serve", more)]).await?;
    scene.says(HERE, DERIVED, "/spec/ports/1/port", 53).await?;
    scene.still_says(HERE, DERIVED, "/spec/ports/0/port", 8080).await?;
    scene.still_says(HERE, DERIVED, "/spec/ports/0/appProtocol", "http").await?;
    scene.still_says(HERE, DERIVED, "/spec/ports/2", json!(null)).await?;
    scene.still_says(HERE, DERIVED, "/spec/sessionAffinityConfig/clientIP/timeoutSeconds", 7).await?;
    scene.still_says(HERE, DERIVED, "/spec/internalTrafficPolicy", "Local").await?;
    scene.still_says(HERE, DERIVED, "/spec/trafficDistribution", "PreferClose").await?;
    scene.edit(HERE, DERIVED, json!({ "spec": { "selector": { "app": "evil" }, "sessionAffinity": "None", "sessionAffinityConfig": null } })).await?;
    scene.says(HERE, DERIVED, "/spec/selector", json!(null)).await?;
    scene.says(HERE, DERIVED, "/spec/sessionAffinity", "ClientIP").await?;
    scene.edit(HERE, DERIVED, json!({ "metadata": { "labels": null } })).await?;
    scene.says(HERE, DERIVED, "/metadata/labels/tombolo.dev~1import", "serve").await?;
    scene.still_says(HERE, DERIVED, "/spec/clusterIP", ip).await
}

pub(crate) async fn d2_a_headless_import_gets_a_headless_service_and_may_change_its_type(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "headless").await?;
    scene.apply(HERE, [import("serve", json!({ "type": "Headless" }))]).await?;
    condition(&scene, HERE, IMPORT, ("Ready", "True", "Ready")).await?;
    scene.still_says(HERE, DERIVED, "/spec/clusterIP", "None").await?;
    scene.still_says(HERE, IMPORT, "/spec/ips", json!(null)).await?;
    scene.still_says(HERE, IMPORT, "/spec/ipFamilies", json!(["IPv4"])).await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let ip = address(&scene, HERE, "serve").await?;
    scene.apply(HERE, [import("serve", json!({ "type": "Headless" }))]).await?;
    scene.says(HERE, DERIVED, "/spec/clusterIP", "None").await?;
    scene.says(HERE, IMPORT, "/spec/ips", json!(null)).await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let again = address(&scene, HERE, "serve").await?;
    ensure!(ip == again, "it had {ip} and has {again} now");
    Ok(())
}

pub(crate) async fn e2_a_derived_service_that_a_user_deletes_comes_back_with_the_same_address(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "same-address").await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let ip = address(&scene, HERE, "serve").await?;
    // API servers free an address a moment after its Service is gone: often enough that moment is to be waited for.
    for _ in 0..10 {
        let uid = scene.field(HERE, DERIVED, "/metadata/uid").await?;
        scene.delete(HERE, &[DERIVED]).await?;
        scene.arrives(&[HERE], DERIVED).await?;
        ensure!(scene.field(HERE, DERIVED, "/metadata/uid").await? != uid, "it was not deleted");
        scene.still_says(HERE, DERIVED, "/spec/clusterIP", ip.clone()).await?;
    }
    Ok(())
}

pub(crate) async fn e4_addresses_are_in_the_order_of_the_families_and_the_first_stays(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "dual").await?;
    scene.apply(HERE, [import("serve", json!({ "ipFamilies": ["IPv6", "IPv4"] }))]).await?;
    address(&scene, HERE, "serve").await?;
    let both = scene.field(HERE, DERIVED, "/spec/clusterIPs").await?;
    scene.still_says(HERE, IMPORT, "/spec/ips", both.clone()).await?;
    ensure!(both[0].as_str().is_some_and(|ip| ip.contains(':')) && both[1].is_string(), "{both}");
    scene.still_says(HERE, IMPORT, "/spec/ipFamilies", json!(["IPv6", "IPv4"])).await?;
    for _ in 0..10 {
        scene.delete(HERE, &[DERIVED]).await?;
        scene.arrives(&[HERE], DERIVED).await?;
        scene.still_says(HERE, DERIVED, "/spec/clusterIPs/0", both[0].clone()).await?;
        scene.says(HERE, DERIVED, "/spec/clusterIPs", both.clone()).await?;
    }

    // A family less, and one more: the first one is for life.
    scene.apply(HERE, [import("serve", json!({ "ipFamilies": ["IPv6"] }))]).await?;
    scene.says(HERE, IMPORT, "/spec/ips", json!([both[0]])).await?;
    scene.says(HERE, DERIVED, "/spec/clusterIPs", json!([both[0]])).await?;
    scene.apply(HERE, [import("serve", json!({ "ipFamilies": ["IPv4", "IPv6"] }))]).await?;
    scene.says(HERE, IMPORT, "/spec/ipFamilies", json!(["IPv6", "IPv4"])).await?;
    scene.still_says(HERE, DERIVED, "/spec/clusterIPs/0", both[0].clone()).await
}

pub(crate) async fn a_users_own_service_of_that_name_is_left_alone_and_another_name_is_taken(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "taken").await?;
    scene.apply(HERE, [service("derived-serve", json!({ "selector": { "app": "mine" } }))]).await?;
    let before = scene.field(HERE, DERIVED, "/metadata/resourceVersion").await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let ip = address(&scene, HERE, "serve").await?;
    let hashed = hashed_name(&ServiceKey::parse("taken", "serve")?);
    scene.still_says(HERE, &format!("Service {hashed}"), "/spec/clusterIP", ip).await?;
    scene.still_says(HERE, IMPORT, ANNOUNCED, hashed.as_str()).await?;
    // The name stays, even if the other one is free again.
    scene.still_says(HERE, DERIVED, "/metadata/resourceVersion", before).await?;
    scene.delete(HERE, &[DERIVED]).await?;
    settles(&scene, HERE).await?;
    scene.is_absent(&[HERE], DERIVED).await?;
    scene.delete(HERE, &[IMPORT]).await?;
    scene.goes(&[HERE], &format!("Service {hashed}")).await
}

pub(crate) async fn a_derived_service_goes_a_little_after_its_import(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "afterlife").await?;
    // A user's clone of a derived Service is the user's.
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let ip = address(&scene, HERE, "serve").await?;
    let mut clone = scene.find(HERE, DERIVED).await?;
    let spec = json!({ "ports": [{ "port": 80 }] });
    let metadata = json!({ "name": "clone", "labels": clone["metadata"]["labels"].take(), "annotations": clone["metadata"]["annotations"].take() });
    scene
        .apply(HERE, [json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec })])
        .await?;
    scene.delete(HERE, &[IMPORT]).await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let again = address(&scene, HERE, "serve").await?;
    ensure!(ip == again, "made again at once it got {again} after {ip}");
    condition(&scene, HERE, IMPORT, ("Ready", "True", "Ready")).await?;
    scene.delete(HERE, &[IMPORT]).await?;
    scene.goes(&[HERE], DERIVED).await?;
    scene.find(HERE, "Service clone").await.map(drop)
}

pub(crate) async fn addresses_that_a_user_presets_are_used_where_the_range_allows_and_left_alone_where_not(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "preset").await?;
    scene.apply(HERE, [import("first", json!({}))]).await?;
    let free = address(&scene, HERE, "first").await?;
    scene.delete(HERE, &["ServiceImport first"]).await?;
    scene.goes(&[HERE], "Service derived-first").await?;
    scene.apply(HERE, [import("second", json!({ "ips": [free] }))]).await?;
    condition(&scene, HERE, "ServiceImport second", ("Ready", "True", "Ready")).await?;
    scene.still_says(HERE, "Service derived-second", "/spec/clusterIP", free).await?;
    scene.apply(HERE, [import("third", json!({ "ips": ["192.0.2.9"] }))]).await?;
    let message = condition(&scene, HERE, "ServiceImport third", ("Ready", "False", "Pending")).await?;
    ensure!(message.contains("192.0.2.9") && message.contains("range"), "{message}");
    scene.still_says(HERE, "ServiceImport third", "/spec/ips", json!(["192.0.2.9"])).await
}

pub(crate) async fn an_import_without_ports_waits_for_them(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "no-ports").await?;
    scene.apply(HERE, [import("serve", json!({ "ports": [] }))]).await?;
    condition(&scene, HERE, IMPORT, ("Ready", "False", "Pending")).await?;
    scene.is_absent(&[HERE], DERIVED).await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    condition(&scene, HERE, IMPORT, ("Ready", "True", "Ready")).await.map(drop)
}

pub(crate) async fn slices_made_by_hand_are_linked_once_and_never_taken_from_another_service(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "linked").await?;
    let imported = |name: &str, linked: Value| {
        let labels = json!({ "multicluster.kubernetes.io/service-name": "serve", "kubernetes.io/service-name": linked });
        with(slice(name, "", 1), json!({ "metadata": { "labels": labels } }))
    };
    scene.apply(HERE, [imported("one", json!(null)), imported("two", json!("other"))]).await?;
    scene.apply(HERE, [import("serve", json!({}))]).await?;
    let linked = "/metadata/labels/kubernetes.io~1service-name";
    scene.says(HERE, "EndpointSlice one", linked, "derived-serve").await?;
    let message = condition(&scene, HERE, IMPORT, ("Ready", "True", "Ready")).await?;
    ensure!(message.contains("two to other"), "{message}");
    scene.still_says(HERE, "EndpointSlice two", linked, "other").await?;
    scene.apply(HERE, [imported("three", json!(null))]).await?;
    scene.says(HERE, "EndpointSlice three", linked, "derived-serve").await?;
    scene.delete(HERE, &[IMPORT]).await?;
    scene.goes(&[HERE], DERIVED).await?;
    for name in ["one", "two", "three"] {
        scene.find(HERE, &format!("EndpointSlice {name}")).await.context("a user's slice stays")?;
    }
    Ok(())
}

/// As the hub would write one.
pub(crate) fn hubs_import(scene: &Scene, name: &str, clusters: &[&str]) -> (Value, Value) {
    let origin = json!({
        "format": 1, "hub": "a-hub", "template": "a-template", "group": "multicluster.x-k8s.io", "kind": "ServiceImport",
        "namespace": scene.namespace, "name": name,
    });
    let marks = json!({ "metadata": {
        "labels": { "tombolo.dev/hub": "a-hub" }, "annotations": { "tombolo.dev/origin": origin.to_string() },
    } });
    let clusters: Vec<_> = clusters.iter().map(|cluster| json!({ "cluster": cluster })).collect();
    (
        with(import(name, json!({})), marks),
        object("ServiceImport", name, json!({ "status": { "clusters": clusters } })),
    )
}

/// Writes the status of an import as the hub would.
pub(crate) async fn apply_status(scene: &Scene, member: usize, import: Value) -> Result<()> {
    use kube::{
        Api,
        api::{ApiResource, DynamicObject, Patch, PatchParams},
        core::GroupVersionKind,
    };
    let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ServiceImport");
    let api: Api<DynamicObject> =
        Api::namespaced_with(scene.client(member).clone(), &scene.namespace, &ApiResource::from_gvk(&kind));
    let name = import["metadata"]["name"].as_str().context("it has a name")?.to_owned();
    api.patch_status(&name, &PatchParams::apply("hub").force(), &Patch::Apply(import)).await?;
    Ok(())
}
