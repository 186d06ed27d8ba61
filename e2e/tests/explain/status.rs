//! The status of the whole fleet.

use std::{process::Stdio, sync::Arc};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, PATIENCE, config_map, object, places},
    tombolo::{binary, left_on_a_terminal},
    wait::until,
};

use super::ground::*;

fn has<'a>(status: &'a Value, part: &str, name: &str) -> Result<&'a Value> {
    let rows = status[part].as_array().with_context(|| format!("there is no {part}: {status}"))?;
    rows.iter().find(|row| row["name"] == name).with_context(|| format!("{part} lack {name}: {rows:?}"))
}

pub(crate) async fn a_status_in_json_and_yaml_has_all_parts(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "parts", &[1, 2]).await?;
    for (member, port) in [(1, 80), (2, 8080)] {
        let ports = json!({ "spec": { "ports": [{ "name": "http", "port": port }] } });
        scene.apply(member, [object("Service", "parted", ports)]).await?;
    }
    let import = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80 }] } });
    // First the import: it would be refused once the hub knows of member2's port.
    let import = object("ServiceImport", "parted", import);
    scene.apply(HUB, [import, places("parted-import", &["ServiceImport parted"], &[2])]).await?;
    let export = object("ServiceExport", "parted", json!({}));
    scene.apply(HUB, [export, places("parted", &["ServiceExport parted"], &[1, 2])]).await?;
    until("the status has it all", PATIENCE, async || {
        let status = status(&bed).await?;
        let member = has(&status, "members", "member1")?;
        ensure!(member["ready"] == "True" && member["agent"] == "True", "{member}");
        ensure!(member["version"].as_str().is_some_and(|version| version.starts_with("v1.")), "{member}");
        let policy = has(&status, "policies", "parted")?;
        ensure!(policy["matched"] == 1 && policy["applied"] == 2, "{policy}");
        let export = has(&status, "exports", "parted")?;
        ensure!(export["valid"] == "True" && export["conflict"] == "True", "{export}");
        let import = has(&status, "imports", "parted")?;
        ensure!(import["clusters"] == json!(["member1", "member2"]), "{import}");
        let conflict = has(&status, "conflicts", "parted")?;
        ensure!(conflict["reason"] == "PortConflict", "{conflict}");
        ensure!(status["hub"]["atWork"] == true, "{}", status["hub"]);
        let problems = status["problems"].to_string();
        ensure!(problems.contains("serviceexport/parted -n parts"), "{problems}");
        Ok(())
    })
    .await?;
    let (_, table) = tombolo(&bed, &["status", "-n", "parts"]).await?;
    eprintln!("{table}");
    let (_, yaml) = tombolo(&bed, &["status", "-n", "parts", "-o", "yaml"]).await?;
    ensure!(yaml.contains("\nmembers:\n") && yaml.contains("name: parted"), "{yaml}");
    let (_, json) = tombolo(&bed, &["explain", "svcex/parted", "-n", "parts", "-o", "json"]).await?;
    let explained: Value = serde_json::from_str(&json)?;
    ensure!(explained["state"] == "notWell" && explained["cause"].is_string(), "{explained}");
    let (_, none) = tombolo(&bed, &["status", "-n", "nobody-is-here"]).await?;
    ensure!(none.contains("no exports on the hub in namespace nobody-is-here, -A shows all"), "{none}");
    Ok(())
}

pub(crate) async fn a_status_fits_a_terminal_and_is_whole_and_has_no_colours_in_a_pipe(
    bed: Arc<Bed>,
) -> Result<()> {
    let name = format!("long-{}", "x".repeat(50));
    let scene = scene(&bed, "a-namespace-whose-name-is-rather-long", &[1]).await?;
    let import = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80 }] } });
    scene
        .apply(HUB, [object("ServiceExport", &name, json!({})), object("ServiceImport", &name, import)])
        .await?;
    let what = format!("ServiceExport {name}");
    scene.apply(HUB, [places(&format!("{name}-policy"), &[&what], &[1])]).await?;
    let line = ["status", "-n", &scene.namespace];
    let table = until("the table has it", PATIENCE, async || {
        let (_, table) = tombolo(&bed, &line).await?;
        ensure!(table.contains("a-namespace-whose-name-is-rather-long/"), "{table}");
        Ok(table)
    })
    .await?;
    let whole = format!("{}/{name}", scene.namespace);
    ensure!(table.contains(&whole), "a name is cut in a pipe: {table}");
    let shown = on_a_terminal(&bed, &format!("status -n {}", scene.namespace), true).await?;
    eprintln!("{shown}");
    ensure!(shown.contains("a-namespace-whose-name-is-rather-long/"), "{shown}");
    for line in shown.lines() {
        ensure!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let (_, wide) = tombolo(&bed, &[&line[..], &["-o", "wide"]].concat()).await?;
    ensure!(wide.contains(&whole), "wide cuts nothing: {wide}");
    ensure!(!table.contains('\x1b') && !wide.contains('\x1b'), "there are colours");
    Ok(())
}

pub(crate) async fn a_watched_status_shows_a_change(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "watched", &[]).await?;
    let program = tokio::task::spawn_blocking(binary).await??;
    let mut watching = tokio::process::Command::new(program)
        .args(["status", "--watch", "-n", "watched"])
        .env("KUBECONFIG", bed.dir().join("all.kubeconfig"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(watching.stdout.take().context("it is piped")?).lines();
    let mut shows = async |what: &str| {
        let found = async {
            while let Some(line) = lines.next_line().await? {
                if line.contains(what) {
                    return anyhow::Ok(line);
                }
            }
            anyhow::bail!("it ended")
        };
        tokio::time::timeout(PATIENCE, found).await.with_context(|| format!("it does not show {what}"))?
    };
    shows("no policies in namespace watched").await?;
    scene.apply(HUB, [config_map("one", json!({})), places("p", &["ConfigMap one"], &[1])]).await?;
    let line = shows("watched/p").await?;
    ensure!(!line.contains('\x1b'), "{line:?}");
    shows("watched/p  Propagated").await?;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(watching.id().context("it runs")?)?)
            .context("it runs")?,
        rustix::process::Signal::INT,
    )?;
    let ended = tokio::time::timeout(PATIENCE, watching.wait()).await.context("it does not end")??;
    ensure!(ended.success(), "{ended}");
    Ok(())
}

pub(crate) async fn exit_codes_are_as_they_are_documented(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "codes", &[]).await?;
    scene.apply(HUB, [config_map("one", json!({})), config_map("two", json!({}))]).await?;
    scene.apply(HUB, [places("p", &["ConfigMap one"], &[1])]).await?;
    begins(&scene, "configmap/one", &["is well"]).await?;
    for (line, wanted) in [
        (&["explain", "configmap/one", "-n", "codes", "--exit-code"][..], 0),
        (&["explain", "configmap/two", "-n", "codes"], 0),
        (&["explain", "configmap/two", "-n", "codes", "--exit-code"], 3),
        (&["explain", "configmap", "three", "-n", "codes"], 1),
        (&["explain", "nokind/three"], 1),
        (&["explain", "configmap/one", "-n", "codes", "--hub-context", "nobody"], 1),
        (&["explain"], 2),
        (&["explain", "three"], 2),
        (&["status", "-n", "codes"], 0),
        (&["status", "--hub-kubeconfig", "/nowhere"], 1),
        (&["status", "-n", "codes", "-A"], 2),
    ] {
        let (output, text) = tombolo(&bed, line).await?;
        let failed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(wanted), "{line:?}: {}: {text}{failed}", output.status);
    }
    // A policy that nobody can meet is not well.
    scene.apply(HUB, [places("q", &["ConfigMap two"], &[9])]).await?;
    until("the status tells it", PATIENCE, async || {
        let (output, text) = tombolo(&bed, &["status", "-n", "codes", "--exit-code"]).await?;
        ensure!(
            output.status.code() == Some(3) && text.contains("pp/q -n codes: "),
            "{}: {text}",
            output.status
        );
        Ok(())
    })
    .await
}

/// What a command prints to a terminal of eighty columns.
async fn on_a_terminal(bed: &Bed, line: &str, no_colour: bool) -> Result<String> {
    let program = tokio::task::spawn_blocking(binary).await??;
    let mut command = tokio::process::Command::new("script");
    command.args(["--quiet", "--return", "--command"]).arg(format!("{} {line}", program.display()));
    command.arg("/dev/null").env("KUBECONFIG", bed.dir().join("all.kubeconfig"));
    command.env_remove("COLUMNS").env_remove("NO_COLOR").stdin(Stdio::null());
    if no_colour {
        command.env("NO_COLOR", "1");
    }
    let output = command.output().await.context("failed to run script, of bsdutils")?;
    Ok(left_on_a_terminal(&String::from_utf8(output.stdout)?))
}

pub(crate) async fn on_a_terminal_there_are_colours_and_lines_are_broken(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "coloured", &[]).await?;
    scene.apply(HUB, [config_map("one", json!({})), places("p", &["ConfigMap one"], &[1, 9])]).await?;
    begins(&scene, "configmap/one", &["there is no cluster \"member9\" yet"]).await?;
    for line in ["explain configmap/one -n coloured", "status -n coloured", "explain pp/p -n coloured"] {
        let coloured = on_a_terminal(&bed, line, false).await?;
        ensure!(coloured.contains("\x1b["), "{line}: there are no colours: {coloured}");
        let plain = on_a_terminal(&bed, line, true).await?;
        ensure!(!plain.contains('\x1b'), "{line}: NO_COLOR does not count: {plain}");
        eprintln!("{plain}");
        let wide = plain.lines().find(|line| line.chars().count() > 80);
        ensure!(wide.is_none(), "{line}: a line is wider than the terminal: {wide:?}");
    }
    Ok(())
}

pub(crate) async fn a_status_of_members_shows_what_they_share_without_the_hub(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "members-own", &[1, 2]).await?;
    let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 80 }] } });
    scene.apply(1, [object("Service", "own", ports), object("ServiceExport", "own", json!({}))]).await?;
    until("members' own exports are shown", PATIENCE, async || {
        let line = ["status", "-n", &scene.namespace, "--members", "-o", "json"];
        let (_, text) = tombolo(&bed, &line).await?;
        let status: Value = serde_json::from_str(&text)?;
        let service = has(&status, "services", "own")?;
        ensure!(service["exportedBy"] == json!(["member1"]) && service["valid"] == "True", "{service}");
        ensure!(service["importedBy"] == json!(["member1", "member2"]), "{service}");
        ensure!(has(&status, "members", "member1")?["pending"].is_number(), "{status}");
        Ok(())
    })
    .await?;
    let (_, table) = tombolo(&bed, &["status", "-n", &scene.namespace, "--members"]).await?;
    eprintln!("{table}");
    ensure!(table.contains("members-own/own  member1      member1,member2"), "{table}");
    let shown = on_a_terminal(&bed, &format!("status -n {} --members", scene.namespace), true).await?;
    let wide = shown.lines().find(|line| line.chars().count() > 80);
    ensure!(wide.is_none(), "a line is wider than a terminal: {wide:?}");
    let (_, without) = tombolo(&bed, &["status", "-n", &scene.namespace, "-o", "json"]).await?;
    ensure!(serde_json::from_str::<Value>(&without)?.get("services").is_none(), "{without}");
    for what in ["service/own", "svcex/own", "svcim/own"] {
        let shared = "(exported by member1, imported by member1 and member2)";
        begins(&scene, what, &["members share it without any policy of the hub", shared]).await?;
    }
    Ok(())
}

pub(crate) async fn it_is_a_plugin_of_kubectl(bed: Arc<Bed>) -> Result<()> {
    let program = tokio::task::spawn_blocking(binary).await??;
    let folder = bed.dir().join("plugins");
    std::fs::create_dir_all(&folder)?;
    std::os::unix::fs::symlink(program, folder.join("kubectl-tombolo"))?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let kubectl = bed.kubectl("hub").command(&[]).get_program().to_owned();
    let run = |line: &'static [&'static str]| {
        let mut command = tokio::process::Command::new(&kubectl);
        command.args(line).env("PATH", &path).env("KUBECONFIG", bed.dir().join("all.kubeconfig"));
        async move { anyhow::Ok(String::from_utf8(command.output().await?.stdout)?) }
    };
    let status = run(&["tombolo", "status", "-A"]).await?;
    ensure!(status.starts_with("hub: ") && status.contains("member1"), "{status}");
    let version = run(&["tombolo", "version"]).await?;
    ensure!(version.starts_with("tombolo "), "{version}");
    let help = run(&["tombolo", "plan", "--help"]).await?;
    ensure!(help.contains("Usage: kubectl tombolo plan"), "{help}");
    let listed = run(&["plugin", "list"]).await?;
    ensure!(listed.contains("kubectl-tombolo"), "{listed}");
    Ok(())
}
