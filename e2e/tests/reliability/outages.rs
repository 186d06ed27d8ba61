//! Parts of Tombolo, and of clusters, that fail.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use tombolo_e2e::{bed::Bed, fleet, process::Identity, progress::say, record::Record, scene::Scene};

use super::{
    ground::*,
    load::{Load, answered_by, pods},
};

/// How long Tombolo stays away; `TOMBOLO_OUTAGE_SECONDS` says otherwise.
const OUTAGE: u64 = 30;

/// A service of members 1 and 2, under load from member 3.
async fn under_load(bed: &Arc<Bed>, namespace: &str) -> Result<(Scene, Load)> {
    let scene = scene(bed, namespace).await?;
    for member in [1, 2] {
        scene.apply(member, served().into_iter().chain([server(2)])).await?;
    }
    let load = Load::start(&scene, 3, &host(&scene)).await?;
    load.until("all four pods answer", |answers| {
        ensure!(pods(answers, 100) == 4, "{} pods answer", pods(answers, 100));
        Ok(())
    })
    .await?;
    Ok((scene, load))
}

pub(crate) async fn hub_and_agents_that_restart_and_stay_away_fail_no_request(bed: Arc<Bed>) -> Result<()> {
    let mut tombolo = alone(&bed).await?;
    let (scene, load) = under_load(&bed, "outage").await?;
    let (before, since) = (address(&scene, 3).await?, load.mark()?);
    tombolo.kill_hub();
    tombolo.start_hub(&bed).await?;
    tombolo.kill_agents();
    tombolo.start_agents(&bed).await?;
    tombolo.until_ready(&bed).await?;
    change_arrives(&scene, &load, 3).await?;
    load.none_failed("hub and agents killed and started again", since).await?;

    let since = load.mark()?;
    let seconds = match std::env::var("TOMBOLO_OUTAGE_SECONDS") {
        Ok(given) => given.parse().context("TOMBOLO_OUTAGE_SECONDS is no number")?,
        Err(_) => OUTAGE,
    };
    tombolo.kill_hub();
    tombolo.kill_agents();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    load.none_failed(&format!("hub and agents away for {seconds} s"), since).await?;
    let since = load.mark()?;
    tombolo.start_hub(&bed).await?;
    tombolo.start_agents(&bed).await?;
    tombolo.until_ready(&bed).await?;
    change_arrives(&scene, &load, 4).await?;
    load.none_failed("hub and agents back", since).await?;
    ensure!(address(&scene, 3).await? == before, "the address changed");
    load.end().await
}

/// Shows that Tombolo is at work: member 1 gets more pods, and the last of them is asked too.
async fn change_arrives(scene: &Scene, load: &Load, replicas: u32) -> Result<()> {
    scene.apply(1, [server(replicas)]).await?;
    load.until("the new pod answers", |answers| {
        let found = pods(answers, 150);
        ensure!(found == 2 + replicas as usize, "{found} pods answer");
        Ok(())
    })
    .await
}

/// A process of the bed, by its name.
fn process(bed: &Bed, name: &str) -> Result<Identity> {
    let record = Record::find(bed.dir())?.context("the bed has no record")?;
    let found = record.processes.iter().find(|process| process.name == name);
    Ok(found.with_context(|| format!("there is no {name}"))?.identity)
}

pub(crate) async fn a_silent_api_server_changes_nothing_and_a_member_without_power_is_left_out_in_time(
    bed: Arc<Bed>,
) -> Result<()> {
    let _alone = alone(&bed).await?;
    let (_, load) = under_load(&bed, "power").await?;
    let server = process(&bed, "member1/kube-apiserver")?;

    let since = load.mark()?;
    server.signal(Signal::STOP);
    fleet::until_ready(&bed.hub.client, "member1", "Unknown").await?;
    tokio::time::sleep(Duration::from_secs(LOST_AFTER / 2)).await;
    let answers = load.answers()?;
    let still = answers.iter().rev().take(100).filter(|one| one.cluster.as_deref() == Some(&node(1))).count();
    ensure!(still > 0, "member1's pods are left out already");
    server.signal(Signal::CONT);
    fleet::until_ready(&bed.hub.client, "member1", "True").await?;
    load.none_failed("an API server silent for less than the set time", since).await?;

    let (since, cut) = (load.mark()?, Timestamp::now());
    // No power: neither its API nor any of its pods can be reached.
    server.signal(Signal::STOP);
    bed.network().context("the bed has nodes")?.inside("ip", "link set to-member1 down")?;
    load.until("member2 serves alone", |answers| answered_by(answers, 200, |cluster| cluster == node(2)))
        .await?;
    load.tell("a member loses its power", since).await?;
    let alone =
        load.answers()?.iter().rfind(|answer| answer.cluster != Some(node(2))).map(|answer| answer.at);
    let took: Duration = alone.context("member2 was alone all the time")?.duration_since(cut).try_into()?;
    say(format_args!(
        "a member loses its power: served by the other alone after {:.1} s",
        took.as_secs_f64()
    ));
    // Three probes until it is noticed, 26 seconds at most; the set time; and the requests that were under way.
    ensure!(took < Duration::from_secs(26 + LOST_AFTER + 8), "only after {took:?}");
    // What was sent before may still wait.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let since = load.mark()?;
    load.until("it goes on so", |answers| answered_by(&answers[since..], 250, |cluster| cluster == node(2)))
        .await?;
    load.none_failed("after the failover", since).await?;
    load.end().await
}
