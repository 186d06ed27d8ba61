//! What multi-cluster Services cost beside a bare relay of one object, with the same client, on the same clusters, in the same run:
//! an export until its endpoints are there for the importer, and a changed endpoint until the importer's watch shows it.
//!
//! The first member exports, the second imports. Services have no selector; their slices, of ten endpoints, are written by hand.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, future::try_join_all, pin_mut};
use k8s_openapi::api::{core::v1::ConfigMap, discovery::v1::EndpointSlice};
use kube::{Api, Config, ResourceExt, api::PostParams};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};
use tombolo::shell::client::client;

use super::{
    median, median_of, programs,
    propagate::{Relay, Sights, config, create_namespace, map, ms},
    resident,
};
use crate::{
    bed::{Bed, Spec},
    fleet,
    progress::say,
    scene::{HUB, Scene, object, places, with},
    tombolo::{Component, Manner},
};

const RELAYED: &str = "relayed";
const SHOP: &str = "shop";
/// As many endpoints as a slice has.
const ENDPOINTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two halves: what is still to be told is told by then.
const REST: Duration = Duration::from_millis(1500);
/// Measurements that nobody counts, at the beginning.
const WARM_UP: usize = 3;

/// Flags of the measurements.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often each is measured in a pair.
    #[arg(long, default_value_t = 20)]
    singles: usize,
    /// How many pairs of measurements are made, in the order ABBA.
    #[arg(long, default_value_t = 6)]
    pairs: usize,
    /// Also write the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An export, an import and two policies, until endpoints are there.
    Export,
    /// A changed endpoint, until it is there.
    Churn,
}

/// What measurements are made on.
struct Ground {
    scene: Scene,
    hub: Component,
    maps: Api<ConfigMap>,
    slices: Api<EndpointSlice>,
    sights: Sights,
    /// Imported slices, as the importer's watch shows them.
    imported: mpsc::Receiver<(EndpointSlice, Instant)>,
    count: usize,
    _relay: Relay,
    _watch: JoinSet<()>,
    _agents: Vec<Component>,
}

// === impl Args ===

impl Args {
    /// Measures and prints.
    pub async fn run(self, what: What) -> Result<()> {
        let mut ground = Ground::new().await?;
        if what == What::Churn {
            ground.serve("serve").await?;
            ground.export("serve").await?;
        }
        for _ in 0..WARM_UP {
            ground.relay().await?;
            ground.once(what).await?;
        }
        tokio::time::sleep(REST).await;
        let before = ground.writes().await?;
        let mut pairs: Vec<[Vec<Duration>; 2]> = Vec::new();
        for pair in 0..self.pairs.max(1) {
            let mut of = [Vec::new(), Vec::new()];
            for relay in if pair % 2 == 0 { [true, false] } else { [false, true] } {
                for _ in 0..self.singles {
                    let took = if relay { ground.relay().await? } else { ground.once(what).await? };
                    of[usize::from(!relay)].push(took);
                }
            }
            let [relay, tombolo] = of.clone().map(|all| ms(median(all)));
            say(format_args!(
                "pair {} of {}: relay {relay:.1} ms, tombolo {tombolo:.1} ms",
                pair + 1,
                self.pairs
            ));
            pairs.push(of);
        }
        let after = ground.writes().await?;
        let changes = (self.singles * self.pairs.max(1)) as f64;
        let writes: Vec<f64> =
            after.iter().zip(&before).map(|(after, before)| (after - before) / changes).collect();
        let report = report(what, &pairs, &writes, resident(ground.hub.pid())?);
        print(&report);
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_string_pretty(&report)?)
                .context("failed to write the figures")?;
        }
        Ok(())
    }
}

fn report(what: What, pairs: &[[Vec<Duration>; 2]], writes: &[f64], memory: f64) -> Value {
    let p50 = |arm: usize| median_of(pairs.iter().map(|pair| ms(median(pair[arm].clone()))).collect());
    let ratio = pairs.iter().map(|[relay, ours]| ms(median(ours.clone())) / ms(median(relay.clone())));
    json!({
        "what": format!("{what:?}").to_lowercase(), "pairs": pairs.len(), "relay_ms": p50(0), "tombolo_ms": p50(1),
        "ratio": median_of(ratio.collect()), "slice_writes": { "exporter": writes[1], "importer": writes[2] },
        "hub_writes": writes[0], "hub_rss_mib": memory,
    })
}

fn print(report: &Value) {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    let what = report["what"].as_str().unwrap_or_default();
    println!("{:<12} {:>8}", "", "P50 MS");
    println!("{:<12} {:>8.1}", "relay", number("/relay_ms"));
    println!("{what:<12} {:>8.1}", number("/tombolo_ms"));
    println!("{:<12} {:>8.2}", "ratio", number("/ratio"));
    println!(
        "writes of slices each time: {:.2} in the exporter, {:.2} in the importer; {:.2} writes on the hub; hub: {:.0} MiB; {} pairs",
        number("/slice_writes/exporter"),
        number("/slice_writes/importer"),
        number("/hub_writes"),
        number("/hub_rss_mib"),
        report["pairs"],
    );
}

// === impl Ground ===

impl Ground {
    async fn new() -> Result<Self> {
        let (_, tombolo) = tokio::task::spawn_blocking(programs).await??;
        let bed = std::sync::Arc::new(Bed::start(Spec::api(2).bare(), None).await?);
        bed.prepare_hub()?;
        for member in [1, 2] {
            bed.prepare_member(member)?;
        }
        let hub = bed.start_hub(&tombolo, "tombolo-hub", &[]).await?;
        let agents =
            [1, 2].map(|member| bed.start_agent(&tombolo, member, "tombolo-agent", &[], Manner::default()));
        let agents = try_join_all(agents).await?;
        fleet::register_all(&bed).await?;
        let to_hub = config(&bed, "hub").await?;
        let to_members: Vec<Config> = vec![config(&bed, "member1").await?, config(&bed, "member2").await?];
        let user = client(&to_hub, None)?;
        create_namespace(&user, RELAYED).await?;
        for config in &to_members {
            create_namespace(&client(config, None)?, RELAYED).await?;
        }
        let scene = Scene { bed, namespace: SHOP.to_owned() };
        for place in [HUB, 1, 2] {
            scene.apply(place, [scene.here()]).await?;
        }
        let (sender, imported) = mpsc::channel(1 << 12);
        let mut watch = JoinSet::new();
        watch.spawn(follow(Api::namespaced(client(&to_members[1], None)?, SHOP), sender));
        Ok(Self {
            hub,
            maps: Api::namespaced(user, RELAYED),
            slices: Api::namespaced(client(&to_members[0], None)?, SHOP),
            sights: Sights::start(&to_members)?,
            imported,
            count: 0,
            _relay: Relay::start(&to_hub, &to_members, RELAYED)?,
            _watch: watch,
            _agents: agents,
            scene,
        })
    }

    /// The yardstick: one object from the hub to both members.
    async fn relay(&mut self) -> Result<Duration> {
        self.count += 1;
        let name = format!("object-{}", self.count);
        let started = Instant::now();
        self.maps.create(&PostParams::default(), &map(&name)).await?;
        Ok(self.sights.until_seen(RELAYED, [name]).await? - started)
    }

    async fn once(&mut self, what: What) -> Result<Duration> {
        match what {
            What::Churn => self.churn().await,
            What::Export => {
                self.count += 1;
                let name = format!("serve-{}", self.count);
                self.serve(&name).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.export(&name).await
            }
        }
    }

    /// A Service in the first member, with endpoints.
    async fn serve(&self, name: &str) -> Result<()> {
        let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } });
        self.scene.apply(1, [object("Service", name, ports), slice(name, self.count)]).await
    }

    /// Exports a Service from the first member to the second, and says how long that takes until endpoints are there.
    async fn export(&mut self, name: &str) -> Result<Duration> {
        let import = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80 }] } });
        let objects = [
            object("ServiceExport", name, json!({})),
            object("ServiceImport", name, import),
            places(&format!("export-{name}"), &[&format!("ServiceExport {name}")], &[1]),
            places(&format!("import-{name}"), &[&format!("ServiceImport {name}")], &[2]),
        ];
        let started = Instant::now();
        self.scene.apply(HUB, objects).await?;
        let derived = format!("derived-{name}");
        let of = |slice: &EndpointSlice| slice.labels().get("kubernetes.io/service-name") == Some(&derived);
        let at = self.until(|slice| of(slice) && slice.endpoints.len() == ENDPOINTS).await?;
        Ok(at - started)
    }

    async fn churn(&mut self) -> Result<Duration> {
        self.count += 1;
        let slice: EndpointSlice = serde_json::from_value(with(
            slice("serve", self.count),
            json!({ "metadata": { "namespace": SHOP } }),
        ))?;
        let address = slice.endpoints[0].addresses[0].clone();
        let mut now = self.slices.get("serve-1").await?;
        now.endpoints = slice.endpoints;
        let started = Instant::now();
        self.slices.replace("serve-1", &PostParams::default(), &now).await?;
        let has =
            |slice: &EndpointSlice| slice.endpoints.iter().any(|endpoint| endpoint.addresses[0] == address);
        let at = self.until(has).await?;
        Ok(at - started)
    }

    async fn until(&mut self, seen: impl Fn(&EndpointSlice) -> bool) -> Result<Instant> {
        let waiting = async {
            loop {
                match self.imported.recv().await {
                    Some((slice, at)) if seen(&slice) => return Ok(at),
                    Some(_) => {}
                    None => bail!("the importer's watch ended"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("the importer does not get it")?
    }

    /// What was written so far, by the API servers' own count: on the hub all but Leases, ConfigMaps and what a measurement writes
    /// itself; in the members slices. The exporter's count has the change itself in it.
    async fn writes(&self) -> Result<[f64; 3]> {
        let mut counts = [0.0; 3];
        for (place, count) in counts.iter_mut().enumerate() {
            let request = http::Request::get("/metrics").body(Vec::new())?;
            let text = self.scene.client(place).request_text(request).await?;
            ensure!(text.contains("apiserver_request_total"), "the API server counts nothing");
            let writes = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
            let writes = writes.filter(|line| {
                ["POST", "PUT", "PATCH", "DELETE"]
                    .iter()
                    .any(|verb| line.contains(&format!("verb=\"{verb}\"")))
            });
            let counted = writes.filter(|line| {
                let is = |resource: &str| line.contains(&format!("resource=\"{resource}\""));
                if place == HUB {
                    !is("leases") && !is("configmaps") && !is("events")
                } else {
                    is("endpointslices")
                }
            });
            *count = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        }
        Ok(counts)
    }
}

/// A slice of a Service, whose addresses are those of a number.
pub(super) fn slice(name: &str, number: usize) -> Value {
    let (a, b) = (number / 250 % 250, number % 250 + 1);
    let endpoints: Vec<_> = (1..=ENDPOINTS)
        .map(|endpoint| json!({ "addresses": [format!("10.{}.{a}.{b}", 100 + endpoint)], "conditions": { "ready": true } }))
        .collect();
    let more = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": name } }, "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    object("EndpointSlice", &format!("{name}-1"), more)
}

async fn follow(slices: Api<EndpointSlice>, sender: mpsc::Sender<(EndpointSlice, Instant)>) {
    let imported = watcher::Config::default().labels("multicluster.kubernetes.io/service-name");
    let events = watcher::watcher(slices, imported).default_backoff();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(slice) | Event::InitApply(slice)) = event
            && sender.send((slice, Instant::now())).await.is_err()
        {
            return;
        }
    }
}
