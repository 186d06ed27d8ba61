//! The page of a real hub with two members.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    browser::{Browser, Look},
    fleet::until_ready,
    process::Identity,
    scene::{Scene, object, with},
};

use super::ground::*;

/// A scene in a namespace that both members have.
async fn scene(bed: &Arc<Bed>, namespace: &str) -> Result<Scene> {
    for member in &bed.members {
        until_ready(&bed.hub.client, &member.name, "True").await?;
    }
    let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
    for member in [1, 2] {
        scene.apply(member, [scene.here()]).await?;
    }
    Ok(scene)
}

/// A Service with one endpoint, exported.
pub(crate) fn exported(name: &str, member: usize, port: u16) -> [Value; 3] {
    let labels = json!({ "metadata": { "labels": { "kubernetes.io/service-name": name } } });
    let slice = json!({
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [format!("10.{member}.0.1")], "conditions": { "ready": true } }],
    });
    [
        object("Service", name, json!({ "spec": { "ports": [{ "name": "http", "port": port }] } })),
        with(object("EndpointSlice", &format!("{name}-1"), slice), labels),
        object("ServiceExport", name, json!({})),
    ]
}

pub(crate) async fn members_and_services_are_shown_and_changes_come_by_themselves(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "shop").await?;
    scene.apply(1, exported("cart", 1, 80)).await?;
    let (browser, url) = (Browser::start().await?, of_hub(&bed)?);
    let tab = browser.open(&url, Look::default()).await?;
    tab.until("document.querySelectorAll('.island.is-well').length === 2", PATIENCE).await?;
    // No reload after this.
    tab.value("window.same = true").await?;
    tab.until("document.querySelectorAll('.bridge.well').length === 1", PATIENCE).await?;
    ensure!(tab.text().await?.contains("member1"), "{}", tab.text().await?);
    // Another export.
    scene.apply(2, exported("ledger", 2, 9000)).await?;
    tab.until("document.querySelectorAll('.bridge.well').length === 2", PATIENCE).await?;
    // A conflict: the same name for another port.
    scene.apply(1, exported("search", 1, 80)).await?;
    scene.apply(2, exported("search", 2, 8080)).await?;
    tab.until("document.querySelectorAll('.bridge.conflict').length === 1", PATIENCE).await?;
    tab.until("document.getElementById('totals').innerText.includes('1 conflict')", PATIENCE).await?;
    ensure!(tab.value("window.same").await? == true, "the page was loaded again");
    for dark in [false, true] {
        tab.look(Look { dark, ..Look::default() }).await?;
        tab.picture(&picture(&format!("page-2-{}", if dark { "dark" } else { "light" }))).await?;
    }
    tab.value("document.getElementById('tab-bridges').click()").await?;
    tab.value("document.querySelector('#list li button').click()").await?;
    tab.until("document.getElementById('details').innerText.includes('PortConflict')", PATIENCE).await?;
    tab.until("document.getElementById('details').innerText.includes('withheld: http 8080/TCP')", PATIENCE)
        .await?;
    tab.picture(&picture("page-2-chosen-dark")).await?;
    scene.delete(2, &["ServiceExport search"]).await?;
    tab.until("document.querySelectorAll('.bridge.conflict').length === 0", PATIENCE).await?;
    ensure!(tab.value("window.same").await? == true, "the page was loaded again");
    is_clean(&tab, &url)
}

pub(crate) async fn a_member_that_falls_silent_is_seen(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "quiet").await?;
    scene.apply(2, exported("quiet", 2, 80)).await?;
    let browser = Browser::start().await?;
    let tab = browser.open(&of_hub(&bed)?, Look::default()).await?;
    tab.until("document.querySelectorAll('.bridge.well').length > 0", PATIENCE).await?;
    let server = Identity::of(bed.member(2).pid("kube-apiserver").context("there is an API server")?);
    let server = server.context("it does not run")?;
    server.signal(Signal::STOP);
    let seen = tab.until("document.querySelector('[data-island=member2].is-stale') !== null", PATIENCE).await;
    let silent = tab.until("document.querySelectorAll('.bridge.silent').length > 0", PATIENCE).await;
    server.signal(Signal::CONT);
    seen.and(silent)?;
    tab.until("document.querySelector('[data-island=member2].is-well') !== null", PATIENCE).await
}
