//! Propagation through upheavals of the hub itself and of its members: a hub that is down while things change, kinds that vanish, a
//! member that leaves. Each test has the whole bed to itself and brings its own hub.

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tombolo_e2e::{
    bed::{Bed, Spec},
    fleet,
    scene::{HUB, PATIENCE, Scene, annotated, config_map, deployment, object, places, with},
    suite, tests,
    tombolo::{Component, binary},
    wait::until,
};

fn main() -> ExitCode {
    suite::run(
        Spec::api(2).bare().audited(),
        tests![
            a_copy_goes_whose_template_was_deleted_while_the_hub_was_down,
            a_copy_goes_whose_kind_lost_its_last_policy_while_the_hub_was_down,
            a_restart_takes_away_nothing_and_sends_nothing_that_is_never_sent,
            nothing_is_deleted_because_the_kind_of_policies_was_deleted_and_made_again,
            nothing_is_taken_from_members_because_the_kind_of_clusters_was_deleted_and_made_again,
            a_policy_for_all_secrets_of_the_hub_leaks_no_tokens,
            a_tainted_member_gets_nothing_new_unless_that_is_tolerated,
            namespaces_are_not_made_where_the_hub_is_told_so,
            a_member_that_leaves_keeps_its_copies_without_our_marks,
            a_member_that_leaves_loses_its_copies_where_that_is_asked_for,
        ],
    )
}

/// Whose turn it is: a test has the bed to itself. And whether the bed was prepared.
static TURN: Mutex<bool> = Mutex::const_new(false);

/// A scene with a hub that can be stopped and started.
struct Turn {
    scene: Scene,
    hub: Option<Component>,
    _turn: tokio::sync::MutexGuard<'static, bool>,
}

// === impl Turn ===

impl Turn {
    async fn take(bed: &Arc<Bed>, namespace: &str, flags: &[&str]) -> Result<Self> {
        let mut turn = TURN.lock().await;
        if !*turn {
            bed.prepare_hub()?;
            *turn = true;
        }
        let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
        let mut this = Self { scene, hub: None, _turn: turn };
        this.start_hub(flags).await?;
        fleet::register_all(bed).await?;
        Scene::open(bed, namespace).await?;
        Ok(this)
    }

    async fn start_hub(&mut self, flags: &[&str]) -> Result<()> {
        let binary = tokio::task::spawn_blocking(binary).await??;
        let flags: Vec<_> = flags.iter().map(|&flag| flag.to_owned()).collect();
        self.hub = Some(self.scene.bed.start_hub(&binary, "tombolo-hub", &flags).await?);
        Ok(())
    }

    /// Kills the hub, as a crash does. What is there can be deleted all the same.
    fn stop_hub(&mut self) {
        self.hub = None;
    }
}

/// A `ConfigMap` that is in members 1 and 2.
async fn sent(scene: &Scene, policy: Value) -> Result<()> {
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.arrives(&[1, 2], "ConfigMap one").await
}

fn along(policy: Value) -> Value {
    annotated(policy, "tombolo.dev/on-policy-deletion", "delete")
}

async fn a_copy_goes_whose_template_was_deleted_while_the_hub_was_down(bed: Arc<Bed>) -> Result<()> {
    let mut turn = Turn::take(&bed, "down-template", &[]).await?;
    sent(&turn.scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    turn.stop_hub();
    // The policy too: nothing on the hub speaks of the kind any more.
    turn.scene.delete(HUB, &["ConfigMap one", "PropagationPolicy p"]).await?;
    turn.start_hub(&[]).await?;
    turn.scene.goes(&[1, 2], "ConfigMap one").await
}

async fn a_copy_goes_whose_kind_lost_its_last_policy_while_the_hub_was_down(bed: Arc<Bed>) -> Result<()> {
    let mut turn = Turn::take(&bed, "down-policy", &[]).await?;
    let role = object("Role", "one", json!({ "rules": [] }));
    let mut policy = along(places("down-policy", &["Role one"], &[1, 2]));
    policy["kind"] = "ClusterPropagationPolicy".into();
    policy["spec"]["resourceSelectors"][0]["namespace"] = "down-policy".into();
    turn.scene.apply(HUB, [role, policy]).await?;
    turn.scene.arrives(&[1, 2], "Role one").await?;
    turn.stop_hub();
    turn.scene.delete(HUB, &["ClusterPropagationPolicy down-policy"]).await?;
    turn.start_hub(&[]).await?;
    turn.scene.goes(&[1, 2], "Role one").await?;
    turn.scene.find(HUB, "Role one").await.map(drop)
}

async fn a_restart_takes_away_nothing_and_sends_nothing_that_is_never_sent(bed: Arc<Bed>) -> Result<()> {
    let mut turn = Turn::take(&bed, "restart", &[]).await?;
    let mut workload = deployment("web", 1);
    workload["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{ "configMapRef": { "name": "one" } }]);
    let deps = with(
        places("p", &["Deployment web", "Service web"], &[1, 2]),
        json!({ "spec": { "propagateDeps": true } }),
    );
    let service =
        object("Service", "web", json!({ "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } }));
    let all = places("secrets", &["Secret"], &[1]);
    turn.scene.apply(HUB, [workload, service, bootstrap_token(), all]).await?;
    sent(&turn.scene, deps).await?;
    turn.scene.arrives(&[1, 2], "Service web").await?;
    let fingerprint = async |scene: &Scene| {
        let mut all = Vec::new();
        for member in [1, 2] {
            for what in ["ConfigMap one", "Service web", "Deployment web"] {
                let metadata = scene.field(member, what, "/metadata").await?;
                all.push((metadata["uid"].clone(), metadata["annotations"]["tombolo.dev/applied"].clone()));
            }
        }
        anyhow::Ok(all)
    };
    let before = fingerprint(&turn.scene).await?;
    // So that the workloads are read long after what they name.
    let many = (0..150).map(|n| deployment(&format!("other{n}"), 1));
    turn.scene.apply(HUB, many).await?;
    for _ in 0..3 {
        turn.stop_hub();
        turn.start_hub(&[]).await?;
        turn.scene.settles().await?;
    }
    ensure!(
        fingerprint(&turn.scene).await? == before,
        "{:?} is not {before:?}",
        fingerprint(&turn.scene).await?
    );
    turn.scene.is_absent(&[1, 2], "Secret bootstrap").await
}

/// A Secret that is never sent; no controller looks after it.
fn bootstrap_token() -> Value {
    object(
        "Secret",
        "bootstrap",
        json!({ "type": "bootstrap.kubernetes.io/token", "stringData": { "a": "b" } }),
    )
}

async fn nothing_is_deleted_because_the_kind_of_policies_was_deleted_and_made_again(
    bed: Arc<Bed>,
) -> Result<()> {
    let mut turn = Turn::take(&bed, "policies-again", &[]).await?;
    sent(&turn.scene, along(places("p", &["ConfigMap one"], &[1, 2]))).await?;
    turn.scene.apply(HUB, [config_map("two", json!({})), places("q", &["ConfigMap two"], &[1, 2])]).await?;
    turn.scene.arrives(&[1, 2], "ConfigMap two").await?;
    let before = turn.scene.field(1, "ConfigMap one", "/metadata/uid").await?;
    let crd = "CustomResourceDefinition propagationpolicies.policy.karmada.io";
    turn.scene.delete(HUB, &[crd]).await?;
    turn.scene.goes(&[HUB], crd).await?;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-hub/crds");
    bed.kubectl("hub").run(&["apply", "--server-side", "-f", crds])?;
    turn.scene.settles().await?;
    turn.stop_hub();
    turn.start_hub(&[]).await?;
    turn.scene.settles().await?;
    turn.scene.still_says(1, "ConfigMap one", "/metadata/uid", before.clone()).await?;
    turn.scene.find(2, "ConfigMap one").await?;
    // What is applied again holds again. It takes away only what it has placed itself: with fewer policies than before, the others
    // may just not have been applied again yet.
    let fewer = [places("p", &["ConfigMap one"], &[1]), places("q", &["ConfigMap two"], &[1])];
    turn.scene.apply(HUB, fewer).await?;
    turn.scene.settles().await?;
    turn.scene.find(2, "ConfigMap one").await?;
    turn.scene.find(2, "ConfigMap two").await?;
    let placed_by = turn.scene.field(2, "ConfigMap one", "/metadata/annotations").await?;
    turn.scene.apply(HUB, [places("p", &["ConfigMap one"], &[1, 2])]).await?;
    until("the new policies have placed it", PATIENCE, async || {
        let now = turn.scene.field(2, "ConfigMap one", "/metadata/annotations").await?;
        let of = |all: &Value| all["tombolo.dev/policies"].clone();
        ensure!(of(&now) != of(&placed_by), "it is as before");
        Ok(())
    })
    .await?;
    turn.scene.apply(HUB, [places("p", &["ConfigMap one"], &[1])]).await?;
    turn.scene.is_in_exactly(&[1], "ConfigMap one").await?;
    turn.scene.still_says(1, "ConfigMap one", "/metadata/uid", before).await
}

async fn nothing_is_taken_from_members_because_the_kind_of_clusters_was_deleted_and_made_again(
    bed: Arc<Bed>,
) -> Result<()> {
    let turn = Turn::take(&bed, "clusters-again", &[]).await?;
    let scene = &turn.scene;
    for member in [1, 2] {
        bed.prepare_member(member)?;
    }
    sent(scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    let ports = json!([{ "port": 80, "protocol": "TCP" }]);
    let import =
        object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": ports } }));
    scene.apply(HUB, [import, places("q", &["ServiceImport serve"], &[1, 2])]).await?;
    scene.arrives(&[1, 2], "ServiceImport serve").await?;
    let marks: Vec<_> =
        bed.members.iter().map(|member| bed.audit(&member.name).mark()).collect::<Result<_>>()?;
    let crd = "CustomResourceDefinition clusters.cluster.karmada.io";
    scene.delete(HUB, &[crd]).await?;
    scene.goes(&[HUB], crd).await?;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-hub/crds");
    bed.kubectl("hub").run(&["apply", "--server-side", "-f", crds])?;
    bed.kubectl("hub").run(&["wait", "--for=condition=Established", "--timeout=30s", "-f", crds])?;
    fleet::register_all(&bed).await?;
    scene.settles().await?;
    for (member, mark) in bed.members.iter().zip(marks) {
        let mut taken = bed.audit(&member.name).by_hub(mark)?;
        taken.retain(|request| {
            let about = &request.object_ref;
            let gone = request.verb.starts_with("delete") && about.name != "the-marker";
            gone || ["one", "serve"].contains(&&*about.name)
        });
        ensure!(taken.is_empty(), "in {}: {taken:?}", member.name);
    }
    // They are members as before, and one can still leave.
    scene.apply(HUB, [config_map("one", json!({ "a": "c" }))]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "c").await?;
    scene.says(2, "ConfigMap one", "/data/a", "c").await?;
    scene.delete(HUB, &["Cluster member2"]).await?;
    scene.goes(&[HUB], "Cluster member2").await?;
    scene.is_absent(&[2], "ServiceImport serve").await?;
    let copy = scene.field(2, "ConfigMap one", "/metadata").await?.to_string();
    ensure!(!copy.contains("tombolo"), "it was not let go: {copy}");
    scene.delete(HUB, &["ServiceImport serve"]).await?;
    scene.goes(&[1], "ServiceImport serve").await
}

async fn a_policy_for_all_secrets_of_the_hub_leaks_no_tokens(bed: Arc<Bed>) -> Result<()> {
    let turn = Turn::take(&bed, "leak", &[]).await?;
    let mut all = places("leak", &["Secret", "ConfigMap", "ServiceAccount"], &[1]);
    all["kind"] = "ClusterPropagationPolicy".into();
    let secret = object("Secret", "plain", json!({ "stringData": { "a": "b" } }));
    turn.scene.apply(HUB, [bootstrap_token(), secret, all]).await?;
    turn.scene.arrives(&[1], "Secret plain").await?;
    turn.scene.settles().await?;
    turn.scene.is_absent(&[1], "Secret bootstrap").await?;
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::all(turn.scene.client(1).clone());
    let ours = secrets.list(&kube::api::ListParams::default().labels("tombolo.dev/hub")).await?;
    let ours: Vec<_> =
        ours.items.iter().map(|found| found.metadata.namespace.clone().unwrap_or_default()).collect();
    ensure!(
        ours.iter().all(|namespace| !namespace.starts_with("kube-") && namespace != "tombolo-system"),
        "{ours:?}"
    );
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::all(turn.scene.client(1).clone());
    let ours = maps.list(&kube::api::ListParams::default().labels("tombolo.dev/hub")).await?;
    ensure!(
        ours.items.iter().all(|found| found.metadata.name.as_deref() != Some("kube-root-ca.crt")),
        "{ours:?}"
    );
    turn.scene.delete(HUB, &["ClusterPropagationPolicy leak"]).await
}

async fn a_tainted_member_gets_nothing_new_unless_that_is_tolerated(bed: Arc<Bed>) -> Result<()> {
    let turn = Turn::take(&bed, "tainted", &[]).await?;
    let scene = &turn.scene;
    sent(scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    let taints = |taints: Value| json!({ "spec": { "taints": taints } });
    scene
        .edit(
            HUB,
            "Cluster member2",
            taints(json!([{ "key": "repair", "value": "yes", "effect": "NoSchedule" }])),
        )
        .await?;
    let tolerations = json!({ "spec": { "placement": { "clusterTolerations": [{ "key": "repair", "operator": "Exists" }] } } });
    scene.apply(HUB, [config_map("two", json!({})), places("q", &["ConfigMap two"], &[1, 2])]).await?;
    scene
        .apply(
            HUB,
            [config_map("three", json!({})), with(places("r", &["ConfigMap three"], &[1, 2]), tolerations)],
        )
        .await?;
    scene.arrives(&[1, 2], "ConfigMap three").await?;
    scene.arrives(&[1], "ConfigMap two").await?;
    scene.is_absent(&[2], "ConfigMap two").await?;
    scene.find(2, "ConfigMap one").await?;
    scene.edit(HUB, "Cluster member2", taints(Value::Null)).await?;
    scene.arrives(&[2], "ConfigMap two").await
}

async fn namespaces_are_not_made_where_the_hub_is_told_so(bed: Arc<Bed>) -> Result<()> {
    let turn = Turn::take(&bed, "no-namespaces", &["--create-namespaces=false"]).await?;
    let scene = &turn.scene;
    scene.apply(2, [scene.here()]).await?;
    scene.apply(HUB, [config_map("one", json!({})), places("p", &["ConfigMap one"], &[1, 2])]).await?;
    scene.arrives(&[2], "ConfigMap one").await?;
    scene.reports("PropagationPolicy p", "Failed", &["member1", "no namespace no-namespaces"]).await?;
    scene.is_absent(&[1], "Namespace no-namespaces").await?;
    scene.apply(1, [scene.here()]).await?;
    scene.arrives(&[1], "ConfigMap one").await
}

/// Has member 2 leave, and says what is left of two objects of which one was the member's own.
async fn leave(scene: &Scene, annotations: Value) -> Result<()> {
    scene.apply(2, [scene.here(), config_map("own", json!({ "a": "b" }))]).await?;
    let own = [config_map("own", json!({ "a": "b" })), places("q", &["ConfigMap own"], &[1, 2])];
    scene.apply(HUB, own).await?;
    scene.says(2, "ConfigMap own", "/metadata/annotations/tombolo.dev~1adopted", "true").await?;
    sent(scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    scene.edit(HUB, "Cluster member2", json!({ "metadata": { "annotations": annotations } })).await?;
    scene.delete(HUB, &["Cluster member2"]).await?;
    scene.goes(&[HUB], "Cluster member2").await?;
    let own = scene.field(2, "ConfigMap own", "/metadata").await?.to_string();
    ensure!(!own.contains("tombolo"), "it was not let go: {own}");
    scene.find(1, "ConfigMap one").await.map(drop)
}

async fn a_member_that_leaves_keeps_its_copies_without_our_marks(bed: Arc<Bed>) -> Result<()> {
    let turn = Turn::take(&bed, "leaves", &[]).await?;
    leave(&turn.scene, json!({})).await?;
    let metadata = turn.scene.field(2, "ConfigMap one", "/metadata").await?.to_string();
    ensure!(!metadata.contains("tombolo"), "it was not let go: {metadata}");
    turn.scene.find(2, "Namespace leaves").await.map(drop)
}

async fn a_member_that_leaves_loses_its_copies_where_that_is_asked_for(bed: Arc<Bed>) -> Result<()> {
    let turn = Turn::take(&bed, "leaves-nothing", &[]).await?;
    leave(&turn.scene, json!({ "tombolo.dev/delete-copies": "true" })).await?;
    until("the copy is gone", PATIENCE, async || turn.scene.is_absent(&[2], "ConfigMap one").await).await?;
    turn.hub.as_ref().map(drop).context("the hub runs")
}
