//! The control plane: admission today, propagation and the exchange of services to come.
//!
//! [`run`] is the only entry; it wires everything and ends when any of it does. [`watches`] keeps the view that admission reads.

pub mod identity;
pub mod watches;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    decide::view::View,
    shell::{
        client::client,
        connection,
        health::{self, Readiness},
        lease::{self, Claim},
        metrics::Metrics,
    },
    webhook::{self, server::SharedView},
};

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
    /// Tombolo's own namespace on the hub, where its Secrets are.
    #[arg(long, env = "POD_NAMESPACE", default_value = "tombolo-system", value_name = "NAME")]
    namespace: String,
}

/// Runs the hub until it is told to stop.
pub async fn run(args: Args, stop: CancellationToken) -> Result<()> {
    let config = connection::config(&args.connection).await?;
    let client = client(&config, None).context("failed to set up the client")?;
    let (readiness, metrics, claim) = (Readiness::default(), Metrics::default(), Claim::default());
    metrics.leader.follow(&claim);
    let part = readiness.part("API server");
    let view: SharedView = Arc::new(RwLock::new(View::new(&args.namespace)));
    let changed = Arc::new(Notify::new());
    let mut watches = watches::start(&client, &view, &changed, &readiness);
    let webhook =
        args.webhook.run(&client, &args.namespace, view, &readiness, &metrics.webhook, stop.clone());
    readiness.serve(&args.health, &metrics, stop.clone()).await?;
    // Anything that ends, ends all: a hub that does half of its work would look well.
    let work = async {
        let _ending = stop.clone().drop_guard();
        tokio::select! {
            () = connection::keep("hub", &client, &part, &stop) => Ok(()),
            ended = webhook => ended.context("the webhook ended"),
            ended = watches.join_next() => bail!("a watch ended: {ended:?}"),
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
