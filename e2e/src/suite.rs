//! A set of tests on one bed: it is started when the first test needs it, shared by all, and gone before the process ends.
//!
//! When a test fails, what the clusters hold and the end of every log are printed. A test that this machine cannot run is
//! reported as ignored with the reason, never as passed.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    pin::Pin,
    process::ExitCode,
    sync::{Arc, LazyLock},
};

use anyhow::{Context, Result, anyhow};
use futures::FutureExt;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::{runtime::Runtime, sync::OnceCell};

use crate::{
    bed::{Bed, Spec, log_names},
    packages,
    process::tail,
};

/// What a test returns: a future of its outcome.
pub type Outcome = Pin<Box<dyn Future<Output = Result<()>>>>;
/// A test: a sentence, and what to do with the bed.
pub type Test = (&'static str, fn(Arc<Bed>) -> Outcome);

/// Names functions `async fn a_sentence(bed: Arc<Bed>) -> Result<()>` as tests.
#[macro_export]
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        vec![$((stringify!($test), (|bed| Box::pin($test(bed))) as fn(std::sync::Arc<$crate::bed::Bed>) -> $crate::suite::Outcome)),*]
    };
}

/// The bed that tests share.
struct Shared {
    spec: Spec,
    bed: OnceCell<Result<Arc<Bed>, String>>,
}

/// Runs tests on a bed as the command line asks, in the form that `cargo test` expects.
pub fn run(spec: Spec, tests: Vec<Test>) -> ExitCode {
    run_as(&Arguments::from_args(), spec, tests)
}

/// The same one after the other, for tests that need something of the machine besides.
pub fn run_needing(needs: Needs, spec: Spec, tests: Vec<Test>) -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    run_where(needs, &arguments, spec, tests)
}

/// The same, as many at a time where the command line does not say otherwise: for tests that mostly wait.
pub fn run_at_a_time(number: usize, spec: Spec, tests: Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(number);
    run_as(&arguments, spec, tests)
}

fn run_as(arguments: &Arguments, spec: Spec, tests: Vec<Test>) -> ExitCode {
    run_where(if spec.nodes { Needs::Root } else { Needs::Nothing }, arguments, spec, tests)
}

fn run_where(needs: Needs, arguments: &Arguments, spec: Spec, tests: Vec<Test>) -> ExitCode {
    let runtime = Arc::new(Runtime::new().expect("a process can start its threads"));
    // Not before a test runs: a list of tests needs nothing.
    let lacking = Arc::new(LazyLock::new(move || needs.lacking()));
    let shared = Arc::new(Shared { spec, bed: OnceCell::new() });
    let trials = tests
        .into_iter()
        .map(|(name, test)| {
            let (runtime, shared, lacking) = (runtime.clone(), shared.clone(), lacking.clone());
            Trial::ignorable_test(name, move || {
                if let Some(reason) = &**lacking {
                    return Ok(Completion::ignored_with(reason.clone()));
                }
                runtime.block_on(shared.try_on(name, test))
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(arguments, trials);
    // The last handle: the bed ends here, not with the process.
    drop(shared);
    conclusion.exit_code()
}

/// What a test needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing in particular.
    Nothing,
    /// The rights to make namespaces, mounts and links.
    Root,
    /// A browser.
    Browser,
    /// The program that checks rules of Prometheus.
    Promtool,
    /// A kernel that gives links IPv6.
    Ipv6,
}

/// An error that says what a test lacks that has begun: it is ignored, not failed.
#[derive(Debug)]
struct Lacking(String);

/// A test that brings its own bed: a sentence, what it needs, and what to do.
pub type Alone = (&'static str, Needs, fn() -> Result<()>);

/// Runs tests that look at the whole machine, so one after the other, and that bring their own beds.
pub fn run_one_by_one(tests: Vec<Alone>) -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trials = tests.into_iter().map(|(name, needs, test)| {
        Trial::ignorable_test(name, move || match needs.lacking() {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => completion(test()).map_err(|e| Failed::from(format!("{e:#}"))),
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Runs a test on a bed of its own, and shows what was there if it fails.
pub fn on_its_own_bed(name: &str, spec: Spec, test: impl AsyncFnOnce(Arc<Bed>) -> Result<()>) -> Result<()> {
    Runtime::new()?.block_on(aside(name, spec, test))
}

/// The same among tests that share a bed, which this one leaves alone: it is started for it, shown if it fails, and gone when it ends.
pub async fn aside(name: &str, spec: Spec, test: impl AsyncFnOnce(Arc<Bed>) -> Result<()>) -> Result<()> {
    // Without nodes no link needs it.
    if spec.dual_stack && spec.nodes {
        Needs::Ipv6.or_ignore()?;
    }
    let bed = Arc::new(Bed::start(spec, None).await.context(Aside)?);
    let outcome = AssertUnwindSafe(test(bed.clone())).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("it panicked, see above")));
    let outcome = outcome.inspect_err(|_| eprintln!("{}", dump(name, &bed))).context(Aside);
    tokio::task::spawn_blocking(move || drop(bed)).await.context("the bed did not end")?;
    outcome
}

/// Marks what went wrong on a bed of a test's own: the shared one does not tell why.
#[derive(Debug)]
struct Aside;

impl fmt::Display for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on a bed of its own")
    }
}

// === impl Needs ===

impl Needs {
    /// Ends a test that has begun as ignored unless the machine has it.
    pub fn or_ignore(self) -> Result<()> {
        self.lacking().map_or(Ok(()), |reason| Err(Lacking(reason).into()))
    }

    fn lacking(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "skipped: needs root".to_owned()),
            Self::Browser => packages::browser()
                .err()
                .map(|e| format!("skipped: needs a browser, and there is none: {e:#}")),
            Self::Promtool => packages::promtool()
                .err()
                .map(|e| format!("skipped: needs promtool, and there is none: {e:#}")),
            Self::Ipv6 => without_ipv6(std::fs::read_to_string(IPV6_IS_OFF).ok().as_deref()),
        }
    }
}

/// Where the kernel says whether a new link has IPv6 disabled.
const IPV6_IS_OFF: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

/// What a machine lacks, by what it says there.
fn without_ipv6(off: Option<&str>) -> Option<String> {
    match off.map(str::trim) {
        Some("0") => None,
        Some(_) => Some(format!("skipped: needs IPv6, which {IPV6_IS_OFF} has off")),
        None => Some("skipped: needs IPv6, which the kernel does not have".to_owned()),
    }
}

// === impl Lacking ===

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lacking {}

/// What became of a test: one that the machine cannot run is ignored, for the reason that it gives.
fn completion(outcome: Result<()>) -> Result<Completion> {
    match outcome {
        Ok(()) => Ok(Completion::Completed),
        Err(e) => match e.downcast_ref::<Lacking>() {
            Some(lacking) => Ok(Completion::ignored_with(&lacking.0)),
            None => Err(e),
        },
    }
}

// === impl Shared ===

impl Shared {
    async fn try_on(&self, name: &str, test: fn(Arc<Bed>) -> Outcome) -> Result<Completion, Failed> {
        let start =
            async || Bed::start(self.spec.clone(), None).await.map(Arc::new).map_err(|e| format!("{e:#}"));
        let bed =
            self.bed.get_or_init(start).await.clone().map_err(|e| format!("the bed did not start: {e}"))?;
        // A test that panics fails as one that returns an error does.
        let outcome = AssertUnwindSafe(test(bed.clone())).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("it panicked, see above")));
        completion(outcome).map_err(|e| {
            if !e.is::<Aside>() {
                eprintln!("{}", dump(name, &bed));
            }
            Failed::from(format!("{e:#}"))
        })
    }
}

/// What one wants to see when a test failed: objects and the end of every log.
fn dump(test: &str, bed: &Bed) -> String {
    let mut text = format!("──── the bed when {test} failed ────\n");
    for cluster in bed.clusters() {
        let kinds = "nodes,deployments,pods,services,endpointslices,events";
        let kubectl = bed.kubectl(&cluster.name);
        let found = kubectl.run(&["get", kinds, "--all-namespaces", "-o", "wide", "--request-timeout=5s"]);
        let found = found.unwrap_or_else(|e| format!("{e:#}"));
        text += &format!("── objects of {}\n{found}\n", cluster.name);
    }
    let logs = bed.dir().join("logs");
    for log in log_names(&logs) {
        // What Tombolo says is what one looks for.
        let lines = if log.contains("tombolo") { 60 } else { 8 };
        text += &format!("── end of {log}\n{}\n", tail(&logs.join(format!("{log}.log")), lines));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_ipv6_has_its_tests_ignored_and_says_why() {
        assert_eq!(without_ipv6(Some("0\n")), None);
        for off in [None, Some("1\n")] {
            let reason = without_ipv6(off).unwrap();
            let outcome: Result<()> = Err(Lacking(reason).into());
            let completion = completion(outcome.context(Aside)).unwrap();
            assert!(
                matches!(completion, Completion::Ignored { reason: Some(why) } if why.contains("IPv6")),
                "{off:?}"
            );
        }
        assert!(completion(Err(anyhow!("it rains"))).is_err());
    }
}
