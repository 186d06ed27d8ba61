//! `cargo bed`: real Kubernetes clusters on this machine, for trying things and for tests.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use tombolo_e2e::{
    background,
    bed::Spec,
    bench::Bench,
    conformance,
    record::{self, Record},
    tools::{Tool, Tools},
};

/// A hub and members, real Kubernetes on this machine.
#[derive(Debug, Parser)]
#[command(name = "bed", bin_name = "cargo bed", version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Starts a bed and leaves it running.
    Up {
        #[command(flatten)]
        spec: Spec,
        #[command(flatten)]
        place: Place,
    },
    /// Ends a bed and removes every trace of it.
    Down {
        #[command(flatten)]
        place: Place,
    },
    /// Shows a bed's clusters and processes.
    Status {
        /// All beds of this machine instead.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Prints the log of a process, such as `hub/kube-apiserver`.
    Logs {
        /// Which process; without it the names are listed.
        name: Option<String>,
        /// Go on as it grows.
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Runs kubectl with the contexts hub, member1, …
    Kubectl {
        #[command(flatten)]
        place: Place,
        /// What follows `--` is kubectl's.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Measures Tombolo beside a yardstick, on a bed of its own.
    #[command(subcommand)]
    Bench(Bench),
    /// Runs a compiled conformance suite of the Multi-Cluster Services API on a fresh bed with nodes (needs root).
    Conformance(conformance::Args),
    /// Owns a bed; `up` starts it in the background.
    #[command(hide = true)]
    Own {
        #[command(flatten)]
        spec: Spec,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The bed's folder, where its kubeconfigs are.
    #[arg(long, default_value = "target/bed", value_name = "DIR")]
    dir: PathBuf,
}

// === impl Cli ===

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command.run().await {
        Ok(code) => code,
        Err(e) => {
            eprintln!("Error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

impl Action {
    async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Conformance(suite) => return suite.run().await,
            Self::Up { spec, place } => background::up(&spec, &place.dir).await?,
            Self::Own { spec, place } => background::own(spec, &place.dir).await?,
            Self::Bench(bench) => bench.run().await?,
            Self::Down { place } => background::down(&place.dir).await?,
            Self::Status { all: true, .. } => all()?,
            Self::Status { all: false, place } => status(&place.dir)?,
            Self::Logs { name, follow, place } => logs(&place.dir, name.as_deref(), follow)?,
            Self::Kubectl { place, arguments } => kubectl(&place.dir, &arguments)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn all() -> Result<()> {
    let beds = record::living()?;
    println!("{:<8} {:<7} {:<6} DIR", "OWNER", "NETWORK", "READY");
    for bed in &beds {
        let network = bed.network.map_or_else(|| "-".to_owned(), |number| number.to_string());
        println!("{:<8} {:<7} {:<6} {}", bed.owner.pid, network, bed.ready, bed.dir.display());
    }
    Ok(())
}

fn running(dir: &Path) -> Result<Record> {
    match Record::find(dir)? {
        Some(record) if record.owner.is_alive() => Ok(record),
        Some(_) => bail!("the bed in {0} has ended: `cargo bed down --dir {0}` cleans up", dir.display()),
        None => bail!("there is no bed in {0}: `cargo bed up --dir {0}` starts one", dir.display()),
    }
}

fn status(dir: &Path) -> Result<()> {
    let record = running(dir)?;
    println!("{} in {}", if record.ready { "ready" } else { "starting" }, record.dir.display());
    println!("{:<32} {:<9} STATE", "PROCESS", "PID");
    let mut ended = 0;
    for process in &record.processes {
        let alive = process.identity.is_alive();
        ended += usize::from(!alive);
        println!(
            "{:<32} {:<9} {}",
            process.name,
            process.identity.pid,
            if alive { "running" } else { "ended" }
        );
    }
    if ended > 0 {
        bail!("{ended} of {} processes have ended; `cargo bed logs NAME` shows why", record.processes.len());
    }
    Ok(())
}

fn logs(dir: &Path, name: Option<&str>, follow: bool) -> Result<()> {
    let folder = dir.join("logs");
    let log = name.map(|name| folder.join(format!("{name}.log")));
    let Some(log) = log.filter(|log| log.is_file()) else {
        let names = tombolo_e2e::bed::log_names(&folder);
        if let Some(name) = name {
            bail!("there is no log {name}; there are: {}", names.join(", "));
        }
        println!("{}", names.join("\n"));
        return Ok(());
    };
    let mut tail = Command::new("tail");
    tail.args(["-n", "+1"]).args(follow.then_some("-F")).arg(log);
    Err(tail.exec().into())
}

fn kubectl(dir: &Path, arguments: &[String]) -> Result<()> {
    let record = running(dir)?;
    let tools = Tools::provide(&[Tool::Kubectl])?;
    let mut kubectl = Command::new(tools.path(Tool::Kubectl));
    kubectl.env("KUBECONFIG", record.dir.join("all.kubeconfig")).args(arguments);
    Err(kubectl.exec().into())
}
