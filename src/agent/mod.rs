//! The member-side controller: it publishes the endpoints of exported Services and keeps derived Services. It talks to its own API
//! server only.
//!
//! [`run`] is the only entry. [`watches`] fill what is seen and put services into one queue; [`reconcile`] takes them out, asks
//! [`decide::agent`](crate::decide::agent) what is to be there, and writes what is not. Only who holds the Lease writes.

mod derived;
mod exports;
mod families;
mod imports;
mod properties;
mod reconcile;
mod state;
mod store;
mod versioned;
mod watches;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use axum::Router;
use kube::{Client, ResourceExt};
use kube_runtime::events::Recorder;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::{families::Lacking, watches::Seen};
use crate::{
    api::names::{annotation, object},
    decide::{agent::MANAGER, change::of_copy, definition::Definition, ids::ServiceKey},
    shell::{
        client::client,
        connection,
        health::{self, Readiness},
        lease::{self, Claim},
        metrics::{self, Metrics, Role},
        queue::{Queue, Urgency},
    },
};

/// As many services are worked on at a time.
const WORKERS: usize = 8;

/// Flags of `tombolo agent`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(mut_arg("lease_name", |lease_name| lease_name.default_value(object::AGENT)))]
pub struct Args {
    #[command(flatten)]
    connection: connection::Args,
    #[command(flatten)]
    health: health::Args,
    #[command(flatten)]
    election: lease::Args,
    /// Tombolo's own namespace in this cluster, where the Lease is.
    #[arg(long, env = "POD_NAMESPACE", default_value = object::NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// How many endpoints a source slice has at most; slices with more are split.
    #[arg(long, default_value_t = 100, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_endpoints_per_slice: u16,
}

/// The agent at work.
struct Agent {
    /// For watches, and for looking twice.
    reader: Client,
    /// For what only the leader may do.
    writer: Client,
    seen: Mutex<Seen>,
    definitions: Definitions,
    /// The hub that this cluster is a member of.
    hub: watch::Sender<Option<Joined>>,
    queue: Queue<ServiceKey>,
    metrics: metrics::Agent,
    events: Recorder,
    /// How many endpoints a source slice has at most.
    most: usize,
    /// Families that the API server has refused.
    lacking: Mutex<Lacking>,
    /// Since when imports are gone whose Services are still there.
    gone: Mutex<BTreeMap<ServiceKey, Instant>>,
    /// Since when derived Services wait for the addresses that they had.
    waiting: Mutex<BTreeMap<ServiceKey, Instant>>,
    /// Under which definition an export was last seen.
    exported_under: Mutex<BTreeMap<ServiceKey, String>>,
}

/// Which hub a cluster is a member of, and by which id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Joined {
    /// The hub's id.
    hub: String,
    /// The cluster's own, if it was noted when it joined.
    id: Option<String>,
}

/// The definitions of the kinds of the API.
#[derive(Debug, Default)]
struct Definitions {
    exports: watch::Sender<Option<Definition>>,
    imports: watch::Sender<Option<Definition>>,
}

/// Runs the agent until it is told to stop.
pub async fn run(args: Args, stop: CancellationToken) -> Result<()> {
    let config = connection::config(&args.connection).await?;
    let reader = client(&config, None).context("failed to set up the client")?;
    let (readiness, metrics, claim) = (Readiness::default(), Metrics::default(), Claim::default());
    metrics.leader.follow(Role::Agent, &claim);
    let part = readiness.part("API server");
    let writer = client(&config, Some(claim.clone()))?;
    let agent =
        Arc::new(Agent::new(client(&config, None)?, writer, &metrics, args.max_endpoints_per_slice.into()));
    state::show(&agent, &claim, &readiness);
    let mut watches = watches::start(&agent, &readiness);
    watches.spawn(properties::keep(agent.clone(), claim.clone()));
    readiness.serve(&args.health, &agent.reader, &metrics, Router::new(), stop.clone()).await?;
    // Anything that ends, ends all: an agent that does half of its work would look well.
    let work = async {
        let _ending = stop.clone().drop_guard();
        tokio::select! {
            never = connection::keep("agent", &reader, &part) => match never {},
            () = stop.cancelled() => Ok(()),
            ended = watches.join_next() => bail!("a watch ended: {ended:?}"),
            ended = agent.work(&claim) => ended,
        }
    };
    let election = async {
        let _ending = stop.clone().drop_guard();
        lease::elect(&config, &args.namespace, &args.election, &claim, stop.clone()).await
    };
    // Joined, not raced: on the way out the Lease is released, so that the next agent need not wait until it is over.
    let (worked, elected) = tokio::join!(work, election);
    worked.and(elected)?;
    tracing::info!("stopped");
    Ok(())
}

/// Says which change of a copy was acted on, where the hub wrote it.
fn note_change(object: &impl ResourceExt, what: &str) {
    let change = object.annotations().get(annotation::APPLIED).map(|applied| of_copy(applied));
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    tracing::debug!(service = format!("{namespace}/{name}"), change, "{what}");
}

// === impl Agent ===

impl Agent {
    fn new(reader: Client, writer: Client, metrics: &Metrics, most: usize) -> Self {
        Self {
            reader,
            events: Recorder::new(writer.clone(), MANAGER.into()),
            writer,
            seen: Mutex::default(),
            definitions: Definitions::default(),
            hub: watch::Sender::default(),
            queue: Queue::default(),
            metrics: metrics.agent.clone(),
            most,
            lacking: Mutex::default(),
            gone: Mutex::default(),
            waiting: Mutex::default(),
            exported_under: Mutex::default(),
        }
    }

    /// Works while it leads; ends only if a part of it does.
    async fn work(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        self.queue.pause();
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(self.clone().reconcile_all());
        }
        let mut changes = claim.changes();
        loop {
            if *changes.borrow_and_update() {
                self.look_at_everything();
                self.queue.resume();
            } else {
                self.queue.pause();
            }
            tokio::select! {
                changed = changes.changed() => changed.context("nobody follows the election")?,
                ended = workers.join_next() => bail!("a worker ended: {ended:?}"),
            }
        }
    }

    fn look_at(&self, keys: BTreeSet<ServiceKey>) {
        for key in keys {
            self.queue.add(key, Urgency::Now);
        }
    }

    fn look_at_everything(&self) {
        let keys = self.seen.lock().services();
        for key in keys {
            self.queue.add(key, Urgency::Idle);
        }
    }
}
