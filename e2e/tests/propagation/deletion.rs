//! What becomes of copies when a policy or a template goes.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{
        HUB, PATIENCE, Scene, annotated, config_map, definition, labelled, object, places, places_from, with,
    },
    wait::until,
};

use super::ownership::is_let_go;
use crate::scene;

const TAKES_ALONG: (&str, &str) = ("tombolo.dev/on-policy-deletion", "delete");

/// A `ConfigMap` that is in members 1 and 2.
async fn sent(scene: &Scene, policy: Value) -> Result<()> {
    scene.apply(HUB, [config_map("one", json!({ "a": "b" })), policy]).await?;
    scene.arrives(&[1, 2], "ConfigMap one").await
}

pub(crate) async fn without_its_policy_a_copy_stays_follows_its_template_and_goes_with_it(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "frozen").await?;
    sent(&scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    scene.delete(HUB, &["PropagationPolicy p"]).await?;
    scene.settles().await?;
    scene.find(1, "ConfigMap one").await?;
    scene.apply(HUB, [config_map("one", json!({ "a": "c" }))]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "c").await?;
    scene.says(2, "ConfigMap one", "/data/a", "c").await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[1, 2], "ConfigMap one").await
}

pub(crate) async fn a_policy_that_asks_for_it_takes_its_copies_along(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "along").await?;
    let (key, value) = TAKES_ALONG;
    sent(&scene, annotated(places("p", &["ConfigMap one"], &[1, 2]), key, value)).await?;
    scene.delete(HUB, &["PropagationPolicy p"]).await?;
    scene.goes(&[1, 2], "ConfigMap one").await?;
    scene.find(HUB, "ConfigMap one").await.map(drop)
}

fn preserving() -> Value {
    let policy = places("p", &["ConfigMap one"], &[1, 2]);
    with(policy, json!({ "spec": { "preserveResourcesOnDeletion": true } }))
}

pub(crate) async fn copies_that_are_to_be_preserved_outlive_their_template(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "preserved").await?;
    sent(&scene, preserving()).await?;
    scene.says(1, "ConfigMap one", "/metadata/annotations/tombolo.dev~1preserve-on-deletion", "true").await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    is_let_go(&scene, 1, "ConfigMap one").await?;
    is_let_go(&scene, 2, "ConfigMap one").await?;
    scene.still_says(1, "ConfigMap one", "/data/a", "b").await
}

pub(crate) async fn what_a_policy_says_of_deletion_counts_though_it_never_reached_the_member(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "preserved-late").await?;
    sent(&scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    let suspended = json!({ "dispatchingOnClusters": { "clusterNames": ["member2"] } });
    let policy = with(preserving(), json!({ "spec": { "suspension": suspended } }));
    scene.apply(HUB, [policy]).await?;
    let mark = "/metadata/annotations/tombolo.dev~1preserve-on-deletion";
    scene.says(1, "ConfigMap one", mark, "true").await?;
    scene.still_says(2, "ConfigMap one", mark, Value::Null).await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    is_let_go(&scene, 1, "ConfigMap one").await?;
    is_let_go(&scene, 2, "ConfigMap one").await
}

pub(crate) async fn copies_that_are_to_be_preserved_outlive_their_template_and_policy_together(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "preserved-too").await?;
    sent(&scene, preserving()).await?;
    scene.delete(HUB, &["PropagationPolicy p", "ConfigMap one"]).await?;
    is_let_go(&scene, 1, "ConfigMap one").await?;
    is_let_go(&scene, 2, "ConfigMap one").await
}

pub(crate) async fn policy_and_template_deleted_together_leave_nothing(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "together").await?;
    sent(&scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    scene.delete(HUB, &["PropagationPolicy p", "ConfigMap one"]).await?;
    scene.goes(&[1, 2], "ConfigMap one").await?;
    sent(&scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    scene.delete(HUB, &["ConfigMap one", "PropagationPolicy p"]).await?;
    scene.goes(&[1, 2], "ConfigMap one").await
}

pub(crate) async fn a_copied_crd_is_let_go_and_not_deleted(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "crd-stays").await?;
    let what = "CustomResourceDefinition gadgetstays.rules.example";
    scene
        .apply(HUB, [definition("GadgetStay", &["v1"]), places_from("", "crd-stays", &[what], &[1, 2])])
        .await?;
    scene.arrives(&[1, 2], what).await?;
    scene.apply(HUB, [places_from("", "crd-stays", &[what], &[1])]).await?;
    is_let_go(&scene, 2, what).await?;
    scene.delete(HUB, &[what]).await?;
    is_let_go(&scene, 1, what).await
}

pub(crate) async fn a_copied_crd_is_deleted_where_its_policy_asks_for_it(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "crd-goes").await?;
    let what = "CustomResourceDefinition gadgetgos.rules.example";
    let (key, value) = TAKES_ALONG;
    let policy = |members: &[usize]| annotated(places_from("", "crd-goes", &[what], members), key, value);
    scene.apply(HUB, [definition("GadgetGo", &["v1"]), policy(&[1, 2])]).await?;
    scene.arrives(&[1, 2], what).await?;
    // An API server ends a definition by listing its objects, and one that goes before the first list can hang there.
    for member in ["member1", "member2"] {
        until(&format!("{member} lists the kind"), PATIENCE, async || {
            bed.kubectl(member).run(&["get", "--raw", "/apis/rules.example/v1/gadgetgos"])
        })
        .await?;
    }
    scene.apply(HUB, [policy(&[1])]).await?;
    scene.goes(&[2], what).await?;
    scene.delete(HUB, &[what]).await?;
    scene.goes(&[1], what).await
}

pub(crate) async fn a_copied_namespace_is_let_go_and_not_deleted(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "namespace-stays").await?;
    let what = "Namespace namespace-stays-inner";
    let inner = object("Namespace", "namespace-stays-inner", json!({}));
    scene.apply(HUB, [inner, places_from("", "namespace-stays", &[what], &[1, 2])]).await?;
    scene.arrives(&[1, 2], what).await?;
    scene.delete(HUB, &[what]).await?;
    is_let_go(&scene, 1, what).await?;
    scene.still_says(1, what, "/metadata/deletionTimestamp", Value::Null).await?;
    is_let_go(&scene, 2, what).await
}

pub(crate) async fn a_crd_is_never_written_over_a_newer_one(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "crd-newer").await?;
    let what = "CustomResourceDefinition gadgetolds.rules.example";
    let revision = |number: &str| {
        let crd =
            labelled(definition("GadgetOld", &["v1"]), "multicluster.x-k8s.io/crd-schema-revision", number);
        annotated(crd, "revision", number)
    };
    scene.apply(1, [revision("9")]).await?;
    let policy = places_from("", "crd-newer", &[what], &[1, 2]);
    let policy = with(policy, json!({ "spec": { "conflictResolution": "Overwrite" } }));
    scene.apply(HUB, [revision("5"), policy]).await?;
    scene.arrives(&[2], what).await?;
    scene.settles().await?;
    scene.still_says(1, what, "/metadata/annotations/revision", "9").await?;
    // Also where the older one was ours: somebody there installs a newer one over it.
    scene.apply(2, [revision("7")]).await?;
    scene.settles().await?;
    scene.still_says(2, what, "/metadata/annotations/revision", "7").await?;
    scene.apply(HUB, [revision("10")]).await?;
    scene.says(1, what, "/metadata/annotations/revision", "10").await?;
    scene.says(2, what, "/metadata/annotations/revision", "10").await
}

pub(crate) async fn a_copy_that_lost_our_label_goes_with_its_template_all_the_same(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "unlabelled").await?;
    sent(&scene, places("p", &["ConfigMap one"], &[1, 2])).await?;
    scene.delete(HUB, &["PropagationPolicy p"]).await?;
    scene.settles().await?;
    // To a watch by label this looks like a deletion.
    let without = json!({ "metadata": { "labels": { "tombolo.dev/hub": null } } });
    scene.edit(1, "ConfigMap one", without).await?;
    scene.settles().await?;
    scene.delete(HUB, &["ConfigMap one"]).await?;
    scene.goes(&[1, 2], "ConfigMap one").await
}
