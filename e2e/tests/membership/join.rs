//! What join makes, and the way in by hand.

use std::{collections::BTreeMap, process::ExitStatus, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client};
use tombolo::{api::Cluster, membership::member};
use tombolo_e2e::{bed::Bed, tombolo::binary, wait::until};

const PATIENCE: Duration = Duration::from_secs(60);

/// What join writes, and by which number one sees a write. A Deployment's and a Cluster's status have other writers.
const IN_MEMBER: &[(&str, &str)] = &[
    ("namespace/tombolo-system", "resourceVersion"),
    ("configmap/tombolo-member", "resourceVersion"),
    ("serviceaccount/tombolo-hub", "resourceVersion"),
    ("secret/tombolo-hub", "resourceVersion"),
    ("clusterrole/tombolo-hub", "resourceVersion"),
    ("clusterrolebinding/tombolo-hub", "resourceVersion"),
    ("role/tombolo-hub", "resourceVersion"),
    ("rolebinding/tombolo-hub", "resourceVersion"),
    ("serviceaccount/tombolo-agent", "resourceVersion"),
    ("clusterrole/tombolo-agent", "resourceVersion"),
    ("clusterrolebinding/tombolo-agent", "resourceVersion"),
    ("role/tombolo-agent", "resourceVersion"),
    ("rolebinding/tombolo-agent", "resourceVersion"),
    ("deployment/tombolo-agent", "generation"),
    ("crd/serviceexports.multicluster.x-k8s.io", "resourceVersion"),
    ("crd/serviceimports.multicluster.x-k8s.io", "resourceVersion"),
];
const ON_HUB: &[(&str, &str)] = &[
    ("secret/tombolo-hub", "resourceVersion"),
    ("secret/member1", "resourceVersion"),
    ("cluster/member1", "generation"),
];

/// The numbers of all that join writes for member1.
fn numbers(bed: &Bed) -> Result<BTreeMap<String, String>> {
    let mut numbers = BTreeMap::new();
    for (cluster, objects) in [("member1", IN_MEMBER), ("hub", ON_HUB)] {
        for (object, number) in objects {
            let path = format!("jsonpath={{.metadata.{number}}}");
            let found = bed.kubectl(cluster).run(&["-n", "tombolo-system", "get", object, "-o", &path])?;
            numbers.insert(format!("{cluster} {object}"), found);
        }
    }
    Ok(numbers)
}

pub(super) async fn a1_join_makes_what_it_says_and_a_second_join_changes_nothing(
    bed: Arc<Bed>,
) -> Result<()> {
    let kubeconfig = bed.kubeconfig("member1").display().to_string();
    let line = ["join", "member1", "--kubeconfig", &kubeconfig, "--wait=false"];
    let first =
        [&line[..], &["--region", "eu", "--zone", "a", "--provider", "metal", "--label", "tier=prod"]]
            .concat();
    let said = bed.tombolo(&first).await?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8(said.stdout)?;
    for (object, _) in IN_MEMBER {
        let (_, name) = object.split_once('/').context("kind and name")?;
        ensure!(said.contains(name), "it did not say that it made {object}: {said}");
    }
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let cluster = clusters.get("member1").await?;
    ensure!(cluster.spec.region.as_deref() == Some("eu") && cluster.spec.zones == ["a"], "{cluster:?}");
    ensure!(
        cluster.metadata.labels.iter().flatten().any(|it| it.0 == "tier" && it.1 == "prod"),
        "{cluster:?}"
    );
    ensure!(cluster.metadata.finalizers.iter().flatten().any(|it| it == "tombolo.dev/member"), "{cluster:?}");

    // The token controller may still be at work on its own Secret.
    let before = until("nothing changes by itself", PATIENCE, async || {
        let one = numbers(&bed)?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        ensure!(one == numbers(&bed)?, "it does");
        Ok(one)
    })
    .await?;
    for flags in [&first[..], &line[..]] {
        let again = bed.tombolo(flags).await?;
        let again = String::from_utf8(again.stdout)?;
        ensure!(!again.contains("created") && !again.contains("changed"), "it said {again}");
        ensure!(again.matches("already there").count() == 5, "it said {again}");
        let after = numbers(&bed)?;
        ensure!(before == after, "before {before:#?}, after {after:#?}");
    }
    ensure!(
        clusters.get("member1").await?.spec.region.as_deref() == Some("eu"),
        "it forgot what it was not told again"
    );

    // What is amiss is put right.
    bed.kubectl("member1").run(&["delete", "clusterrolebinding", "tombolo-hub"])?;
    let again = String::from_utf8(bed.tombolo(&line).await?.stdout)?;
    ensure!(again.contains("created ClusterRoleBinding tombolo-hub\n"), "it said {again}");
    works(&bed, "member1").await?;

    // Also where nobody reads what it says any more, on either way.
    bed.kubectl("member1").run(&["delete", "clusterrolebinding", "tombolo-hub"])?;
    let ended = unread(&bed, &line).await?;
    ensure!(ended.success(), "it ended with {ended}");
    works(&bed, "member1").await
}

/// Runs `tombolo` for readers that are gone.
async fn unread(bed: &Bed, line: &[&str]) -> Result<ExitStatus> {
    let binary = tokio::task::spawn_blocking(binary).await??;
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = tokio::process::Command::new(binary);
    command.args(line).env("KUBECONFIG", bed.dir().join("all.kubeconfig"));
    command.stdout(writer.try_clone()?).stderr(writer);
    Ok(command.status().await?)
}

/// Fails unless the way that the hub has into a member leads there.
async fn works(bed: &Bed, cluster: &str) -> Result<()> {
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let config = member::config(&bed.hub.client, &clusters.get(cluster).await?).await?;
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config)?);
    let found =
        until("the way in works", PATIENCE, async || Ok(namespaces.get("kube-system").await?)).await?;
    let plane = bed
        .members
        .iter()
        .find(|member| member.name == cluster || cluster == "by-hand" && member.name == "member3");
    let own: Api<Namespace> = Api::all(plane.context("a member of the bed")?.client.clone());
    ensure!(found.metadata.uid == own.get("kube-system").await?.metadata.uid, "it leads elsewhere");
    Ok(())
}

pub(super) async fn a_cluster_written_by_hand_with_karmadas_secret_gives_a_working_way_in(
    bed: Arc<Bed>,
) -> Result<()> {
    let (hub, member) = (bed.kubectl("hub"), bed.kubectl("member3"));
    member.run(&["create", "serviceaccount", "karmada", "-n", "default"])?;
    member.run(&[
        "create",
        "clusterrolebinding",
        "karmada",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:karmada",
    ])?;
    let token = member.run(&["create", "token", "karmada", "-n", "default"])?;
    let authority = format!("--from-literal=caBundle={}", bed.member(3).authority.certificate);
    hub.run(&["create", "namespace", "karmada-cluster"])?;
    let token = format!("--from-literal=token={}", token.trim());
    hub.run(&["create", "secret", "generic", "by-hand", "-n", "karmada-cluster", &token, &authority])?;
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let cluster: Cluster = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "by-hand" },
        "spec": {
            "syncMode": "Push",
            "apiEndpoint": bed.member(3).server,
            "secretRef": { "namespace": "karmada-cluster", "name": "by-hand" },
        },
    }))?;
    clusters.create(&Default::default(), &cluster).await?;
    works(&bed, "by-hand").await?;

    let secrets: Api<Secret> = Api::namespaced(bed.hub.client.clone(), "karmada-cluster");
    secrets.delete("by-hand", &Default::default()).await?;
    let error =
        member::config(&bed.hub.client, &cluster).await.err().context("there is no Secret")?.to_string();
    ensure!(
        error.starts_with("Secret karmada-cluster/by-hand, which spec.secretRef of Cluster by-hand names"),
        "{error}"
    );
    Ok(())
}

pub(super) async fn pods_with_addresses_of_another_members_pods_are_warned_about(
    bed: Arc<Bed>,
) -> Result<()> {
    let other: Cluster = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "elsewhere", "annotations": { "tombolo.dev/pod-cidrs": "10.77.0.0/16" } },
        "spec": {
            "syncMode": "Push",
            "apiEndpoint": "https://192.0.2.1:6443",
            "secretRef": { "namespace": "tombolo-system", "name": "elsewhere" },
        },
    }))?;
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    clusters.create(&Default::default(), &other).await?;
    for (node, range) in [("one", "10.77.0.0/24"), ("two", "10.77.1.0/24")] {
        let file = bed.dir().join(format!("node-{node}.yaml"));
        let text = format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {node}}}, spec: {{podCIDR: {range}, podCIDRs: [{range}]}}}}"
        );
        std::fs::write(&file, text)?;
        bed.kubectl("member5").run(&["create", "-f", &file.display().to_string()])?;
        std::fs::remove_file(&file)?;
    }
    let said = bed.join("member5", &["--wait=false"]).await?;
    ensure!(said.contains("addresses of its pods: 10.77.0.0/23"), "it said {said}");
    ensure!(
        said.contains("Warning: pods of cluster member5 have addresses of 10.77.0.0/23, pods of cluster elsewhere of 10.77.0.0/16:"),
        "it said {said}"
    );
    // Raw YAML is told the same by admission.
    let annotated = bed
        .kubectl("hub")
        .command(&["annotate", "cluster", "member5", "team=a"])
        .output()
        .context("failed to run kubectl")?;
    let complaint = String::from_utf8_lossy(&annotated.stderr).into_owned();
    ensure!(annotated.status.success(), "{complaint}");
    ensure!(
        complaint.contains("Warning: pods of cluster member5 have addresses of 10.77.0.0/23"),
        "kubectl said {complaint}"
    );
    Ok(())
}

pub(super) async fn a_user_with_one_kubeconfig_names_the_member_by_its_context_and_prints_the_agents_manifests(
    bed: Arc<Bed>,
) -> Result<()> {
    let line = [
        "join",
        "member6",
        "--context",
        "member6",
        "--agent",
        "print",
        "--agent-image",
        "an.example/agent:1",
    ];
    let output = bed.tombolo(&[&line[..], &["--wait=false", "--skip-crds"]].concat()).await?;
    let told = String::from_utf8(output.stderr)?;
    ensure!(output.status.success() && told.contains("member6 joined"), "{told}");
    let file = bed.dir().join("agent.yaml");
    std::fs::write(&file, &output.stdout)?;
    let member = bed.kubectl("member6");
    ensure!(member.run(&["get", "crd", "-o", "name"])?.is_empty(), "definitions were installed");
    ensure!(
        member.run(&["-n", "tombolo-system", "get", "deployments", "-o", "name"])?.is_empty(),
        "it was deployed"
    );
    let applied = member.run(&["apply", "--server-side", "-f", &file.display().to_string()]);
    std::fs::remove_file(&file)?;
    let applied = applied?;
    ensure!(applied.contains("deployment.apps/tombolo-agent serverside-applied"), "kubectl said {applied}");
    works(&bed, "member6").await
}
