//! `tombolo export` and `tombolo unexport`, as users run them.

use std::{os::unix::process::ExitStatusExt, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tombolo_e2e::{
    bed::Bed,
    scene::{Scene, object, places},
    tombolo::binary,
};

use super::ground::*;

/// Runs `tombolo`, and gives back whether it was well and what it said.
async fn run(scene: &Scene, line: &[&str]) -> Result<(bool, String)> {
    let line = [line, &["-n", &scene.namespace]].concat();
    let output = scene.bed.tombolo(&line).await?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Runs `tombolo`, which must be well and say all that.
async fn says(scene: &Scene, line: &[&str], words: &[&str]) -> Result<()> {
    let (well, said) = run(scene, line).await?;
    ensure!(well, "{line:?} failed: {said}");
    for words in words {
        ensure!(said.contains(words), "{line:?} does not say {words:?}: {said}");
    }
    Ok(())
}

/// Runs `tombolo`, which must fail and say why.
async fn refuses(scene: &Scene, line: &[&str], words: &str) -> Result<()> {
    let (well, said) = run(scene, line).await?;
    ensure!(!well && said.contains(words), "{line:?} is not refused by {words:?}: {said}");
    Ok(())
}

pub(crate) async fn exported_on_the_hub_by_one_command_it_is_reachable_where_it_was_sent_and_nowhere_else(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "command-hub", &[ON_THE_HUB, 1, 2, 3]).await?;
    let [service, slice] = service(1, &[("http", 80)], 2);
    scene.apply(ON_THE_HUB, [service, places("workload", &["Service serve"], &[1])]).await?;
    scene.arrives(&[1], "Service serve").await?;
    scene.apply(1, [slice]).await?;
    let reachable = "reachable as serve.command-hub.svc.clusterset.local";
    let created = "PropagationPolicy command-hub/serve-import created";
    says(&scene, &["export", "serve", "--to", "member2"], &[created, "member2 reaches member1", reachable])
        .await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    imported_in_exactly(&scene, &[2]).await?;
    // Where the Service is, there is its export.
    scene.is_in_exactly(&[1], "ServiceExport serve").await?;

    let again = "PropagationPolicy command-hub/serve-import is there already";
    says(&scene, &["export", "serve", "--to=member2"], &[again, reachable]).await?;
    let moved = "PropagationPolicy command-hub/serve-import changed";
    let both = "member2 reaches member1; member3 reaches member1\n";
    says(&scene, &["export", "serve", "--to", "member2,member3"], &[moved, both, reachable]).await?;
    ensure!(scene.get(3, "Service derived-serve").await?.is_some(), "member3 was not waited for");
    imported_in_exactly(&scene, &[2, 3]).await?;
    // What the hub placed is the hub's to take back.
    let line = ["unexport", "serve", "--context", "member1"];
    refuses(&scene, &line, "is the hub's copy, which puts it back if it is deleted here").await?;
    ensure!(scene.get(1, "ServiceExport serve").await?.is_some(), "it was deleted all the same");
    // What is said of before is not taken for what is now.
    let line = ["export", "serve", "--from", "member3", "--to", "member2", "--timeout", "3"];
    refuses(&scene, &line, "is exported, but not reachable after 3 s: ").await?;

    // What admission warns of is told as kubectl tells it.
    let warning = "Warning: command-hub/serve is no longer exported by member3";
    let deleted = "is exported no more: deleted ServiceExport command-hub/serve";
    says(&scene, &["unexport", "serve"], &[warning, deleted]).await?;
    imported_in_exactly(&scene, &[]).await?;
    scene.goes(&[1], "ServiceExport serve").await?;
    says(&scene, &["unexport", "serve"], &["is not exported by this hub"]).await
}

pub(crate) async fn exported_in_a_member_by_one_command_it_is_offered_and_taken_back_by_another(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "command-member", &[1, 2]).await?;
    scene.apply(1, service(1, &[("http", 80)], 1)).await?;
    let export = ["export", "serve", "--context", "member1"];
    let offered = "offered as serve.command-member.svc.clusterset.local";
    says(&scene, &export, &["Service command-member/serve is exported\n", offered]).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    says(&scene, &export, &["Service command-member/serve is exported already", offered]).await?;
    let unexport = ["unexport", "serve", "--context", "member1"];
    says(&scene, &unexport, &["is exported no more"]).await?;
    imported_in_exactly(&scene, &[]).await?;
    says(&scene, &unexport, &["is not exported"]).await
}

pub(crate) async fn an_export_that_cannot_be_is_refused_before_anything_is_written(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "command-no", &[ON_THE_HUB, 1]).await?;
    let member = |line: &[&'static str]| [line, &["--context", "member1"]].concat();
    refuses(&scene, &member(&["export", "serve"]), "there is no Service command-no/serve in this cluster")
        .await?;
    let away = json!({ "spec": { "type": "ExternalName", "externalName": "away.example" } });
    scene.apply(1, [object("Service", "away", away)]).await?;
    refuses(&scene, &member(&["export", "away"]), "is of type ExternalName").await?;
    refuses(&scene, &member(&["export", "serve", "--to", "member2"]), "--from and --to are the hub's to say")
        .await?;
    refuses(&scene, &member(&["export", "serve", "--on", "hub"]), "--on: this cluster is no hub").await?;

    refuses(&scene, &["export", "serve"], "the hub has no Service command-no/serve").await?;
    scene.apply(ON_THE_HUB, [service(1, &[("http", 80)], 0)[0].clone()]).await?;
    refuses(&scene, &["export", "serve"], "no policy places Service command-no/serve").await?;
    refuses(
        &scene,
        &["export", "serve", "--to", "member9"],
        "the hub has no Cluster member9; it has member1",
    )
    .await?;
    // What the hub's webhook refuses: a policy of that name that another wrote is not even asked about.
    scene.apply(ON_THE_HUB, [places("serve-import", &["Service other"], &[2])]).await?;
    let line = ["export", "serve", "--from", "member1"];
    refuses(&scene, &line, "PropagationPolicy command-no/serve-import is there already and was not made by")
        .await?;
    for what in ["ServiceExport serve", "ServiceImport serve", "PropagationPolicy serve-export"] {
        ensure!(scene.get(ON_THE_HUB, what).await?.is_none(), "{what} was written");
    }
    ensure!(scene.get(1, "ServiceExport serve").await?.is_none(), "the member's export was written");
    // Nobody has its Service: it says why it is not reachable.
    scene.delete(ON_THE_HUB, &["PropagationPolicy serve-import"]).await?;
    let line = ["export", "serve", "--from", "member1", "--timeout", "3"];
    refuses(&scene, &line, "is exported, but not reachable after 3 s: not Valid: ").await
}

pub(crate) async fn a_command_that_waits_ends_when_it_is_interrupted(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "command-waits", &[ON_THE_HUB, 1]).await?;
    let binary = tokio::task::spawn_blocking(binary).await??;
    // Whoever runs the tests in the background of a shell has them ignore this signal, and so would the command.
    let mut command = tokio::process::Command::new("env");
    command.arg("--default-signal=INT").arg(binary);
    command.args(["export", "serve", "--from", "member1", "-n", &scene.namespace]);
    command.env("KUBECONFIG", bed.dir().join("all.kubeconfig")).kill_on_drop(true);
    let mut running = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(running.stdout.take().context("it was asked for")?).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with("not Valid yet") {
            break;
        }
    }
    let id = running.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it ended by itself")?;
    kill_process(id, Signal::INT)?;
    let ended = tokio::time::timeout(Duration::from_secs(10), running.wait()).await;
    let ended = ended.context("it goes on waiting")??;
    ensure!(ended.signal() == Some(2), "it ended with {ended}");
    Ok(())
}
