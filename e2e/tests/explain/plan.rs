//! `tombolo plan`: what a file would change, told by a hub that is not changed by that.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, PATIENCE, Scene, deployment, object, places, with},
    wait::until,
};

use super::ground::*;

/// The exit code of a plan in which something would be refused.
const REFUSED: i32 = 3;

/// A file of objects.
fn file(scene: &Scene, name: &str, objects: &[Value]) -> Result<String> {
    let path = scene.bed.dir().join(format!("plan-{}-{name}.yaml", scene.namespace));
    let documents: Vec<_> = objects.iter().map(ToString::to_string).collect();
    std::fs::write(&path, documents.join("\n---\n"))?;
    Ok(path.to_str().context("a bed's folder has a name in UTF-8")?.to_owned())
}

/// A plan of a file in the scene's namespace, as JSON, and how it ended.
async fn planned(scene: &Scene, file: &str, more: &[&str]) -> Result<(Value, Option<i32>)> {
    let line = [&["plan", "-f", file, "-n", &scene.namespace], more].concat();
    let (_, text) = tombolo(&scene.bed, &line).await?;
    eprintln!("$ tombolo {}\n{text}", line.join(" "));
    let (output, text) = tombolo(&scene.bed, &[&line[..], &["-o", "json"]].concat()).await?;
    let failed = String::from_utf8_lossy(&output.stderr);
    let plan = serde_json::from_str(&text).with_context(|| format!("it is no JSON: {text}{failed}"))?;
    Ok((plan, output.status.code()))
}

/// What would happen to copies, in words.
fn copies(plan: &Value) -> Vec<String> {
    let all = plan["copies"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|copy| {
        format!(
            "{} {} {} {}",
            text(&copy["cluster"]),
            text(&copy["action"]),
            text(&copy["kind"]),
            text(&copy["name"])
        )
    })
    .collect()
}

pub(crate) async fn a_plan_of_a_story_says_what_goes_where_and_writes_nothing(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "plan-story", &[1, 2]).await?;
    let marks: Vec<_> =
        bed.clusters().map(|cluster| bed.audit(&cluster.name).mark()).collect::<Result<_>>()?;
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("stories/004");
    let (plan, code) = planned(&scene, folder.to_str().context("it is UTF-8")?, &[]).await?;
    ensure!(code == Some(0), "{code:?}");
    let objects = plan["objects"].as_array().context("there are objects")?;
    ensure!(objects.len() == 9 && objects.iter().all(|object| object["outcome"] == "create"), "{objects:?}");
    let copies = copies(&plan);
    for wanted in [
        "member1 create Deployment serve",
        "member1 create Service serve",
        "member1 create ServiceExport serve",
        "member2 create CustomResourceDefinition serviceimports.multicluster.x-k8s.io",
    ] {
        ensure!(copies.iter().any(|copy| copy == wanted), "{wanted} is not in {copies:?}");
    }
    ensure!(!copies.iter().any(|copy| copy.starts_with("member3")), "{copies:?}");
    let service = &plan["services"][0];
    ensure!(service["appearsIn"] == json!(["member2"]) && service["derived"] == "derived-serve", "{service}");
    ensure!(service["exportedBy"] == json!({ "member1": "80/TCP" }), "{service}");

    for (cluster, mark) in bed.clusters().zip(marks) {
        let requests = bed.audit(&cluster.name).since(mark)?;
        // Kubernetes' own controllers fill a new namespace.
        let asked = |request: &&tombolo_e2e::audit::Request| {
            let of = &request.object_ref;
            (request.is_by_hub() || !request.user.name.starts_with("system:"))
                && (of.namespace == scene.namespace || of.name.starts_with("service"))
        };
        let mut asked = requests.iter().filter(asked);
        let written = asked.clone().find(|request| request.is_a_change());
        ensure!(
            written.is_none(),
            "{}: {}",
            cluster.name,
            written.map(ToString::to_string).unwrap_or_default()
        );
        let dry = asked.any(|request| !request.is_a_change());
        ensure!(dry == (cluster.name == "hub"), "dry runs in {}: {dry}", cluster.name);
    }
    Ok(())
}

pub(crate) async fn a_plan_of_a_policy_says_what_moves_and_what_stays_without_it(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "plan-moves", &[]).await?;
    let on = |members: &[usize]| places("p", &["Deployment web"], members);
    scene.apply(HUB, [deployment("web", 1), on(&[1])]).await?;
    begins(&scene, "deploy/web", &["is well"]).await?;

    let moved = file(&scene, "moved", &[on(&[2])])?;
    let (plan, code) = planned(&scene, &moved, &[]).await?;
    ensure!(code == Some(0) && plan["objects"][0]["outcome"] == "change", "{plan}");
    ensure!(copies(&plan) == ["member1 delete Deployment web", "member2 create Deployment web"], "{plan}");
    let stronger = with(places("strong", &["Deployment web"], &[1, 2]), json!({ "spec": { "priority": 5 } }));
    let scaled = file(&scene, "stronger", &[stronger, deployment("web", 3)])?;
    let (plan, _) = planned(&scene, &scaled, &[]).await?;
    ensure!(copies(&plan) == ["member1 change Deployment web", "member2 create Deployment web"], "{plan}");
    ensure!(plan["copies"][0]["fields"] == json!(["spec.replicas: 1 → 3"]), "{plan}");
    ensure!(plan["policies"][0]["after"] == "PropagationPolicy plan-moves/strong", "{plan}");

    let (plan, _) = planned(&scene, &moved, &["--delete"]).await?;
    ensure!(copies(&plan) == ["member1 keep Deployment web"], "it stays without its policy: {plan}");
    let template = file(&scene, "template", &[deployment("web", 1)])?;
    let (plan, _) = planned(&scene, &template, &["--delete"]).await?;
    ensure!(copies(&plan) == ["member1 delete Deployment web"], "{plan}");
    let (plan, code) = planned(&scene, &template, &["--server-side"]).await?;
    ensure!(code == Some(0) && copies(&plan).is_empty(), "{plan}");
    begins(&scene, "deploy/web", &["is well: it is in member1"]).await.map(drop)
}

pub(crate) async fn a_plan_says_what_would_be_refused_and_the_way_out(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "plan-refused", &[1]).await?;
    let port = |number: u16| json!({ "spec": { "ports": [{ "name": "http", "port": number }] } });
    let service = object("Service", "serve", port(80));
    let export = object("ServiceExport", "serve", json!({}));
    let policy = places("p", &["Service serve", "ServiceExport serve"], &[1]);
    let import =
        with(object("ServiceImport", "serve", port(8080)), json!({ "spec": { "type": "ClusterSetIP" } }));

    // A dry run of the import alone is admitted: only what comes before it in the file makes the conflict.
    let all = [service.clone(), export.clone(), policy.clone(), import.clone()];
    let (plan, code) = planned(&scene, &file(&scene, "all", &all)?, &[]).await?;
    ensure!(code == Some(REFUSED), "{code:?}: {plan}");
    let outcomes: Vec<_> =
        plan["objects"].as_array().into_iter().flatten().map(|it| &it["outcome"]).collect();
    ensure!(outcomes == ["create", "create", "create", "refused"], "{plan}");

    scene.apply(HUB, [service, export, policy]).await?;
    until("the hub itself refuses it", PATIENCE, async || {
        let (plan, code) =
            planned(&scene, &file(&scene, "import", std::slice::from_ref(&import))?, &[]).await?;
        ensure!(code == Some(REFUSED), "{code:?}: {plan}");
        let said = plan["objects"][0]["refusal"].as_str().unwrap_or_default();
        for word in ["denied the request", "http", "8080", "80/TCP", "member1", "tombolo.dev/port-conflicts"]
        {
            ensure!(said.contains(word), "it lacks {word}: {said}");
        }
        Ok(())
    })
    .await?;
    let alone = file(&scene, "alone", &[import])?;
    let (_, text) = tombolo(&bed, &["plan", "-f", &alone, "-n", "plan-refused"]).await?;
    ensure!(text.starts_with("1 of 1 objects would be refused; nothing would change\n"), "{text}");
    Ok(())
}

pub(crate) async fn a_plan_knows_namespaces_and_kinds_that_the_file_brings_along(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "plan-new", &[]).await?;
    let here = json!({ "metadata": { "namespace": "plan-newer" } });
    let map = with(object("ConfigMap", "one", json!({})), here.clone());
    let policy = with(places("p", &["ConfigMap one"], &[1]), here);
    let namespace = object("Namespace", "plan-newer", json!({}));
    let path = file(&scene, "all", &[namespace, policy.clone(), map.clone()])?;
    let (output, text) = tombolo(&bed, &["plan", "-f", &path, "-o", "json"]).await?;
    let plan: Value = serde_json::from_str(&text)?;
    ensure!(output.status.success() && copies(&plan) == ["member1 create ConfigMap one"], "{plan}");
    ensure!(
        plan["objects"][1]["warnings"].to_string().contains("namespace plan-newer does not exist yet"),
        "{plan}"
    );

    let path = file(
        &scene,
        "lacking",
        &[policy, map, json!({ "apiVersion": "no.such/v1", "kind": "Kind", "metadata": { "name": "x" } })],
    )?;
    let (output, text) = tombolo(&bed, &["plan", "-f", &path]).await?;
    ensure!(output.status.code() == Some(REFUSED), "{text}");
    for word in [
        "3 of 3 objects would be refused",
        "create namespace plan-newer first",
        "does not serve Kind.no.such",
    ] {
        ensure!(text.contains(word), "it lacks {word}: {text}");
    }
    let (output, _) = tombolo(&bed, &["plan", "-f", "/nowhere.yaml"]).await?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    let (output, _) = tombolo(&bed, &["plan"]).await?;
    ensure!(output.status.code() == Some(2), "{output:?}");
    Ok(())
}
