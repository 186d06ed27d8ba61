//! Measurements on a bed. Machines differ and are noisy, so every figure stands beside its yardstick, taken in the same run.

pub mod admission;
mod noop;
pub mod propagate;
pub mod scale;
pub mod services;
mod ways;

use std::{os::unix::process::CommandExt, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result};

use crate::{progress::say, tombolo};

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// What the webhook costs: without one, with one that does nothing, and with ours.
    Admission(admission::Args),
    /// What propagation costs: a bare relay, and Tombolo.
    Propagate(propagate::Args),
    /// What an export costs until its endpoints are there for an importer: a bare relay of one object, and Tombolo.
    Export(services::Args),
    /// What a changed endpoint costs until an importer sees it: a bare relay of one object, and Tombolo.
    Churn(services::Args),
    /// What memory and time to start hub and agents take with many services and objects.
    Scale(scale::Args),
    /// A webhook that does nothing, as the yardstick.
    #[command(hide = true)]
    Noop(noop::Args),
}

// === impl Bench ===

impl Bench {
    /// Measures, in a release build: a debug one begins again as such.
    pub async fn run(self) -> Result<()> {
        // How fast this program itself is does not matter where other processes' memory is measured.
        if cfg!(debug_assertions) && !matches!(self, Self::Scale(_)) {
            say("building for release: a few minutes, the first time");
            let built = tokio::task::spawn_blocking(|| tombolo::build("bed", &["--release"])).await??;
            return Err(Command::new(built).args(std::env::args_os().skip(1)).exec())
                .context("failed to start again");
        }
        match self {
            Self::Admission(args) => args.run().await,
            Self::Propagate(args) => args.run().await,
            Self::Export(args) => args.run(services::What::Export).await,
            Self::Churn(args) => args.run(services::What::Churn).await,
            Self::Scale(args) => args.run().await,
            Self::Noop(args) => args.run().await,
        }
    }
}

/// The middle one of some durations; between the two in the middle if there are two.
pub(crate) fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    let middle = |place: usize| all.get(place).copied().unwrap_or_default();
    (middle(all.len().saturating_sub(1) / 2) + middle(all.len() / 2)) / 2
}

/// The middle one of some figures; between the two in the middle if there are two.
pub(crate) fn median_of(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    let middle = |place: usize| all.get(place).copied().unwrap_or_default();
    f64::midpoint(middle(all.len().saturating_sub(1) / 2), middle(all.len() / 2))
}

/// The resident memory of a process, in MiB.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

/// A size that the kernel tells of a process, in MiB: `RssAnon:` is resident memory that is not of a file, such as the program's.
pub(crate) fn status_mib(pid: u32, what: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let line = line.with_context(|| format!("there is no {what}"))?;
    let kib: f64 =
        line.trim().trim_end_matches(" kB").parse().with_context(|| format!("{what} no number"))?;
    Ok(kib / 1024.0)
}

/// The CPU seconds that a process has taken.
pub(crate) fn cpu(pid: u32) -> Result<f64> {
    /// Of the kernel's interface, whatever the machine's own clock does.
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    // The name is in parentheses and may hold anything; the 14th and 15th fields are user and system time.
    let fields = stat.rsplit_once(')').context("no name")?.1.split_whitespace();
    let ticks: Result<Vec<f64>, _> = fields.skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() / TICKS_A_SECOND)
}

/// This program in its release build, and Tombolo's.
pub(crate) fn programs() -> Result<(PathBuf, PathBuf)> {
    Ok((std::env::current_exe()?, tombolo::build("tombolo", &["--release"])?))
}
