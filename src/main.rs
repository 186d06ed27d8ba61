//! The `tombolo` command.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tombolo::cli::Cli::parse().run().await
}
