//! The member-side controller: what it will own are source slices and derived Services.
//!
//! [`run`] is the only entry. Today it keeps its connection to its own API server and says whether it is ready.

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::shell::{
    connection,
    health::{self, Readiness},
    metrics::Metrics,
};

/// Flags of `tombolo agent`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    connection: connection::Args,
    #[command(flatten)]
    health: health::Args,
}

/// Runs the agent until it is told to stop.
pub async fn run(args: Args, stop: CancellationToken) -> Result<()> {
    let client = connection::connect(&args.connection).await?;
    let readiness = Readiness::default();
    let part = readiness.part("API server");
    readiness.serve(&args.health, &Metrics::default(), stop.clone()).await?;
    connection::keep("agent", &client, &part, &stop).await;
    tracing::info!("stopped");
    Ok(())
}
