//! Which of several policies holds.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, config_map, labelled, places, places_from, with},
};

use crate::scene;

fn one() -> Value {
    labelled(config_map("one", json!({ "a": "b" })), "app", "one")
}

/// A policy that selects `ConfigMaps` by a label.
fn by_label(name: &str, members: &[usize]) -> Value {
    let selector = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": { "matchLabels": { "app": "one" } } }]);
    with(places(name, &[], members), json!({ "spec": { "resourceSelectors": selector } }))
}

pub(crate) async fn a_name_counts_more_than_a_label_and_a_label_more_than_all(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "implicit").await?;
    scene.apply(HUB, [one(), places("all", &["ConfigMap"], &[1])]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [by_label("label", &[2])]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.apply(HUB, [places("name", &["ConfigMap one"], &[3])]).await?;
    scene.is_in_exactly(&[3], "ConfigMap one").await?;
    scene.delete(HUB, &["PropagationPolicy name"]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.delete(HUB, &["PropagationPolicy label"]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await
}

pub(crate) async fn a_higher_priority_wins(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "explicit").await?;
    let priority = |policy: Value, number: i32| with(policy, json!({ "spec": { "priority": number } }));
    scene.apply(HUB, [one(), priority(places("name", &["ConfigMap one"], &[1]), 1)]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [priority(by_label("label", &[2]), 2)]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.apply(HUB, [priority(by_label("label", &[2]), 1)]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await
}

pub(crate) async fn a_namespaced_policy_counts_more_than_one_of_the_whole_hub(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "pp-over-cpp").await?;
    let wide = with(
        places_from("pp-over-cpp", "pp-over-cpp", &["ConfigMap one"], &[1]),
        json!({ "spec": { "priority": 9 } }),
    );
    scene.apply(HUB, [one(), wide]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [places("p", &["ConfigMap"], &[2])]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.delete(HUB, &["PropagationPolicy p"]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await
}

pub(crate) async fn what_a_policy_no_longer_selects_stays_and_what_it_selects_now_arrives(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "selectors").await?;
    let all = ["one", "two", "three"].map(|name| config_map(name, json!({ "a": "b" })));
    scene.apply(HUB, all).await?;
    scene.apply(HUB, [places("p", &["ConfigMap one"], &[1])]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [places("p", &["ConfigMap one", "ConfigMap two"], &[1])]).await?;
    scene.arrives(&[1], "ConfigMap two").await?;
    scene.apply(HUB, [places("p", &["ConfigMap three"], &[1])]).await?;
    scene.arrives(&[1], "ConfigMap three").await?;
    scene.settles().await?;
    scene.find(1, "ConfigMap one").await?;
    // A new policy takes over what was left.
    scene.apply(HUB, [places("q", &["ConfigMap one"], &[2])]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await
}

pub(crate) async fn a_template_that_no_longer_matches_keeps_its_copies(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "unmatched").await?;
    scene.apply(HUB, [one(), by_label("p", &[1])]).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [labelled(config_map("one", json!({ "a": "c" })), "app", "two")]).await?;
    scene.says(1, "ConfigMap one", "/data/a", "c").await?;
    scene.reports("PropagationPolicy p", "NothingSelected", &[]).await?;
    scene.apply(HUB, [by_label("p", &[2])]).await?;
    scene.settles().await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [one()]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await
}
