//! Agents that come and go, and definitions that do.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::Mutex;
use tombolo_e2e::{bed::Bed, process::Identity, scene::PATIENCE, tombolo::Component, wait::until};

use super::ground::{
    address, agent, condition, export, import, scene_in, service, settles, slice, sources, written,
};

/// The member whose definitions go.
const BARE: usize = 2;
/// The member whose agents go, one test at a time.
const TURNS: usize = 3;
static TURN: Mutex<bool> = Mutex::const_new(false);

/// Prepares the member whose agents go, the first time.
fn prepare(bed: &Bed, done: &mut bool) -> Result<()> {
    if !std::mem::replace(done, true) {
        bed.prepare_member(TURNS)?;
    }
    Ok(())
}

async fn stop(agent: Component) -> Result<()> {
    let process = Identity::of(agent.pid()).context("it does not run")?;
    process.signal(Signal::TERM);
    until("the agent is gone", PATIENCE, async || {
        ensure!(!process.is_alive(), "it runs");
        Ok(())
    })
    .await
}

async fn leads(agent: &Component) -> Result<()> {
    until("the agent leads", PATIENCE, async || {
        ensure!(agent.says("/metrics").await?.contains("tombolo_leader{role=\"agent\"} 1"), "it does not");
        Ok(())
    })
    .await
}

pub(crate) async fn a_restart_writes_nothing_and_what_changed_meanwhile_is_seen_to(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut turn = TURN.lock().await;
    prepare(&bed, &mut turn)?;
    let first = agent(&bed, TURNS, "agent-before").await?;
    let scene = scene_in(&bed, TURNS, "restart").await?;
    for name in ["one", "two"] {
        let endpoints = slice(&format!("{name}-by-hand"), name, 3);
        scene.apply(TURNS, [service(name, json!({})), endpoints, export(name)]).await?;
        scene.apply(TURNS, [import(&format!("{name}-imported"), json!({}))]).await?;
    }
    scene.apply(TURNS, [import("headless", json!({ "type": "Headless" })), export("nothing")]).await?;
    scene.apply(TURNS, [import("preset", json!({ "ips": ["192.0.2.9"] }))]).await?;
    scene.apply(TURNS, [import("robbed", json!({}))]).await?;
    let ip = address(&scene, TURNS, "one-imported").await?;
    let stolen = address(&scene, TURNS, "robbed").await?;
    condition(&scene, TURNS, "ServiceImport headless", ("Ready", "True", "Ready")).await?;
    condition(&scene, TURNS, "ServiceImport preset", ("Ready", "False", "Pending")).await?;
    sources(&scene, TURNS, "two", &[3]).await?;
    settles(&scene, TURNS).await?;
    stop(first).await?;

    let mark = bed.audit("member3").mark()?;
    let second = agent(&bed, TURNS, "agent-after").await?;
    leads(&second).await?;
    settles(&scene, TURNS).await?;
    let writes = written(&scene, TURNS, mark)?;
    ensure!(writes.is_empty(), "a restart wrote {writes:#?}");
    stop(second).await?;

    scene.apply(TURNS, [slice("one-by-hand", "one", 4)]).await?;
    scene
        .delete(TURNS, &["Service derived-one-imported", "ServiceImport two-imported", "Service two"])
        .await?;
    scene.delete(TURNS, &["Service derived-robbed"]).await?;
    scene.apply(TURNS, [service("thief", json!({ "clusterIP": stolen }))]).await?;
    let third = agent(&bed, TURNS, "agent-later").await?;
    sources(&scene, TURNS, "one", &[4]).await?;
    scene.arrives(&[TURNS], "Service derived-one-imported").await?;
    scene.still_says(TURNS, "Service derived-one-imported", "/spec/clusterIP", ip).await?;
    scene.goes(&[TURNS], "Service derived-two-imported").await?;
    condition(&scene, TURNS, "ServiceExport two", ("Valid", "False", "NoService")).await?;
    // An address that was given away meanwhile is not to be had again, and one is told so.
    scene.arrives(&[TURNS], "Service derived-robbed").await?;
    let other = scene.field(TURNS, "Service derived-robbed", "/spec/clusterIP").await?;
    ensure!(other != stolen.as_str(), "{other}");
    scene.says(TURNS, "ServiceImport robbed", "/spec/ips", json!([other])).await?;
    let events = bed.kubectl("member3").run(&["--namespace=restart", "get", "events"])?;
    ensure!(events.contains("AddressNotAvailable"), "{events}");
    stop(third).await
}

pub(crate) async fn two_agents_do_the_work_once_and_the_second_takes_over(bed: Arc<Bed>) -> Result<()> {
    let mut turn = TURN.lock().await;
    prepare(&bed, &mut turn)?;
    let first = agent(&bed, TURNS, "agent-one").await?;
    leads(&first).await?;
    let second = agent(&bed, TURNS, "agent-two").await?;
    let scene = scene_in(&bed, TURNS, "two-agents").await?;
    let mark = bed.audit("member3").mark()?;
    scene.apply(TURNS, [service("serve", json!({})), slice("by-hand", "serve", 1), export("serve")]).await?;
    scene.apply(TURNS, [import("other", json!({}))]).await?;
    condition(&scene, TURNS, "ServiceImport other", ("Ready", "True", "Ready")).await?;
    sources(&scene, TURNS, "serve", &[1]).await?;
    settles(&scene, TURNS).await?;
    let writes = written(&scene, TURNS, mark)?;
    // Record, condition and slice of the export; Service, addresses and condition of the import.
    ensure!(writes.len() == 6, "{writes:#?}");

    let mark = bed.audit("member3").mark()?;
    stop(first).await?;
    leads(&second).await?;
    settles(&scene, TURNS).await?;
    let writes = written(&scene, TURNS, mark)?;
    ensure!(writes.is_empty(), "the second wrote what was there: {writes:#?}");
    scene.apply(TURNS, [slice("by-hand", "serve", 2)]).await?;
    sources(&scene, TURNS, "serve", &[2]).await?;
    stop(second).await
}

pub(crate) async fn an_export_deleted_while_its_record_is_being_written_stays_deleted(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut turn = TURN.lock().await;
    prepare(&bed, &mut turn)?;
    // This one has all rights: what joining gives an agent would not let it make an export.
    let agent = agent(&bed, TURNS, "agent-with-all-rights").await?;
    leads(&agent).await?;
    let scene = scene_in(&bed, TURNS, "deleted").await?;
    let names: Vec<_> = (0..40).map(|number| format!("serve-{number}")).collect();
    for name in &names {
        scene.apply(TURNS, [service(name, json!({}))]).await?;
    }
    for name in &names {
        scene.apply(TURNS, [export(name)]).await?;
        scene.delete(TURNS, &[&format!("ServiceExport {name}")]).await?;
    }
    settles(&scene, TURNS).await?;
    for name in &names {
        scene.is_absent(&[TURNS], &format!("ServiceExport {name}")).await?;
        sources(&scene, TURNS, name, &[]).await?;
    }
    stop(agent).await
}

pub(crate) async fn e6_a_family_that_the_cluster_lacks_is_said_to_be_not_supported(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut turn = TURN.lock().await;
    prepare(&bed, &mut turn)?;
    let agent = agent(&bed, TURNS, "agent-six").await?;
    let scene = scene_in(&bed, TURNS, "families").await?;
    scene.apply(TURNS, [import("four", json!({ "ipFamilies": ["IPv4"] }))]).await?;
    condition(&scene, TURNS, "ServiceImport four", ("Ready", "False", "IPFamilyNotSupported")).await?;
    scene.is_absent(&[TURNS], "Service derived-four").await?;
    scene.apply(TURNS, [import("both", json!({ "ipFamilies": ["IPv4", "IPv6"] }))]).await?;
    let message = condition(&scene, TURNS, "ServiceImport both", ("Ready", "True", "Ready")).await?;
    ensure!(message.contains("derived-both"), "{message}");
    scene.still_says(TURNS, "ServiceImport both", "/spec/ipFamilies", json!(["IPv6"])).await?;
    stop(agent).await
}

pub(crate) async fn definitions_deleted_and_made_again_delete_no_derived_service(
    bed: Arc<Bed>,
) -> Result<()> {
    let first = agent(&bed, BARE, "tombolo-agent").await?;
    bed.prepare_member(BARE)?;
    let scene = scene_in(&bed, BARE, "definitions").await?;
    scene.apply(BARE, [import("serve", json!({})), import("other", json!({}))]).await?;
    let ip = address(&scene, BARE, "serve").await?;
    let other = address(&scene, BARE, "other").await?;
    scene.apply(BARE, [service("web", json!({})), slice("by-hand", "web", 1), export("web")]).await?;
    sources(&scene, BARE, "web", &[1]).await?;

    let kubectl = bed.kubectl("member2");
    for kind in ["serviceimports", "serviceexports"] {
        kubectl.run(&["delete", "crd", &format!("{kind}.multicluster.x-k8s.io")])?;
    }
    // Longer than a derived Service outlives its import.
    tokio::time::sleep(Duration::from_secs(4)).await;
    for name in ["Service derived-serve", "Service derived-other"] {
        scene.find(BARE, name).await?;
    }
    sources(&scene, BARE, "web", &[1]).await?;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-agent/crds");
    kubectl.run(&["apply", "--server-side", "-f", crds])?;
    scene.apply(BARE, [export("anew")]).await?;
    condition(&scene, BARE, "ServiceExport anew", ("Valid", "False", "NoService")).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.still_says(BARE, "Service derived-serve", "/spec/clusterIP", ip.clone()).await?;
    scene.still_says(BARE, "Service derived-other", "/spec/clusterIP", other.clone()).await?;
    sources(&scene, BARE, "web", &[1]).await?;
    // Nor does an agent that starts after all that.
    stop(first).await?;
    let _second = agent(&bed, BARE, "tombolo-agent").await?;
    scene.apply(BARE, [export("later")]).await?;
    condition(&scene, BARE, "ServiceExport later", ("Valid", "False", "NoService")).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.still_says(BARE, "Service derived-other", "/spec/clusterIP", other).await?;
    sources(&scene, BARE, "web", &[1]).await?;

    scene.apply(BARE, [import("serve", json!({}))]).await?;
    let again = address(&scene, BARE, "serve").await?;
    ensure!(ip == again, "it had {ip} and has {again} now");
    condition(&scene, BARE, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
    // It is an import of the new definition now, and goes with it.
    scene.delete(BARE, &["ServiceImport serve"]).await?;
    scene.goes(&[BARE], "Service derived-serve").await
}
