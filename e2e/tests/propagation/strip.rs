//! What of a template stays on the hub.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, Scene, config_map, object, places, with},
};

use crate::scene;

/// Fails if the copy is written again and again: its resourceVersion stays while others come and go.
pub(super) async fn is_at_rest(scene: &Scene, member: usize, what: &str) -> Result<()> {
    scene.settles().await?;
    let before = scene.field(member, what, "/metadata/resourceVersion").await?;
    scene.settles().await?;
    scene.still_says(member, what, "/metadata/resourceVersion", before).await
}

pub(crate) async fn addresses_and_node_ports_of_a_service_are_each_clusters_own(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "strip-service").await?;
    let ports = json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 80, "protocol": "UDP" }]);
    let service = object(
        "Service",
        "web",
        json!({ "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports } }),
    );
    let headless =
        object("Service", "quiet", json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } }));
    scene.apply(HUB, [service, headless, places("p", &["Service"], &[1])]).await?;
    scene.arrives(&[1], "Service web").await?;
    scene.arrives(&[1], "Service quiet").await?;
    scene.still_says(1, "Service quiet", "/spec/clusterIP", "None").await?;
    // What was sent is what our entry lists: none of these is in it.
    let managed = scene.field(1, "Service web", "/metadata/managedFields").await?;
    let ours = managed.as_array().and_then(|all| all.iter().find(|entry| entry["manager"] == "tombolo"));
    let ours = ours.map(Value::to_string).unwrap_or_default();
    ensure!(ours.contains("f:externalTrafficPolicy"), "{managed}");
    for field in ["clusterIP", "nodePort", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy", "f:status"]
    {
        ensure!(!ours.contains(field), "{field} is among {ours}");
    }
    is_at_rest(&scene, 1, "Service web").await?;
    is_at_rest(&scene, 1, "Service quiet").await
}

pub(crate) async fn the_selector_of_a_job_is_each_clusters_own(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "strip-job").await?;
    let pod = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.com/app:v1" }] } });
    scene
        .apply(
            HUB,
            [object("Job", "once", json!({ "spec": { "template": pod } })), places("p", &["Job once"], &[1])],
        )
        .await?;
    scene.arrives(&[1], "Job once").await?;
    let uid = scene.field(1, "Job once", "/metadata/uid").await?;
    let label = "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid";
    scene.still_says(1, "Job once", label, uid).await?;
    is_at_rest(&scene, 1, "Job once").await
}

pub(crate) async fn the_volume_of_a_claim_is_each_clusters_own(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "strip-claim").await?;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "volumeName": "on-the-hub", "resources": { "requests": { "storage": "1024Mi" } } });
    scene
        .apply(
            HUB,
            [
                object("PersistentVolumeClaim", "disk", json!({ "spec": spec })),
                places("p", &["PersistentVolumeClaim disk"], &[1]),
            ],
        )
        .await?;
    scene.arrives(&[1], "PersistentVolumeClaim disk").await?;
    scene.still_says(1, "PersistentVolumeClaim disk", "/spec/volumeName", Value::Null).await?;
    is_at_rest(&scene, 1, "PersistentVolumeClaim disk").await
}

pub(crate) async fn a_template_with_owners_and_finalizers_leaves_no_loop_and_no_stuck_copy(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "strip-owners").await?;
    scene.apply(HUB, [config_map("owner", json!({}))]).await?;
    let uid = scene.field(HUB, "ConfigMap owner", "/metadata/uid").await?;
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid });
    let metadata =
        json!({ "metadata": { "ownerReferences": [owner], "finalizers": ["rules.example/keep"] } });
    scene
        .apply(
            HUB,
            [with(config_map("one", json!({ "a": "b" })), metadata), places("p", &["ConfigMap one"], &[1])],
        )
        .await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.still_says(1, "ConfigMap one", "/metadata/ownerReferences", Value::Null).await?;
    scene.still_says(1, "ConfigMap one", "/metadata/finalizers", Value::Null).await?;
    is_at_rest(&scene, 1, "ConfigMap one").await?;
    scene.edit(HUB, "ConfigMap one", json!({ "metadata": { "finalizers": null } })).await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[1], "ConfigMap one").await
}
