//! Workloads that scale, are updated and move.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    progress::say,
    scene::{HUB, Scene, object, places},
    wait::until,
};

use super::{
    ground::*,
    load::{Answer, Load, PATIENCE, all_well, answered_by, pods},
};

/// Waits until a Deployment has so many pods, ready and no others.
async fn scaled(scene: &Scene, member: usize, replicas: u32) -> Result<()> {
    scene.apply(member, [server(replicas)]).await?;
    until(&format!("there are {replicas} pods"), PATIENCE, async || {
        let status = scene.field(member, "Deployment serve", "/status").await?;
        let count = |field: &str| status[field].as_u64().unwrap_or_default();
        let wanted = u64::from(replicas);
        ensure!(count("readyReplicas") == wanted && count("replicas") == wanted, "{status}");
        Ok(())
    })
    .await
}

pub(crate) async fn scaling_1_3_0_2_fails_no_request_while_there_is_a_pod(bed: Arc<Bed>) -> Result<()> {
    let _at_work = at_work(&bed).await?;
    let scene = scene(&bed, "scaled").await?;
    scene.apply(1, served()).await?;
    scaled(&scene, 1, 1).await?;
    let load = Load::start(&scene, 3, &host(&scene)).await?;

    let since = load.mark()?;
    scaled(&scene, 1, 3).await?;
    load.until("three pods answer", |answers| {
        ensure!(pods(answers, 60) == 3, "{} pods answer", pods(answers, 60));
        Ok(())
    })
    .await?;
    load.none_failed("1 pod becomes 3", since).await?;

    let (since, told) = (load.mark()?, Timestamp::now());
    scaled(&scene, 1, 0).await?;
    load.until("nobody answers", |answers| {
        ensure!(answers.iter().rev().take(20).all(|answer| answer.cluster.is_none()), "somebody does");
        Ok(())
    })
    .await?;
    let failed = load.tell("3 pods become none, until nobody answers", since).await?;
    let lame_duck = LAME_DUCK.try_into()?;
    // Pods that were told to end serve on for a while, and are asked for as long.
    let early = failed.iter().find(|answer| answer.at.duration_since(told) < lame_duck);
    ensure!(early.is_none(), "told to end at {told}, and while there were pods: {early:?}");
    scaled(&scene, 1, 2).await?;
    load.until("two pods answer", |answers| {
        ensure!(pods(answers, 60) == 2, "{} pods answer", pods(answers, 60));
        Ok(())
    })
    .await?;
    let failed = load.tell("none become 2, until both answer", since).await?;
    // The gap is in one piece: no request failed that was made after one of the new pods had answered.
    let answers = load.answers()?.split_off(since);
    let last: Vec<_> = answers.iter().rev().take(60).collect();
    let new = |answer: &&Answer| answer.cluster.is_some() && last.iter().any(|one| one.pod == answer.pod);
    let first = answers.iter().filter(new).map(|answer| answer.at).min().context("no new pod answered")?;
    none_failed_since(first, &failed).context("a new pod had answered")?;
    load.end().await
}

pub(crate) async fn a_rolling_update_fails_no_request(bed: Arc<Bed>) -> Result<()> {
    let _at_work = at_work(&bed).await?;
    let scene = scene(&bed, "updated").await?;
    scene.apply(1, served()).await?;
    scaled(&scene, 1, 3).await?;
    let load = Load::start(&scene, 3, &host(&scene)).await?;
    let since = load.mark()?;
    let member1 = bed.kubectl("member1");
    let namespace = "--namespace=updated";
    member1.run(&["rollout", "restart", namespace, "deployment/serve"])?;
    member1.run(&["rollout", "status", namespace, "deployment/serve", "--timeout=180s"])?;
    let updated = load.mark()?;
    load.until("the new pods answer", |answers| all_well(&answers[updated..], 100)).await?;
    load.none_failed("rolling update of 3 pods", since).await?;
    load.end().await
}

/// Fails if a request failed that was made after a time: those under way at the time may end either way.
fn none_failed_since(time: Timestamp, failed: &[Answer]) -> Result<()> {
    let later: Vec<_> = failed.iter().filter(|answer| answer.due > time).map(|answer| &answer.line).collect();
    ensure!(later.is_empty(), "{} of {} failed after {time}: {later:?}", later.len(), failed.len());
    Ok(())
}

/// Workload and export by one policy on the hub, the import in member 3 by another.
async fn placed(scene: &Scene, members: &[usize]) -> Result<()> {
    let all = ["Deployment serve", "Service serve", "ServiceExport serve"];
    scene.apply(HUB, [places("workload", &all, members)]).await
}

/// A service that is in member 1 by policy, under load from member 3.
async fn under_load(bed: &Arc<Bed>, namespace: &str) -> Result<(Scene, Load)> {
    let scene = scene(bed, namespace).await?;
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    let import =
        object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": ports } }));
    scene.apply(HUB, [server(2)].into_iter().chain(served()).chain([import])).await?;
    placed(&scene, &[1]).await?;
    scene.apply(HUB, [places("import", &["ServiceImport serve"], &[3])]).await?;
    let load = Load::start(&scene, 3, &host(&scene)).await?;
    Ok((scene, load))
}

pub(crate) async fn a_move_by_one_edit_of_a_policy_keeps_the_address(bed: Arc<Bed>) -> Result<()> {
    let _at_work = at_work(&bed).await?;
    let (scene, load) = under_load(&bed, "moved").await?;
    let (before, since, began) = (address(&scene, 3).await?, load.mark()?, Instant::now());
    placed(&scene, &[2]).await?;
    load.until("member2 answers alone", |answers| answered_by(answers, 100, |cluster| cluster == node(2)))
        .await?;
    let took = began.elapsed();
    let failed = load.tell("a move by one edit of a policy, member1 → member2", since).await?;
    say(format_args!("a move by one edit: member2 alone after {:.1} s", took.as_secs_f64()));
    ensure!(address(&scene, 3).await? == before, "the address changed");
    // No request fails that was made after member 2 had answered.
    let answers = load.answers()?.split_off(since);
    let there = answers.iter().filter(|answer| answer.cluster.as_deref() == Some(&node(2)));
    let first = there.map(|answer| answer.at).min().context("member2 never answered")?;
    none_failed_since(first, &failed).context("member2 had answered")?;
    load.end().await
}

pub(crate) async fn a_move_by_two_edits_of_a_policy_fails_no_request(bed: Arc<Bed>) -> Result<()> {
    let _at_work = at_work(&bed).await?;
    let (scene, load) = under_load(&bed, "migrated").await?;
    let (before, since) = (address(&scene, 3).await?, load.mark()?);
    placed(&scene, &[1, 2]).await?;
    load.until("both clusters answer", |answers| {
        ensure!(pods(answers, 100) == 4, "{} pods answer", pods(answers, 100));
        Ok(())
    })
    .await?;
    placed(&scene, &[2]).await?;
    load.until("member2 answers alone", |answers| answered_by(answers, 100, |cluster| cluster == node(2)))
        .await?;
    load.none_failed("a move by two edits, first to both and then to member2", since).await?;
    ensure!(address(&scene, 3).await? == before, "the address changed");
    load.end().await
}
