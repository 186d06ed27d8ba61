//! What propagation costs beside the least that it can cost: a bare relay with the same client, on the same clusters, in the same run.
//!
//! Both bring ConfigMaps from the hub to all members: one at a time (the time from the beginning of the creation until the last
//! member's watch shows it) and in a burst (writes to members a second until all are seen). Whoever is not measured runs on, and
//! sees objects of a namespace that are none of its own.

mod relay;
mod sights;

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::ObjectMeta,
};
use serde_json::{Value, json};
use tombolo::{api::PropagationPolicy, shell::client::client};

pub(super) use self::{relay::Relay, sights::Sights};
use super::{cpu, median, median_of, programs, resident};
use crate::{
    bed::{Bed, Spec},
    fleet,
    progress::say,
    tombolo::Component,
};

/// How many creations are under way at a time in a burst.
const AT_ONCE: usize = 32;
/// Objects that nobody counts, before each measurement.
const WARM_UP: usize = 10;
/// What Tombolo still has to tell about the objects before (status of policies) is over by then.
const REST: Duration = Duration::from_millis(1500);

/// As many pairs it takes to judge by.
const ENOUGH: usize = 5;
/// What one object at a time may take, and what a burst has to be worth, beside a bare relay.
const MOST: f64 = 2.0;
const LEAST: f64 = 0.5;

/// Flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many members there are.
    #[arg(long, default_value_t = 2)]
    members: usize,
    /// How many objects there are in a burst.
    #[arg(long, default_value_t = 500)]
    objects: usize,
    /// How many objects are sent one at a time.
    #[arg(long, default_value_t = 60)]
    singles: usize,
    /// How many pairs of measurements are made, in the order ABBA.
    #[arg(long, default_value_t = 6)]
    pairs: usize,
    /// Also write the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Who brings objects to members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Relay,
    Tombolo,
}

/// One measurement.
#[derive(Debug, Clone)]
struct Figures {
    singles: Vec<Duration>,
    a_second: f64,
    /// CPU seconds of the hub in the burst.
    cpu: f64,
}

/// What measurements are made on.
struct Ground {
    hub: Component,
    maps: [Api<ConfigMap>; 2],
    relayed: Vec<Api<ConfigMap>>,
    sights: Sights,
    count: usize,
    members: usize,
    _relay: Relay,
    _bed: Bed,
}

// === impl Args ===

impl Args {
    /// Measures and prints.
    pub async fn run(self) -> Result<()> {
        ensure!(self.members > 0 && self.objects > 0 && self.singles > 0, "there must be something to send");
        let mut ground = Ground::new(self.members).await?;
        let mut pairs = Vec::new();
        for pair in 0..self.pairs.max(1) {
            say(format_args!("pair {} of {}", pair + 1, self.pairs));
            let mut of = [None, None];
            let order = [Arm::Relay, Arm::Tombolo];
            for arm in if pair % 2 == 0 { order } else { [order[1], order[0]] } {
                of[arm as usize] = Some(ground.measure(arm, self.singles, self.objects).await?);
            }
            let [Some(relay), Some(tombolo)] = of else { unreachable!("both were measured") };
            pairs.push([relay, tombolo]);
        }
        let report = ground.report(&pairs)?;
        print(&report);
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_string_pretty(&report)?)
                .context("failed to write the figures")?;
        }
        if pairs.len() < ENOUGH {
            say(format_args!("{} pairs are too few to judge by: it takes {ENOUGH}", pairs.len()));
            return Ok(());
        }
        judge(&report)
    }
}

// === impl Arm ===

impl Arm {
    fn namespace(self) -> &'static str {
        match self {
            Self::Relay => "relayed",
            Self::Tombolo => "propagated",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relay => "relay",
            Self::Tombolo => "tombolo",
        })
    }
}

// === impl Ground ===

impl Ground {
    async fn new(members: usize) -> Result<Self> {
        let (_, tombolo) = tokio::task::spawn_blocking(programs).await??;
        let bed = Bed::start(Spec::api(members).bare(), None).await?;
        bed.prepare_hub()?;
        let hub = bed.start_hub(&tombolo, "tombolo-hub", &[]).await?;
        fleet::register_all(&bed).await?;
        let to_hub = config(&bed, "hub").await?;
        let mut to_members = Vec::new();
        for member in &bed.members {
            to_members.push(config(&bed, &member.name).await?);
        }
        let user = client(&to_hub, None)?;
        for arm in [Arm::Relay, Arm::Tombolo] {
            create_namespace(&user, arm.namespace()).await?;
        }
        let mut relayed = Vec::new();
        for config in &to_members {
            let member = client(config, None)?;
            create_namespace(&member, Arm::Relay.namespace()).await?;
            relayed.push(Api::namespaced(member, Arm::Relay.namespace()));
        }
        let spec = serde_json::from_value(json!({
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }], "placement": {},
        }))?;
        let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), Arm::Tombolo.namespace());
        policies.create(&PostParams::default(), &PropagationPolicy::new("all", spec)).await?;
        let _relay = Relay::start(&to_hub, &to_members, Arm::Relay.namespace())?;
        let sights = Sights::start(&to_members)?;
        let maps = [Arm::Relay, Arm::Tombolo].map(|arm| Api::namespaced(user.clone(), arm.namespace()));
        Ok(Self { hub, maps, relayed, sights, count: 0, members, _relay, _bed: bed })
    }

    async fn measure(&mut self, arm: Arm, singles: usize, objects: usize) -> Result<Figures> {
        for _ in 0..WARM_UP {
            self.single(arm).await?;
        }
        let mut all = Vec::with_capacity(singles);
        for _ in 0..singles {
            all.push(self.single(arm).await?);
        }
        self.clear(arm).await?;
        let before = cpu(self.hub.pid())?;
        let took = self.burst(arm, objects).await?;
        let figures = Figures {
            a_second: (objects * self.members) as f64 / took.as_secs_f64(),
            cpu: cpu(self.hub.pid())? - before,
            singles: all,
        };
        self.clear(arm).await?;
        let middle = median(figures.singles.clone());
        say(format_args!("{arm}: p50 {middle:.1?}, {:.0} writes a second", figures.a_second));
        Ok(figures)
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("object-{}", self.count)
    }

    async fn single(&mut self, arm: Arm) -> Result<Duration> {
        let name = self.name();
        let started = Instant::now();
        self.maps[arm as usize].create(&PostParams::default(), &map(&name)).await?;
        let last = self.sights.until_seen(arm.namespace(), [name]).await?;
        Ok(last - started)
    }

    async fn burst(&mut self, arm: Arm, objects: usize) -> Result<Duration> {
        let names: Vec<String> = (0..objects).map(|_| self.name()).collect();
        let api = self.maps[arm as usize].clone();
        let started = Instant::now();
        let to_create = names.clone();
        let creating = tokio::spawn(async move {
            let creations = stream::iter(to_create).map(|name| {
                let api = api.clone();
                async move { api.create(&PostParams::default(), &map(&name)).await.map(drop) }
            });
            let done: Vec<kube::Result<()>> = creations.buffer_unordered(AT_ONCE).collect().await;
            done.into_iter().collect::<kube::Result<()>>()
        });
        let last = self.sights.until_seen(arm.namespace(), names).await?;
        creating.await??;
        Ok(last - started)
    }

    /// Deletes all objects, waits until they are gone, and lets everything come to rest.
    async fn clear(&mut self, arm: Arm) -> Result<()> {
        let all = ListParams::default().labels("measured=true");
        self.maps[arm as usize].delete_collection(&DeleteParams::default(), &all).await?;
        if arm == Arm::Relay {
            for member in &self.relayed {
                member.delete_collection(&DeleteParams::default(), &all).await?;
            }
        }
        self.sights.until_none(arm.namespace()).await?;
        tokio::time::sleep(REST).await;
        Ok(())
    }

    fn report(&self, pairs: &[[Figures; 2]]) -> Result<Value> {
        let rows: Vec<Value> = [Arm::Relay, Arm::Tombolo]
            .into_iter()
            .map(|arm| {
                let figures: Vec<&Figures> = pairs.iter().map(|pair| &pair[arm as usize]).collect();
                let mut pooled: Vec<Duration> = figures.iter().flat_map(|f| f.singles.clone()).collect();
                pooled.sort_unstable();
                let worst = pooled.get(pooled.len() * 99 / 100).copied().unwrap_or_default();
                json!({
                    "arm": arm.to_string(),
                    "p50_ms": median_of(figures.iter().map(|f| ms(median(f.singles.clone()))).collect()),
                    "p99_ms": ms(worst),
                    "a_second": median_of(figures.iter().map(|f| f.a_second).collect()),
                })
            })
            .collect();
        let of = |ratio: &dyn Fn(&Figures) -> f64| {
            median_of(pairs.iter().map(|[relay, tombolo]| ratio(tombolo) / ratio(relay)).collect())
        };
        let cpu: f64 = median_of(pairs.iter().map(|[_, tombolo]| tombolo.cpu).collect());
        Ok(json!({
            "members": self.members, "pairs": pairs.len(), "rows": rows,
            "p50_ratio": of(&|f| ms(median(f.singles.clone()))),
            "burst_ratio": of(&|f| f.a_second),
            "hub": { "rss_mib": resident(self.hub.pid())?, "cpu_s_per_burst": cpu },
        }))
    }
}

/// Fails where the target is missed.
fn judge(report: &Value) -> Result<()> {
    let [p50, burst] = ["p50_ratio", "burst_ratio"].map(|key| report[key].as_f64().unwrap_or_default());
    ensure!(
        p50 <= MOST && burst >= LEAST,
        "target missed: p50 is {p50:.2} times a bare relay's (at most {MOST}), a burst {burst:.2} times (at least {LEAST})"
    );
    Ok(())
}

fn print(report: &Value) {
    println!("{:<10} {:>8} {:>8} {:>16}", "", "P50 MS", "P99 MS", "BURST, WRITES/S");
    for row in report["rows"].as_array().into_iter().flatten() {
        let number = |key: &str| row[key].as_f64().unwrap_or_default();
        let arm = row["arm"].as_str().unwrap_or_default();
        println!(
            "{arm:<10} {:>8.1} {:>8.1} {:>16.0}",
            number("p50_ms"),
            number("p99_ms"),
            number("a_second")
        );
    }
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    println!("{:<10} {:>8.2} {:>8} {:>16.2}", "ratio", number("/p50_ratio"), "", number("/burst_ratio"));
    println!(
        "hub: {:.0} MiB resident, {:.2} s of CPU a burst; medians of {} pairs, {} members",
        number("/hub/rss_mib"),
        number("/hub/cpu_s_per_burst"),
        report["pairs"],
        report["members"],
    );
}

pub(super) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(super) async fn config(bed: &Bed, cluster: &str) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(bed.kubeconfig(cluster))?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

pub(super) async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
    Ok(())
}

pub(super) fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("measured".to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("key".to_owned(), "value".to_owned())].into()),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_missed_fails_the_measurement() {
        let judged = |p50: f64, burst: f64| judge(&json!({ "p50_ratio": p50, "burst_ratio": burst })).is_ok();
        assert!(judged(1.3, 0.8) && judged(MOST, LEAST));
        assert!(!judged(2.1, 0.8) && !judged(1.3, 0.4));
    }
}
