//! What is selected arrives, in the namespaces that it belongs to.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, config_map, labelled, object, places, places_from},
};

use crate::scene;

/// The two policies for the CRDs, and the first step, of the introduction to multi-cluster Services that users know.
const INTRODUCTION: &str = include_str!("introduction.yaml");

pub(crate) async fn the_manifests_of_the_introduction_arrive_in_exactly_the_named_members(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "introduction").await?;
    let crds = ["serviceexports", "serviceimports"]
        .map(|plural| format!("CustomResourceDefinition {plural}.multicluster.x-k8s.io"));
    for crd in &crds {
        scene.is_absent(&[1, 2, 3], crd).await?;
    }
    let file = bed.dir().join("introduction.yaml");
    std::fs::write(&file, INTRODUCTION)?;
    bed.kubectl("hub").run(&["apply", "--namespace=introduction", "-f", &file.display().to_string()])?;
    std::fs::remove_file(&file)?;
    scene.is_in_exactly(&[1, 2], &crds[0]).await?;
    scene.is_in_exactly(&[1, 2], &crds[1]).await?;
    scene.is_in_exactly(&[1], "Deployment serve").await?;
    scene.is_in_exactly(&[1], "Service serve").await?;
    scene
        .says(1, "Deployment serve", "/spec/template/spec/containers/0/image", "jeremyot/serve:0a40de8")
        .await?;
    // Nothing of it, not even its namespace, is in member3 when all that came before has had its effect.
    ensure!(scene.get(3, "Namespace introduction").await?.is_none(), "member3 has the namespace");
    scene.settles().await?;
    for what in [&crds[0], &crds[1], "Deployment serve", "Service serve"] {
        scene.is_absent(&[3], what).await?;
    }
    scene.is_absent(&[2], "Service serve").await
}

pub(crate) async fn a_changed_template_changes_its_copies(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "changed-template").await?;
    let policy = places("p", &["ConfigMap one"], &[1, 2]);
    scene.apply(HUB, [config_map("one", json!({ "a": "1", "b": "1" })), policy]).await?;
    scene.says(1, "ConfigMap one", "/data/b", "1").await?;
    scene.apply(HUB, [config_map("one", json!({ "a": "2" }))]).await?;
    for member in [1, 2] {
        scene.says(member, "ConfigMap one", "/data", json!({ "a": "2" })).await?;
    }
    Ok(())
}

pub(crate) async fn an_object_of_the_whole_cluster_arrives(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "cluster-wide").await?;
    let name = scene.own("role");
    let what = format!("ClusterRole {name}");
    let rules = json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] });
    scene
        .apply(HUB, [object("ClusterRole", &name, rules), places_from("", &name, &[&what], &[1, 3])])
        .await?;
    scene.is_in_exactly(&[1, 3], &what).await?;
    scene.says(1, &what, "/rules/0/verbs", json!(["get"])).await?;
    scene.delete(HUB, &[&what]).await?;
    scene.goes(&[1, 3], &what).await
}

pub(crate) async fn a_namespace_is_made_with_the_labels_that_it_has_on_the_hub(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "made-namespace").await?;
    scene.apply(HUB, [labelled(scene.here(), "team", "a")]).await?;
    let policy = places("p", &["ConfigMap one"], &[2]);
    scene.apply(HUB, [config_map("one", json!({})), policy]).await?;
    scene.arrives(&[2], "ConfigMap one").await?;
    scene.still_says(2, "Namespace made-namespace", "/metadata/labels/team", "a").await?;
    scene.is_absent(&[1, 3], "Namespace made-namespace").await?;
    // It is not ours: it stays when all that was sent there is gone.
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[2], "ConfigMap one").await?;
    scene.find(2, "Namespace made-namespace").await.map(drop)
}

pub(crate) async fn a_namespace_that_is_not_to_be_propagated_is_not_made(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "skipped-namespace").await?;
    let label = "namespace.karmada.io/skip-auto-propagation";
    scene.apply(HUB, [labelled(scene.here(), label, "true")]).await?;
    let policy = places("p", &["ConfigMap one"], &[1]);
    scene.apply(HUB, [config_map("one", json!({})), policy]).await?;
    scene.reports("PropagationPolicy p", "Failed", &["no namespace skipped-namespace"]).await?;
    scene.is_absent(&[1], "Namespace skipped-namespace").await?;
    scene.apply(1, [scene.here()]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.reports("PropagationPolicy p", "Propagated", &[]).await
}
