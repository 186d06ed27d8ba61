//! What is said on the hub of what happens in members.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, PATIENCE, Scene, config_map, definition, object, places},
    wait::until,
};

use crate::scene;

pub(crate) async fn a_policy_says_where_its_objects_are(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "status").await?;
    scene.apply(HUB, [places("p", &["ConfigMap"], &[1, 2])]).await?;
    scene.reports("PropagationPolicy p", "NothingSelected", &["\"matched\":0"]).await?;
    scene.apply(HUB, [config_map("one", json!({})), config_map("two", json!({}))]).await?;
    let outcome =
        |name: &str, number: u8| json!({ "name": name, "wanted": number, "applied": number, "failed": 0 });
    let clusters = json!([outcome("member1", 2), outcome("member2", 2)]);
    scene.says(HUB, "PropagationPolicy p", "/status/clusters", clusters).await?;
    scene.says(HUB, "PropagationPolicy p", "/status/matched", 2).await?;
    scene.says(HUB, "PropagationPolicy p", "/status/conditions/0/status", "True").await?;
    scene.apply(HUB, [places("p", &["ConfigMap one"], &[1])]).await?;
    let clusters = json!([outcome("member1", 1)]);
    scene.says(HUB, "PropagationPolicy p", "/status/clusters", clusters).await?;
    let generation = scene.field(HUB, "PropagationPolicy p", "/metadata/generation").await?;
    scene.still_says(HUB, "PropagationPolicy p", "/status/observedGeneration", generation).await?;
    scene.apply(HUB, [places("q", &["GadgetNowhere one"], &[1])]).await?;
    scene.reports("PropagationPolicy q", "KindNotServed", &["Gadget"]).await
}

/// Has a member refuse `ConfigMaps` of a namespace that say `forbidden`.
async fn forbid(scene: &Scene, member: usize) -> Result<()> {
    let name = scene.own("forbids");
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"] }]);
    let ours = format!("object.metadata.namespace != '{}' || !('forbidden' in object.data)", scene.namespace);
    let policy = json!({ "spec": {
        "failurePolicy": "Fail", "matchConstraints": { "resourceRules": rules },
        "validations": [{ "expression": ours, "message": "the house does not like that" }],
    } });
    let binding = json!({ "spec": { "policyName": name, "validationActions": ["Deny"] } });
    scene
        .apply(
            member,
            [
                object("ValidatingAdmissionPolicy", &name, policy),
                object("ValidatingAdmissionPolicyBinding", &name, binding),
                scene.here(),
            ],
        )
        .await?;
    until("the member refuses it", PATIENCE, async || {
        let probe = config_map("probe", json!({ "forbidden": "yes" }));
        let refused = scene.apply(member, [probe]).await.is_err();
        scene.delete(member, &["ConfigMap probe"]).await?;
        ensure!(refused, "not yet");
        Ok(())
    })
    .await
}

pub(crate) async fn a_failure_is_said_in_the_members_own_words_and_once(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "failure").await?;
    forbid(&scene, 1).await?;
    let template = |a: &str| config_map("one", json!({ "forbidden": "yes", "a": a }));
    scene.apply(HUB, [template("1"), places("p", &["ConfigMap one"], &[1, 2])]).await?;
    scene.reports("PropagationPolicy p", "Failed", &["member1", "the house does not like that"]).await?;
    let well = json!({ "name": "member2", "wanted": 1, "applied": 1, "failed": 0 });
    scene.says(HUB, "PropagationPolicy p", "/status/clusters/1", well).await?;
    let one = "ConfigMap failure/one";
    scene.says(HUB, "PropagationPolicy p", "/status/clusters/0/failures/0/object", one).await?;
    // It fails again and again; that is news once.
    for a in ["2", "3", "4"] {
        scene.apply(HUB, [template(a)]).await?;
        scene.says(2, "ConfigMap one", "/data/a", a).await?;
        scene.settles().await?;
    }
    let events = scene.events("one").await?;
    ensure!(events.len() == 1 && events[0].contains("the house does not like that"), "{events:?}");
    scene.apply(HUB, [config_map("one", json!({ "a": "5" }))]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.reports("PropagationPolicy p", "Propagated", &[]).await
}

pub(crate) async fn one_object_that_a_member_refuses_does_not_cut_it_off(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "refused").await?;
    let before = link_failures(&bed).await?;
    forbid(&scene, 1).await?;
    // The member's schema lacks the field: Kubernetes 1.36 answers 500 to an apply of it.
    scene.apply(1, [lacking("GadgetPoor")]).await?;
    scene.apply(HUB, [definition("GadgetPoor", &["v1"])]).await?;
    let gadgets = (0..8).map(|n| object("GadgetPoor", &format!("poor{n}"), json!({ "spec": { "size": 1 } })));
    scene.apply(HUB, gadgets).await?;
    let refused = (0..8).map(|n| config_map(&format!("poor{n}"), json!({ "forbidden": "yes" })));
    scene.apply(HUB, refused).await?;
    scene.apply(HUB, [places("p", &["GadgetPoor", "ConfigMap"], &[1])]).await?;
    scene.reports("PropagationPolicy p", "Failed", &["\"failed\":16", "member1"]).await?;
    scene
        .apply(HUB, [config_map("well", json!({ "a": "b" })), places("q", &["ConfigMap well"], &[1])])
        .await?;
    scene.arrives(&[1], "ConfigMap well").await?;
    // The breaker opens after five failures of the link in a row; those were none.
    ensure!(link_failures(&bed).await? < before + 5, "they count against the member");
    let conditions = scene.field(HUB, "Cluster member1", "/status/conditions").await?;
    ensure!(conditions.to_string().contains("\"ClusterReady\""), "{conditions}");
    Ok(())
}

async fn link_failures(bed: &Bed) -> Result<u64> {
    let metrics = bed.hub_process().context("the bed has a hub")?.says("/metrics").await?;
    let line =
        metrics.lines().find(|line| line.contains("propagation_failures_total") && line.contains("\"link\""));
    Ok(line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default())
}

/// A kind without the field that the hub's has.
fn lacking(kind: &str) -> Value {
    let mut crd = definition(kind, &["v1"]);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({ "other": { "type": "string" } });
    crd
}
