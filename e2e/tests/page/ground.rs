//! What these tests share: pages that are open, and fleets to draw.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tombolo::{decide::freshness::Grade, hub::page::Page};
use tombolo_e2e::{
    archipelago::Archipelago,
    bed::Bed,
    browser::{Browser, Look, Tab},
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The hub's page without a hub.
pub(crate) struct Served {
    pub(crate) page: Page,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    _stop: DropGuard,
}

// === impl Served ===

impl Served {
    /// Serves a fleet's map at a free port, or at a given one.
    pub(crate) async fn start(fleet: &Archipelago, port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let (page, stop, address) = (Page::default(), CancellationToken::new(), listener.local_addr()?);
        page.show(&fleet.atlas());
        let server =
            axum::serve(listener, page.router(&stop)).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(server.into_future());
        Ok(Self { page, address, _stop: stop.clone().drop_guard(), stop })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/status/", self.address)
    }
}

/// Where a picture is kept.
pub(crate) fn picture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/screenshots")).join(format!("{name}.png"))
}

/// A page that shows a fleet in a browser of its own.
pub(crate) async fn shown(fleet: &Archipelago) -> Result<(Served, Browser, Tab)> {
    let served = Served::start(fleet, 0).await?;
    let browser = Browser::start().await?;
    let tab = browser.open(&served.url(), Look::default()).await?;
    tab.until("document.querySelectorAll('.island').length > 0", PATIENCE).await?;
    Ok((served, browser, tab))
}

/// The page of the bed's hub.
pub(crate) fn of_hub(bed: &Arc<Bed>) -> Result<String> {
    Ok(format!("http://{}/status/", bed.hub_process().context("there is a hub")?.health()))
}

/// Fails if a page complained of anything, or asked for anything that is not its own.
pub(crate) fn is_clean(tab: &Tab, url: &str) -> Result<()> {
    let complaints = tab.complaints();
    ensure!(complaints.is_empty(), "the page complains: {complaints:#?}");
    let requests = tab.requests();
    let foreign: Vec<_> = requests.iter().filter(|asked| !asked.starts_with(url)).collect();
    ensure!(foreign.is_empty() && !requests.is_empty(), "it asks for what is not its own: {foreign:?}");
    Ok(())
}

/// Ten clusters in towns with a few services between them: one is stale, one is lost, one service is in conflict.
pub(crate) fn ten() -> Result<Archipelago> {
    let towns =
        ["ams", "dublin", "frankfurt", "london", "milan", "oslo", "paris", "stockholm", "vienna", "zurich"];
    let mut fleet = Archipelago::of(&towns.map(str::to_owned))?;
    for (town, region) in
        [("ams", "eu-west"), ("dublin", "eu-west"), ("oslo", "eu-north"), ("milan", "eu-south")]
    {
        fleet.describe(town, &json!({ "spec": { "region": region } }))?;
    }
    fleet.service("shop/cart", &[("frankfurt", 80), ("paris", 80)], &["vienna", "zurich"])?;
    fleet.service("pay/checkout", &[("frankfurt", 443)], &["ams", "london"])?;
    fleet.service("goods/catalog", &[("ams", 80), ("stockholm", 8080)], &["oslo"])?;
    fleet.service("books/ledger", &[("zurich", 9000)], &["frankfurt", "milan"])?;
    fleet.service("media/images", &[("dublin", 80)], &["oslo", "stockholm"])?;
    fleet.settle()?;
    fleet.silence(
        "london",
        "its API server does not answer: it did not answer within 5s",
        2,
        Grade::Stale,
    )?;
    fleet.silence("paris", "its API server does not answer: connection refused", 48, Grade::Lost)?;
    Ok(fleet)
}

/// Sixty clusters in six regions with forty services between them, and a few troubles.
pub(crate) fn sixty() -> Result<Archipelago> {
    let regions = ["ap-south", "eu-central", "eu-west", "sa-east", "us-east", "us-west"];
    let names: Vec<_> = regions
        .iter()
        .flat_map(|region| (1..=10).map(move |number| format!("{region}-{number:02}")))
        .collect();
    let mut fleet = Archipelago::of(&names)?;
    for name in &names {
        fleet.describe(name, &json!({ "spec": { "region": &name[..name.len() - 3] } }))?;
    }
    for number in 0..40_usize {
        let at = |step: usize| names[(number * 7 + step * 11) % names.len()].as_str();
        let exporters: Vec<_> =
            (0..=number % 3).map(|step| (at(step), if step == 1 && number == 7 { 81 } else { 80 })).collect();
        let importers: Vec<_> = (3..6).map(at).collect();
        fleet.service(&format!("team-{number:02}/service-{number:02}"), &exporters, &importers)?;
    }
    fleet.settle()?;
    fleet.silence("eu-west-04", "its API server does not answer: no route to host", 95, Grade::Lost)?;
    fleet.silence(
        "us-east-08",
        "its API server does not answer: it did not answer within 5s",
        2,
        Grade::Stale,
    )?;
    fleet.silence(
        "sa-east-02",
        "its API server does not answer: it did not answer within 5s",
        0,
        Grade::Silent,
    )?;
    fleet.lose_agent("ap-south-05")?;
    Ok(fleet)
}
