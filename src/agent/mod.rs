//! The member-side controller: what it will own are source slices and derived Services.
//!
//! [`run`] is the only entry. Today it keeps its connection to its own API server and says whether it is ready.

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::shell::{connection, health};

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
    connection::keep("agent", &args.connection, &args.health, stop).await
}
