//! Hub and agents as processes with the accounts that the charts make: no more rights than those, and no request that needs more.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use tombolo::{hub::rights, membership::agent};
use tombolo_e2e::{
    audit::{Mark, Object},
    bed::Bed,
    fleet::until_ready,
    helm::{Chart, Helm, NAMESPACE},
    scene::{HUB, PATIENCE, Scene, config_map, definition, deployment, object, places, places_from, with},
    tombolo::{Component, Identity, Manner, binary},
    wait::until,
};

const MANNER: Manner = Manner { identity: Identity::Account, wait: true };
/// What the bed says itself when it starts a process: where things are on this machine.
const OF_THE_BED: [&str; 5] =
    ["--kubeconfig=", "--webhook-url=", "--webhook-address=", "--health-address=", "--webhook-service="];
/// The pods in another cluster, as these processes are.
const WORKLOAD: &[&str] =
    &["parts=workload", "apiServer.kubeconfigSecret.name=hub", "webhook.url=https://hub.example"];
const ACCESS: &str = "parts=access";
/// Rights to read what else is propagated.
const SECRETS: &str = "rbac.templates.secrets=true";
const GADGETS: &str = r#"rbac.extraRules:=[{"apiGroups":["rules.example"],"resources":["gadgets"],"verbs":["get","list","watch"]}]"#;
/// Rights whose use a log does not show, or a short story does not come to: an event that is told again within minutes is changed; an
/// apply creates; some clusters ask who names an object's owner for the right to delete it; and who was joined by an older release has no id
/// on record.
const SELDOM: [&str; 4] =
    ["patch events", "create clusterproperties", "delete clusterproperties", "get namespaces"];

/// Everything that runs.
struct Installed {
    helm: Helm,
    binary: PathBuf,
    hub_flags: Vec<String>,
    hubs: Vec<Component>,
    _agents: Vec<Component>,
}

// === impl Installed ===

impl Installed {
    /// Installs the charts and starts what their Deployments would start.
    async fn start(bed: &Bed) -> Result<Self> {
        let helm = Helm::on(bed).await?;
        let binary = tokio::task::spawn_blocking(binary).await??;
        helm.install(bed, "hub", Chart::Hub, &[ACCESS])?;
        let hub_flags = flags(&helm, Chart::Hub, WORKLOAD)?;
        // The second replica has the first one's address, as behind a Service.
        let first = bed.start_hub_so(&binary, "tombolo-hub-1", &hub_flags, MANNER).await?;
        let address = first.webhook().context("a hub has a webhook")?;
        let flags_of_second = [&hub_flags[..], &[format!("--webhook-url=https://{address}")]].concat();
        let second = bed.start_hub_so(&binary, "tombolo-hub-2", &flags_of_second, MANNER).await?;
        let mut agents = Vec::new();
        for member in [1, 2] {
            let name = &bed.member(member).name;
            helm.install(bed, name, Chart::Agent, &[])?;
            let flags = flags(&helm, Chart::Agent, &[])?;
            agents.push(bed.start_agent(&binary, member, "tombolo-agent", &flags, MANNER).await?);
            bed.join(name, &[]).await?;
            until_ready(&bed.hub.client, name, "True").await?;
        }
        Ok(Self { helm, binary, hub_flags, hubs: vec![first, second], _agents: agents })
    }

    /// Ends what leads, and looks whether the other replica goes on; then ends that too and starts anew.
    async fn fail_over(&mut self, scene: &Scene) -> Result<()> {
        drop(self.hubs.remove(0));
        scene.apply(1, [endpoints("10.1.0.2")]).await?;
        reaches(scene, 2, "10.1.0.2").await?;
        self.hubs.clear();
        let hub = scene.bed.start_hub_so(&self.binary, "tombolo-hub-3", &self.hub_flags, MANNER).await?;
        self.hubs.push(hub);
        scene.apply(1, [endpoints("10.1.0.3")]).await?;
        reaches(scene, 2, "10.1.0.3").await
    }

    /// Gives the hub more rights by other values, and waits until it has them.
    async fn widen(&self, bed: &Bed, values: &[&str], can: &[&str]) -> Result<()> {
        self.helm.install(bed, "hub", Chart::Hub, &[&[ACCESS], values].concat())?;
        let account = format!("--as=system:serviceaccount:{NAMESPACE}:tombolo-hub");
        until(&format!("the hub may {can:?}"), PATIENCE, async || {
            bed.kubectl("hub").run(&[&["auth", "can-i"], can, &[&account, "-A"]].concat()).map(drop)
        })
        .await
    }
}

/// The flags that a chart's Deployment gives, but for what the bed says itself.
fn flags(helm: &Helm, chart: Chart, values: &[&str]) -> Result<Vec<String>> {
    let all = helm.objects(chart, values)?;
    let deployment =
        all.iter().find(|object| object["kind"] == "Deployment").context("it has no Deployment")?;
    let args: Vec<String> =
        serde_json::from_value(deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone())?;
    let own = |flag: &String| !OF_THE_BED.iter().any(|of_bed| flag.starts_with(of_bed));
    Ok(args.into_iter().skip(1).filter(own).collect())
}

fn import(port: u16) -> Value {
    object(
        "ServiceImport",
        "serve",
        json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": port }] } }),
    )
}

fn endpoints(address: &str) -> Value {
    let labels = json!({ "metadata": { "labels": { "kubernetes.io/service-name": "serve" } } });
    let body = json!({
        "addressType": "IPv4", "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    with(object("EndpointSlice", "serve-1", body), labels)
}

/// Waits until an importer reaches exactly that address.
async fn reaches(scene: &Scene, member: usize, address: &str) -> Result<()> {
    let kubectl = scene.bed.kubectl(&scene.bed.member(member).name);
    let selector = "--selector=multicluster.kubernetes.io/service-name=serve";
    let line = ["get", "endpointslices", selector, "-n", &scene.namespace, "-o", "jsonpath={..addresses[*]}"];
    until(&format!("member{member} reaches {address}"), PATIENCE, async || {
        let found = kubectl.run(&line)?;
        ensure!(found == address, "it reaches {found:?}");
        Ok(())
    })
    .await
}

/// Workloads go to a member; one that is in the way is told of by the policy and an event.
async fn propagates(scene: &Scene) -> Result<()> {
    scene.apply(1, [scene.here(), config_map("taken", json!({ "of": "somebody" }))]).await?;
    let all = ["Deployment serve", "ConfigMap taken"];
    scene.apply(HUB, [places_from(&scene.namespace, "one", &["ConfigMap one"], &[1])]).await?;
    scene.apply(HUB, [deployment("serve", 1), config_map("one", json!({ "a": "b" }))]).await?;
    scene.apply(HUB, [config_map("taken", json!({ "of": "the hub" })), places("all", &all, &[1])]).await?;
    scene.arrives(&[1], "Deployment serve").await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    until("an event tells of what is in the way", PATIENCE, async || {
        let events = scene.events("taken").await?;
        ensure!(events.iter().any(|note| note.starts_with("member1: ")), "{events:?}");
        Ok(())
    })
    .await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[1], "ConfigMap one").await?;
    scene.delete(HUB, &["Deployment serve"]).await?;
    scene.goes(&[1], "Deployment serve").await
}

/// A Service of one member is reached in another, and what conflicts is refused.
async fn exchanges(scene: &Scene) -> Result<()> {
    let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } });
    let service = object("Service", "serve", ports);
    scene.apply(HUB, [service, places("workload", &["Service serve"], &[1])]).await?;
    scene.arrives(&[1], "Service serve").await?;
    scene.apply(1, [endpoints("10.1.0.1")]).await?;
    let export = object("ServiceExport", "serve", json!({}));
    scene.apply(HUB, [export, places("export", &["ServiceExport serve"], &[1])]).await?;
    scene.arrives(&[1], "ServiceExport serve").await?;
    let refusal = scene.refused(import(81)).await?;
    ensure!(refusal.contains("spec.ports[0]") && refusal.contains("80"), "{refusal}");
    scene.apply(HUB, [import(80), places("import", &["ServiceImport serve"], &[2])]).await?;
    scene.arrives(&[2], "Service derived-serve").await?;
    reaches(scene, 2, "10.1.0.1").await?;
    for what in ["ServiceExport serve", "ServiceImport serve"] {
        until(&format!("{what} says that it is ready"), PATIENCE, async || {
            let said = scene.field(HUB, what, "/status/conditions").await?.to_string();
            ensure!(said.contains(r#""type":"Ready""#) && said.contains(r#""status":"True""#), "{said}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// An import that a user made in a member: the agent links the user's slice, mends its own Service, and tells of another type.
async fn serves_by_hand(bed: &Arc<Bed>) -> Result<()> {
    let scene = Scene { bed: bed.clone(), namespace: "by-hand".to_owned() };
    let labels = json!({ "metadata": { "labels": {
        "kubernetes.io/service-name": null, "multicluster.kubernetes.io/service-name": "serve" } } });
    scene.apply(1, [scene.here(), import(80), with(endpoints("10.9.0.1"), labels)]).await?;
    let linked = "/metadata/labels/kubernetes.io~1service-name";
    scene.says(1, "EndpointSlice serve-1", linked, "derived-serve").await?;
    let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 8888 }] } });
    scene.edit(1, "Service derived-serve", ports).await?;
    scene.says(1, "Service derived-serve", "/spec/ports/0/port", 80).await?;
    let headless = json!({ "spec": { "type": "Headless", "ips": null } });
    scene.edit(1, "ServiceImport serve", headless).await?;
    scene.says(1, "Service derived-serve", "/spec/clusterIP", "None").await
}

/// Where a member has ClusterProperties, its agent says there in which clusterset it is.
async fn says_its_clusterset(bed: &Bed) -> Result<()> {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let approved =
        json!({ "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/2149" });
    let definition = object(
        "CustomResourceDefinition",
        "clusterproperties.about.k8s.io",
        json!({ "metadata": { "annotations": approved }, "spec": {
            "group": "about.k8s.io", "scope": "Cluster",
            "names": { "kind": "ClusterProperty", "plural": "clusterproperties", "singular": "clusterproperty" },
            "versions": [{ "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        } }),
    );
    let member = bed.kubectl("member1");
    member.apply(&definition.to_string())?;
    let get = ["get", "clusterproperty/clusterset.k8s.io"];
    until("member1 says in which clusterset it is", PATIENCE, async || member.run(&get)).await.map(drop)
}

/// Kinds that the chart's values add: Secrets with the workloads that name them, and one's own.
async fn propagates_more(bed: &Arc<Bed>, installed: &Installed) -> Result<()> {
    let scene = Scene::open(bed, "more").await?;
    scene.apply(HUB, [definition("Gadget", &["v1"])]).await?;
    scene.apply(1, [definition("Gadget", &["v1"])]).await?;
    let file = bed.dir().join("state/grant.yaml");
    let verbs = "[get, list, watch, create, patch, delete]";
    fs::write(&file, format!("[{{ apiGroups: [rules.example], resources: [gadgets], verbs: {verbs} }}]"))?;
    bed.join("member1", &["--grant", "workloads", "--grant", &file.display().to_string()]).await?;
    installed.widen(bed, &[SECRETS], &["list", "secrets"]).await?;
    installed.widen(bed, &[SECRETS, GADGETS], &["list", "gadgets.rules.example"]).await?;
    let uses = json!({ "spec": { "template": { "spec": {
        "volumes": [{ "name": "keys", "secret": { "secretName": "keys" } }] } } } });
    let keys = object("Secret", "keys", json!({ "stringData": { "a": "b" } }));
    let gadget = object("Gadget", "one", json!({ "spec": { "size": 1 } }));
    let policy = places("all", &["Deployment uses"], &[1]);
    let policy = with(policy, json!({ "spec": { "propagateDeps": true } }));
    scene.apply(HUB, [keys, with(deployment("uses", 1), uses), policy]).await?;
    scene.arrives(&[1], "Deployment uses").await?;
    scene.arrives(&[1], "Secret keys").await?;
    scene.apply(HUB, [gadget, places("gadgets", &["Gadget one"], &[1])]).await?;
    scene.arrives(&[1], "Gadget one").await
}

/// With a guard the hub asks the API server who may read its metrics and its page, by the rights that the guard's value brings.
async fn guards(bed: &Bed, installed: &Installed) -> Result<()> {
    let guard = ["metrics.auth=token", "hub.statusPage=true"];
    // What it was given before it still needs.
    let values = [&[SECRETS, GADGETS], &guard[..]].concat();
    installed.widen(bed, &values, &["create", "tokenreviews.authentication.k8s.io"]).await?;
    let mut flags = flags(&installed.helm, Chart::Hub, &[WORKLOAD, &guard].concat())?;
    let address = installed.hubs[0].webhook().context("a hub has a webhook")?;
    flags.push(format!("--webhook-url=https://{address}"));
    let hub = bed.start_hub_so(&installed.binary, "tombolo-hub-guarded", &flags, MANNER).await?;
    let kubectl = bed.kubectl("hub");
    kubectl.run(&["create", "serviceaccount", "reader", "-n", NAMESPACE])?;
    kubectl.run(&["create", "clusterrole", "reader", "--verb=get", "--non-resource-url=/metrics,/status"])?;
    let account = format!("--serviceaccount={NAMESPACE}:reader");
    kubectl.run(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", &account])?;
    let token = kubectl.run(&["create", "token", "reader", "-n", NAMESPACE])?;
    for path in ["/metrics", "/status/"] {
        let answer = hub.says(path).await?;
        ensure!(answer.starts_with("HTTP/1.0 401"), "{path}: {answer}");
        until(&format!("a reader may get {path}"), PATIENCE, async || {
            let answer = hub.says_to(token.trim(), path).await?;
            ensure!(answer.starts_with("HTTP/1.0 200"), "{answer}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// A kind that the hub may not read is told of by the policy that selects it, until the hub may.
async fn tells_what_it_may_not_read(scene: &Scene, installed: &Installed) -> Result<()> {
    scene.apply(HUB, [places("forbidden", &["ReplicaSet"], &[1])]).await?;
    scene.reports("PropagationPolicy forbidden", "KindForbidden", &["ReplicaSet", "rbac.extraRules"]).await?;
    let rule = r#"{"apiGroups":["apps"],"resources":["replicasets"],"verbs":["get","list","watch"]}"#;
    let values = format!("rbac.extraRules:=[{rule}]");
    installed.widen(&scene.bed, &[&values], &["list", "replicasets.apps"]).await?;
    scene.reports("PropagationPolicy forbidden", "NothingSelected", &[]).await
}

/// Fails if anything was forbidden since then.
fn nothing_forbidden(bed: &Bed, cluster: &str) -> Result<()> {
    let audit = bed.audit(cluster);
    let all = audit.since(Mark::default())?;
    ensure!(all.iter().any(|request| request.verb == "watch"), "the log of {cluster} shows no reads");
    let forbidden = audit.forbidden(Mark::default())?;
    let told: Vec<_> = forbidden.iter().map(ToString::to_string).collect();
    ensure!(told.is_empty(), "{cluster} forbade:\n{}", told.join("\n"));
    Ok(())
}

/// Those of an account's rights that it did not use in clusters, as `verb resource`.
fn unused(bed: &Bed, clusters: &[&str], account: &str, rules: &[PolicyRule]) -> Result<BTreeSet<String>> {
    let mut rights: BTreeSet<String> = BTreeSet::new();
    for rule in rules {
        let resources = rule.resources.iter().flatten();
        rights.extend(
            resources.flat_map(|resource| rule.verbs.iter().map(move |verb| format!("{verb} {resource}"))),
        );
    }
    let account = format!("system:serviceaccount:{NAMESPACE}:{account}");
    for seldom in SELDOM {
        rights.remove(seldom);
    }
    for cluster in clusters {
        for request in bed.audit(cluster).since(Mark::default())? {
            let Object { resource, subresource, .. } = &request.object_ref;
            let of =
                if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            if request.user.name == account {
                rights.remove(&format!("{} {of}", request.verb));
            }
        }
    }
    Ok(rights)
}

async fn webhooks(bed: &Bed) -> Result<String> {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    bed.kubectl("hub").run(&["get", kinds, "-o", "jsonpath={.items[*].webhooks[*].name}"])
}

pub(crate) async fn tombolo_works_with_exactly_the_charts_rights_and_nothing_is_forbidden(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut installed = Installed::start(&bed).await?;
    let scene = Scene::open(&bed, "shop").await?;
    propagates(&scene).await?;
    exchanges(&scene).await?;

    // Another release of the chart leaves what the hub wrote.
    let before = webhooks(&bed).await?;
    ensure!(before.contains("services.tombolo.dev"), "the hub wrote {before:?}");
    installed.helm.install(&bed, "hub", Chart::Hub, &[ACCESS, "serviceAccount.annotations.a=b"])?;
    ensure!(webhooks(&bed).await? == before, "an upgrade changed the webhooks");
    propagates_more(&bed, &installed).await?;
    serves_by_hand(&bed).await?;
    says_its_clusterset(&bed).await?;
    installed.fail_over(&scene).await?;
    guards(&bed, &installed).await?;
    for cluster in ["hub", "member1", "member2"] {
        nothing_forbidden(&bed, cluster)?;
    }

    let told = bed.tombolo(&["unjoin", "member2"]).await?;
    ensure!(told.status.success(), "unjoin: {}", String::from_utf8_lossy(&told.stderr));
    scene.goes(&[2], "Service derived-serve").await?;
    // The export first: without a Service the agent would have nothing to withdraw when it goes.
    scene.delete(HUB, &["ServiceImport serve", "ServiceExport serve"]).await?;
    scene.goes(&[1], "ServiceExport serve").await?;
    scene.delete(HUB, &["Service serve"]).await?;
    scene.goes(&[1], "Service serve").await?;
    nothing_forbidden(&bed, "hub")?;
    nothing_forbidden(&bed, "member1")?;

    let hubs = [rights::cluster(), rights::own(), rights::certificates(), rights::reviews()].concat();
    let agents = [agent::cluster_rules(), agent::own_rules()].concat();
    // The last slices of what was withdrawn may still have to go.
    until("every right was used", PATIENCE, async || {
        let superfluous = unused(&bed, &["hub"], "tombolo-hub", &hubs)?;
        ensure!(superfluous.is_empty(), "the hub never used {superfluous:?}");
        let superfluous = unused(&bed, &["member1", "member2"], "tombolo-agent", &agents)?;
        ensure!(superfluous.is_empty(), "the agents never used {superfluous:?}");
        Ok(())
    })
    .await?;

    tells_what_it_may_not_read(&scene, &installed).await?;

    // What would refuse everything goes with the chart, and does not come back while a hub still runs.
    installed.helm.uninstall(&bed, "hub", Chart::Hub)?;
    let tries = bed.audit("hub").mark()?;
    until("the hub sees that it is gone", PATIENCE, async || {
        ensure!(!bed.audit("hub").forbidden(tries)?.is_empty(), "it has not looked yet");
        Ok(())
    })
    .await?;
    ensure!(webhooks(&bed).await?.is_empty(), "webhooks are left behind");
    Ok(())
}
