//! Parts of Tombolo, and of clusters, that fail.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::discovery::v1::{Endpoint, EndpointSlice},
    jiff::Timestamp,
};
use kube::{Api, ResourceExt, api::ListParams};
use rustix::process::Signal;
use tombolo_e2e::{
    bed::Bed,
    fleet,
    network::Network,
    process::Identity,
    progress::say,
    record::Record,
    scene::{Scene, is_ready},
    wait::until,
};

use super::{
    ground::*,
    load::{Answer, Load, PATIENCE, all_well, answered_by, pods},
};

/// How long Tombolo stays away; `TOMBOLO_OUTAGE_SECONDS` says otherwise. Twice the time after which a silent member is left out here: what
/// were to go with the control plane, or with what it last said, would be gone by then, and CI need not wait for longer.
const OUTAGE: u64 = 2 * LOST_AFTER;

/// A service of members 1 and 2, under load from member 3.
async fn under_load(bed: &Arc<Bed>, namespace: &str) -> Result<(Scene, Load)> {
    let scene = scene(bed, namespace).await?;
    for member in [1, 2] {
        scene.apply(member, served().into_iter().chain([server(2)])).await?;
    }
    let load = Load::start(&scene, 3, &host(&scene)).await?;
    load.until("all four pods answer", all_four).await?;
    Ok((scene, load))
}

/// Fails unless all four pods are among those that answered last, and no request failed meanwhile.
fn all_four(answers: &[Answer]) -> Result<()> {
    ensure!(pods(answers, 100) == 4, "{} pods answer", pods(answers, 100));
    all_well(answers, 100)
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
    load.none_failed("hub and all agents killed and started again", since).await?;

    let since = load.mark()?;
    let seconds = match std::env::var("TOMBOLO_OUTAGE_SECONDS") {
        Ok(given) => given.parse().context("TOMBOLO_OUTAGE_SECONDS is no number")?,
        Err(_) => OUTAGE,
    };
    tombolo.kill_hub();
    tombolo.kill_agents();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    load.none_failed(&format!("hub and all agents away for {seconds} s"), since).await?;
    let since = load.mark()?;
    tombolo.start_hub(&bed).await?;
    tombolo.start_agents(&bed).await?;
    tombolo.until_ready(&bed).await?;
    change_arrives(&scene, &load, 4).await?;
    load.none_failed("hub and all agents back, and a change arrives", since).await?;
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

/// A member whose API server is silent, and whose node is cut off too if it has no power: until this is dropped.
struct Silent<'a> {
    server: Identity,
    network: Option<&'a Network>,
}

impl Silent<'_> {
    /// Ends it, and gives back when the hub says that the member is there again.
    async fn end(self, bed: &Bed) -> Result<()> {
        drop(self);
        fleet::until_ready(&bed.hub.client, "member1", "True").await
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        if let Some(network) = self.network {
            let _ = network.inside("ip", "link set to-member1 up");
        }
        self.server.signal(Signal::CONT);
    }
}

/// Neither the API server of member 1 nor any of its pods can be reached if it has no power; else its pods serve on.
fn silenced(bed: &Bed, power: bool) -> Result<Silent<'_>> {
    let network = (!power).then(|| bed.network().context("the bed has nodes")).transpose()?;
    let silent = Silent { server: process(bed, "member1/kube-apiserver")?, network };
    silent.server.signal(Signal::STOP);
    if let Some(network) = network {
        network.inside("ip", "link set to-member1 down")?;
    }
    Ok(silent)
}

/// When the hub noticed that member 1 is silent, to the second that it was in.
async fn noticed(bed: &Bed) -> Result<Timestamp> {
    fleet::until_ready(&bed.hub.client, "member1", "Unknown").await?;
    let line = r#"jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}"#;
    Ok(bed.kubectl("hub").run(&["get", "cluster", "member1", "-o", line])?.parse()?)
}

/// The endpoints of an import, with their conditions, by the slices that they are in.
type Endpoints = BTreeMap<String, Vec<Endpoint>>;

/// The endpoints of the import in member 3.
async fn endpoints(scene: &Scene) -> Result<Endpoints> {
    let slices: Api<EndpointSlice> = Api::namespaced(scene.client(3).clone(), &scene.namespace);
    let of_import = ListParams::default().labels("multicluster.kubernetes.io/service-name=serve");
    let slices = slices.list(&of_import).await?.items;
    Ok(slices.into_iter().map(|slice| (slice.name_any(), slice.endpoints)).collect())
}

/// Looks at the endpoints again and again, for as long as they are as they were; gives back others, and when they were seen.
async fn others(scene: &Scene, before: &Endpoints) -> (Timestamp, Endpoints) {
    loop {
        // A look that got no answer, as on a busy machine, says nothing.
        if let Ok(found) = endpoints(scene).await
            && found != *before
        {
            return (Timestamp::now(), found);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// When the hub noticed that member 1 is silent, half of the set time after that.
async fn noticed_for_a_while(bed: &Bed) -> Result<Timestamp> {
    let noticed = noticed(bed).await?;
    let look = noticed + Duration::from_secs(LOST_AFTER / 2);
    let wait = look.duration_since(Timestamp::now()).try_into().unwrap_or_default();
    tokio::time::sleep(wait).await;
    Ok(noticed)
}

/// An API server that is silent for less than the set time changes nothing: until half of that time after it was noticed, all endpoints
/// are as they were at each look. Gives back whether the machine was quick enough to look in time.
async fn silent_for_less(bed: &Bed, scene: &Scene, load: &Load) -> Result<bool> {
    let (before, since) = (endpoints(scene).await?, load.mark()?);
    let silent = silenced(bed, true)?;
    let over = noticed_for_a_while(bed);
    tokio::pin!(over);
    let (noticed, changed) = tokio::select! {
        noticed = &mut over => (noticed?, None),
        changed = others(scene, &before) => (over.await?, Some(changed)),
    };
    let (then, answers) = (endpoints(scene).await?, load.answers()?);
    let late = noticed + Duration::from_secs(LOST_AFTER - 1);
    let in_time = Timestamp::now() < late;
    silent.end(bed).await?;
    if let Some((at, meanwhile)) = changed {
        ensure!(at >= late, "at {at} the endpoints had changed from {before:?} to {meanwhile:?}");
    }
    if in_time {
        ensure!(then == before, "the endpoints changed from {before:?} to {then:?}");
        let last = answers.iter().rev().take(100);
        let still = last.filter(|one| one.cluster.as_deref() == Some(&node(1))).count();
        ensure!(still > 0, "member1's pods are left out already");
        load.none_failed("member1's API server silent for less than `--lost-after`", since).await?;
    }
    Ok(in_time)
}

pub(crate) async fn a_silent_api_server_changes_nothing_and_a_member_without_power_is_left_out_in_time(
    bed: Arc<Bed>,
) -> Result<()> {
    let _alone = alone(&bed).await?;
    let (scene, load) = under_load(&bed, "power").await?;
    let mut takes = 0;
    while !silent_for_less(&bed, &scene, &load).await? {
        takes += 1;
        ensure!(takes < 3, "the machine was too slow to look in time, {takes} times");
        load.until("all four pods answer again", all_four).await?;
    }

    let (since, cut) = (load.mark()?, Timestamp::now());
    let silent = silenced(&bed, false)?;
    let noticed = noticed(&bed).await?;
    until("member1's endpoints are not ready any more", PATIENCE, async || {
        let all: Vec<_> = endpoints(&scene).await?.into_values().flatten().collect();
        let ready = all.iter().filter(|endpoint| is_ready(endpoint)).count();
        ensure!(ready == 2, "{ready} are ready: {all:?}");
        Ok(())
    })
    .await?;
    let left_out = Timestamp::now();
    load.until("member2 serves alone", |answers| answered_by(answers, 200, |cluster| cluster == node(2)))
        .await?;
    load.tell("member1 loses its power while member2 exports too", since).await?;
    let last = load.answers()?.into_iter().rfind(|answer| answer.cluster != Some(node(2)));
    let last = last.context("member2 was alone all the time")?.due;
    say(format_args!(
        "a member loses its power: noticed after {:.0} s, served by the other alone after {:.1} s",
        noticed.duration_since(cut).as_secs_f64(),
        last.duration_since(cut).as_secs_f64()
    ));
    // Three probes until it is noticed, 26 seconds at most where the machine is not busy.
    ensure!(noticed.duration_since(cut).as_secs() < 60, "noticed only at {noticed}, after {cut}");
    // The second that it was noticed in, and the set time; less than twice, as a busy machine is late. kube-proxy follows at its own pace.
    let late = noticed + Duration::from_secs(1 + 2 * LOST_AFTER);
    ensure!(left_out < late, "it was left out at {left_out} only, noticed at {noticed}");
    // What was sent before may still wait.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let since = load.mark()?;
    load.until("it goes on so", |answers| answered_by(&answers[since..], 250, |cluster| cluster == node(2)))
        .await?;
    load.none_failed("after the failover", since).await?;

    silent.end(&bed).await?;
    load.until("all four pods answer again", all_four).await?;
    load.none_failed("member1 has its power again, until all pods answer", since).await?;
    load.end().await
}
