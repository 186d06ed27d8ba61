//! `cargo verify`: everything that must hold before a change lands. CI runs exactly this.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
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
            // The shorter of the two first: what does not compile there is found in minutes.
            fuzz()?;
            all_tests()?;
        }
        say(format_args!("everything holds, after {} s", started.elapsed().as_secs()));
        Ok(())
    }
}

/// All tests. Whatever fails is told once more at the end, where it is found.
fn all_tests() -> Result<()> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    let mut failures = Failures::default();
    let outcome = watched("all tests", command.stdout(Stdio::piped()), |started| {
        let said = started.stdout.take().context("its output is read")?;
        for line in BufReader::new(said).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            failures.hear(&line);
        }
        Ok(())
    });
    if outcome.is_err() && !failures.told.is_empty() {
        eprintln!("──── what failed ────\n{}", failures.told.join("\n"));
    }
    outcome
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
    watched(what, command, |_| Ok(()))
}

/// A step during which something is done with the process.
fn watched(what: &str, command: &mut Command, watch: impl FnOnce(&mut Child) -> Result<()>) -> Result<()> {
    let started = Instant::now();
    say(format_args!("{what}: {}", shown(command)));
    let mut process = command.spawn().with_context(|| format!("failed to start {}", shown(command)))?;
    let watched = watch(&mut process);
    let status = process.wait().with_context(|| format!("failed to wait for {}", shown(command)))?;
    watched?;
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
