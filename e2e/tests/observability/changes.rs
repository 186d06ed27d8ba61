//! Changes, followed by their ids through the logs of agent and hub, and measured from end to end.

use std::{fs, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, Scene, object, places},
    tombolo::Component,
    wait::until,
};

use crate::{
    fleet::Fleet,
    words::{address, exported, reaches, slice},
};

const HTTP: &[(&str, u16)] = &[("http", 80)];
const JSON: &[&str] = &["--log=tombolo=debug", "--log-format=json"];
/// In that time a second pass would have written.
const WHILE: Duration = Duration::from_secs(4);

/// What a process of a cluster logged: the fields of each line.
fn logged(bed: &Bed, cluster: &str, process: &str) -> Result<Vec<Value>> {
    let path = bed.dir().join("logs").join(cluster).join(format!("{process}.log"));
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    // The last line may be half written.
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|mut line| line["fields"].take())
        .collect())
}

/// The number that a metric has, 0 where it is not there yet.
fn number(metrics: &str, name: &str) -> Result<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(Ok(0.0), |number| Ok(number.trim().parse()?))
}

/// The stamps of the source slices that an exporter has.
async fn stamps(scene: &Scene, member: usize) -> Result<Vec<String>> {
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(member).clone(), &scene.namespace);
    let sources = api.list(&ListParams::default().labels("tombolo.dev/source=serve")).await?.items;
    Ok(sources.iter().filter_map(|slice| slice.annotations().get("tombolo.dev/change").cloned()).collect())
}

pub(crate) async fn a_change_is_followed_and_measured_from_the_agent_to_the_importer_and_costs_no_write(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut fleet = Fleet::start_with(bed, JSON).await?;
    let scene = fleet.scene("followed", &[1, 2]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    address(&scene, 2).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;

    let count = "tombolo_endpoint_to_importer_seconds_count{member=\"member2\"}";
    // What the first of them counts for depends on what came first, the endpoints or who imports them; it is over when it is logged.
    endpoints_are_followed(&fleet, &scene).await?;
    let before = number(&fleet.metrics().await?, count)?;
    scene.apply(1, [slice(1, HTTP, 2)]).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    endpoints_are_followed(&fleet, &scene).await?;
    let metrics = fleet.metrics().await?;
    ensure!(number(&metrics, count)? - before == 1.0, "one change counts once, from {before}:\n{metrics}");
    let sum = number(&metrics, "tombolo_endpoint_to_importer_seconds_sum{member=\"member2\"}")?;
    ensure!(sum < PATIENCE.as_secs_f64(), "{sum} seconds");

    // The agent is looked for now and then.
    until("members are measured", PATIENCE, async || members_are_measured(&fleet).await).await?;
    state_is_shown(&fleet).await?;
    imports_are_counted(&fleet, &scene).await?;
    copies_are_followed(&fleet, &scene).await?;
    nothing_is_rewritten(&mut fleet, &scene).await
}

/// The change has one name in the agent's log, on the slices, and in the hub's log.
async fn endpoints_are_followed(fleet: &Fleet, scene: &Scene) -> Result<()> {
    let of_agent = logged(&fleet.bed, "member1", "tombolo-agent")?;
    let mut ids = of_agent.iter().filter(|line| line["service"] == "followed/serve" && line["slices"] == 1);
    let id = ids.next_back().context("the agent says nothing of it")?["change"].clone();
    let id = id.as_str().context("a change has a name")?;
    let stamps = stamps(scene, 1).await?;
    ensure!(stamps.len() == 1 && stamps[0].starts_with(&format!("{id} ")), "{id} is not in {stamps:?}");
    until("the hub's log has it", PATIENCE, async || {
        let of_hub = logged(&fleet.bed, "hub", "tombolo-hub")?;
        let found = of_hub.iter().any(|line| {
            line["change"] == id && line["member"] == "member2" && line["service"] == "followed/serve"
        });
        ensure!(found, "{id} is not in the hub's log");
        Ok(())
    })
    .await
}

/// A ServiceImport that came to be is measured as a change; putting it right is a repair and is not.
async fn imports_are_counted(fleet: &Fleet, scene: &Scene) -> Result<()> {
    let arrived = "tombolo_template_to_member_seconds_count{member=\"member2\"}";
    let repairs = "tombolo_propagation_writes_total{for=\"repair\"}";
    let before = fleet.metrics().await?;
    let came = number(&before, arrived)?;
    ensure!(came >= 1.0, "the ServiceImport is not in\n{before}");
    scene.edit(2, "ServiceImport serve", json!({ "spec": { "sessionAffinity": "ClientIP" } })).await?;
    until("it is put right, as a repair", PATIENCE, async || {
        let metrics = fleet.metrics().await?;
        ensure!(number(&metrics, repairs)? > number(&before, repairs)?, "no repair is in\n{metrics}");
        ensure!(number(&metrics, arrived)? == came, "{arrived} is not {came}:\n{metrics}");
        Ok(())
    })
    .await
}

/// A copy is measured, and has the same name in the logs of the hub that writes it and of the agent that acts on it.
async fn copies_are_followed(fleet: &Fleet, scene: &Scene) -> Result<()> {
    let export = object("ServiceExport", "later", json!({}));
    let policy = places("later", &["ServiceExport later"], &[2]);
    scene.apply(0, [scene.here(), export, policy]).await?;
    scene.arrives(&[2], "ServiceExport later").await?;
    let applied = scene.field(2, "ServiceExport later", "/metadata/annotations/tombolo.dev~1applied").await?;
    let applied = applied.as_str().context("a copy has its hash")?.to_owned();
    until("hub and agent name it alike", PATIENCE, async || {
        for (cluster, process) in [("hub", "tombolo-hub"), ("member2", "tombolo-agent")] {
            let lines = logged(&fleet.bed, cluster, process)?;
            let named = |line: &&Value| {
                line["change"].as_str().is_some_and(|id| id.len() > 8 && applied.starts_with(id))
            };
            ensure!(lines.iter().any(|line| named(&line)), "{process} says nothing of {applied}");
        }
        let count = "tombolo_template_to_member_seconds_count{member=\"member2\"}";
        let metrics = fleet.metrics().await?;
        ensure!(number(&metrics, count)? >= 1.0, "{count} is not in\n{metrics}");
        Ok(())
    })
    .await
}

/// Members, queues and requests are in the metrics of hub and agent.
async fn members_are_measured(fleet: &Fleet) -> Result<()> {
    let hub = fleet.metrics().await?;
    for (name, wanted) in [
        ("tombolo_member_ready{member=\"member2\"}", 1.0),
        ("tombolo_member_agent_ready{member=\"member2\"}", 1.0),
        ("tombolo_member_data_trusted{member=\"member2\"}", 1.0),
        ("tombolo_member_freshness{member=\"member2\",grade=\"fresh\"}", 1.0),
        ("tombolo_queue_depth{member=\"member2\",of=\"services\",state=\"later\"}", 0.0),
        ("tombolo_services_in_conflict", 0.0),
        ("tombolo_stale_slices{member=\"member1\",mark=\"kept\"}", 0.0),
    ] {
        ensure!(hub.contains(name) && number(&hub, name)? == wanted, "{name} is not {wanted}:\n{hub}");
    }
    let agent = fleet.agents[0].as_ref().context("there is an agent")?.says("/metrics").await?;
    for (metrics, name) in [
        (
            &hub,
            "tombolo_reconcile_duration_seconds_count{of=\"services\",outcome=\"well\",member=\"member2\"}",
        ),
        (&hub, "tombolo_api_requests_total{verb=\"create\",code=\"2xx\",member=\"member2\"}"),
        (&agent, "tombolo_reconcile_duration_seconds_count{of=\"services\",outcome=\"well\",member=\"\"}"),
        (&agent, "tombolo_api_requests_total{verb=\"update\",code=\"2xx\",member=\"\"}"),
    ] {
        ensure!(number(metrics, name)? > 0.0, "{name} is not in\n{metrics}");
    }
    Ok(())
}

/// Hub and agent show how they are inside, and nothing secret.
async fn state_is_shown(fleet: &Fleet) -> Result<()> {
    let shown = async |component: &Component| {
        let answer = component.says("/debug/state").await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("there is no body")?;
        ensure!(head.starts_with("HTTP/1.0 200"), "{answer}");
        Ok(serde_json::from_str::<Value>(body)?)
    };
    let hub = shown(fleet.hub.as_ref().context("there is a hub")?).await?;
    let agent = shown(fleet.agents[0].as_ref().context("there is an agent")?).await?;
    ensure!(hub["leader"] == true && hub["view"]["clusters"]["count"] == 2, "{hub:#}");
    let member = &hub["members"]["member1"];
    ensure!(member["health"] == "Ready" && member["services"]["exports"]["count"] == 1, "{hub:#}");
    ensure!(agent["cluster"] == "member1" && agent["stores"]["serviceexports"]["count"] == 1, "{agent:#}");
    for shown in [&hub, &agent] {
        let text = shown.to_string();
        ensure!(!text.contains("10.1.0.1") && !text.contains("eyJ"), "it shows more than numbers: {text}");
    }
    Ok(())
}

/// Neither an agent nor a hub that starts anew writes a slice for the sake of its stamp.
async fn nothing_is_rewritten(fleet: &mut Fleet, scene: &Scene) -> Result<()> {
    let before = stamps(scene, 1).await?;
    let clusters = ["member1", "member2"];
    let marks: Vec<_> =
        clusters.iter().map(|cluster| fleet.bed.audit(cluster).mark()).collect::<Result<_>>()?;
    fleet.start_agent(1).await?;
    fleet.start_hub().await?;
    until("the new hub leads", PATIENCE, async || {
        ensure!(number(&fleet.metrics().await?, "tombolo_leader{role=\"hub\"}")? == 1.0, "it does not");
        Ok(())
    })
    .await?;
    // There is nothing to wait for: what is looked for is that nothing happens.
    tokio::time::sleep(WHILE).await;
    for (cluster, mark) in clusters.iter().zip(marks) {
        let audit = fleet.bed.audit(cluster);
        let slices = audit.by_hub(mark)?.into_iter().chain(audit.by_agent(mark, "followed")?);
        let slices: Vec<_> =
            slices.filter(|request| request.object_ref.resource == "endpointslices").collect();
        ensure!(slices.is_empty(), "slices were written in {cluster}: {slices:?}");
    }
    ensure!(stamps(scene, 1).await? == before, "another stamp than {before:?}");
    let metrics = fleet.metrics().await?;
    let count = number(&metrics, "tombolo_endpoint_to_importer_seconds_count{member=\"member2\"}")?;
    ensure!(count == 0.0, "what was there before counts for nothing:\n{metrics}");
    Ok(())
}
