//! How much memory hub and agents take, and how long they take to start, with nothing to do and with many services and objects.
//!
//! The first member exports services, by ServiceExports of its own; both members import them, as every member with the namespace does.
//! Services have no selector; their slices, of ten endpoints, are written by hand. Objects are ConfigMaps that one policy sends to both.
//! Processes are measured empty, with everything, and again after a restart with everything: what came and went meanwhile is not
//! in the last.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tombolo::{
    api::{PropagationPolicy, ServiceExport, mcs::Version},
    shell::client::client,
};

use super::{
    cpu,
    propagate::{config, create_namespace, map, ms},
    resident,
    services::slice,
    status_mib,
};
use crate::{
    bed::{Bed, Spec},
    progress::say,
    scene::object,
    tombolo::{Component, Manner, binary, build},
    wait::until,
};

const SHOP: &str = "shop";
/// How many creations are under way at a time.
const AT_ONCE: usize = 16;
/// For all to arrive.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long nothing is asked of the processes before they are measured.
const REST: Duration = Duration::from_secs(10);

/// Flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many services are exported.
    #[arg(long, default_value_t = 1000)]
    services: usize,
    /// How many objects are propagated.
    #[arg(long, default_value_t = 1000)]
    objects: usize,
    /// Also write the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Tombolo's three processes on a bed.
struct Processes {
    hub: Component,
    exporter: Component,
    importer: Component,
    /// From the start of each to its readiness, in the same order.
    started: [Duration; 3],
}

// === impl Args ===

impl Args {
    /// Measures and prints.
    pub async fn run(self) -> Result<()> {
        let tombolo = tokio::task::spawn_blocking(program).await??;
        let bed = Bed::start(Spec::api(2).bare(), None).await?;
        bed.prepare_hub()?;
        for member in [1, 2] {
            bed.prepare_member(member)?;
        }
        let running = Processes::start(&bed, &tombolo).await?;
        // Joined, so that the exporter knows its own name and serves its own endpoints, too.
        for member in ["member1", "member2"] {
            bed.join(member, &[]).await?;
        }
        let empty = running.measure().await?;
        let filled_in = self.fill(&bed).await?;
        let filled = running.measure().await?;
        drop(running);
        let again = Processes::start(&bed, &tombolo).await?;
        until("the hub leads", PATIENCE, async || {
            ensure!(again.hub.says("/metrics").await?.contains("tombolo_leader{role=\"hub\"} 1"), "not yet");
            Ok(())
        })
        .await?;
        let restarted = again.measure().await?;
        let report = json!({
            "services": self.services, "objects": self.objects, "members": 2, "filled_in_s": filled_in.as_secs(),
            "empty": empty, "filled": filled, "restarted": restarted,
        });
        print(&report);
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_string_pretty(&report)?)
                .context("failed to write the figures")?;
        }
        Ok(())
    }

    /// Makes all services and objects, and waits until each is where it is to be.
    async fn fill(&self, bed: &Bed) -> Result<Duration> {
        let began = Instant::now();
        let hub = client(&config(bed, "hub").await?, None)?;
        let exporter = client(&config(bed, "member1").await?, None)?;
        let importer = client(&config(bed, "member2").await?, None)?;
        for cluster in [&hub, &exporter, &importer] {
            create_namespace(cluster, SHOP).await?;
        }
        let everything = json!({ "spec": {
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": { "matchLabels": { "measured": "true" } } }],
            "placement": { "clusterAffinity": { "clusterNames": ["member1", "member2"] } },
        } });
        let policies: Api<PropagationPolicy> = Api::namespaced(hub.clone(), SHOP);
        create(&policies, object("PropagationPolicy", "all", everything)).await?;
        let maps: Api<ConfigMap> = Api::namespaced(hub.clone(), SHOP);
        many(self.objects, async |number| {
            create(&maps, serde_json::to_value(map(&format!("object-{number}")))?).await
        })
        .await?;
        say(format_args!("{} objects are made", self.objects));
        let services: Api<Service> = Api::namespaced(exporter.clone(), SHOP);
        let slices: Api<EndpointSlice> = Api::namespaced(exporter.clone(), SHOP);
        let exports: Api<ServiceExport> = Api::namespaced_with(exporter.clone(), SHOP, &Version::V1Alpha1);
        many(self.services, async |number| {
            let name = format!("serve-{number}");
            let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } });
            create(&services, object("Service", &name, ports)).await?;
            create(&slices, slice(&name, number)).await?;
            create(&exports, object("ServiceExport", &name, json!({}))).await
        })
        .await?;
        say(format_args!("{} services are exported", self.services));
        for cluster in [&exporter, &importer] {
            arrive::<ConfigMap>(cluster, "measured=true", self.objects).await?;
            arrive::<EndpointSlice>(cluster, "multicluster.kubernetes.io/service-name", self.services)
                .await?;
        }
        Ok(began.elapsed())
    }
}

/// `$TOMBOLO_BIN`, or the release build of this checkout.
fn program() -> Result<PathBuf> {
    if std::env::var_os("TOMBOLO_BIN").is_some() {
        return binary();
    }
    say("building tombolo for release: a few minutes, the first time");
    build("tombolo", &["--release"])
}

async fn many(count: usize, one: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
    stream::iter(0..count).map(|number| one(number)).buffer_unordered(AT_ONCE).try_collect().await
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    // A busy machine may take longer than the client waits; then it is there, or is made again.
    until("it is made", PATIENCE, async || match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => Ok(made.map(drop)?),
    })
    .await
}

/// Waits until a cluster has so many objects with a label.
async fn arrive<K>(cluster: &Client, label: &str, count: usize) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::namespaced(cluster.clone(), SHOP);
    until(&format!("{count} with {label} are there"), PATIENCE, async || {
        let found = api.list_metadata(&ListParams::default().labels(label)).await?.items.len();
        if found < count {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        ensure!(found == count, "{found} of {count}");
        Ok(())
    })
    .await
}

// === impl Processes ===

impl Processes {
    /// Starts them one after the other.
    async fn start(bed: &Bed, tombolo: &std::path::Path) -> Result<Self> {
        let began = Instant::now();
        let hub = bed.start_hub(tombolo, "tombolo-hub", &[]).await?;
        let hub_at = began.elapsed();
        let agent = |member| bed.start_agent(tombolo, member, "tombolo-agent", &[], Manner::default());
        let exporter = agent(1).await?;
        let exporter_at = began.elapsed();
        let importer = agent(2).await?;
        let started = [hub_at, exporter_at - hub_at, began.elapsed() - exporter_at];
        Ok(Self { hub, exporter, importer, started })
    }

    /// What they take now, after a rest.
    async fn measure(&self) -> Result<Value> {
        tokio::time::sleep(REST).await;
        let mut all = json!({});
        let each = [("hub", &self.hub), ("exporter", &self.exporter), ("importer", &self.importer)];
        for ((name, process), started) in each.into_iter().zip(self.started) {
            let pid = process.pid();
            all[name] = json!({
                "rss_mib": resident(pid)?, "anonymous_mib": status_mib(pid, "RssAnon:")?, "cpu_s": cpu(pid)?, "ready_after_ms": ms(started),
            });
        }
        Ok(all)
    }
}

fn print(report: &Value) {
    println!(
        "{} services of 10 endpoints, {} objects, 2 members; all there after {} s",
        report["services"], report["objects"], report["filled_in_s"]
    );
    println!(
        "{:<10} {:<10} {:>8} {:>9} {:>8} {:>12}",
        "", "", "RSS MIB", "OF IT OWN", "CPU S", "READY AFTER"
    );
    for stage in ["empty", "filled", "restarted"] {
        for process in ["hub", "exporter", "importer"] {
            let figure = |name: &str| report[stage][process][name].as_f64().unwrap_or_default();
            println!(
                "{stage:<10} {process:<10} {:>8.1} {:>9.1} {:>8.2} {:>9.0} ms",
                figure("rss_mib"),
                figure("anonymous_mib"),
                figure("cpu_s"),
                figure("ready_after_ms")
            );
        }
    }
}
