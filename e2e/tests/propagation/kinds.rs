//! Kinds that come, go and differ between hub and members.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, PATIENCE, Scene, definition, object, places, places_from},
    wait::until,
};

use crate::scene;

fn gadget(kind: &str, size: u32) -> Value {
    object(kind, "one", json!({ "spec": { "size": size } }))
}

fn crd(kind: &str) -> String {
    format!("CustomResourceDefinition {}s.rules.example", kind.to_lowercase())
}

pub(crate) async fn a_custom_kind_and_its_objects_converge_when_they_come_together(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "kind-and-objects").await?;
    let kinds = places_from("", "kind-and-objects", &[&crd("GadgetNew")], &[1, 2]);
    let objects = places("p", &["GadgetNew one"], &[1, 2]);
    scene.apply(HUB, [kinds, objects, definition("GadgetNew", &["v1"]), gadget("GadgetNew", 1)]).await?;
    scene.arrives(&[1, 2], "GadgetNew one").await?;
    scene.reports("PropagationPolicy p", "Propagated", &[]).await?;
    scene.apply(HUB, [gadget("GadgetNew", 2)]).await?;
    scene.says(2, "GadgetNew one", "/spec/size", 2).await?;
    scene.delete(HUB, &["GadgetNew one"]).await?;
    scene.goes(&[1, 2], "GadgetNew one").await
}

pub(crate) async fn a_kind_that_a_member_lacks_is_said_and_sent_when_it_comes(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "lacking-kind").await?;
    let policy = places("p", &["GadgetLate one"], &[1]);
    scene.apply(HUB, [definition("GadgetLate", &["v1"]), gadget("GadgetLate", 1), policy]).await?;
    let words = ["member1", "does not serve the kind GadgetLate.rules.example"];
    scene.reports("PropagationPolicy p", "Failed", &words).await?;
    until("an event says so", PATIENCE, async || {
        let events = scene.events("one").await?;
        ensure!(events.iter().any(|note| note.contains("does not serve the kind")), "{events:?}");
        Ok(())
    })
    .await?;
    scene.apply(1, [definition("GadgetLate", &["v1"])]).await?;
    scene.arrives(&[1], "GadgetLate one").await?;
    scene.reports("PropagationPolicy p", "Propagated", &[]).await
}

pub(crate) async fn a_member_gets_objects_in_a_version_that_it_serves(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "versions").await?;
    scene.apply(1, [definition("GadgetTwo", &["v1"])]).await?;
    scene.apply(2, [definition("GadgetTwo", &["v3"])]).await?;
    // The hub prefers v2, which no member has.
    scene.apply(HUB, [definition("GadgetTwo", &["v2", "v1"])]).await?;
    scene.apply(HUB, [gadget("GadgetTwo", 1), places("p", &["GadgetTwo one"], &[1, 2])]).await?;
    scene.says(1, "GadgetTwo one", "/spec/size", 1).await?;
    scene.reports("PropagationPolicy p", "Failed", &["member2", "no common version"]).await?;
    scene.apply(HUB, [gadget("GadgetTwo", 2)]).await?;
    scene.says(1, "GadgetTwo one", "/spec/size", 2).await?;
    scene.edit(1, "GadgetTwo one", json!({ "spec": { "size": 7 } })).await?;
    scene.says(1, "GadgetTwo one", "/spec/size", 2).await
}

pub(crate) async fn a_kind_is_followed_in_another_version_when_that_which_was_watched_is_no_longer_served(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "version-goes").await?;
    let places_gadgets = places("p", &["GadgetMoved one"], &[1]);
    for place in [HUB, 1] {
        // v2 is preferred.
        scene.apply(place, [definition("GadgetMoved", &["v2", "v1"])]).await?;
    }
    scene.apply(HUB, [gadget("GadgetMoved", 1), places_gadgets]).await?;
    scene.arrives(&[1], "GadgetMoved one").await?;
    let before = scene.field(1, "GadgetMoved one", "/metadata/uid").await?;
    let mut versions = definition("GadgetMoved", &["v2", "v1"])["spec"]["versions"].take();
    versions[0]["served"] = false.into();
    for place in [HUB, 1] {
        scene.edit(place, &crd("GadgetMoved"), json!({ "spec": { "versions": versions.clone() } })).await?;
    }
    scene.apply(HUB, [gadget("GadgetMoved", 2)]).await?;
    scene.says(1, "GadgetMoved one", "/spec/size", 2).await?;
    scene.edit(1, "GadgetMoved one", json!({ "spec": { "size": 7 } })).await?;
    scene.says(1, "GadgetMoved one", "/spec/size", 2).await?;
    scene.still_says(1, "GadgetMoved one", "/metadata/uid", before).await?;
    scene.delete(HUB, &["GadgetMoved one"]).await?;
    scene.goes(&[1], "GadgetMoved one").await
}

/// How many watches of a resource the hub's API server has open.
async fn watches(scene: &Scene, resource: &str) -> Result<u64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let metrics = scene.client(HUB).request_text(request).await?;
    let ours = metrics.lines().filter(|line| line.starts_with("apiserver_longrunning_requests{"));
    let ours = ours.filter(|line| {
        line.contains("verb=\"WATCH\"")
            && line.contains(&format!("resource=\"{resource}\""))
            && line.contains("scope=\"cluster\"")
    });
    Ok(ours.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

pub(crate) async fn a_kind_that_nobody_selects_and_nobody_holds_is_no_longer_watched(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "watches").await?;
    scene.apply(HUB, [definition("GadgetSeen", &["v1"])]).await?;
    scene.apply(1, [definition("GadgetSeen", &["v1"])]).await?;
    let watched = async |wanted: u64| {
        until(&format!("it is watched {wanted} times"), PATIENCE, async || {
            let found = watches(&scene, "gadgetseens").await?;
            ensure!(found == wanted, "it is watched {found} times");
            Ok(())
        })
        .await
    };
    // Kubernetes' own controllers watch every kind that there is.
    scene.settles().await?;
    let others = watches(&scene, "gadgetseens").await?;
    scene.apply(HUB, [gadget("GadgetSeen", 1), places("p", &["GadgetSeen one"], &[1])]).await?;
    scene.arrives(&[1], "GadgetSeen one").await?;
    watched(others + 1).await?;
    scene.delete(HUB, &["PropagationPolicy p"]).await?;
    scene.settles().await?;
    watched(others + 1).await?;
    scene.delete(HUB, &["GadgetSeen one"]).await?;
    scene.goes(&[1], "GadgetSeen one").await?;
    watched(others).await
}

pub(crate) async fn no_object_is_deleted_because_its_kind_was_deleted_and_made_again_on_the_hub(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "kind-again").await?;
    scene.apply(1, [definition("GadgetAgain", &["v1"])]).await?;
    let policy = places("p", &["GadgetAgain one"], &[1]);
    scene.apply(HUB, [definition("GadgetAgain", &["v1"]), gadget("GadgetAgain", 1), policy]).await?;
    scene.arrives(&[1], "GadgetAgain one").await?;
    let before = scene.field(1, "GadgetAgain one", "/metadata/uid").await?;
    scene.delete(HUB, &[&crd("GadgetAgain")]).await?;
    scene.goes(&[HUB], &crd("GadgetAgain")).await?;
    scene.settles().await?;
    scene.still_says(1, "GadgetAgain one", "/metadata/uid", before.clone()).await?;
    // Now it lists complete and empty.
    scene.apply(HUB, [definition("GadgetAgain", &["v1"])]).await?;
    scene
        .apply(HUB, [object("GadgetAgain", "two", json!({})), places("q", &["GadgetAgain two"], &[1])])
        .await?;
    scene.arrives(&[1], "GadgetAgain two").await?;
    scene.settles().await?;
    scene.still_says(1, "GadgetAgain one", "/metadata/uid", before.clone()).await?;
    // What is applied again is recognised, and goes with its template from then on.
    scene.apply(HUB, [gadget("GadgetAgain", 5)]).await?;
    scene.says(1, "GadgetAgain one", "/spec/size", 5).await?;
    scene.still_says(1, "GadgetAgain one", "/metadata/uid", before).await?;
    scene.delete(HUB, &["GadgetAgain one"]).await?;
    scene.goes(&[1], "GadgetAgain one").await
}
