//! The control plane: what it will own is admission, propagation and the exchange of services.
//!
//! [`run`] is the only entry. Today it keeps its connection to the hub's API server and says whether it is ready.

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::shell::{connection, health};

/// Flags of `tombolo hub`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    connection: connection::Args,
    #[command(flatten)]
    health: health::Args,
}

/// Runs the hub until it is told to stop.
pub async fn run(args: Args, stop: CancellationToken) -> Result<()> {
    connection::keep("hub", &args.connection, &args.health, stop).await
}
