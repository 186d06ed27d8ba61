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
        connection,
        health::{self, Readiness},
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
    /// Tombolo's own namespace on the hub, where its Secrets are.
    #[arg(long, env = "POD_NAMESPACE", default_value = "tombolo-system", value_name = "NAME")]
    namespace: String,
}

/// Runs the hub until it is told to stop.
pub async fn run(args: Args, stop: CancellationToken) -> Result<()> {
    let client = connection::connect(&args.connection).await?;
    let (readiness, metrics) = (Readiness::default(), Metrics::default());
    let part = readiness.part("API server");
    // Anything that ends, ends all: a hub that does half of its work would look well.
    let _ending = stop.clone().drop_guard();
    let view: SharedView = Arc::new(RwLock::new(View::new(&args.namespace)));
    let changed = Arc::new(Notify::new());
    let mut watches = watches::start(&client, &view, &changed, &readiness);
    let webhook =
        args.webhook.run(&client, &args.namespace, view, &readiness, &metrics.webhook, stop.clone());
    readiness.serve(&args.health, &metrics, stop.clone()).await?;
    tokio::select! {
        () = connection::keep("hub", &client, &part, &stop) => {}
        ended = webhook => ended.context("the webhook ended")?,
        ended = watches.join_next() => bail!("a watch ended: {ended:?}"),
    }
    tracing::info!("stopped");
    Ok(())
}
