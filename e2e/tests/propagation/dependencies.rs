//! What a workload needs beside it: `propagateDeps`.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, config_map, deployment, object, places, with},
};

use crate::scene;

const NEEDED: [&str; 4] =
    ["ConfigMap settings", "Secret password", "ServiceAccount runner", "PersistentVolumeClaim disk"];

fn needed() -> [Value; 4] {
    let claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    [
        config_map("settings", json!({ "a": "b" })),
        object("Secret", "password", json!({ "stringData": { "a": "b" } })),
        object("ServiceAccount", "runner", json!({})),
        object("PersistentVolumeClaim", "disk", claim),
    ]
}

fn needing() -> Value {
    let mut workload = deployment("web", 1);
    workload["spec"]["template"]["spec"] = json!({
        "serviceAccountName": "runner",
        "containers": [{
            "name": "main", "image": "example.com/team/app:v1",
            "envFrom": [{ "configMapRef": { "name": "settings" } }],
            "env": [{ "name": "PASSWORD", "valueFrom": { "secretKeyRef": { "name": "password", "key": "a" } } }],
        }],
        "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } }],
    });
    workload
}

fn policy(members: &[usize]) -> Value {
    with(places("p", &["Deployment web"], members), json!({ "spec": { "propagateDeps": true } }))
}

pub(crate) async fn what_a_workload_names_goes_along_and_goes_when_it_is_no_longer_named(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "deps").await?;
    scene.apply(HUB, needed()).await?;
    scene.apply(HUB, [config_map("unrelated", json!({})), needing(), policy(&[1])]).await?;
    for what in NEEDED {
        scene.arrives(&[1], what).await?;
    }
    scene.settles().await?;
    for what in NEEDED {
        scene.is_absent(&[2, 3], what).await?;
    }
    scene.is_absent(&[1], "ConfigMap unrelated").await?;
    // It names one less, then it is gone.
    let mut less = needing();
    less["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([]);
    scene.apply(HUB, [less]).await?;
    scene.goes(&[1], "ConfigMap settings").await?;
    scene.find(1, "Secret password").await?;
    scene.delete(HUB, &["Deployment web"]).await?;
    for what in NEEDED {
        scene.goes(&[1], what).await?;
    }
    Ok(())
}

pub(crate) async fn what_a_preserved_workload_names_is_preserved_with_it(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "deps-preserved").await?;
    scene.apply(HUB, needed()).await?;
    let preserving = with(policy(&[1]), json!({ "spec": { "preserveResourcesOnDeletion": true } }));
    scene.apply(HUB, [needing(), preserving]).await?;
    for what in NEEDED {
        scene.arrives(&[1], what).await?;
    }
    scene.arrives(&[1], "Deployment web").await?;
    scene.delete(HUB, &["Deployment web"]).await?;
    for what in NEEDED.into_iter().chain(["Deployment web"]) {
        // Let go, which only what is still there can be.
        scene.says(1, what, "/metadata/annotations/tombolo.dev~1origin", Value::Null).await?;
        scene.find(1, what).await?;
    }
    Ok(())
}

pub(crate) async fn what_a_workload_names_follows_it_to_another_member(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "deps-move").await?;
    scene.apply(HUB, needed()).await?;
    scene.apply(HUB, [needing(), policy(&[1])]).await?;
    scene.arrives(&[1], "Secret password").await?;
    scene.apply(HUB, [policy(&[2])]).await?;
    for what in NEEDED {
        scene.is_in_exactly(&[2], what).await?;
    }
    scene.apply(HUB, [config_map("settings", json!({ "a": "c" }))]).await?;
    scene.says(2, "ConfigMap settings", "/data/a", "c").await
}

pub(crate) async fn what_a_policy_of_its_own_places_does_not_go_with_a_workload(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "deps-shared").await?;
    scene.apply(HUB, needed()).await?;
    let own = places("own", &["ConfigMap settings"], &[2]);
    scene.apply(HUB, [needing(), policy(&[1]), own]).await?;
    scene.is_in_exactly(&[1, 2], "ConfigMap settings").await?;
    scene.apply(HUB, [places("own", &["ConfigMap settings"], &[1, 2])]).await?;
    scene.says(1, "ConfigMap settings", "/metadata/annotations/tombolo.dev~1dependency", Value::Null).await?;
    scene.delete(HUB, &["Deployment web"]).await?;
    scene.goes(&[1], "Secret password").await?;
    scene.settles().await?;
    scene.find(1, "ConfigMap settings").await?;
    scene.find(2, "ConfigMap settings").await.map(drop)
}
