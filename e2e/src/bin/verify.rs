//! `cargo verify`: everything that must hold before a change lands. CI runs exactly this.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tombolo_e2e::{bed::Spec, progress::say, tombolo, tools::Tools};

/// Checks formatting, lints, dependencies, runs all tests and fuzzes.
#[derive(Debug, Parser)]
#[command(name = "verify", bin_name = "cargo verify", version)]
struct Cli {
    /// Leave the tests out that start clusters, and fuzzing.
    #[arg(long)]
    quick: bool,
    /// Run this test program and no other check, such as `traffic`; may be given several times.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "quick")]
    only: Vec<String>,
}

/// The pinned version of cargo-deny.
const DENY: &str = "0.20.2";
/// The pinned version of cargo-fuzz.
const FUZZ: &str = "0.13.2";
/// How long each fuzz target runs, in seconds.
const FUZZING: u32 = 60;
/// How many test programs run at a time: much of what they do is waiting.
const LANES: usize = 2;
/// Programs that measure, look at the whole machine, or send requests of which none may fail: nothing runs beside them.
const ALONE: [&str; 9] =
    ["command", "demo", "docs", "installed", "leader", "node_level", "reliability", "robustness", "traffic"];

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("Error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

// === impl Failures ===

impl Failures {
    fn hear(&mut self, line: &str) {
        match line {
            "failures:" => self.listening = true,
            line if line.starts_with("test result:") => self.listening = false,
            "" => {}
            line if self.listening => self.told.push(line.to_owned()),
            _ => {}
        }
    }
}

// === impl Cli ===

impl Cli {
    fn run(&self) -> Result<()> {
        let started = Instant::now();
        if !self.only.is_empty() {
            all_tests(&self.only)?;
            say(format_args!("these hold, after {} s", started.elapsed().as_secs()));
            return Ok(());
        }
        step("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
        // cargo-fuzz would bring it up to date without a word.
        step(
            "lock file of the fuzz targets",
            &mut cargo(&["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"]),
        )?;
        step(
            "lints",
            &mut cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
        )?;
        images()?;
        let deny = installed("cargo-deny", DENY)?;
        step(
            "dependencies",
            in_root(Command::new(deny).args(["--workspace", "check", "bans", "licenses", "sources"])),
        )?;
        if self.quick {
            step("quick tests", &mut cargo(&["test", "--workspace", "--locked", "--lib", "--bins"]))?;
        } else {
            // The shorter of the two first: what does not compile there is found in minutes.
            fuzz()?;
            all_tests(&[])?;
        }
        say(format_args!("everything holds, after {} s", started.elapsed().as_secs()));
        Ok(())
    }
}

/// All tests, or those of some programs. Whatever fails is told once more at the end, where it is found.
fn all_tests(only: &[String]) -> Result<()> {
    let programs = stems("tests")?;
    if let Some(unknown) = only.iter().find(|name| !programs.contains(*name)) {
        let known: Vec<_> = programs.iter().map(String::as_str).collect();
        bail!("there is no test program {unknown:?}; there are {}", known.join(", "));
    }
    // Shown here: of what programs say that run side by side, nothing is seen before they end.
    let bed = if rustix::process::geteuid().is_root() { Spec::nodes(1) } else { Spec::api(1) };
    bed.provide().context("failed to make the machine ready for clusters")?;
    step("build of the tests", &mut cargo(&["test", "--workspace", "--locked", "--no-run"]))?;
    let tombolo = tombolo::binary()?;
    let logs = target()?.join("verify");
    fs::create_dir_all(&logs).with_context(|| format!("failed to make {}", logs.display()))?;
    // Always of the whole workspace: of one package alone, dependencies would be built again with fewer features.
    let of_the_product = stems("../tests")?;
    let mut without_beds = vec!["--no-fail-fast", "--lib", "--bins"];
    without_beds.extend(of_the_product.iter().flat_map(|name| ["--test", name]));
    ensure!(ALONE.iter().all(|name| programs.contains(*name)), "there is no program for each of {ALONE:?}");
    let wanted = programs.into_iter().filter(|name| only.is_empty() || only.contains(name));
    let (alone, beside): (Vec<_>, Vec<_>) = wanted.partition(|name| ALONE.contains(&name.as_str()));
    let mut queue = VecDeque::new();
    if only.is_empty() {
        queue.push_back(Program::new("without-beds", &without_beds));
    }
    let on_beds = |name: &String| Program::new(name, &["--test", name]);
    queue.extend(beside.iter().map(on_beds));
    let mut failed = run_all(queue, LANES, &tombolo, &logs)?;
    failed.extend(run_all(alone.iter().map(on_beds).collect(), 1, &tombolo, &logs)?);
    if !failed.is_empty() {
        let told: Vec<_> =
            failed.iter().flat_map(|(_, failures)| &failures.told).map(String::as_str).collect();
        eprintln!("──── what failed ────\n{}", told.join("\n"));
    }
    let names: Vec<_> = failed.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(names.is_empty(), "tests failed: {}; all they said is in {}", names.join(", "), logs.display());
    Ok(())
}

/// Runs programs, as many at a time, and gives back those that failed with what they said of it. What each says is kept in a file and
/// printed when it has ended, in one piece.
fn run_all(
    queue: VecDeque<Program>,
    lanes: usize,
    tombolo: &Path,
    logs: &Path,
) -> Result<Vec<(String, Failures)>> {
    let (queue, failed) = (Mutex::new(queue), Mutex::new(Vec::new()));
    let lane = || -> Result<()> {
        loop {
            let next = queue.lock().expect("no lane panics with it").pop_front();
            let Some(program) = next else { return Ok(()) };
            if let Some(failures) = program.run(tombolo, logs)? {
                failed.lock().expect("no lane panics with it").push((program.name, failures));
            }
        }
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("no lane panics"))
    })?;
    Ok(failed.into_inner().expect("no lane panicked"))
}

/// Tests that cargo runs in one go.
struct Program {
    name: String,
    arguments: Vec<String>,
}

// === impl Program ===

impl Program {
    fn new(name: &str, arguments: &[&str]) -> Self {
        Self { name: name.to_owned(), arguments: arguments.iter().map(|&word| word.to_owned()).collect() }
    }

    /// Runs it, prints what it said, and gives back what failed, if anything.
    fn run(&self, tombolo: &Path, logs: &Path) -> Result<Option<Failures>> {
        let path = logs.join(&self.name).with_extension("log");
        let log = File::create(&path).with_context(|| format!("failed to write {}", path.display()))?;
        let started = Instant::now();
        let mut command = cargo(&["test", "--workspace", "--locked"]);
        // Else each asks cargo for it.
        command.args(&self.arguments).env("TOMBOLO_BIN", tombolo);
        command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        say(format_args!("{}: {}", self.name, shown(&command)));
        let status = command.status().with_context(|| format!("failed to start {}", shown(&command)))?;
        let said = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let said = String::from_utf8_lossy(&said);
        println!("{said}");
        let how = if status.success() { "well" } else { "FAILED" };
        say(format_args!("{}: {how}, after {} s", self.name, started.elapsed().as_secs()));
        if status.success() {
            return Ok(None);
        }
        let mut failures = Failures::default();
        said.lines().for_each(|line| failures.hear(line));
        if failures.told.is_empty() {
            failures.told.push(format!("{} ended with {status} and names no test", self.name));
        }
        Ok(Some(failures))
    }
}

/// What test programs say of their failures, between `failures:` and the result.
#[derive(Debug, Default)]
struct Failures {
    listening: bool,
    told: Vec<String>,
}

/// The little Go programs that pods run.
fn images() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("images");
    let format = Command::new("gofmt")
        .args(["-l", "."])
        .current_dir(&folder)
        .output()
        .context("failed to run gofmt")?;
    let unformatted = String::from_utf8_lossy(&format.stdout).into_owned();
    ensure!(format.status.success() && unformatted.is_empty(), "gofmt would change: {unformatted}");
    step("vet of the pods' programs", Command::new("go").args(["vet", "./..."]).current_dir(&folder))?;
    step("tests of the pods' programs", Command::new("go").args(["test", "./..."]).current_dir(&folder))
}

/// Runs every fuzz target for a while. What they find out about inputs is kept in the cache, so that the next run begins where
/// this one ended.
fn fuzz() -> Result<()> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        say("fuzzing: skipped, it needs a nightly toolchain");
        return Ok(());
    }
    let program = installed("cargo-fuzz", FUZZ)?;
    let built = target()?.join("fuzz");
    for target in stems("../fuzz/fuzz_targets")? {
        let corpus = Tools::cache_folder()?.join("fuzz").join(&target);
        fs::create_dir_all(&corpus).with_context(|| format!("failed to make {}", corpus.display()))?;
        let mut run = Command::new("rustup");
        run.args(["run", "nightly"]).arg(&program).args(["fuzz", "run", "--target-dir"]).arg(&built);
        // Tombolo has no unsafe code to sanitize, and a build in one piece would take longer than the run.
        run.args(["--sanitizer", "none", "--codegen-units", "16"]);
        run.arg(&target).arg(&corpus).args(["--", &format!("-max_total_time={FUZZING}"), "-timeout=10"]);
        step(&format!("fuzzing of {target}"), in_root(&mut run))?;
    }
    Ok(())
}

/// The names of the programs in a folder.
fn stems(folder: &str) -> Result<BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut stems = BTreeSet::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            stems.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    ensure!(!stems.is_empty(), "there is no program in {}", folder.display());
    Ok(stems)
}

/// Where cargo puts what it builds.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().context("failed to find this program")?;
    Ok(program.ancestors().nth(2).context("this program is in the target folder")?.to_owned())
}

/// A command of cargo's that is not part of it, built once a machine.
fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let root = Tools::cache_folder()?.join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.is_file() {
        say(format_args!("building {name}: a few minutes, the first time only"));
        let mut install = cargo(&["install", name, "--version", version, "--locked", "--quiet", "--root"]);
        step(&format!("installation of {name}"), install.arg(&root).env_remove("CARGO_TARGET_DIR"))?;
    }
    Ok(program)
}

fn step(what: &str, command: &mut Command) -> Result<()> {
    let started = Instant::now();
    say(format_args!("{what}: {}", shown(command)));
    let status = command.status().with_context(|| format!("failed to start {}", shown(command)))?;
    ensure!(status.success(), "{what} failed ({status}): {}", shown(command));
    say(format_args!("{what}: well, after {} s", started.elapsed().as_secs()));
    Ok(())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    in_root(command.args(arguments));
    tombolo::forget_package(&mut command);
    command
}

fn in_root(command: &mut Command) -> &mut Command {
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_heard_and_nothing_else() {
        let mut failures = Failures::default();
        let said = "test it_rains ... FAILED\n\nfailures:\n\n---- it_rains ----\nthe sky is blue\n\nfailures:\n    it_rains\n\n\
                    test result: FAILED. 1 passed; 1 failed\n\nrunning 1 test\ntest it_shines ... ok";
        said.lines().for_each(|line| failures.hear(line));
        assert_eq!(failures.told, ["---- it_rains ----", "the sky is blue", "    it_rains"]);
    }
}
