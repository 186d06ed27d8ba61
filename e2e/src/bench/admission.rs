//! What admission costs a user: dry-run creations of PropagationPolicies through the API server without a webhook, with one that
//! does nothing, and with ours, with few and with many policies cached; interleaved, medians.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use tombolo::api::{PropagationPolicy, propagation::PropagationSpec};

use super::{
    cpu, median, median_of, programs, resident,
    ways::{Opener, Way, Webhook},
};
use crate::{
    bed::{Bed, Spec},
    fleet,
    progress::say,
    wait::until,
};

/// A policy of this name is refused by any webhook: so one sees when it is in force.
pub(crate) const CANARY: &str = "canary";
/// The workload that measured policies select. It is there, as are the clusters: nothing is to be warned of.
const MEASURED: &str = "app";
const PATIENCE: Duration = Duration::from_secs(60);
/// What one client asks on each way in a round.
const ALONE: usize = 15;
const COLUMNS: [(&str, &str); 9] = [
    ("policies", "POLICIES"),
    ("webhook", "WEBHOOK"),
    ("a_second", "REQUESTS/S"),
    ("of_noop", "OF NO-OP"),
    ("p50_ms", "P50 MS"),
    ("added", "ADDED, ×NO-OP"),
    ("server_us", "API SERVER µS"),
    ("webhook_us", "WEBHOOK µS"),
    ("rss", "RSS MIB"),
];

/// Flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often each way is measured.
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// How long each throughput is measured, in milliseconds.
    #[arg(long, default_value_t = 400)]
    slice: u64,
    /// How many clients ask at once.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// How many policies are cached in the second half.
    #[arg(long, default_value_t = 10_000)]
    policies: usize,
    /// What is measured, beside none and a webhook that does nothing.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["no-op-patch", "tombolo"])]
    ways: Vec<Way>,
    /// Also write the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What was measured on one way.
#[derive(Debug, Default)]
struct Figures {
    /// Requests a second of all clients, a round each.
    a_second: Vec<f64>,
    /// All requests of all clients, and the CPU seconds of the API server and of the webhook meanwhile.
    requests: f64,
    server: f64,
    webhook: Option<f64>,
    /// What one client waited for each answer.
    alone: Vec<Duration>,
    /// The webhook's memory in the end, in MiB.
    memory: Option<f64>,
}

/// What measurements are made on.
struct Ground {
    bed: Bed,
    clients: Vec<Client>,
    /// The API server's process number.
    server: u32,
}

// === impl Args ===

impl Args {
    /// Measures and prints.
    pub async fn run(self) -> Result<()> {
        let (bed_binary, tombolo) = tokio::task::spawn_blocking(programs).await??;
        let mut ways = vec![Way::None, Way::NoOp];
        ways.extend(&self.ways);
        let ground = Ground::new(self.clients, &ways).await?;
        let opener = Opener { bed: &ground.bed, bed_binary, tombolo };
        let mut report = Vec::new();
        for policies in [1, self.policies] {
            ground.fill(policies).await?;
            let figures = self.half(&ground, &opener, &ways).await?;
            report.extend(ways.iter().zip(&figures).map(|(way, of)| of.row(policies, *way, &figures)));
        }
        print(&report);
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_string_pretty(&report)?)
                .context("failed to write the figures")?;
        }
        Ok(())
    }

    async fn half(&self, ground: &Ground, opener: &Opener<'_>, ways: &[Way]) -> Result<Vec<Figures>> {
        let mut open = Vec::new();
        for way in ways {
            let webhook = opener.open(*way).await?;
            ground.in_force(*way).await?;
            if *way == Way::Tombolo {
                ground.ready().await?;
            }
            at_rest(&webhook).await?;
            open.push((*way, webhook, Figures::default()));
        }
        for round in 1..=self.rounds {
            if round % 10 == 1 {
                say(format_args!("round {round} of {}", self.rounds));
            }
            for (way, webhook, figures) in &mut open {
                ground.together(*way, webhook, Duration::from_millis(self.slice), figures).await?;
            }
            for _ in 0..ALONE {
                for (way, _, figures) in &mut open {
                    figures.alone.push(ground.alone(*way).await?);
                }
            }
            // Nobody always comes after the same.
            open.rotate_left(1);
        }
        open.sort_by_key(|(way, ..)| ways.iter().position(|other| other == way));
        for (_, webhook, figures) in &mut open {
            figures.memory = webhook.pid().map(resident).transpose()?;
        }
        let figures = open.into_iter().map(|(_, _, figures)| figures).collect();
        ground.close().await?;
        Ok(figures)
    }
}

fn print(report: &[Value]) {
    let line = |cell: &dyn Fn(&str, &str) -> String| {
        let cells = COLUMNS.iter().map(|(key, title)| (cell(key, title), title.chars().count().max(12)));
        cells
            .fold(String::new(), |line, (cell, width)| format!("{line}{cell:<width$}  "))
            .trim_end()
            .to_owned()
    };
    println!("{}", line(&|_, title| title.to_owned()));
    for row in report {
        println!("{}", line(&|key, _| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned)));
    }
}

// === impl Figures ===

impl Figures {
    /// A line of the report; the first of all figures are without a webhook, the second with one that does nothing.
    fn row(&self, policies: usize, way: Way, all: &[Self]) -> Value {
        let (none, noop) = (&all[0], &all[1]);
        // Each round beside its own yardstick: what disturbs one disturbs both.
        let of_noop = self.a_second.iter().zip(&noop.a_second).map(|(ours, theirs)| ours / theirs);
        let middle = |of: &Self| median(of.alone.clone()).as_secs_f64() * 1e3;
        let added = |of: &Self| middle(of) - middle(none);
        let micros = |seconds: f64| format!("{:.0}", seconds * 1e6 / self.requests);
        let absent = || "-".to_owned();
        json!({
            "policies": policies, "webhook": way.to_string(),
            "a_second": format!("{:.0}", median_of(self.a_second.clone())),
            "of_noop": format!("{:.2}", median_of(of_noop.collect())),
            "p50_ms": format!("{:.2}", middle(self)), "added": format!("{:.2}", added(self) / added(noop)),
            "server_us": micros(self.server), "webhook_us": self.webhook.map_or_else(absent, micros),
            "rss": self.memory.map_or_else(absent, |memory| format!("{memory:.0}")),
        })
    }
}

// === impl Ground ===

impl Ground {
    async fn new(clients: usize, ways: &[Way]) -> Result<Self> {
        let bed = Bed::start(Spec::api(2).bare(), None).await?;
        bed.prepare_hub()?;
        for member in &bed.members {
            fleet::register(&bed, member, &json!({})).await?;
        }
        // Ours holds the stored policies, measured or not.
        for way in ways.iter().chain([&Way::Tombolo].into_iter().filter(|ours| !ways.contains(ours))) {
            let (kubectl, namespace) = (bed.kubectl("hub"), way.namespace());
            kubectl.run(&["create", "namespace", &namespace])?;
            kubectl.run(&["create", "deployment", MEASURED, "--image=app", "-n", &namespace])?;
            kubectl.run(&["create", "service", "clusterip", MEASURED, "--tcp=80", "-n", &namespace])?;
        }
        let clients = try_join_all((0..clients).map(|_| bed.hub.admin.client())).await?;
        let server = bed.hub.processes.iter().find(|process| process.name.ends_with("kube-apiserver"));
        let server = server.context("a bed has an API server")?.pid();
        Ok(Self { bed, clients, server })
    }

    /// Stores policies until there are so many, beside those that ours will judge.
    async fn fill(&self, count: usize) -> Result<()> {
        say(format_args!("storing {count} policies"));
        let workers = self.clients.iter().enumerate().map(|(worker, client)| async move {
            let policies = of(Way::Tombolo, client);
            for number in (worker..count).step_by(self.clients.len()) {
                let name = format!("stored-{number}");
                match policies.create(&PostParams::default(), &policy(&name, &format!("app-{number}"))?).await
                {
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                    stored => stored.map(drop)?,
                }
            }
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(workers).await.map(drop)
    }

    /// Waits until the canary is refused, or admitted.
    async fn in_force(&self, way: Way) -> Result<()> {
        let policies = of(way, &self.clients[0]);
        let mut canary = policy(CANARY, MEASURED)?;
        // Ours refuses it for what it says, those that do nothing for its name.
        canary.spec.scheduler_name = Some("somebody-else".to_owned());
        until("the webhook is as it should be", PATIENCE, async || {
            let answer = policies.create(&dry_run(), &canary).await;
            ensure!(answer.is_err() == (way != Way::None), "it answers {answer:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the hub has done what it does at its start; makes sure that what is measured is what people do all day.
    async fn ready(&self) -> Result<()> {
        for member in &self.bed.members {
            fleet::until_ready(&self.bed.hub.client, &member.name, "True").await?;
        }
        // It says on each policy what became of it, once.
        let policies = of(Way::Tombolo, &self.clients[0]);
        until("each policy has its status", 10 * PATIENCE, async || {
            let silent = policies.list(&ListParams::default()).await?;
            let silent = silent.iter().filter(|policy| policy.status.is_none()).count();
            ensure!(silent == 0, "{silent} policies have no status");
            Ok(())
        })
        .await?;
        let file = self.bed.dir().join("state/measured.json");
        std::fs::write(&file, serde_json::to_vec(&policy("measured", MEASURED)?)?)?;
        let (file, namespace) = (file.display().to_string(), Way::Tombolo.namespace());
        let strict = ["create", "--dry-run=server", "--warnings-as-errors", "-n", &namespace, "-f", &file];
        self.bed.kubectl("hub").run(&strict).map(drop)
    }

    /// All clients ask at once, for a while.
    async fn together(
        &self,
        way: Way,
        webhook: &Webhook,
        time: Duration,
        figures: &mut Figures,
    ) -> Result<()> {
        let used = || Ok::<_, anyhow::Error>((cpu(self.server)?, webhook.pid().map(cpu).transpose()?));
        let before = used()?;
        let started = Instant::now();
        let workers = self.clients.iter().map(|client| async move {
            let (policies, policy, mut count) = (of(way, client), policy("measured", MEASURED)?, 0_u32);
            while started.elapsed() < time {
                policies.create(&dry_run(), &policy).await?;
                count += 1;
            }
            Ok::<_, anyhow::Error>(count)
        });
        let count: u32 = try_join_all(workers).await?.into_iter().sum();
        figures.a_second.push(f64::from(count) / started.elapsed().as_secs_f64());
        let after = used()?;
        figures.requests += f64::from(count);
        figures.server += after.0 - before.0;
        if let Some((after, before)) = after.1.zip(before.1) {
            *figures.webhook.get_or_insert_default() += after - before;
        }
        Ok(())
    }

    /// One client asks once.
    async fn alone(&self, way: Way) -> Result<Duration> {
        let (policies, policy) = (of(way, &self.clients[0]), policy("measured", MEASURED)?);
        let started = Instant::now();
        policies.create(&dry_run(), &policy).await?;
        Ok(started.elapsed())
    }

    /// No webhook is asked any more; all have ended.
    async fn close(&self) -> Result<()> {
        let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        self.bed.kubectl("hub").run(&["delete", kinds, "--all"])?;
        let (policies, policy) = (of(Way::Tombolo, &self.clients[0]), policy("measured", MEASURED)?);
        until("no webhook is asked", PATIENCE, async || {
            policies.create(&dry_run(), &policy).await.map(drop).map_err(Into::into)
        })
        .await
    }
}

/// Waits until a webhook's process has done what it does at its start.
async fn at_rest(webhook: &Webhook) -> Result<()> {
    let Some(pid) = webhook.pid() else { return Ok(()) };
    until("the webhook's process is at rest", PATIENCE, async || {
        let before = cpu(pid)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let used = cpu(pid)? - before;
        ensure!(used < 0.1, "it used {used:.2} CPU seconds in two seconds");
        Ok(())
    })
    .await
}

fn of(way: Way, client: &Client) -> Api<PropagationPolicy> {
    Api::namespaced(client.clone(), &way.namespace())
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// A policy such as people write: a workload and its Service to two clusters.
fn policy(name: &str, app: &str) -> Result<PropagationPolicy> {
    let spec: PropagationSpec = serde_json::from_value(json!({
        "resourceSelectors": [
            { "apiVersion": "apps/v1", "kind": "Deployment", "name": app },
            { "apiVersion": "v1", "kind": "Service", "name": app },
        ],
        "placement": { "clusterAffinity": { "clusterNames": ["member1", "member2"] } },
    }))?;
    Ok(PropagationPolicy::new(name, spec))
}
