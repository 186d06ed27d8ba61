//! The documents that Tombolo grew out of, step by step as they are written, with the answers that they promise.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt};
use kube_runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tombolo_e2e::{
    bed::Bed,
    fleet, images,
    kubectl::Kubectl,
    scene::{Scene, with},
    tombolo::{self, Component, Manner},
    wait::{Final, until},
};

use super::ground::*;

/// A manifest of a story, its documents one by one.
fn documents(story: &str, file: &str) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories").join(story).join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(text.split("\n---\n").map(str::to_owned).collect())
}

/// Applies a document of a story: a busy machine may not get it done at the first try.
async fn applied(kubectl: &Kubectl, document: &str) -> Result<()> {
    until("the document is applied", PATIENCE, async || kubectl.apply(document).map(drop)).await
}

/// The pod `request` of the documents: what it printed, though a request failed.
fn request(kubectl: &Kubectl, address: &str, more: &[&str]) -> Result<String> {
    let line = ["run", "-i", "--rm", "--restart=Never", "--image", images::REQUEST, "request", "--"];
    let address = format!("--address={address}");
    let output = kubectl.output(&[&line[..], more, &[&address]].concat())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    // It ends with 1 then, and says so in its lines.
    let told = output.status.success() || printed.contains("failed: ");
    ensure!(told, "{}: {printed}{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(printed)
}

/// Fails if a request failed among what was printed.
fn none_failed(printed: &str) -> Result<()> {
    ensure!(!printed.contains("failed: "), "{printed}");
    Ok(())
}

/// The answers among the lines that it printed.
fn answers(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.contains("hello from cluster")).collect()
}

/// Writes down every Service that is ever seen in a cluster. An error of a watch is told, and the watch goes on.
fn watched(bed: &Bed, seen: &Arc<Mutex<BTreeSet<(usize, String)>>>) -> Vec<AbortOnDropHandle<()>> {
    let watch = |member: usize| {
        let services: Api<Service> = Api::all(bed.member(member).client.clone());
        let seen = seen.clone();
        let task = async move {
            let stream = watcher(services, watcher::Config::default()).default_backoff().applied_objects();
            let noted = stream.for_each(async |service| match service {
                Ok(service) => {
                    seen.lock().expect("no test panics with it").insert((member, service.name_any()));
                }
                Err(error) => eprintln!("the watch of Services in member{member}: {error}"),
            });
            noted.await;
        };
        AbortOnDropHandle::new(tokio::spawn(task))
    };
    (1..=bed.members.len()).map(watch).collect()
}

/// Applies what is in the document slowly, step by step, and waits until the Service is derived in member 2.
async fn walked(bed: &Arc<Bed>) -> Result<Scene> {
    for member in &bed.members {
        fleet::until_ready(&bed.hub.client, &member.name, "True").await?;
    }
    let scene = Scene { bed: bed.clone(), namespace: "default".to_owned() };
    for file in ["1-crds.yaml", "2-workload.yaml", "3-export.yaml", "4-import.yaml"] {
        for document in documents("004", file)? {
            applied(&bed.kubectl("hub"), &document).await?;
            scene.settles().await?;
        }
    }
    scene.arrives(&[2], "Service derived-serve").await?;
    Ok(scene)
}

/// Fails unless the watches show that at no moment there was a derived Service but the one in member 2.
async fn derived_in_member2_alone(
    scene: &Scene,
    watches: &[AbortOnDropHandle<()>],
    seen: &Mutex<BTreeSet<(usize, String)>>,
) -> Result<()> {
    scene.settles().await?;
    ensure!(!watches.iter().any(AbortOnDropHandle::is_finished), "a watch of Services ended");
    let seen: BTreeSet<(usize, String)> = seen.lock().expect("no test panics with it").clone();
    // What each cluster has shows that its watch works.
    let each = (1..=3).all(|member| seen.contains(&(member, "kubernetes".to_owned())));
    let derived: Vec<_> = seen.iter().filter(|(_, service)| service.starts_with("derived-")).collect();
    ensure!(each && derived == [&(2, "derived-serve".to_owned())], "{seen:?}");
    Ok(())
}

pub(crate) async fn story_004_the_request_pod_in_member2_prints_member1s_line_every_second(
    bed: Arc<Bed>,
) -> Result<()> {
    let seen = Arc::default();
    let watches = watched(&bed, &seen);
    for member in &bed.members {
        bed.join(&member.name, &["--skip-crds"]).await?;
    }
    let scene = walked(&bed).await?;
    let address = scene.field(2, "Service derived-serve", "/spec/clusterIP").await?;
    let address = address.as_str().context("it is no text")?;
    bed.kubectl("member1").run(&["rollout", "status", "deployment/serve", "--timeout=180s"])?;
    let member2 = bed.kubectl("member2");
    until("the request pod prints member1's line every second", PATIENCE, async || {
        let printed = request(&member2, address, &["--duration=3s"])?;
        let line = "'hello from cluster member1 (Node: member1-control-plane Pod: serve-";
        let answers = answers(&printed);
        ensure!(answers.iter().all(|answer| answer.contains(line)), Final(printed.clone()));
        // kubectl may print a line twice: from the log, and when it attaches. Each has the second when it was answered.
        let answers: BTreeSet<&str> = answers.into_iter().collect();
        ensure!(answers.len() == 3, "{printed}");
        none_failed(&printed)
    })
    .await?;
    derived_in_member2_alone(&scene, &watches, &seen).await
}

/// Member 3 could import: it has the definitions, which the document gives to members 1 and 2 alone, and shows at the end that its agent
/// is at work.
pub(crate) async fn story_004_derives_a_service_in_member2_alone_though_member3_has_the_definitions_too(
    bed: Arc<Bed>,
) -> Result<()> {
    let seen = Arc::default();
    let watches = watched(&bed, &seen);
    for (member, flags) in
        [("member1", &["--skip-crds"][..]), ("member2", &["--skip-crds"]), ("member3", &[])]
    {
        bed.join(member, flags).await?;
    }
    let scene = walked(&bed).await?;
    scene.is_absent(&[1, 3], "ServiceImport serve").await?;
    derived_in_member2_alone(&scene, &watches, &seen).await?;
    let other = json!({ "metadata": { "name": "other" } });
    scene.apply(1, [with(service(json!({})), other.clone()), with(export(), other)]).await?;
    scene.arrives(&[3], "Service derived-other").await
}

/// What the document does with `edit-meta`: a cluster's slice under another name and with the import's label alone.
fn by_hand(kubectl: &Kubectl) -> Result<Value> {
    let all =
        kubectl.run(&["get", "endpointslice", "-l", "kubernetes.io/service-name=serve", "-o", "json"])?;
    let slice: Value = serde_json::from_str(&all)?;
    let slice = &slice["items"][0];
    // What is copied stays as it is: an endpoint that is not ready would never get ready.
    let endpoints = slice["endpoints"].as_array().context("it has no endpoint yet")?;
    let ready = endpoints.iter().all(|endpoint| endpoint["conditions"]["ready"] == true);
    ensure!(!endpoints.is_empty() && ready, "its endpoints are {endpoints:?}");
    let name = slice["metadata"]["name"].as_str().context("it has no name")?;
    Ok(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("imported-{name}"), "labels": { "multicluster.kubernetes.io/service-name": "serve" } },
        "addressType": slice["addressType"], "endpoints": slice["endpoints"], "ports": slice["ports"],
    }))
}

/// The document's workload and Service in the namespace `demo` of both clusters.
async fn demo_in_both(bed: &Bed) -> Result<Vec<Kubectl>> {
    let mut clusters = Vec::new();
    for (member, workload) in [("member1", "dep1.yaml"), ("member2", "dep2.yaml")] {
        let cluster = bed.kubectl(member).in_namespace("demo")?;
        for document in documents("002", workload)?.into_iter().chain(documents("002", "svc.yaml")?) {
            applied(&cluster, &document).await?;
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

/// Agents in all members, and no hub.
async fn agents_alone(bed: &Bed) -> Result<Vec<Component>> {
    let binary = tokio::task::spawn_blocking(tombolo::binary).await??;
    let mut agents = Vec::new();
    for member in 1..=bed.members.len() {
        bed.prepare_member(member)?;
        agents.push(bed.start_agent(&binary, member, "agent", &[], Manner::default()).await?);
    }
    Ok(agents)
}

pub(crate) async fn story_002_two_clusters_by_hand_share_one_address_without_any_hub(
    bed: Arc<Bed>,
) -> Result<()> {
    let agents = agents_alone(&bed).await?;
    let scene = Scene { bed: bed.clone(), namespace: "demo".to_owned() };
    let clusters = demo_in_both(&bed).await?;
    let mut slices = Vec::new();
    for cluster in &clusters {
        slices.push(until("the Service has endpoints", PATIENCE, async || by_hand(cluster)).await?);
    }
    for cluster in &clusters {
        for document in
            [documents("002", "serviceimport.yaml")?, documents("002", "serviceimport-with-vip.yaml")?]
        {
            applied(cluster, &document.concat()).await?;
        }
        for slice in &slices {
            applied(cluster, &slice.to_string()).await?;
        }
    }
    for (member, cluster) in (1..).zip(&clusters) {
        one_address_for_both(&scene, member, cluster).await?;
        with_an_address_of_ones_own(&scene, member).await?;
    }
    drop(agents);
    Ok(())
}

pub(crate) async fn story_002_two_clusters_that_export_share_one_address_and_local_names_stay_local(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "demo", &[]).await?;
    let clusters = demo_in_both(&bed).await?;
    for (member, cluster) in (1..).zip(&clusters) {
        scene.apply(member, [export()]).await?;
        until("the Service has endpoints", PATIENCE, async || by_hand(cluster)).await?;
    }
    for (member, cluster) in (1..).zip(&clusters) {
        one_address_for_both(&scene, member, cluster).await?;
    }
    scene.is_absent(&[3], "Namespace demo").await
}

/// The import's address is answered by both clusters; the Service's own name is answered by its cluster alone.
async fn one_address_for_both(scene: &Scene, member: usize, cluster: &Kubectl) -> Result<()> {
    let here = format!("hello from cluster {member} (Node: member{member}-");
    let often = &["--interval=50ms", "--duration=2s", "--timeout=3s"][..];
    scene.arrives(&[member], "Service derived-serve").await?;
    let vip = until("the import has its address", PATIENCE, async || {
        let ip = scene.field(member, "ServiceImport serve", "/spec/ips/0").await?;
        Ok(ip.as_str().context("it is no text")?.to_owned())
    })
    .await?;
    until("both clusters answer", PATIENCE, async || {
        let printed = request(cluster, &vip, often)?;
        let from = |number: usize| {
            answers(&printed).iter().filter(|line| line.contains(&format!("cluster {number} ("))).count()
        };
        ensure!(from(1) > 0 && from(2) > 0, "{printed}");
        none_failed(&printed)
    })
    .await?;
    // A busy machine may lose a request; an answer from elsewhere is final.
    until("the local name is answered", PATIENCE, async || {
        let printed = request(cluster, "serve.demo.svc.cluster.local", often)?;
        let local = answers(&printed);
        ensure!(local.iter().all(|line| line.contains(&here)), Final(printed.clone()));
        ensure!(!local.is_empty(), "{printed}");
        none_failed(&printed)
    })
    .await?;
    // The DNS server follows a moment later.
    until("the name in the clusterset is answered by both", PATIENCE, async || {
        let printed = request(cluster, "serve.demo.svc.clusterset.local", often)?;
        let local = answers(&printed).iter().filter(|line| line.contains(&here)).count();
        ensure!(local > 0 && answers(&printed).len() > local, "{printed}");
        none_failed(&printed)
    })
    .await
}

/// An address that the cluster's range does not have stays as the user wrote it, and the condition says what serves instead.
async fn with_an_address_of_ones_own(scene: &Scene, member: usize) -> Result<()> {
    let (_, message) = condition(scene, member, "ServiceImport serve-with-vip", "Ready", "False").await?;
    ensure!(message.contains("1.2.3.4") && message.contains("range of valid IPs"), "{message}");
    scene.still_says(member, "ServiceImport serve-with-vip", "/spec/ips", json!(["1.2.3.4"])).await?;
    let other = scene.field(member, "Service derived-serve-with-vip", "/spec/clusterIP").await?;
    ensure!(other != "1.2.3.4", "{other}");
    Ok(())
}

pub(crate) async fn story_000_an_exported_service_answers_by_its_name_in_the_other_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "monti", &[1]).await?;
    let member1 = bed.kubectl("member1");
    for document in documents("000", "1-workload.yaml")? {
        applied(&member1, &document).await?;
    }
    let line = ["export", "monti-host", "--namespace", "monti", "--context", "member1"];
    let exported = bed.tombolo(&line).await?;
    let said = String::from_utf8_lossy(&exported.stdout);
    ensure!(
        exported.status.success() && said.contains("offered as monti-host.monti.svc.clusterset.local"),
        "{said}{}",
        String::from_utf8_lossy(&exported.stderr)
    );
    // Where there is no such namespace none is made, though the service is imported where it comes from.
    scene.arrives(&[1], "ServiceImport monti-host").await?;
    scene.is_absent(&[2, 3], "Namespace monti").await?;
    // 11. Create NS `monti` on cluster2.
    scene.apply(2, [scene.here()]).await?;
    let rollout =
        ["-n", "monti", "rollout", "status", "deployment/monti-deployment-server", "--timeout=180s"];
    let pods = member1.run(&rollout)?;
    ensure!(pods.contains("successfully rolled out"), "{pods}");
    let get = "for i in $(seq 20); do curl -s -m 2 http://monti-host.monti.svc.clusterset.local:8091; done";
    until("both pods answer by the name", PATIENCE, async || {
        let said = in_pod(&bed, 2, get).await?;
        let mut hosts: Vec<String> = said
            .lines()
            .map(|line| {
                let answer: Value = serde_json::from_str(line).unwrap_or_default();
                answer["hostname"].as_str().unwrap_or_default().to_owned()
            })
            .collect();
        ensure!(hosts.len() == 20, "20 calls got {said:?}");
        hosts.sort();
        hosts.dedup();
        ensure!(hosts.len() == 2, "answered by {hosts:?}");
        Ok(())
    })
    .await
}
