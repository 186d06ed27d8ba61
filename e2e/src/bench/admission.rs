//! What admission costs a user: dry-run creations of PropagationPolicies through the API server without a webhook, with one that
//! does nothing, and with ours, with few and with many policies cached; interleaved, medians of the rounds.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tombolo::api::{PropagationPolicy, propagation::PropagationSpec};

use super::{median, median_of, programs, resident};
use crate::{
    bed::{Bed, Spec},
    kubectl::Kubectl,
    pki::{Authority, Subject},
    ports,
    process::{self, Process},
    progress::say,
    tombolo::Component,
    wait::until,
};

/// A policy of this name is refused by either webhook: so one sees when it is in force.
pub(crate) const CANARY: &str = "canary";
const PATIENCE: Duration = Duration::from_secs(60);

/// Flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often each kind is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each throughput is measured, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// How many clients ask at once.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// How many policies are cached in the second half.
    #[arg(long, default_value_t = 10_000)]
    policies: usize,
    /// Also write the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is in the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Free,
    Noop,
    Ours,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Figures {
    a_second: f64,
    middle: Duration,
    memory: Option<f64>,
}

/// What measurements are made on.
struct Ground {
    bed: Bed,
    clients: Vec<Client>,
    bed_binary: PathBuf,
    tombolo: PathBuf,
}

// === impl Args ===

impl Args {
    /// Measures and prints.
    pub async fn run(self) -> Result<()> {
        let ground = Ground::new(self.clients).await?;
        let mut report = Vec::new();
        for policies in [1, self.policies] {
            ground.fill(policies).await?;
            let mut rounds: [Vec<Figures>; 3] = Default::default();
            for round in 1..=self.rounds {
                say(format_args!("{policies} policies, round {round} of {}", self.rounds));
                for (way, figures) in [Way::Free, Way::Noop, Way::Ours].into_iter().zip(&mut rounds) {
                    figures.push(ground.measure(way, Duration::from_secs(self.seconds)).await?);
                }
            }
            report.push(summary(policies, &rounds));
        }
        println!(
            "{:<10} {:<9} {:>10} {:>9} {:>9} {:>12} {:>9}",
            "POLICIES", "WEBHOOK", "REQUESTS/S", "OF NO-OP", "P50 MS", "ADDED, ×NOOP", "RSS MIB"
        );
        for row in report.iter().flat_map(|half| half["rows"].as_array().into_iter().flatten()) {
            let text = |key: &str| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
            println!(
                "{:<10} {:<9} {:>10} {:>9} {:>9} {:>12} {:>9}",
                text("policies"),
                text("webhook"),
                text("a_second"),
                text("of_noop"),
                text("p50_ms"),
                text("added"),
                text("rss"),
            );
        }
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_string_pretty(&report)?)
                .context("failed to write the figures")?;
        }
        Ok(())
    }
}

fn summary(policies: usize, rounds: &[Vec<Figures>; 3]) -> serde_json::Value {
    let rate = |figures: &[Figures]| median_of(figures.iter().map(|f| f.a_second).collect());
    let middle = |figures: &[Figures]| median(figures.iter().map(|f| f.middle).collect()).as_secs_f64() * 1e3;
    let [free, noop, _] = rounds;
    let rows: Vec<_> = ["none", "no-op", "tombolo"]
        .iter()
        .zip(rounds)
        .map(|(name, figures)| {
            let added = (middle(figures) - middle(free)) / (middle(noop) - middle(free));
            let memory = figures.iter().filter_map(|f| f.memory).fold(0.0, f64::max);
            json!({
                "policies": policies, "webhook": name,
                "a_second": format!("{:.0}", rate(figures)), "of_noop": format!("{:.2}", rate(figures) / rate(noop)),
                "p50_ms": format!("{:.2}", middle(figures)), "added": format!("{added:.2}"),
                "rss": if memory > 0.0 { format!("{memory:.0}") } else { "-".to_owned() },
            })
        })
        .collect();
    json!({ "policies": policies, "rows": rows })
}

// === impl Ground ===

impl Ground {
    async fn new(clients: usize) -> Result<Self> {
        let (bed_binary, tombolo) = tokio::task::spawn_blocking(programs).await??;
        let bed = Bed::start(Spec::api(0).bare(), None).await?;
        bed.prepare_hub()?;
        let clients = try_join_all((0..clients).map(|_| bed.hub.admin.client())).await?;
        Ok(Self { bed, clients, bed_binary, tombolo })
    }

    /// Stores policies until there are so many.
    async fn fill(&self, count: usize) -> Result<()> {
        say(format_args!("storing {count} policies"));
        let workers = self.clients.iter().enumerate().map(|(worker, client)| async move {
            let policies: Api<PropagationPolicy> = Api::namespaced(client.clone(), "default");
            for number in (worker..count).step_by(self.clients.len()) {
                let name = format!("stored-{number}");
                match policies.create(&PostParams::default(), &policy(&name, number)?).await {
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                    stored => stored.map(drop)?,
                }
            }
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(workers).await.map(drop)
    }

    async fn measure(&self, way: Way, time: Duration) -> Result<Figures> {
        let webhook = self.open(way).await?;
        self.in_force(way != Way::Free).await?;
        let a_second = self.throughput(time).await?;
        let middle = self.latency(200).await?;
        let memory = match &webhook {
            Some(Webhook::Ours(hub)) => Some(resident(hub.pid())?),
            _ => None,
        };
        drop(webhook);
        self.kubectl(&["delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all"])?;
        Ok(Figures { a_second, middle, memory })
    }

    async fn open(&self, way: Way) -> Result<Option<Webhook>> {
        Ok(match way {
            Way::Free => None,
            Way::Noop => Some(Webhook::Noop(self.noop()?)),
            Way::Ours => Some(Webhook::Ours(self.bed.start_hub(&self.tombolo, "tombolo-hub", &[]).await?)),
        })
    }

    fn noop(&self) -> Result<Process> {
        let (state, logs) = (self.bed.dir().join("state"), self.bed.dir().join("logs"));
        let host = self.bed.hub.addresses.api();
        let address = SocketAddr::new(host, ports::free(host)?);
        let authority = Authority::new(&state.join("noop"), "ca")?;
        let pair = authority.issue("serving", Subject { user: "noop", group: None }, &[], &[host])?;
        let mut command = Command::new(&self.bed_binary);
        command.args(["bench", "noop", "--address", &address.to_string()]);
        command.arg("--cert").arg(&pair.cert).arg("--key").arg(&pair.key);
        let process = process::spawn("noop", &logs.join("noop.log"), command)?;
        let webhook = |path: &str, operations: &[&str]| {
            let bundle = k8s_openapi::ByteString(authority.certificate.clone().into_bytes());
            json!([{
                "name": "noop.tombolo.dev", "failurePolicy": "Fail", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
                "clientConfig": { "url": format!("https://{address}{path}"), "caBundle": bundle },
                "rules": [{ "apiGroups": ["policy.karmada.io"], "apiVersions": ["v1alpha1"], "operations": operations,
                            "resources": ["propagationpolicies"] }],
            }])
        };
        for (kind, path) in
            [("ValidatingWebhookConfiguration", "/validate"), ("MutatingWebhookConfiguration", "/mutate")]
        {
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "noop" },
                "webhooks": webhook(path, &["CREATE", "UPDATE"]),
            });
            let file = state.join(format!("noop/{kind}.json"));
            std::fs::write(&file, configuration.to_string())?;
            self.kubectl(&["apply", "-f", &file.display().to_string()])?;
        }
        Ok(process)
    }

    /// Waits until the canary is refused, or admitted.
    async fn in_force(&self, refused: bool) -> Result<()> {
        let policies: Api<PropagationPolicy> = Api::namespaced(self.clients[0].clone(), "default");
        let mut canary = policy(CANARY, 0)?;
        // Ours refuses it for what it says, the one that does nothing for its name.
        canary.spec.scheduler_name = Some("somebody-else".to_owned());
        until("the webhook is as it should be", PATIENCE, async || {
            let answer = policies.create(&dry_run(), &canary).await;
            ensure!(answer.is_err() == refused, "it answers {answer:?}");
            Ok(())
        })
        .await
    }

    async fn throughput(&self, time: Duration) -> Result<f64> {
        let started = Instant::now();
        let workers = self.clients.iter().map(|client| async move {
            let policies: Api<PropagationPolicy> = Api::namespaced(client.clone(), "default");
            let (policy, mut count) = (policy("measured", 1)?, 0_u32);
            while started.elapsed() < time {
                policies.create(&dry_run(), &policy).await?;
                count += 1;
            }
            Ok::<_, anyhow::Error>(count)
        });
        let count: u32 = try_join_all(workers).await?.into_iter().sum();
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    }

    async fn latency(&self, requests: usize) -> Result<Duration> {
        let policies: Api<PropagationPolicy> = Api::namespaced(self.clients[0].clone(), "default");
        let policy = policy("measured", 1)?;
        let mut all = Vec::with_capacity(requests);
        for _ in 0..requests {
            let started = Instant::now();
            policies.create(&dry_run(), &policy).await?;
            all.push(started.elapsed());
        }
        Ok(median(all))
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let kubectl: Kubectl = self.bed.kubectl("hub");
        kubectl.run(arguments)
    }
}

/// A webhook that runs; it ends when it is dropped.
enum Webhook {
    Noop(#[expect(dead_code, reason = "held for its end")] Process),
    Ours(Component),
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// A policy such as people write: a workload and its Service to two clusters.
fn policy(name: &str, number: usize) -> Result<PropagationPolicy> {
    let spec: PropagationSpec = serde_json::from_value(json!({
        "resourceSelectors": [
            { "apiVersion": "apps/v1", "kind": "Deployment", "name": format!("app-{number}") },
            { "apiVersion": "v1", "kind": "Service", "name": format!("app-{number}") },
        ],
        "placement": { "clusterAffinity": { "clusterNames": ["member1", "member2"] } },
    }))?;
    Ok(PropagationPolicy::new(name, spec))
}
