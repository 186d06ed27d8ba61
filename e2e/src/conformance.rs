//! `cargo bed conformance`: runs a compiled conformance suite of the Multi-Cluster Services API against a fresh bed.
//!
//! The suite is given, never built here: any program that takes `--kubeconfig` and `--contexts` and leaves `report.html` and `report.yaml`
//! in its working folder. [`Args::run`] ends as the suite ended; one that leaves no report has failed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

use anyhow::{Context, Result, ensure};

use crate::{
    bed::{Bed, Spec},
    dns, fleet,
    progress::say,
};

/// What the suite leaves in its working folder.
const REPORTS: [&str; 2] = ["report.html", "report.yaml"];

/// Which suite is run on what.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The compiled suite, as `go test -c` leaves it.
    #[arg(long, value_name = "FILE")]
    suite: PathBuf,
    /// How many clusters it gets.
    #[arg(long, default_value_t = 2)]
    members: usize,
    /// Give the clusters IPv4 and IPv6.
    #[arg(long)]
    dual_stack: bool,
    /// Where its reports are kept.
    #[arg(long, default_value = "target/conformance", value_name = "DIR")]
    reports: PathBuf,
    /// More flags for `tombolo hub`.
    #[arg(long = "hub-flag", value_name = "FLAG", allow_hyphen_values = true)]
    hub_flags: Vec<String>,
    /// What follows `--` is the suite's, such as `--ginkgo.label-filter=Required`.
    #[arg(last = true)]
    flags: Vec<String>,
}

// === impl Args ===

impl Args {
    /// Runs the suite on a bed of its own and ends with its exit code.
    pub async fn run(self) -> Result<ExitCode> {
        ensure!(self.suite.is_file(), "--suite names {}, which is no file", self.suite.display());
        let folder = prepare(&self.reports)?;
        let bed = Bed::start(self.spec(), None).await?;
        for member in &bed.members {
            fleet::until_ready(&bed.hub.client, &member.name, "True").await?;
        }
        dns::until_answering(&bed).await?;
        let mut suite = self.command(&bed, &folder)?;
        say(format_args!("running {}", self.suite.display()));
        let status =
            tokio::task::spawn_blocking(move || suite.status()).await?.context("failed to run it")?;
        tokio::task::spawn_blocking(move || drop(bed)).await?;
        let counts = counts(&fs::read_to_string(folder.join("report.yaml")).unwrap_or_default());
        match counts {
            Some((passed, total)) => say(format_args!("{passed} of {total} specs passed ({status})")),
            None => say(format_args!("the suite left no report: it has failed ({status})")),
        }
        left(&folder).for_each(|report| println!("{}", report.display()));
        Ok(code(status, counts.is_some()).into())
    }

    fn spec(&self) -> Spec {
        // The last member of a dual-stack bed has IPv6 only and takes no part.
        let members = self.members + usize::from(self.dual_stack);
        let hub_flags = self.hub_flags.clone();
        Spec { dual_stack: self.dual_stack, hub_flags, ..Spec::nodes(members) }.joined()
    }

    fn command(&self, bed: &Bed, folder: &Path) -> Result<Command> {
        let mut command = Command::new(std::path::absolute(&self.suite)?);
        let contexts: Vec<&str> =
            bed.members.iter().take(self.members).map(|member| member.name.as_str()).collect();
        command
            .current_dir(folder)
            .arg(format!("--kubeconfig={}", bed.dir().join("all.kubeconfig").display()))
            .arg(format!("--contexts={}", contexts.join(",")))
            .arg("--project=Tombolo")
            .arg(format!("--version={}", env!("CARGO_PKG_VERSION")))
            .args(&self.flags);
        Ok(command)
    }
}

/// Makes the folder for the reports; those of an earlier run must not be taken for this one's.
fn prepare(reports: &Path) -> Result<PathBuf> {
    fs::create_dir_all(reports).with_context(|| format!("failed to make {}", reports.display()))?;
    for name in REPORTS {
        let old = reports.join(name);
        if old.exists() {
            fs::remove_file(&old).with_context(|| format!("failed to remove {}", old.display()))?;
        }
    }
    std::path::absolute(reports).context("failed to find the folder of the reports")
}

/// The reports that are there.
fn left(folder: &Path) -> impl Iterator<Item = PathBuf> {
    REPORTS.iter().map(|name| folder.join(name)).filter(|report| report.is_file())
}

/// How many specs passed, of how many, as a report says.
fn counts(report: &str) -> Option<(u32, u32)> {
    let field = |name: &str| report.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((field("passed:")?, field("total:")?))
}

/// The suite's own exit code, but for one that says that all went well and shows nothing for it.
fn code(status: ExitStatus, reported: bool) -> u8 {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(0) if !reported => 1,
        code => code.unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_suite_that_leaves_no_report_has_failed_whatever_it_says() {
        let ended = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!([code(ended(0), true), code(ended(0), false)], [0, 1]);
        assert_eq!([code(ended(3), true), code(ended(3), false)], [3, 3]);
        assert_eq!(code(ExitStatus::from_raw(9), true), 1, "killed");
    }

    #[test]
    fn only_reports_that_are_there_are_told() {
        let folder = std::env::temp_dir().join(format!("tombolo-left-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(left(&folder).count(), 0);
        fs::write(folder.join("report.yaml"), "passed: 1\n").unwrap();
        assert_eq!(left(&folder).collect::<Vec<_>>(), [folder.join("report.yaml")]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_counts_are_those_of_the_whole_report_and_not_of_a_group() {
        let report = "groups:\n    - name: Required\n      passed: 3\npassed: 26\ntotal: 27\n";
        assert_eq!(counts(report), Some((26, 27)));
        assert_eq!(counts("suitefailure: none\n"), None);
    }

    #[test]
    fn a_report_of_an_earlier_run_is_gone_before_the_next() {
        let folder = std::env::temp_dir().join(format!("tombolo-reports-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("report.yaml"), "passed: 1\n").unwrap();
        let prepared = prepare(&folder).unwrap();
        assert!(!prepared.join("report.yaml").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
