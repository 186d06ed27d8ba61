//! Tombolo as users install it: by Helm, as pods. Needs root.
//!
//! The hub's pods run in the host cluster and serve the hub's API server, by a kubeconfig in a Secret; the agents run in their members.

use std::{
    collections::BTreeSet,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use tombolo_e2e::{
    bed::{Bed, Spec},
    helm::{Chart, Helm, NAMESPACE},
    images,
    kubectl::Kubectl,
    process::run,
    suite::{self, Needs},
    tests,
    wait::until,
};

const PATIENCE: Duration = Duration::from_secs(90);
/// Where the hub's API server finds the webhook, on the host cluster's node.
const NODE_PORT: u16 = 30443;

fn main() -> ExitCode {
    // One after the other: what the first installs, the last looks at.
    suite::run_needing(
        Needs::Root,
        Spec::nodes(2).hosting().bare(),
        tests![
            hub_and_agents_that_helm_installs_lead_the_story_to_a_working_derived_service,
            a_hub_in_its_own_cluster_refuses_no_good_write_while_its_replicas_are_exchanged,
            pods_of_members_that_reach_each_other_are_told_from_those_that_do_not,
        ],
    )
}

/// A ServiceImport of a port.
fn import(port: u16) -> String {
    format!(
        "{{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {{name: tried}}, \
         spec: {{type: ClusterSetIP, ports: [{{port: {port}}}]}}}}"
    )
}

/// Fails unless what makes no sense is refused by the hub.
fn refuses(kubectl: &Kubectl) -> Result<()> {
    let refusal = kubectl.apply(&import(0)).err().map(|e| e.to_string()).unwrap_or_default();
    ensure!(
        refusal.contains("spec.ports[0].port: must be between 1 and 65535"),
        "it was answered {refusal:?}"
    );
    Ok(())
}

/// The names of pods.
async fn names(pods: &Api<Pod>) -> Result<BTreeSet<String>> {
    Ok(pods.list_metadata(&ListParams::default()).await?.into_iter().map(|pod| pod.name_any()).collect())
}

/// Writes a ServiceImport that is good, and another one, and so on, as fast as they are taken.
async fn write_until_refused(client: &Client, writes: &AtomicU16) -> Result<()> {
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ServiceImport"));
    let imports: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    loop {
        let number = writes.load(Ordering::Relaxed);
        let manifest: DynamicObject = serde_saphyr::from_str(&import(number % 60_000 + 1))?;
        imports.patch("tried", &PatchParams::apply("test").force(), &Patch::Apply(manifest)).await?;
        writes.store(number.saturating_add(1), Ordering::Relaxed);
    }
}

/// Makes the hub's account on the hub, and its pods in the host cluster.
async fn install_hub(bed: &Bed, helm: &Helm) -> Result<()> {
    helm.install(bed, "hub", Chart::Hub, &["parts=access", "access.token=true"])?;
    let secrets: Api<Secret> = Api::namespaced(bed.hub.client.clone(), NAMESPACE);
    let token = until("the account has a token", PATIENCE, async || {
        let data = secrets.get("tombolo-hub-token").await?.data.unwrap_or_default();
        Ok(String::from_utf8(data.get("token").context("it is not filled in yet")?.0.clone())?)
    })
    .await?;
    let kubeconfig = bed.hub.with_token(&bed.dir().join("state"), "for-pods", &token)?;
    let host = bed.kubectl("host").in_namespace(NAMESPACE)?;
    let file = format!("--from-file=kubeconfig={}", kubeconfig.display());
    host.run(&["create", "secret", "generic", "hub", &file])?;
    let node = bed.host.as_ref().context("there is a host cluster")?.addresses.node()[0];
    let values = [
        "parts=workload".to_owned(),
        "apiServer.kubeconfigSecret.name=hub".to_owned(),
        format!("webhook.url=https://{node}:{NODE_PORT}"),
        "webhook.service.type=NodePort".to_owned(),
        format!("webhook.service.nodePort={NODE_PORT}"),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    helm.install(bed, "host", Chart::Hub, &values)?;
    host.run(&["rollout", "status", "deployment/tombolo-hub", "--timeout=180s"]).map(drop)
}

/// Makes a cluster a member, with an agent that Helm installs.
async fn install_agent(bed: &Bed, helm: &Helm, member: &str) -> Result<()> {
    // In the order of charts/README.md: `join --agent none` first.
    bed.join(member, &[]).await?;
    helm.install(bed, member, Chart::Agent, &[])?;
    let namespace = format!("--namespace={NAMESPACE}");
    let line = ["rollout", "status", "deployment/tombolo-agent", "--timeout=180s", &namespace];
    bed.kubectl(member).run(&line).map(drop)
}

async fn hub_and_agents_that_helm_installs_lead_the_story_to_a_working_derived_service(
    bed: Arc<Bed>,
) -> Result<()> {
    let helm = Helm::on(&bed).await?;
    install_hub(&bed, &helm).await?;
    for member in ["member1", "member2"] {
        install_agent(&bed, &helm, member).await?;
    }
    let (hub, importer) = (bed.kubectl("hub"), bed.kubectl("member2"));
    let story = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories/004");
    for file in ["1-crds.yaml", "2-workload.yaml", "3-export.yaml", "4-import.yaml"] {
        hub.run(&["apply", "-f", &story.join(file).display().to_string()])?;
    }
    let get = ["get", "service", "derived-serve", "-o", "jsonpath={.spec.clusterIP}"];
    let address = until("derived-serve is in member2", PATIENCE, async || importer.run(&get)).await?;
    let member1 = bed.kubectl("member1");
    // The Service may get to member2 before the Deployment gets to member1.
    member1.run(&["wait", "--for=create", "deployment/serve", "--timeout=180s"])?;
    member1.run(&["rollout", "status", "deployment/serve", "--timeout=180s"])?;
    let image = format!("--image={}", images::REQUEST);
    let wanted = format!("--address={address}");
    let request = ["run", "-i", "--rm", "--restart=Never", &image, "request", "--", "--duration=3s", &wanted];
    until("a pod of member2 is answered by the pod in member1", PATIENCE, async || {
        let said = importer.run(&request)?;
        ensure!(said.contains("hello from cluster member1"), "{said}");
        Ok(())
    })
    .await?;
    // The webhook answers from the host cluster.
    refuses(&hub)?;
    let ready =
        ["get", "deployment", "tombolo-hub", "-n", NAMESPACE, "-o", "jsonpath={.status.readyReplicas}"];
    until("both replicas are ready", PATIENCE, async || {
        let ready = bed.kubectl("host").run(&ready)?;
        ensure!(ready == "2", "{ready:?} replicas are ready");
        Ok(())
    })
    .await
}

/// What `tombolo check --connectivity` says, and whether it is content.
async fn connectivity(bed: &Bed) -> Result<(bool, String)> {
    let line = ["check", "--context", "hub", "--connectivity", "--dial-timeout", "2"];
    let output = bed.tombolo(&line).await?;
    let said = String::from_utf8([output.stdout, output.stderr].concat())?;
    println!("{said}");
    for member in ["member1", "member2"] {
        let pods = ["get", "pods", "-n", NAMESPACE, "-l", "tombolo.dev/connectivity", "-o", "name"];
        let left = bed.kubectl(member).run(&pods)?;
        ensure!(left.is_empty(), "{member} has {left}: {said}");
    }
    Ok((output.status.success(), said))
}

async fn pods_of_members_that_reach_each_other_are_told_from_those_that_do_not(bed: Arc<Bed>) -> Result<()> {
    let members = ["member1", "member2"];
    for member in members {
        bed.join(member, &[]).await?;
        let policy = "pod-security.kubernetes.io/enforce=restricted";
        bed.kubectl(member).run(&["label", "--overwrite", "namespace", NAMESPACE, policy])?;
    }
    // What a check that crashed left behind goes.
    let left = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: left, namespace: {NAMESPACE}, labels: {{tombolo.dev/connectivity: dial}}}}, \
         spec: {{restartPolicy: Never, activeDeadlineSeconds: 1, securityContext: {{runAsNonRoot: true, runAsUser: 65532, \
         seccompProfile: {{type: RuntimeDefault}}}}, containers: [{{name: left, image: \"{}\", args: [version], \
         securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}}}]}}}}",
        images::TOMBOLO
    );
    bed.kubectl("member1").apply(&left)?;
    until("it ended", PATIENCE, async || {
        let phase = ["get", "pod", "left", "-n", NAMESPACE, "-o", "jsonpath={.status.phase}"];
        let phase = bed.kubectl("member1").run(&phase)?;
        ensure!(phase == "Succeeded" || phase == "Failed", "{phase}");
        Ok(())
    })
    .await?;
    let (_, said) = connectivity(&bed).await?;
    ensure!(said.contains("✓ connectivity: all 2 ways between members work"), "{said}");

    // Packets of member1's pods to those of member2 get lost.
    let (node, theirs) = (bed.node("member1")?, &bed.member(2).addresses);
    let (pods, via) = (theirs.pods()[0].to_string(), theirs.node()[0].to_string());
    run(node.command("ip").args(["route", "replace", "blackhole", &pods]))?;
    let cut = connectivity(&bed).await;
    run(node.command("ip").args(["route", "replace", &pods, "via", &via, "dev", "eth0"]))?;
    let (well, said) = cut?;
    ensure!(
        !well && said.contains("✗ connectivity: pods of member1 do not reach pods of member2 at "),
        "{said}"
    );
    ensure!(
        said.contains("no answer within 2 s") && said.contains("→ let packets from pods of member1"),
        "{said}"
    );
    let (_, said) = connectivity(&bed).await?;
    ensure!(said.contains("✓ connectivity: all 2 ways between members work"), "{said}");
    Ok(())
}

async fn a_hub_in_its_own_cluster_refuses_no_good_write_while_its_replicas_are_exchanged(
    bed: Arc<Bed>,
) -> Result<()> {
    // Beside the other hub's pods, which have nothing of the whole cluster.
    let helm = Helm::on(&bed).await?.in_namespace("own");
    helm.install(&bed, "host", Chart::Hub, &[])?;
    let host = bed.kubectl("host");
    let rollout = ["rollout", "status", "deployment/tombolo-hub", "--namespace=own"];
    host.run(&[&rollout[..], &["--timeout=180s"]].concat())?;
    until("it refuses what makes no sense", PATIENCE, async || refuses(&host)).await?;

    let client = &bed.host.as_ref().context("there is a host cluster")?.client;
    let replicas: Api<Pod> = Api::namespaced(client.clone(), "own");
    let before = names(&replicas).await?;
    helm.install(&bed, "host", Chart::Hub, &["podAnnotations.round=second"])?;
    // The old ones serve on for a while when the new ones are ready: only when they are gone, everything was tried.
    let exchanged = until("the replicas are exchanged", 2 * PATIENCE, async || {
        let now = names(&replicas).await?;
        ensure!(now.len() == 2 && now.is_disjoint(&before), "there were {before:?} and are {now:?}");
        Ok(())
    });
    let writes = AtomicU16::new(0);
    tokio::select! {
        exchanged = exchanged => exchanged?,
        refused = write_until_refused(client, &writes) =>
            refused.with_context(|| format!("after {} writes", writes.load(Ordering::Relaxed)))?,
    }
    let writes = writes.into_inner();
    println!("{writes} writes while the replicas were exchanged, none refused");
    ensure!(writes > 20, "only {writes} writes were tried");

    helm.uninstall(&bed, "host", Chart::Hub)?;
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let left = host.run(&["get", kinds, "-o", "name"])?;
    ensure!(left.is_empty(), "these are left: {left}");
    host.apply(&import(0)).context("something still refuses").map(drop)
}
