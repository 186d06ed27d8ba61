//! Members that fall silent while others import what they export: what their callers see, and when.

#[path = "services/ground.rs"]
#[allow(dead_code, reason = "it is shared with another suite")]
mod ground;

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rustix::process::Signal;
use serde_json::json;
use tombolo_e2e::{
    bed::{Bed, Spec},
    fleet,
    process::Identity,
    scene::{HUB, PATIENCE, Scene, object, places},
    suite::{self, Alone, Needs, on_its_own_bed},
    tombolo::{Component, Manner, binary},
    wait::until,
};

use self::ground::{address, condition, export, exported, reaches, scene, service, slices};

/// Long enough to be seen, short enough for a test.
const FLAGS: [&str; 2] = ["--stale-after=4", "--lost-after=12"];

/// Tombolo on three members.
struct Fleet {
    bed: Arc<Bed>,
    hub: Option<Component>,
    agents: Vec<Option<Component>>,
}

/// Tests that need a bed of their own.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        vec![$((stringify!($test), Needs::Nothing, (|| {
            on_its_own_bed(stringify!($test), Spec::api(3).bare(), $test)
        }) as fn() -> Result<()>)),*]
    };
}

fn main() -> ExitCode {
    let tests: Vec<Alone> = tests![
        f9_a_silent_members_endpoints_are_kept_then_marked_then_not_ready_though_the_hub_restarts,
        a_silent_member_is_withdrawn_when_its_export_goes_from_the_hub,
        an_agent_that_stops_is_told_and_its_endpoints_stay,
    ];
    suite::run_one_by_one(tests)
}

// === impl Fleet ===

impl Fleet {
    async fn start(bed: Arc<Bed>) -> Result<Self> {
        bed.prepare_hub()?;
        let mut fleet = Self { bed, hub: None, agents: Vec::new() };
        fleet.start_hub().await?;
        for member in 1..=3 {
            fleet.bed.prepare_member(member)?;
            fleet.agents.push(Some(fleet.agent(member).await?));
        }
        fleet::register_all(&fleet.bed).await?;
        Ok(fleet)
    }

    async fn start_hub(&mut self) -> Result<()> {
        let program = tokio::task::spawn_blocking(binary).await??;
        self.hub = Some(self.bed.start_hub(&program, "tombolo-hub", &FLAGS.map(str::to_owned)).await?);
        Ok(())
    }

    async fn agent(&self, member: usize) -> Result<Component> {
        let program = tokio::task::spawn_blocking(binary).await??;
        self.bed.start_agent(&program, member, "tombolo-agent", &[], Manner::default()).await
    }

    /// Lets a member's API server fall silent, or answer again.
    fn signal(&self, member: usize, signal: Signal) -> Result<()> {
        let pid = self.bed.member(member).pid("kube-apiserver").context("there is an API server")?;
        Identity::of(pid).context("it does not run")?.signal(signal);
        Ok(())
    }
}

/// Ends a process at once.
async fn kill(component: Component) -> Result<()> {
    let process = Identity::of(component.pid()).context("it does not run")?;
    process.signal(Signal::KILL);
    until("it is gone", PATIENCE, async || {
        ensure!(!process.is_alive(), "it runs");
        Ok(())
    })
    .await
}

/// Whether the endpoints of a slice are ready, and what it says of its cluster.
fn state(slice: &EndpointSlice) -> (bool, &str) {
    let mut conditions = slice.endpoints.iter().filter_map(|endpoint| endpoint.conditions.as_ref());
    let note = slice.metadata.annotations.as_ref().and_then(|all| all.get("tombolo.dev/stale"));
    (conditions.all(|conditions| conditions.ready == Some(true)), note.map_or("", String::as_str))
}

/// Waits until the slices of member1 and member2 in member3 are so.
async fn until_states(scene: &Scene, wanted: [(bool, &str); 2]) -> Result<()> {
    until(&format!("the slices in member3 are {wanted:?}"), PATIENCE, async || {
        let slices = slices(scene, 3).await?;
        let found: Vec<_> = slices.iter().map(state).collect();
        ensure!(found == wanted, "they are {found:?}");
        Ok(())
    })
    .await
}

async fn f9_a_silent_members_endpoints_are_kept_then_marked_then_not_ready_though_the_hub_restarts(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut fleet = Fleet::start(bed.clone()).await?;
    let scene = scene(&bed, "silence", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("http", 80)], 2).await?;
    exported(&scene, 2, &[("http", 80)], 2).await?;
    let all = ["member1 http:8080 10.1.0.1,10.1.0.2", "member2 http:8080 10.2.0.1,10.2.0.2"];
    reaches(&scene, 3, &all).await?;
    let before = address(&scene, 3).await?;
    fleet.signal(1, Signal::STOP)?;
    let outcome = async {
        fleet::until_ready(&bed.hub.client, "member1", "Unknown").await?;
        until_states(&scene, [(true, "kept"), (true, "")]).await?;
        // A hub that starts now knows nothing of member1 but what its Cluster and the slices say.
        kill(fleet.hub.take().context("there is a hub")?).await?;
        fleet.start_hub().await?;
        until_states(&scene, [(false, "withdrawn"), (true, "")]).await?;
        reaches(&scene, 3, &all).await
    }
    .await;
    fleet.signal(1, Signal::CONT)?;
    outcome?;
    until_states(&scene, [(true, ""), (true, "")]).await?;
    ensure!(address(&scene, 3).await? == before, "its address changed");
    reaches(&scene, 3, &all).await
}

async fn a_silent_member_is_withdrawn_when_its_export_goes_from_the_hub(bed: Arc<Bed>) -> Result<()> {
    let fleet = Fleet::start(bed.clone()).await?;
    let scene = scene(&bed, "withdrawn", &[HUB, 1, 2, 3]).await?;
    let import = object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": [] } }));
    scene.apply(1, service(1, &[("http", 80)], 2)).await?;
    scene.apply(2, service(2, &[("http", 80)], 2)).await?;
    let policies = [
        places("export", &["ServiceExport serve"], &[1, 2]),
        places("import", &["ServiceImport serve"], &[3]),
    ];
    scene.apply(HUB, [export(), import]).await?;
    scene.apply(HUB, policies).await?;
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1,10.1.0.2", "member2 http:8080 10.2.0.1,10.2.0.2"])
        .await?;
    let said = condition(&scene, HUB, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
    ensure!(said == "member3 reaches member1, member2", "it says {said}");
    condition(&scene, HUB, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    let before = address(&scene, 3).await?;
    fleet.signal(1, Signal::STOP)?;
    let outcome = async {
        fleet::until_ready(&bed.hub.client, "member1", "Unknown").await?;
        // Placed elsewhere first, then gone.
        scene.apply(HUB, [places("export", &["ServiceExport serve"], &[2])]).await?;
        reaches(&scene, 3, &["member2 http:8080 10.2.0.1,10.2.0.2"]).await?;
        scene.delete(HUB, &["ServiceExport serve"]).await?;
        reaches(&scene, 3, &[]).await
    }
    .await;
    fleet.signal(1, Signal::CONT)?;
    outcome?;
    scene.goes(&[1, 2], "ServiceExport serve").await?;
    reaches(&scene, 3, &[]).await?;
    ensure!(address(&scene, 3).await? == before, "its address changed");
    Ok(())
}

async fn an_agent_that_stops_is_told_and_its_endpoints_stay(bed: Arc<Bed>) -> Result<()> {
    let mut fleet = Fleet::start(bed.clone()).await?;
    let scene = scene(&bed, "agent-stops", &[1, 3]).await?;
    exported(&scene, 1, &[("http", 80)], 2).await?;
    let all = ["member1 http:8080 10.1.0.1,10.1.0.2"];
    reaches(&scene, 3, &all).await?;
    condition(&scene, HUB, "Cluster member1", ("AgentReady", "True", "AgentReady")).await?;
    kill(fleet.agents[0].take().context("there is an agent")?).await?;
    let said = condition(&scene, HUB, "Cluster member1", ("AgentReady", "False", "AgentSilent")).await?;
    ensure!(said.contains("Lease tombolo-system/tombolo-agent"), "it says {said}");
    until("its endpoints are marked and ready", PATIENCE, async || {
        let slices = slices(&scene, 3).await?;
        let found: Vec<_> = slices.iter().map(state).collect();
        ensure!(found == [(true, "kept")], "they are {found:?}");
        Ok(())
    })
    .await?;
    reaches(&scene, 3, &all).await?;
    fleet.agents[0] = Some(fleet.agent(1).await?);
    condition(&scene, HUB, "Cluster member1", ("AgentReady", "True", "AgentReady")).await?;
    until("its endpoints are not marked any more", PATIENCE, async || {
        let slices = slices(&scene, 3).await?;
        ensure!(slices.iter().map(state).eq([(true, "")]), "they are");
        Ok(())
    })
    .await
}
