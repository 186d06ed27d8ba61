//! What is never sent.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, annotated, config_map, object, places, places_from, with},
};

use crate::scene;

pub(crate) async fn what_every_cluster_makes_by_itself_is_never_sent(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "never").await?;
    let token = object("Secret", "token", json!({ "type": "kubernetes.io/service-account-token" }));
    let token = annotated(token, "kubernetes.io/service-account.name", "runner");
    let secret = object("Secret", "plain", json!({ "stringData": { "a": "b" } }));
    scene.apply(HUB, [object("ServiceAccount", "runner", json!({})), token, secret]).await?;
    scene.arrives(&[HUB], "ConfigMap kube-root-ca.crt").await?;
    scene.says(HUB, "Secret token", "/type", "kubernetes.io/service-account-token").await?;
    let all = places_from("never", "never", &["Secret", "ConfigMap", "ServiceAccount"], &[2]);
    scene.apply(HUB, [config_map("plain", json!({})), all]).await?;
    for what in ["Secret plain", "ConfigMap plain", "ServiceAccount runner"] {
        scene.arrives(&[2], what).await?;
    }
    scene.settles().await?;
    scene.is_absent(&[2], "Secret token").await?;
    // The member made its own; ours would bear our marks.
    for what in ["ConfigMap kube-root-ca.crt", "ServiceAccount default"] {
        scene.arrives(&[2], what).await?;
        scene.still_says(2, what, "/metadata/labels", serde_json::Value::Null).await?;
    }
    Ok(())
}

pub(crate) async fn what_a_controller_owns_is_never_sent(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "never-owned").await?;
    scene.apply(HUB, [config_map("owner", json!({}))]).await?;
    let uid = scene.field(HUB, "ConfigMap owner", "/metadata/uid").await?;
    let owned = |controller: bool| {
        let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": controller });
        json!({ "metadata": { "ownerReferences": [owner] } })
    };
    let theirs = with(config_map("controlled", json!({})), owned(true));
    let free = with(config_map("owned", json!({})), owned(false));
    scene.apply(HUB, [theirs, free, places("p", &["ConfigMap controlled", "ConfigMap owned"], &[1])]).await?;
    scene.arrives(&[1], "ConfigMap owned").await?;
    scene.settles().await?;
    scene.is_absent(&[1], "ConfigMap controlled").await
}
