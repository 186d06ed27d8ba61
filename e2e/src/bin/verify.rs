//! `cargo verify`: everything that must hold before a change lands. CI runs exactly this.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tombolo_e2e::{progress::say, tools::Tools};

/// Checks formatting, lints, dependencies, and runs all tests.
#[derive(Debug, Parser)]
#[command(name = "verify", bin_name = "cargo verify", version)]
struct Cli {
    /// Leave the tests out that start clusters.
    #[arg(long)]
    quick: bool,
}

/// The pinned version of cargo-deny.
const DENY: &str = "0.20.2";

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
        let deny = deny()?;
        step(
            "dependencies",
            in_root(Command::new(deny).args(["--workspace", "check", "bans", "licenses", "sources"])),
        )?;
        if self.quick {
            step("quick tests", &mut cargo(&["test", "--workspace", "--locked", "--lib", "--bins"]))?;
        } else {
            step("all tests", &mut cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]))?;
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

/// cargo-deny, built once a machine.
fn deny() -> Result<PathBuf> {
    let root = Tools::cache_folder()?.join(format!("cargo-deny-{DENY}"));
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        say("building cargo-deny: a few minutes, the first time only");
        let mut install =
            cargo(&["install", "cargo-deny", "--version", DENY, "--locked", "--quiet", "--root"]);
        step("installation of cargo-deny", install.arg(&root).env_remove("CARGO_TARGET_DIR"))?;
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
