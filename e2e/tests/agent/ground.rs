//! What these tests share: agents, Services, slices, exports and imports.

#![expect(clippy::needless_pass_by_value, reason = "what is made on the spot is given away")]

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tombolo::membership::agent::{IMAGE, manifests as agent_manifests};
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, Scene, object},
    tombolo::{Component, Identity, Manner, binary},
    wait::until,
};

/// The member that most tests share.
pub(crate) const HERE: usize = 1;

static SHARED: OnceCell<Component> = OnceCell::const_new();

/// A scene in a namespace of its own in the member that tests share, with its agent.
pub(crate) async fn scene(bed: &Arc<Bed>, namespace: &str) -> Result<Scene> {
    SHARED.get_or_try_init(|| first_agent(bed)).await?;
    scene_in(bed, HERE, namespace).await
}

/// A scene in a namespace of a member.
pub(crate) async fn scene_in(bed: &Arc<Bed>, member: usize, namespace: &str) -> Result<Scene> {
    let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
    scene.apply(member, [scene.here()]).await?;
    Ok(scene)
}

/// An agent with the rights that joining gives it, and no others. It is there before what it works with: it waits, and says that it is
/// ready.
async fn first_agent(bed: &Arc<Bed>) -> Result<Component> {
    give_rights(bed, HERE).await?;
    let program = tokio::task::spawn_blocking(binary).await??;
    let manner = Manner { identity: Identity::User, wait: true };
    let agent = bed.start_agent(&program, HERE, "tombolo-agent", &[], manner).await?;
    bed.prepare_member(HERE)?;
    mark(bed, HERE).await?;
    Ok(agent)
}

/// Gives a user the agent's rights as `tombolo join` gives them to its account.
async fn give_rights(bed: &Arc<Bed>, member: usize) -> Result<()> {
    let scene = Scene { bed: bed.clone(), namespace: "tombolo-system".to_owned() };
    for manifest in agent_manifests(IMAGE) {
        let mut manifest = serde_json::to_value(manifest)?;
        if manifest.get("subjects").is_some() {
            let group = "rbac.authorization.k8s.io";
            manifest["subjects"] = json!([{ "apiGroup": group, "kind": "User", "name": "tombolo-agent" }]);
        }
        if manifest["kind"] != "Deployment" {
            scene.apply(member, [manifest]).await?;
        }
    }
    Ok(())
}

/// Says what a member is called, as joining does.
async fn mark(bed: &Arc<Bed>, member: usize) -> Result<()> {
    let scene = Scene { bed: bed.clone(), namespace: "tombolo-system".to_owned() };
    let data = json!({ "hub": "a-hub", "cluster": format!("member{member}") });
    scene.apply(member, [object("ConfigMap", "tombolo-member", json!({ "data": data }))]).await
}

/// Starts an agent.
pub(crate) async fn agent(bed: &Arc<Bed>, member: usize, name: &str) -> Result<Component> {
    let program = tokio::task::spawn_blocking(binary).await??;
    bed.start_agent(&program, member, name, &[], Manner::default()).await
}

/// A Service that nobody but its user gives endpoints.
pub(crate) fn service(name: &str, spec: Value) -> Value {
    let ports = json!({ "spec": { "ports": [{ "name": "web", "port": 80, "targetPort": 8080 }] } });
    tombolo_e2e::scene::with(object("Service", name, ports), json!({ "spec": spec }))
}

/// A slice of a Service, made by hand, with endpoints from 10.1.0.1 on.
pub(crate) fn slice(name: &str, service: &str, endpoints: usize) -> Value {
    let endpoints: Vec<_> = (0..endpoints)
        .map(|number| json!({ "addresses": [format!("10.1.{}.{}", number / 250, number % 250 + 1)], "conditions": { "ready": true } }))
        .collect();
    let more = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{ "name": "web", "port": 8080, "protocol": "TCP" }],
    });
    object("EndpointSlice", name, more)
}

pub(crate) fn export(name: &str) -> Value {
    object("ServiceExport", name, json!({}))
}

/// A ServiceImport of one port, made by hand.
pub(crate) fn import(name: &str, spec: Value) -> Value {
    let ports = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "web", "port": 80, "protocol": "TCP" }] } });
    tombolo_e2e::scene::with(object("ServiceImport", name, ports), json!({ "spec": spec }))
}

/// Waits until a condition of an object has this status and reason, and gives back its message.
pub(crate) async fn condition(
    scene: &Scene,
    member: usize,
    what: &str,
    wanted: (&str, &str, &str),
) -> Result<String> {
    let (condition, status, reason) = wanted;
    until(&format!("{condition} of {what} is {status} for {reason}"), PATIENCE, async || {
        let found = scene.field(member, what, "/status/conditions").await?;
        let of_type = found.as_array().into_iter().flatten().find(|found| found["type"] == condition);
        let of_type = of_type.with_context(|| format!("it says {found}"))?;
        ensure!(of_type["status"] == status && of_type["reason"] == reason, "it says {of_type}");
        Ok(of_type["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

/// The slices with a label, by name.
pub(crate) async fn slices(scene: &Scene, member: usize, selector: &str) -> Result<Vec<EndpointSlice>> {
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(member).clone(), &scene.namespace);
    let mut slices = api.list(&ListParams::default().labels(selector)).await?.items;
    slices.sort_by_key(ResourceExt::name_any);
    Ok(slices)
}

/// Waits until the source slices of a service have so many endpoints each, in any order.
pub(crate) async fn sources(
    scene: &Scene,
    member: usize,
    name: &str,
    wanted: &[usize],
) -> Result<Vec<EndpointSlice>> {
    sizes(scene, member, &format!("tombolo.dev/source={name}"), wanted).await
}

/// Waits until slices with a label have so many endpoints each, in any order.
pub(crate) async fn sizes(
    scene: &Scene,
    member: usize,
    selector: &str,
    wanted: &[usize],
) -> Result<Vec<EndpointSlice>> {
    until(&format!("slices with {selector} have {wanted:?} endpoints"), PATIENCE, async || {
        let found = slices(scene, member, selector).await?;
        let mut sizes: Vec<_> = found.iter().map(|slice| slice.endpoints.len()).collect();
        sizes.sort_unstable();
        ensure!(sizes == wanted, "they have {sizes:?}");
        Ok(found)
    })
    .await
}

/// Waits until an import shows an address, and gives it back.
pub(crate) async fn address(scene: &Scene, member: usize, name: &str) -> Result<String> {
    until(&format!("ServiceImport {name} has an address"), PATIENCE, async || {
        let ip = scene.field(member, &format!("ServiceImport {name}"), "/spec/ips/0").await?;
        Ok(ip.as_str().context("it is no text")?.to_owned())
    })
    .await
}

/// Waits until the agent has seen to all that was done before in a namespace: something that comes later is done.
pub(crate) async fn settles(scene: &Scene, member: usize) -> Result<()> {
    for round in 0..2 {
        let name = format!("marker-{round}");
        scene.apply(member, [export(&name)]).await?;
        let what = format!("ServiceExport {name}");
        condition(scene, member, &what, ("Valid", "False", "NoService")).await?;
        scene.delete(member, &[&what]).await?;
    }
    Ok(())
}

/// What the agent wrote to a namespace since then, without what [`settles`] made it write.
pub(crate) fn written(scene: &Scene, member: usize, mark: tombolo_e2e::audit::Mark) -> Result<Vec<String>> {
    let cluster = format!("member{member}");
    let requests = scene.bed.audit(&cluster).by_agent(mark, &scene.namespace)?;
    let requests = requests.iter().filter(|request| !request.object_ref.name.starts_with("marker-"));
    Ok(requests.map(ToString::to_string).collect())
}
