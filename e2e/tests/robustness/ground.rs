//! What these tests share: hubs, policies, and the ConfigMaps that they watch go round.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tombolo::api::{Cluster, PropagationPolicy};
use tombolo_e2e::{
    audit::{Mark, Request},
    bed::Bed,
    process::Identity,
    scene::{HUB, Scene, object, places},
    tombolo::{Component, Manner, binary},
    wait::until,
};

use crate::words;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The label that the hub puts on what it writes.
pub(crate) const OURS: &str = "tombolo.dev/hub";

/// Objects by name: what they say.
pub(crate) type Contents = BTreeMap<String, BTreeMap<String, String>>;

/// Tombolo as cargo builds it here.
pub(crate) async fn program() -> Result<PathBuf> {
    tokio::task::spawn_blocking(binary).await?
}

/// Installs what a hub needs, and starts one.
pub(crate) async fn hub(bed: &Bed, flags: &[&str]) -> Result<Component> {
    bed.prepare_hub()?;
    again(bed, flags).await
}

/// Starts another hub in the place of one that is gone.
pub(crate) async fn again(bed: &Bed, flags: &[&str]) -> Result<Component> {
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    bed.start_hub(&program().await?, "tombolo-hub", &flags).await
}

/// Whether a hub leads.
pub(crate) async fn leads(hub: &Component) -> Result<bool> {
    let metrics = hub.says("/metrics").await?;
    match metrics.lines().find_map(|line| line.strip_prefix("tombolo_leader{role=\"hub\"} ")) {
        Some(leads) => Ok(leads == "1"),
        None => bail!("no such metric"),
    }
}

/// Sends a signal to a hub.
pub(crate) fn signal(hub: &Component, signal: Signal) -> Result<()> {
    Identity::of(hub.pid()).context("it does not run")?.signal(signal);
    Ok(())
}

/// Stops a hub as Kubernetes does, and waits until it is gone.
pub(crate) async fn stop(hub: Component) -> Result<()> {
    let process = Identity::of(hub.pid()).context("it does not run")?;
    process.signal(Signal::TERM);
    until("the hub is gone", PATIENCE, async || {
        ensure!(!process.is_alive(), "it runs");
        Ok(())
    })
    .await
}

pub(crate) async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// Gives all members what an agent needs, and starts one in each: before they are registered.
pub(crate) async fn agents(bed: &Bed) -> Result<Vec<Component>> {
    let (program, mut agents) = (program().await?, Vec::new());
    for member in 1..=bed.members.len() {
        bed.prepare_member(member)?;
        agents.push(bed.start_agent(&program, member, "tombolo-agent", &[], Manner::default()).await?);
    }
    Ok(agents)
}

/// What member 2 reaches of the service of member 1.
pub(crate) const REACHED: &str = "member1 http:8080 10.1.0.1";

/// A service of member 1 that policies of the hub export there and import in member 2.
pub(crate) async fn share(scene: &Scene) -> Result<()> {
    scene.apply(1, words::service(1, &[("http", 80)], 1)).await?;
    let import = object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": [] } }));
    scene.apply(HUB, [words::export(), places("exports", &["ServiceExport serve"], &[1])]).await?;
    scene.apply(HUB, [import, places("imports", &["ServiceImport serve"], &[2])]).await?;
    words::reaches(scene, 2, &[REACHED]).await?;
    words::address(scene, 2).await?;
    words::condition(scene, 1, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    words::condition(scene, HUB, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
    for member in &scene.bed.members {
        let cluster = format!("Cluster {}", member.name);
        words::condition(scene, HUB, &cluster, ("AgentReady", "True", "AgentReady")).await?;
    }
    Ok(())
}

/// Writes a policy that brings the ConfigMaps with a label to clusters; to all if none are named.
pub(crate) async fn place(hub: &Client, namespace: &str, group: &str, clusters: &[String]) -> Result<()> {
    let placement = if clusters.is_empty() {
        json!({})
    } else {
        json!({ "clusterAffinity": { "clusterNames": clusters } })
    };
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": { "name": group },
        "spec": {
            "resourceSelectors": [{
                "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": { "matchLabels": { "group": group } },
            }],
            "placement": placement,
        },
    });
    let policies: Api<PropagationPolicy> = Api::namespaced(hub.clone(), namespace);
    policies.patch(group, &PatchParams::apply("user").force(), &Patch::Apply(policy)).await?;
    Ok(())
}

/// Writes a ConfigMap.
pub(crate) async fn put(
    client: &Client,
    namespace: &str,
    name: &str,
    group: &str,
    value: &str,
) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": { "group": group } },
        "data": { "value": value },
    });
    maps(client, namespace).patch(name, &PatchParams::apply("user").force(), &Patch::Apply(map)).await?;
    Ok(())
}

pub(crate) fn maps(client: &Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), namespace)
}

/// What the hub has written to a namespace of a member.
pub(crate) async fn copies(member: &Client, namespace: &str) -> Result<Contents> {
    let all = maps(member, namespace).list(&ListParams::default().labels(OURS)).await?;
    Ok(all.into_iter().map(|map| (map.name_any(), map.data.unwrap_or_default())).collect())
}

/// Waits until a ConfigMap in a member says something.
pub(crate) async fn until_says(member: &Client, namespace: &str, name: &str, value: &str) -> Result<()> {
    let api = maps(member, namespace);
    until(&format!("{name} says {value}"), PATIENCE, async || {
        let data = api.get(name).await?.data.unwrap_or_default();
        ensure!(data.get("value").map(String::as_str) == Some(value), "it says {data:?}");
        Ok(())
    })
    .await
}

/// The Ready condition of a member, as truth and reason, and the keys of its taints.
pub(crate) async fn condition(hub: &Client, name: &str) -> Result<(String, String, Vec<String>)> {
    let cluster = Api::<Cluster>::all(hub.clone()).get(name).await?;
    let taints = cluster.spec.taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
    let conditions = cluster.status.context("it has no status")?.conditions;
    let ready =
        conditions.into_iter().find(|condition| condition.type_ == "Ready").context("it says nothing")?;
    Ok((ready.status, ready.reason, taints))
}

/// The ends of all audit logs, by cluster.
pub(crate) fn marks(bed: &Bed) -> Result<Vec<(String, Mark)>> {
    bed.clusters().map(|cluster| Ok((cluster.name.clone(), bed.audit(&cluster.name).mark()?))).collect()
}

/// What the hub changed since, anywhere, as text.
pub(crate) fn changes(bed: &Bed, marks: &[(String, Mark)]) -> Result<Vec<(String, Request)>> {
    let mut all = Vec::new();
    for (cluster, mark) in marks {
        all.extend(bed.audit(cluster).by_hub(*mark)?.into_iter().map(|request| (cluster.clone(), request)));
    }
    Ok(all)
}

/// Waits until the hub has changed nothing anywhere for a while.
pub(crate) async fn until_quiet(bed: &Bed, time: Duration) -> Result<()> {
    until("the hub is quiet", PATIENCE, async || {
        let marks = marks(bed)?;
        tokio::time::sleep(time).await;
        let changes = changes(bed, &marks)?;
        ensure!(changes.is_empty(), "it goes on: {}", told(&changes));
        Ok(())
    })
    .await
}

pub(crate) fn told(changes: &[(String, Request)]) -> String {
    changes.iter().map(|(cluster, request)| format!("\n{cluster}: {request}")).collect()
}

/// More of a Cluster than the way into it: nothing.
pub(crate) fn nothing() -> Value {
    json!({})
}
