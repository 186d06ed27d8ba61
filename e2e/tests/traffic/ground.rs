//! What these tests share: servers that say which cluster they are in, callers in every cluster, and words for who answers.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    dns, fleet, images,
    scene::{Scene, is_ready, object, with},
    wait::{until, until_every},
};

use super::off::patience;

/// How long traffic may take to follow on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// The name of `serve` in the namespace of a scene.
pub(crate) fn clusterset(scene: &Scene) -> String {
    format!("serve.{}.svc.clusterset.local", scene.namespace)
}

/// A scene in a namespace that the given members have, as soon as they are members.
pub(crate) async fn scene(bed: &Arc<Bed>, namespace: &str, members: &[usize]) -> Result<Scene> {
    for member in &bed.members {
        fleet::until_ready(&bed.hub.client, &member.name, "True").await?;
    }
    let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
    for member in members {
        scene.apply(*member, [scene.here()]).await?;
    }
    Ok(scene)
}

/// Pods that answer over HTTP (8080), TCP and UDP (7000) with their cluster's name.
pub(crate) fn server(member: usize, replicas: u32) -> Value {
    object(
        "Deployment",
        &format!("serve-member{member}"),
        json!({ "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "serve" } },
            "template": { "metadata": { "labels": { "app": "serve" } }, "spec": pod(member) },
        } }),
    )
}

/// The spec of such a pod.
pub(crate) fn pod(member: usize) -> Value {
    json!({ "containers": [{
        "name": "serve", "image": images::ECHO, "args": ["--lame-duck=1s"],
        "env": [{ "name": "CLUSTER", "value": format!("member{member}") }],
        // A machine that stands still for seconds must not make all pods unready together.
        "readinessProbe": { "httpGet": { "path": "/", "port": 8080 }, "periodSeconds": 1, "timeoutSeconds": 10 },
    }] })
}

/// The Service of such pods, with more of it.
pub(crate) fn service(more: Value) -> Value {
    let ports = json!([
        { "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" },
        { "name": "tcp", "port": 7000, "protocol": "TCP" },
        { "name": "udp", "port": 7000, "protocol": "UDP" },
    ]);
    let plain =
        object("Service", "serve", json!({ "spec": { "selector": { "app": "serve" }, "ports": ports } }));
    with(plain, more)
}

pub(crate) fn export() -> Value {
    object("ServiceExport", "serve", json!({}))
}

/// Pods, Service and ServiceExport in a member.
pub(crate) async fn exported(scene: &Scene, member: usize, replicas: u32, more: Value) -> Result<()> {
    scene.apply(member, [server(member, replicas), service(more), export()]).await
}

/// Runs a script in a pod of a member, which is there for that, and gives back what it printed.
pub(crate) async fn in_pod(bed: &Arc<Bed>, member: usize, script: &str) -> Result<String> {
    let callers = Scene { bed: bed.clone(), namespace: "callers".to_owned() };
    let container = json!({ "name": "caller", "image": images::NETSHOOT, "command": ["sleep", "infinity"] });
    // All names that are asked are whole: none is looked for in the cluster's own domains first. They are asked again after a second: a
    // datagram may get lost on a busy machine.
    let options = json!({ "options": [
        { "name": "ndots", "value": "1" }, { "name": "timeout", "value": "1" }, { "name": "attempts", "value": "3" },
    ] });
    let pod = object("Pod", "caller", json!({ "spec": { "dnsConfig": options, "containers": [container] } }));
    if callers.get(member, "Pod caller").await?.is_none() {
        callers.apply(member, [callers.here()]).await?;
        // No pod is admitted before.
        callers.arrives(&[member], "ServiceAccount default").await?;
        callers.apply(member, [pod]).await?;
    }
    callers.says(member, "Pod caller", "/status/phase", "Running").await?;
    let kubectl = bed.kubectl(&bed.member(member).name);
    let line = ["exec", "--namespace=callers", "caller", "--", "sh", "-c", script];
    // On a busy machine kubectl may not get as far as the pod; what the script itself ends with is its answer.
    let ended = until("kubectl reaches the caller", PATIENCE, async || match kubectl.run(&line) {
        Err(lost) if !lost.to_string().contains("command terminated with exit code") => Err(lost),
        ended => Ok(ended),
    });
    ended.await?
}

/// Calls a URL from a pod of a member as many times and says which cluster answered each; a failure is `-`.
pub(crate) async fn calls(bed: &Arc<Bed>, member: usize, url: &str, times: usize) -> Result<Vec<String>> {
    let script = format!("for i in $(seq {times}); do curl -s -m 2 {url} || echo -; done");
    let said = in_pod(bed, member, &script).await?;
    let answers: Vec<_> = said.lines().map(cluster_of).collect();
    ensure!(answers.len() == times, "{times} calls got {said:?}");
    Ok(answers)
}

fn cluster_of(line: &str) -> String {
    let answer: Value = serde_json::from_str(line).unwrap_or_default();
    answer["cluster"].as_str().unwrap_or("-").to_owned()
}

/// Waits until calls from a member are answered, all of them and by all of these clusters alone.
pub(crate) async fn answered_by(scene: &Scene, from: usize, wanted: &[&str]) -> Result<()> {
    url_answered_by(scene, from, &format!("http://{}/", clusterset(scene)), wanted).await
}

/// The same for any URL.
pub(crate) async fn url_answered_by(scene: &Scene, from: usize, url: &str, wanted: &[&str]) -> Result<()> {
    let wanted: BTreeSet<String> = wanted.iter().map(|&cluster| cluster.to_owned()).collect();
    until(&format!("{url} is answered in member{from} by {wanted:?}"), PATIENCE, async || {
        let answers: BTreeSet<_> = calls(&scene.bed, from, url, 24).await?.into_iter().collect();
        ensure!(answers == wanted, "it is answered by {answers:?}");
        Ok(())
    })
    .await
}

/// Waits until an object's list of conditions has one of this kind and status, and gives back its reason and message.
pub(crate) async fn condition(
    scene: &Scene,
    place: usize,
    what: &str,
    kind: &str,
    status: &str,
) -> Result<(String, String)> {
    until(&format!("{kind} of {what} in member{place} is {status}"), PATIENCE, async || {
        let all = scene.field(place, what, "/status/conditions").await?;
        let found = all.as_array().into_iter().flatten().find(|found| found["type"] == kind);
        let found = found.with_context(|| format!("it says {all}"))?;
        ensure!(found["status"] == status, "it says {found}");
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Ok((text("reason"), text("message")))
    })
    .await
}

/// Waits until the import is in these members and says what is wanted of its spec.
pub(crate) async fn imported(
    scene: &Scene,
    members: &[usize],
    wanted: impl Fn(&Value) -> Result<()>,
) -> Result<()> {
    for member in members {
        let (patience, pause) = patience(&scene.bed);
        until_every(pause, &format!("member{member} imports it so"), patience, async || {
            let import = scene.find(*member, "ServiceImport serve").await?;
            ensure!(
                !import["spec"]["ipFamilies"].as_array().is_none_or(Vec::is_empty),
                "not served: {import}"
            );
            wanted(&import).with_context(|| format!("it is {import}"))
        })
        .await?;
    }
    Ok(())
}

/// The import, and nothing in particular about it.
pub(crate) fn anyhow_so(_: &Value) -> Result<()> {
    Ok(())
}

/// Looks for a while and fails as soon as something is seen not to be so. A look that got no answer, as on a busy machine, says nothing;
/// the last one must have got one.
pub(crate) async fn stays(what: &str, probe: impl AsyncFn() -> Result<()>) -> Result<()> {
    // An import that nobody exports any more goes after five seconds: longer than that.
    let until = Instant::now() + Duration::from_secs(7);
    let mut lost = 0;
    loop {
        let last = Instant::now() >= until;
        match probe().await {
            Ok(()) if last => return Ok(()),
            Ok(()) => {}
            Err(error) if error.is::<kube::Error>() && lost < 20 => lost += 1,
            Err(error) => return Err(error.context(what.to_owned())),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Exports a Service in member 1 and then another in member 2, which is younger by a second at least.
pub(crate) async fn exported_in_turn(scene: &Scene, first: &[Value], second: &[Value]) -> Result<()> {
    scene.apply(1, first.iter().cloned()).await?;
    imported(scene, &[1], anyhow_so).await?;
    // Creation times are whole seconds.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    scene.apply(2, second.iter().cloned()).await
}

/// The ports of an import or a Service as `name:port/protocol`, in order.
pub(crate) fn ports(spec: &Value) -> Vec<String> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut ports: Vec<_> = ports
        .map(|port| format!("{}:{}/{}", text(&port["name"]), port["port"], text(&port["protocol"])))
        .collect();
    ports.sort();
    ports
}

/// The slices that a member's import has.
pub(crate) async fn slices(scene: &Scene, member: usize) -> Result<Vec<EndpointSlice>> {
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(member).clone(), &scene.namespace);
    let of_import = ListParams::default().labels("multicluster.kubernetes.io/service-name=serve");
    Ok(api.list(&of_import).await?.items)
}

/// Waits until a member's import has so many endpoints, all of them ready.
pub(crate) async fn ready(scene: &Scene, member: usize, number: usize) -> Result<()> {
    until(&format!("member{member} has {number} ready endpoints"), PATIENCE, async || {
        let slices = slices(scene, member).await?;
        let all: Vec<_> = slices.iter().flat_map(|slice| &slice.endpoints).collect();
        ensure!(all.len() == number && all.iter().all(|endpoint| is_ready(endpoint)), "it has {all:?}");
        Ok(())
    })
    .await
}

/// The addresses of the pods of `serve` that are ready in a member, in order, when there are as many.
pub(crate) async fn pod_addresses(scene: &Scene, member: usize, number: usize) -> Result<Vec<String>> {
    let api: Api<Pod> = Api::namespaced(scene.client(member).clone(), &scene.namespace);
    until(&format!("member{member} has {number} pods"), PATIENCE, async || {
        let pods = api.list(&ListParams::default().labels("app=serve")).await?.items;
        let ready = pods.into_iter().filter_map(|pod| {
            let status = pod.status?;
            let ready = status.conditions?.iter().any(|one| one.type_ == "Ready" && one.status == "True");
            ready.then_some(status.pod_ip).flatten()
        });
        let mut ready: Vec<String> = ready.collect();
        ensure!(ready.len() == number, "{ready:?} are ready");
        ready.sort();
        Ok(ready)
    })
    .await
}

/// Waits until the DNS server of a member has exactly these IPv4 addresses for a name.
pub(crate) async fn resolves(scene: &Scene, member: usize, name: &str, wanted: &[String]) -> Result<()> {
    has_addresses(scene, member, "A", name, wanted).await
}

/// The same for a type of addresses; none are an answer without any, not the lack of the name.
pub(crate) async fn has_addresses(
    scene: &Scene,
    member: usize,
    kind: &str,
    name: &str,
    wanted: &[String],
) -> Result<()> {
    until(&format!("{kind} {name} resolves in member{member}"), PATIENCE, async || {
        let found = dns::addresses(&scene.bed, member, kind, name)?;
        ensure!(found == wanted, "{name} is {found:?}, not {wanted:?}");
        Ok(())
    })
    .await
}

/// Waits until a name has exactly these SRV records, each as `<port> <target>`, in order; weights are the server's to choose.
pub(crate) async fn has_srv(scene: &Scene, member: usize, name: &str, wanted: &[String]) -> Result<()> {
    until(&format!("SRV {name} in member{member}"), PATIENCE, async || {
        let answer = dns::ask(&scene.bed, member, "SRV", name)?;
        let records = answer.records.iter().map(|record| record.splitn(4, ' ').nth(3).unwrap_or_default());
        let mut records: Vec<&str> = records.collect();
        records.sort_unstable();
        ensure!(records == wanted, "it is {answer:?}, not {wanted:?}");
        Ok(())
    })
    .await
}
