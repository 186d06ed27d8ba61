//! `cargo verify`: everything that must hold before a change lands. CI runs exactly this.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tombolo_e2e::{progress::say, tools::Tools};

/// Checks formatting, lints, dependencies, runs all tests and fuzzes.
#[derive(Debug, Parser)]
#[command(name = "verify", bin_name = "cargo verify", version)]
struct Cli {
    /// Leave the tests out that start clusters, and fuzzing.
    #[arg(long)]
    quick: bool,
}

/// The pinned version of cargo-deny.
const DENY: &str = "0.20.2";
/// The pinned version of cargo-fuzz.
const FUZZ: &str = "0.13.2";
/// How long each fuzz target runs, in seconds.
const FUZZING: u32 = 60;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("Error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

// === impl Cli ===

impl Cli {
    fn run(&self) -> Result<()> {
        let started = Instant::now();
        step("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
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
            step("all tests", &mut cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]))?;
            fuzz()?;
        }
        say(format_args!("everything holds, after {} s", started.elapsed().as_secs()));
        Ok(())
    }
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
    // cargo-fuzz would bring it up to date without a word.
    step(
        "lock file of the fuzz targets",
        &mut cargo(&["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"]),
    )?;
    let program = installed("cargo-fuzz", FUZZ)?;
    let built = std::env::current_exe().context("failed to find this program")?;
    let built = built.ancestors().nth(2).context("this program is in the target folder")?.join("fuzz");
    for target in fuzz_targets()? {
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

/// The fuzz targets there are, by name.
fn fuzz_targets() -> Result<BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let mut targets = BTreeSet::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path = entry?.path();
        targets.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    ensure!(!targets.is_empty(), "there is no fuzz target in {}", folder.display());
    Ok(targets)
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
    command
}

fn in_root(command: &mut Command) -> &mut Command {
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
