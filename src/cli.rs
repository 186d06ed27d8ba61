//! The command line: one command a role, and one a user's errand. Each command's own flags live with it.

pub mod certs;
pub mod crds;
pub mod join;
pub mod unjoin;

use anyhow::{Result, anyhow};
use clap::{Parser, Subcommand};

use crate::{agent, hub, shell::log::LogFormat, shell::shutdown};

/// Policy-driven multi-cluster Services for Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version)]
pub struct Cli {
    /// What is logged, such as `info` or `tombolo=debug,warn`.
    #[arg(long, env = "TOMBOLO_LOG", default_value = "info", global = true)]
    log: String,
    /// How log lines look.
    #[arg(long, env = "TOMBOLO_LOG_FORMAT", value_enum, default_value_t = LogFormat::Plain, global = true)]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the control plane, beside the API server that holds templates and policies.
    Hub(Box<hub::Args>),
    /// Runs the member-side controller, in each member cluster.
    Agent(agent::Args),
    /// Makes a cluster a member of the hub; doing it again repairs what is amiss.
    Join(Box<join::Args>),
    /// Ends a cluster's membership.
    Unjoin(unjoin::Args),
    /// Prints the CustomResourceDefinitions that a cluster needs, for `kubectl apply`.
    Crds(crds::Args),
    /// Writes development certificates for a webhook that runs on this machine.
    Certs(certs::Args),
}

// === impl Cli ===

impl Cli {
    /// Does what the command line says.
    pub async fn run(self) -> Result<()> {
        self.log_format.init(&self.log)?;
        // Two providers in one process would panic at the first handshake; this is the only one.
        rustls::crypto::ring::default_provider()
            .install_default()
            .map_err(|_| anyhow!("failed to set up TLS: another provider is installed already"))?;
        let stop = shutdown::on_signal()?;
        match self.command {
            Command::Hub(args) => hub::run(*args, stop).await,
            Command::Agent(args) => agent::run(args, stop).await,
            Command::Join(args) => args.run().await,
            Command::Unjoin(args) => args.run().await,
            Command::Crds(args) => crds::run(&args),
            Command::Certs(args) => args.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
