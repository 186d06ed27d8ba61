//! The command line: one command a role, and one a user's errand. Each command's own flags live with it.

pub mod certs;
pub mod check;
pub mod crds;
pub mod dial;
pub mod explain;
pub mod export;
pub mod join;
pub mod list;
pub mod members;
pub mod paint;
pub mod patience;
pub mod plan;
pub mod reference;
pub mod shell;
pub mod side;
pub mod status;
pub mod target;
pub mod unjoin;

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::{Result, anyhow};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};

use crate::{agent, hub, shell::log::LogFormat, shell::shutdown};

/// How a command ends that was asked to tell that something is not well. 1 is a failure, 2 a wrong command line.
pub const NOT_WELL: u8 = 3;

const EXIT_CODES: &str = "Exit codes: 0 it was done, or found out; 1 it could not be, or `check` found something that does not work; 2 the \
                          command line is wrong; 3 `plan`: something would be refused; `status` and `explain` with --exit-code: something \
                          is not well, or not yet.";
/// What the program is called as a plugin of kubectl.
const PLUGIN: &str = "kubectl-tombolo";

/// Policy-driven multi-cluster Services for Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, after_help = EXIT_CODES)]
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
    /// Offers a Service to the other clusters: on the hub by policies, or just a member's own.
    Export(export::Args),
    /// Takes back what `export` wrote.
    Unexport(export::UnexportArgs),
    /// Tells what is amiss with a hub or a member, and what to do about it.
    Check(check::Args),
    /// Shows how members, policies, exports and imports are.
    Status(status::Args),
    /// Says why an object of the hub is where it is, or is not.
    Explain(explain::Args),
    /// Says what applying a file would change in which cluster, before anything is applied.
    Plan(plan::Args),
    /// Prints the CustomResourceDefinitions that a cluster needs, for `kubectl apply`.
    Crds(crds::Args),
    /// Prints a script that completes the command line, such as `source <(tombolo completion bash)`.
    Completion(shell::CompletionArgs),
    /// Writes manual pages.
    Man(shell::ManArgs),
    /// Prints the version of this program.
    Version,
    /// Answers pods of other members. `tombolo check --connectivity` starts it in pods.
    #[command(hide = true)]
    Listen(dial::ListenArgs),
    /// Dials pods of other members. `tombolo check --connectivity` starts it in pods.
    #[command(hide = true)]
    Dial(dial::DialArgs),
    /// Writes development certificates for a webhook that runs on this machine.
    Certs(certs::Args),
}

// === impl Cli ===

impl Cli {
    /// What the command line says. Help speaks of `kubectl tombolo` where the program is called as kubectl calls plugins.
    pub fn of_arguments() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let command = called(Self::command(), Path::new(&program));
        Self::of(command, std::env::args_os()).unwrap_or_else(|e| e.exit())
    }

    fn of(
        mut command: clap::Command,
        line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let matches = command.try_get_matches_from_mut(line)?;
        let cli = Self::from_arg_matches(&matches)?;
        let fault = match &cli.command {
            Command::Explain(args) => args.fault(),
            Command::Join(args) => args.fault(),
            _ => None,
        };
        let Some(fault) = fault else { return Ok(cli) };
        let asked = matches.subcommand_name().and_then(|name| command.find_subcommand_mut(name));
        Err(asked.unwrap_or(&mut Self::command()).error(ErrorKind::ValueValidation, fault))
    }

    /// Does what the command line says.
    pub async fn run(self) -> Result<ExitCode> {
        self.log_format.init(&self.log)?;
        // Two providers in one process would panic at the first handshake; this is the only one.
        rustls::crypto::ring::default_provider()
            .install_default()
            .map_err(|_| anyhow!("failed to set up TLS: another provider is installed already"))?;
        // What has nothing to put in order ends at Ctrl-C as any program does.
        match self.command {
            Command::Hub(args) => hub::run(*args, shutdown::on_signal()?).await,
            Command::Agent(args) => agent::run(args, shutdown::on_signal()?).await,
            Command::Join(args) => args.run().await,
            Command::Unjoin(args) => args.run().await,
            Command::Export(args) => args.run().await,
            Command::Unexport(args) => args.run().await,
            Command::Check(args) => args.run(shutdown::on_signal()?).await,
            Command::Status(args) => return args.run(shutdown::on_signal()?).await,
            Command::Explain(args) => return args.run(shutdown::on_signal()?).await,
            Command::Plan(args) => return args.run().await,
            Command::Crds(args) => crds::run(&args),
            Command::Completion(args) => args.run(Self::command()),
            Command::Man(args) => args.run(Self::command()),
            Command::Version => paint::print(&format!("tombolo {}\n", env!("CARGO_PKG_VERSION"))).map(drop),
            Command::Listen(args) => args.run(shutdown::on_signal()?).await,
            Command::Dial(args) => args.run().await,
            Command::Certs(args) => args.run(),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

/// The command by the name that it was called by.
fn called(command: clap::Command, program: &Path) -> clap::Command {
    let plugin = program.file_stem().is_some_and(|name| name == PLUGIN);
    if plugin { command.name("kubectl tombolo").bin_name("kubectl tombolo") } else { command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_of_kubectl_says_so_in_its_help() {
        let help = |program: &str, command: Option<&str>| {
            let mut cli = called(Cli::command(), Path::new(program));
            cli.build();
            let command = match command {
                Some(name) => cli.find_subcommand_mut(name).unwrap(),
                None => &mut cli,
            };
            command.render_help().to_string()
        };
        assert!(help("/usr/local/bin/tombolo", None).contains("Usage: tombolo [OPTIONS]"));
        assert!(help("/usr/local/bin/kubectl-tombolo", None).contains("Usage: kubectl tombolo [OPTIONS]"));
        let status = help("kubectl-tombolo", Some("status"));
        assert!(status.contains("Usage: kubectl tombolo status"), "{status}");
    }

    #[test]
    fn a_wrong_command_line_ends_with_2_and_says_how_it_is_written() {
        let fault = |line: &str| {
            let fault = Cli::of(Cli::command(), format!("tombolo {line}").split(' ')).unwrap_err();
            assert_eq!(fault.exit_code(), 2, "{line}");
            fault.to_string()
        };
        for line in ["explain serve", "explain serve/", "explain /serve"] {
            let said = fault(line);
            assert!(said.contains("lacks a kind or a name; write it as in serviceexport/serve"), "{said}");
            assert!(said.contains("Usage: tombolo explain"), "{said}");
        }
        let said = fault("join m --grant all --grant services");
        assert!(said.contains("--grant: name one of services, workloads and all"), "{said}");
        for line in ["explain svc/serve", "explain svc serve", "join m --grant all --grant all"] {
            assert!(Cli::of(Cli::command(), format!("tombolo {line}").split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_name_after_wait_is_the_name() {
        let parsed = |line: &str| Cli::of(Cli::command(), format!("tombolo {line}").split(' '));
        for line in
            ["join --wait m", "join --wait=false m", "export --wait serve", "export --wait=true serve"]
        {
            assert!(parsed(line).is_ok(), "{line}: {:?}", parsed(line));
        }
        assert!(parsed("join m --wait false").is_err(), "it is the name of nothing");
    }

    #[test]
    fn every_time_to_wait_is_taken_with_and_without_a_unit() {
        for line in [
            "check --connectivity --pod-timeout",
            "check --connectivity --dial-timeout",
            "export serve --timeout",
            "unjoin m --timeout",
        ] {
            for time in ["90", "90s", "2m"] {
                let parsed = Cli::of(Cli::command(), format!("tombolo {line} {time}").split(' '));
                assert!(parsed.is_ok(), "{line} {time}: {parsed:?}");
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
