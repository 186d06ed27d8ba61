//! The control plane: admission, propagation, and the exchange of services.
//!
//! [`run`] is the only entry; it wires everything and ends when any of it does. [`watches`] keeps the view that admission reads.

mod certainty;
mod departures;
pub mod engine;
mod farewell;
pub mod freshness;
pub mod identity;
pub mod lines;
pub mod link;
pub mod members;
pub mod page;
pub mod report;
pub mod rights;
pub mod served;
pub mod state;
pub mod templates;
pub mod watches;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use globset::{Glob, GlobSetBuilder};
use parking_lot::RwLock;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::{
    engine::{Engine, Parts},
    lines::Lines,
    page::Page,
};
use crate::{
    api::names::object,
    decide::{exchange::Rules, freshness::Limits, view::View},
    shell::{
        client::client,
        connection,
        health::{self, Readiness},
        lease::{self, Claim},
        metrics::{Metrics, Role},
    },
    webhook::{self, server::SharedView},
};

/// Between two attempts to read the hub's id.
const WAIT: Duration = Duration::from_secs(2);

/// Flags of `tombolo hub`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    connection: connection::Args,
    #[command(flatten)]
    health: health::Args,
    #[command(flatten)]
    webhook: webhook::Args,
    #[command(flatten)]
    election: lease::Args,
    #[command(flatten)]
    freshness: freshness::Args,
    /// Tombolo's own namespace on the hub, where its Secrets are.
    #[arg(long, env = "POD_NAMESPACE", default_value = "tombolo-system", value_name = "NAME")]
    namespace: String,
    /// Bring templates to members. Without it the hub only judges what is written to it.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    propagation: bool,
    /// Namespaces that a member lacks are made there when something is to go into them.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    create_namespaces: bool,
    /// Services that the hub has neither a ServiceExport nor a ServiceImport of are imported by every member with their namespace.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    auto_import: bool,
    /// The namespaces for which that holds; may have `*`. An empty list holds for none.
    #[arg(long, default_value = "*", value_delimiter = ',', value_name = "GLOB")]
    auto_import_namespaces: Vec<String>,
    /// The namespaces of which no service is exported to other clusters, beside Tombolo's own; may have `*`. An empty list has none.
    #[arg(long, default_value = "kube-*", value_delimiter = ',', value_name = "GLOB")]
    excluded_namespaces: Vec<String>,
    /// Serve a page at /status, beside /metrics, that shows clusters and services and how they are.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    status_page: bool,
}

// === impl Args ===

impl Args {
    fn rules(&self) -> Result<Rules> {
        let globs = |flag: &str, patterns: &mut dyn Iterator<Item = &str>| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                set.add(Glob::new(pattern).with_context(|| format!("{flag}: {pattern:?} is no pattern"))?);
            }
            set.build().with_context(|| format!("{flag}: the patterns make no set"))
        };
        let own = [self.namespace.as_str(), object::NAMESPACE];
        let denied = self.excluded_namespaces.iter().map(String::as_str).chain(own);
        Ok(Rules {
            automatic: self.auto_import,
            denied: globs("--excluded-namespaces", &mut denied.into_iter())?,
            allowed: globs(
                "--auto-import-namespaces",
                &mut self.auto_import_namespaces.iter().map(String::as_str),
            )?,
        })
    }
}

/// Runs the hub until it is told to stop.
pub async fn run(args: Args, stop: CancellationToken) -> Result<()> {
    let rules = args.rules()?;
    let config = connection::config(&args.connection).await?;
    let client = client(&config, None).context("failed to set up the client")?;
    let (readiness, metrics, claim) = (Readiness::default(), Metrics::default(), Claim::default());
    metrics.leader.follow(Role::Hub, &claim);
    let part = readiness.part("API server");
    let view: SharedView = Arc::new(RwLock::new(View::new(&args.namespace)));
    let changed = Arc::new(Notify::new());
    let mut watches = watches::start(&client, &view, &changed, &readiness);
    let propagates = args.propagation;
    let page = args.status_page.then(Page::default);
    let propagation = Propagation {
        page: page.clone(),
        namespace: args.namespace.clone(),
        create_namespaces: args.create_namespaces,
        rules,
        limits: args.freshness.limits(),
    };
    let webhook =
        args.webhook.run(&client, &args.namespace, view.clone(), &readiness, &metrics.webhook, stop.clone());
    let more = page.as_ref().map(|page| page.router(&stop)).unwrap_or_default();
    readiness.serve(&args.health, &client, &metrics, more, stop.clone()).await?;
    // Anything that ends, ends all: a hub that does half of its work would look well. Told to stop, it goes on until the webhook has ended:
    // what that still answers it knows from the watches, and without the lead nothing is written.
    let work = async {
        let _ending = stop.clone().drop_guard();
        tokio::select! {
            never = connection::keep("hub", &client, &part) => match never {},
            ended = webhook => ended.context("the webhook ended"),
            ended = watches.join_next() => bail!("a watch ended: {ended:?}"),
            ended = propagate(propagation, &config, view, &claim, &changed, &metrics, &readiness), if propagates => ended.context("the propagator ended"),
            () = keep(page.as_ref()) => bail!("the status page ended"),
        }
    };
    let election = async {
        let _ending = stop.clone().drop_guard();
        lease::elect(&config, &args.namespace, &args.election, &claim, stop.clone()).await
    };
    // Joined, not raced: on the way out the Lease is released, so that another replica need not wait until it is over.
    let (worked, elected) = tokio::join!(work, election);
    worked.and(elected)?;
    tracing::info!("stopped");
    Ok(())
}

/// Keeps the status page up to date; where there is none this never ends.
async fn keep(page: Option<&Page>) {
    match page {
        Some(page) => page.run().await,
        None => std::future::pending().await,
    }
}

/// What the propagator is told.
struct Propagation {
    page: Option<Page>,
    namespace: String,
    create_namespaces: bool,
    rules: Rules,
    limits: Limits,
}

/// Brings templates to members; ends only if a part of it does.
async fn propagate(
    told: Propagation,
    config: &kube::Config,
    view: SharedView,
    claim: &Claim,
    changed: &Notify,
    metrics: &Metrics,
    readiness: &Readiness,
) -> Result<()> {
    let hub = client(config, None)?;
    let engine = Arc::new(Engine::new(Parts {
        id: hub_id(&hub, &told.namespace).await,
        hub,
        watching: client(config, None)?,
        lines: Lines::new(config.clone()),
        writer: client(config, Some(claim.clone()))?,
        claim: claim.clone(),
        view,
        metrics: metrics.propagation.clone(),
        namespace: told.namespace,
        create_namespaces: told.create_namespaces,
        rules: told.rules,
    }));
    state::show(&engine, metrics, readiness);
    if let Some(page) = &told.page {
        page.follow(&engine);
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(templates::run(engine.clone()));
    tasks.spawn(members::run(engine.clone()));
    tasks.spawn(report::run(engine.clone()));
    tasks.spawn(freshness::run(engine.clone(), told.limits));
    let lead = async {
        let mut changes = claim.changes();
        loop {
            let leads = *changes.borrow_and_update();
            if leads {
                tracing::info!("leading");
            }
            engine.set_leads(leads);
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = engine.follow(changed) => bail!("nobody follows the view"),
        () = lead => bail!("nobody follows the election"),
        ended = tasks.join_next() => bail!("a part ended: {ended:?}"),
    }
}

/// The hub's id; waits for it where it cannot be read or made yet.
async fn hub_id(client: &kube::Client, namespace: &str) -> Arc<str> {
    loop {
        match identity::hub_id(client, namespace).await {
            Ok(id) => return id,
            Err(e) => tracing::warn!("waiting for the hub's id: {e:#}"),
        }
        tokio::time::sleep(WAIT).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_empty_list_of_namespaces_matches_none() {
        let rules = |flags: &[&str]| {
            let line = [&["hub"], flags].concat();
            Line::try_parse_from(line).unwrap().args.rules().unwrap()
        };
        let default = rules(&[]);
        assert!(default.allowed.is_match("shop") && default.denied.is_match("kube-system"));
        let none = rules(&["--auto-import-namespaces=", "--excluded-namespaces="]);
        assert!(!none.allowed.is_match("shop") && !none.denied.is_match("kube-system"));
        assert!(none.denied.is_match("tombolo-system"), "Tombolo's own takes no part, whatever is said");
    }
}
