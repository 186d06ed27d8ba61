//! Faults of policies, placements and members.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use rustix::process::Signal;
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    fleet,
    process::Identity,
    scene::{HUB, Scene, config_map, definition, object, places, with},
};

use super::ground::*;

fn one() -> serde_json::Value {
    config_map("one", json!({ "a": "b" }))
}

pub(crate) async fn what_is_well_is_said_to_be_so(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "well", &[]).await?;
    scene.apply(HUB, [one(), places("p", &["ConfigMap one"], &[1, 2])]).await?;
    let wanted = "ConfigMap well/one is well: it is in member1 and member2 by PropagationPolicy well/p";
    let text = begins(&scene, "configmap/one", &[wanted]).await?;
    ensure!(text.contains("✓ member3  not placed there: clusterNames does not have it"), "{text}");
    begins(&scene, "pp/p", &["PropagationPolicy well/p is well: all 2 are where they should be"]).await?;
    begins(&scene, "cluster/member1", &["Cluster member1 "]).await.map(drop)
}

pub(crate) async fn fault_01_a_policy_in_the_wrong_namespace(bed: Arc<Bed>) -> Result<()> {
    let other = scene(&bed, "right-one", &[]).await?;
    let scene = scene(&bed, "wrong-one", &[]).await?;
    scene.apply(HUB, [config_map("lonely", json!({ "a": "b" }))]).await?;
    other.apply(HUB, [places("p", &["ConfigMap lonely"], &[1])]).await?;
    let cause =
        "PropagationPolicy right-one/p selects such an object, but only in its own namespace right-one";
    let way_out = "move the policy to namespace wrong-one, or write a ClusterPropagationPolicy";
    begins(&scene, "configmap/lonely", &["is not well: no policy selects it", cause, way_out]).await?;
    let cause = "spec.resourceSelectors[0]: there is no ConfigMap lonely in namespace right-one";
    begins(&other, "propagationpolicy/p", &[cause, "there is one in namespace wrong-one"]).await?;
    begins(&other, "cm/lonely", &["is not on the hub", "ask with -n wrong-one"]).await.map(drop)
}

pub(crate) async fn fault_02_a_policy_that_loses_against_another(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "loses", &[]).await?;
    let strong = with(places("strong", &["ConfigMap one"], &[1]), json!({ "spec": { "priority": 5 } }));
    scene.apply(HUB, [one(), strong, places("weak", &["ConfigMap one"], &[2])]).await?;
    let why = "PropagationPolicy loses/strong has a higher spec.priority (5 against 0)";
    begins(&scene, "pp/weak", &["it holds for nothing: ConfigMap loses/one", why, "raise its spec.priority"])
        .await?;
    let wanted =
        "it is in member1 by PropagationPolicy loses/strong; PropagationPolicy loses/weak does not hold";
    begins(&scene, "configmap/one", &[wanted, why]).await.map(drop)
}

pub(crate) async fn fault_03_no_policy_selects_it(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "unselected", &[]).await?;
    scene.apply(HUB, [one(), places("p", &["ConfigMap two"], &[1])]).await?;
    let near = "no policy selects it: PropagationPolicy unselected/p selects the kind by the name two";
    let way_out = "name it in spec.resourceSelectors of a PropagationPolicy in namespace unselected";
    begins(&scene, "configmap/one", &[near, way_out]).await.map(drop)
}

pub(crate) async fn fault_04_a_cluster_that_there_is_not(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "nowhere", &[]).await?;
    scene.apply(HUB, [one(), places("p", &["ConfigMap one"], &[1, 9])]).await?;
    let field = "spec.placement.clusterAffinity.clusterNames[1]: there is no cluster \"member9\" yet";
    let way_out = "the hub has member1, member2 and member3: correct the name, or `tombolo join` it";
    begins(&scene, "configmap/one", &["is not well: PropagationPolicy nowhere/p", field, way_out]).await?;
    begins(&scene, "pp/p", &[field, way_out]).await.map(drop)
}

pub(crate) async fn fault_05_a_suspended_policy(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "suspended", &[]).await?;
    let suspended = with(
        places("p", &["ConfigMap one"], &[1]),
        json!({ "spec": { "suspension": { "dispatching": true } } }),
    );
    scene.apply(HUB, [one(), suspended]).await?;
    let cause = "PropagationPolicy suspended/p holds it back: its policy is suspended";
    begins(&scene, "configmap/one", &[cause, "take spec.suspension out of it to go on"]).await?;
    begins(&scene, "pp/p", &["spec.suspension.dispatching is true"]).await.map(drop)
}

pub(crate) async fn fault_06_a_kind_that_the_member_lacks(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "no-kind", &[1]).await?;
    scene.apply(HUB, [definition("GadgetAbsent", &["v1"])]).await?;
    scene.apply(HUB, [object("GadgetAbsent", "one", json!({ "spec": { "size": 1 } }))]).await?;
    scene.apply(HUB, [places("p", &["GadgetAbsent one"], &[1])]).await?;
    let cause = "in member1: the cluster does not serve the kind GadgetAbsent.rules.example";
    let way_out = "have the CustomResourceDefinition of GadgetAbsent propagated there";
    begins(&scene, "gadgetabsent/one", &["is not well", cause, way_out]).await.map(drop)
}

pub(crate) async fn fault_07_a_right_that_the_hub_lacks_in_the_member(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "no-right", &[1]).await?;
    // `tombolo join` grants no rights on ReplicaSets.
    let labels = json!({ "app": "one" });
    let set = json!({ "spec": {
        "replicas": 0, "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "example.com/a:1" }] },
        },
    } });
    scene.apply(HUB, [object("ReplicaSet", "one", set), places("p", &["ReplicaSet one"], &[1])]).await?;
    let words =
        ["is not well: in member1: Tombolo lacks a right", "replicasets", "`tombolo join member1 --grant …`"];
    begins(&scene, "replicaset/one", &words).await.map(drop)
}

pub(crate) async fn fault_08_an_object_of_somebody_else_is_there_already(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "foreign", &[1]).await?;
    scene.apply(1, [config_map("one", json!({ "a": "mine" }))]).await?;
    scene.apply(HUB, [one(), places("p", &["ConfigMap one"], &[1, 2])]).await?;
    let cause =
        "in member1: ConfigMap foreign/one is there already, is not ours and differs from the template";
    let text =
        begins(&scene, "configmap/one", &["is not well", cause, "conflictResolution: Overwrite"]).await?;
    ensure!(text.contains("✗ member1") && text.contains("✓ member3  not placed there"), "{text}");
    Ok(())
}

/// Has a member refuse `ConfigMaps` of the scene's namespace.
async fn forbid(scene: &Scene, member: usize) -> Result<()> {
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"] }]);
    let ours = format!("object.metadata.namespace != '{}'", scene.namespace);
    let policy = json!({ "spec": {
        "failurePolicy": "Fail", "matchConstraints": { "resourceRules": rules },
        "validations": [{ "expression": ours, "message": "the house does not like that" }],
    } });
    let name = scene.own("forbids");
    let binding = json!({ "spec": { "policyName": name, "validationActions": ["Deny"] } });
    let policy = object("ValidatingAdmissionPolicy", &name, policy);
    scene.apply(member, [policy, object("ValidatingAdmissionPolicyBinding", &name, binding)]).await?;
    tombolo_e2e::wait::until("the member refuses it", tombolo_e2e::scene::PATIENCE, async || {
        let refused = scene.apply(member, [config_map("probe", json!({}))]).await.is_err();
        scene.delete(member, &["ConfigMap probe"]).await?;
        ensure!(refused, "not yet");
        Ok(())
    })
    .await
}

pub(crate) async fn fault_09_the_member_refuses_it(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "refuses", &[1]).await?;
    forbid(&scene, 1).await?;
    let two = config_map("two", json!({ "a": "b" }));
    let account = object("ServiceAccount", "welcome", json!({}));
    let all = ["ConfigMap one", "ConfigMap two", "ServiceAccount welcome"];
    scene.apply(HUB, [one(), two, account, places("p", &all, &[1])]).await?;
    let events: Api<Event> = Api::namespaced(bed.hub.client.clone(), &scene.namespace);
    // Events are kept for an hour only: nothing depends on them.
    for _ in ["with its event", "without"] {
        for name in ["configmap/one", "configmap/two"] {
            let text =
                begins(&scene, name, &["is not well: in member1:", "the house does not like that"]).await?;
            ensure!(!text.contains("objects of PropagationPolicy"), "it is about the object itself: {text}");
        }
        events.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    }
    begins(&scene, "serviceaccount/welcome", &["is well: it is in member1 by PropagationPolicy"])
        .await
        .map(drop)
}

pub(crate) async fn fault_10_a_member_that_does_not_answer(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "lost", &[]).await?;
    scene.apply(HUB, [one(), places("p", &["ConfigMap one"], &[3])]).await?;
    scene.arrives(&[3], "ConfigMap one").await?;
    begins(&scene, "configmap/one", &["is well"]).await?;
    let pid = bed.member(3).pid("kube-apiserver").context("there is an API server")?;
    let server = Identity::of(pid).context("it does not run")?;
    server.signal(Signal::STOP);
    let outcome = async {
        fleet::until_ready(&bed.hub.client, "member3", "Unknown").await?;
        let way_out = "`tombolo unjoin member3 --force`";
        begins(
            &scene,
            "configmap/one",
            &["is not well: member3 is not ready since", "does not answer", way_out],
        )
        .await?;
        begins(&scene, "pp/p", &["member3 is not ready since", way_out]).await?;
        let text = begins(&scene, "cluster/member3", &["is not well: Ready is Unknown since"]).await?;
        ensure!(text.contains("cluster.karmada.io/unreachable"), "{text}");
        // What comes now is not placed there at all.
        scene.apply(HUB, [config_map("two", json!({})), places("q", &["ConfigMap two"], &[3])]).await?;
        begins(&scene, "configmap/two", &["is not well: member3 is not ready since"]).await
    }
    .await;
    server.signal(Signal::CONT);
    outcome.map(drop)
}
