//! A member whose API server says what none would store: what it says is refused, counted and told, and hurts nobody else.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    proxy::Proxy,
    scene::{HUB, PATIENCE, Scene, with},
    wait::until,
};

use super::ground::Fleet;
use crate::words::*;

/// The member that lies, one that does not, and one that gets of both what the hub writes.
const LIAR: usize = 1;
const HONEST: usize = 2;
const THIRD: usize = 3;
const CLUSTER: &str = "Cluster member1";

/// What the liar says, for what reason it is refused, and in which words.
type Lie = (Value, &'static str, &'static str);

/// Puts a proxy before a member.
async fn before(fleet: &Fleet, scene: &Scene, member: usize) -> Result<Proxy> {
    let proxy = Proxy::start(fleet.bed.member(member))?;
    let name = format!("Cluster member{member}");
    scene.edit(HUB, &name, json!({ "spec": { "apiEndpoint": proxy.url } })).await?;
    Ok(proxy)
}

/// The source slice that an agent wrote, as the liar has it.
async fn source(scene: &Scene) -> Result<Value> {
    until("there is a source slice", PATIENCE, async || {
        let api: kube::Api<k8s_openapi::api::discovery::v1::EndpointSlice> =
            kube::Api::namespaced(scene.client(LIAR).clone(), &scene.namespace);
        let found = api.list(&kube::api::ListParams::default().labels("tombolo.dev/source=serve")).await?;
        let slice = found.items.into_iter().next().context("there is none")?;
        let whole = json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice" });
        Ok(with(whole, serde_json::to_value(slice)?))
    })
    .await
}

fn with_addresses(good: &Value, family: &str, addresses: &[String]) -> Value {
    let endpoints: Vec<_> =
        addresses.iter().map(|one| json!({ "addresses": [one], "conditions": { "ready": true } })).collect();
    let mut slice = good.clone();
    slice["addressType"] = family.into();
    slice["endpoints"] = endpoints.into();
    slice
}

fn lies(good: &Value, export: &Value) -> Vec<Lie> {
    let one = |family: &str, address: &str| with_addresses(good, family, &[address.to_owned()]);
    let labelled =
        |key: &str, value: &str| with(good.clone(), json!({ "metadata": { "labels": { key: value } } }));
    let many: Vec<_> =
        (0..10_000).map(|number| format!("10.1.{}.{}", number / 250, number % 250 + 1)).collect();
    let mut elsewhere = good.clone();
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let mut host = good.clone();
    host["endpoints"][0]["hostname"] = "a.b".into();
    let mut protocol = good.clone();
    protocol["ports"][0]["appProtocol"] = "a//b".into();
    let mut twice = good.clone();
    twice["ports"] = json!([good["ports"][0], good["ports"][0]]);
    let huge = "x".repeat(5 << 20);
    let record = json!({ "metadata": { "annotations": { "tombolo.dev/export-record": huge } } });
    let labels = json!({ "spec": { "exportedLabels": { "a": huge } } });
    vec![
        (labelled("multicluster.kubernetes.io/source-cluster", "member2"), "claim", "of cluster \"member2\""),
        (one("IPv4", "127.0.0.1"), "address", "127.0.0.1 is a loopback address"),
        (one("IPv6", "::ffff:127.0.0.1"), "address", "is an IPv4 address in disguise"),
        (one("IPv4", "169.254.169.254"), "address", "169.254.169.254 is link-local"),
        (one("IPv6", "ff02::1"), "address", "ff02::1 is a multicast address"),
        (one("IPv4", "10.77.0.1"), "range", "10.77.0.1 is in none of the cluster's endpoint ranges"),
        (elsewhere, "namespace", "the namespace kube-system takes no part"),
        (host, "garbage", "\"a.b\" names no host"),
        (protocol, "garbage", "\"a//b\" is no protocol"),
        (twice, "garbage", "two ports of the name \"http\""),
        (labelled("tombolo.dev/source", "other"), "claim", "of the service \"other\""),
        (with_addresses(good, "IPv4", &many), "size", "10000 endpoints"),
        (labelled("absurd", &huge), "size", "bytes of labels"),
        (with(export.clone(), record), "size", "of annotations"),
        (with(export.clone(), labels), "size", "bytes of labels and annotations"),
    ]
}

async fn counted(fleet: &Fleet, reason: &str) -> Result<u64> {
    let metrics = fleet.metrics().await?;
    let name = format!("tombolo_propagation_refused_total{{member=\"member1\",reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(Ok(0), |number| number.parse().context("a counter is a number"))
}

/// Waits until the Cluster says whether all of it is believed, and gives back what it says.
async fn trusted(scene: &Scene, wanted: (&str, &str)) -> Result<String> {
    condition(scene, HUB, CLUSTER, ("DataTrusted", wanted.0, wanted.1)).await
}

pub(crate) async fn what_a_hostile_member_says_is_refused_counted_and_told_and_nobody_else_is_hurt(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[LIAR, HONEST, THIRD]).await?;
    let ranges = json!({ "metadata": { "annotations": { "tombolo.dev/endpoint-cidrs": "10.1.0.0/16" } } });
    scene.edit(HUB, CLUSTER, ranges).await?;
    let proxy = before(&fleet, &scene, LIAR).await?;
    exported(&scene, LIAR, &[("http", 80)], 1).await?;
    let good = "member1 http:8080 10.1.0.1";
    for member in [HONEST, THIRD] {
        reaches(&scene, member, &[good]).await?;
    }
    trusted(&scene, ("True", "AllBelieved")).await?;

    let export = scene.find(LIAR, "ServiceExport serve").await?;
    for (lie, reason, words) in lies(&source(&scene).await?, &export) {
        let before = counted(&fleet, reason).await?;
        proxy.lie(lie)?;
        until(&format!("it says {words:?}"), PATIENCE, async || {
            let said = trusted(&scene, ("False", "Refused")).await?;
            ensure!(said.starts_with("1 object of member1: ") && said.contains(words), "it says {said}");
            ensure!(said.len() < 2000, "it says too much");
            Ok(())
        })
        .await
        .with_context(|| format!("{reason}, {words}"))?;
        ensure!(counted(&fleet, reason).await? == before + 1, "it is not counted as {reason}");
        others_are_served(&scene, good).await.with_context(|| format!("{reason}, {words}"))?;
        proxy.tell_the_truth();
        trusted(&scene, ("True", "AllBelieved")).await?;
    }
    // It goes on where it was.
    scene.apply(LIAR, [slice(LIAR, &[("http", 80)], 2)]).await?;
    reaches(&scene, HONEST, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    events(&fleet).await
}

/// While the liar lies, somebody else's service comes, changes and goes.
async fn others_are_served(scene: &Scene, good: &str) -> Result<()> {
    exported(scene, HONEST, &[("http", 80)], 1).await?;
    condition(scene, HONEST, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    for member in [HONEST, THIRD] {
        reaches(scene, member, &[good, "member2 http:8080 10.2.0.1"]).await?;
    }
    scene.apply(HONEST, [slice(HONEST, &[("http", 80)], 2)]).await?;
    for member in [HONEST, THIRD] {
        reaches(scene, member, &[good, "member2 http:8080 10.2.0.1,10.2.0.2"]).await?;
    }
    scene.delete(HONEST, &["ServiceExport serve"]).await?;
    for member in [HONEST, THIRD] {
        reaches(scene, member, &[good]).await?;
    }
    Ok(())
}

/// There are events of both kinds on the Cluster.
async fn events(fleet: &Fleet) -> Result<()> {
    let scene = Scene { bed: fleet.bed.clone(), namespace: "default".to_owned() };
    until("it is told by events", PATIENCE, async || {
        let notes = scene.events("member1").await?;
        let told = |words: &str| notes.iter().any(|note| note.contains(words));
        // Those that come within minutes are counted on the first.
        ensure!(told("it says that it is of cluster") && told("is believed"), "they are {notes:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn ranges_that_change_on_the_cluster_count_at_once(bed: Arc<Bed>) -> Result<()> {
    let mut fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[LIAR, HONEST]).await?;
    exported(&scene, LIAR, &[("http", 80)], 1).await?;
    let good = "member1 http:8080 10.1.0.1";
    reaches(&scene, HONEST, &[good]).await?;
    let key = "tombolo.dev/endpoint-cidrs";
    let ranges = |ranges: Value| json!({ "metadata": { "annotations": { key: ranges } } });
    // Others than its own: what it offers is withdrawn.
    scene.edit(HUB, CLUSTER, ranges("10.9.0.0/16".into())).await?;
    reaches(&scene, HONEST, &[]).await?;
    let said = trusted(&scene, ("False", "Refused")).await?;
    ensure!(said.contains(key), "the way out is not told: {said}");
    // A restart changes nothing of that.
    fleet.start_hub().await?;
    trusted(&scene, ("False", "Refused")).await?;
    scene.edit(HUB, CLUSTER, ranges("10.9.0.0/16,10.1.0.0/16".into())).await?;
    reaches(&scene, HONEST, &[good]).await?;
    trusted(&scene, ("True", "AllBelieved")).await?;
    // What changes while it is outside comes when it is inside.
    scene.edit(HUB, CLUSTER, ranges("10.1.0.1/32".into())).await?;
    scene.apply(LIAR, [slice(LIAR, &[("http", 80)], 2)]).await?;
    trusted(&scene, ("False", "Refused")).await?;
    reaches(&scene, HONEST, &[good]).await?;
    scene.edit(HUB, CLUSTER, ranges(Value::Null)).await?;
    reaches(&scene, HONEST, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    trusted(&scene, ("True", "AllBelieved")).await.map(drop)
}

pub(crate) async fn an_export_in_a_namespace_that_takes_no_part_is_counted_told_and_imported_by_nobody(
    bed: Arc<Bed>,
) -> Result<()> {
    let fleet = Fleet::start(bed).await?;
    let excluded = fleet.scene("kube-system", &[]).await?;
    let before = counted(&fleet, "namespace").await?;
    exported(&excluded, LIAR, &[("http", 80)], 1).await?;
    let said = trusted(&excluded, ("False", "Refused")).await?;
    ensure!(said.contains("the namespace kube-system takes no part"), "it says {said}");
    let after = counted(&fleet, "namespace").await?;
    ensure!(after == before + 1, "{} are counted", after - before);
    // What is exported later elsewhere is imported, so this would have been.
    let scene = fleet.scene("shop", &[LIAR, HONEST]).await?;
    exported(&scene, LIAR, &[("http", 80)], 1).await?;
    for member in [LIAR, HONEST] {
        reaches(&scene, member, &["member1 http:8080 10.1.0.1"]).await?;
    }
    excluded.is_absent(&[LIAR, HONEST], "ServiceImport serve").await?;
    excluded.is_absent(&[LIAR, HONEST], "Service derived-serve").await?;
    excluded.delete(LIAR, &["ServiceExport serve"]).await?;
    trusted(&excluded, ("True", "AllBelieved")).await.map(drop)
}
