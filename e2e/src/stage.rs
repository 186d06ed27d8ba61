//! Where a story is played: a bed, the commands as one would type them, and what must come of each.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};

use crate::{bed::Bed, progress::say, tools::Tool, wait::until};

/// How long something may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where pods start for it, which takes seconds for each try.
const WITH_PODS: Duration = Duration::from_secs(90);
const A_MOMENT: Duration = Duration::from_secs(2);

/// A bed on which a story is played, and how far it is.
#[derive(Debug)]
pub struct Stage {
    bed: Bed,
    /// The `tombolo` command.
    tombolo: PathBuf,
    folder: PathBuf,
    step: String,
    proven: usize,
    missing: Vec<String>,
}

// === impl Stage ===

impl Stage {
    /// Sets the stage for a story; its manifests are in a folder of its number.
    pub fn new(bed: Bed, tombolo: PathBuf, story: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("stories").join(story);
        println!("\n$ export KUBECONFIG={}", bed.dir().join("all.kubeconfig").display());
        println!("$ cd e2e/stories/{story}");
        Self { bed, tombolo, folder, step: String::new(), proven: 0, missing: Vec::new() }
    }

    /// Whether pods really run here.
    pub fn has_nodes(&self) -> bool {
        self.bed.spec.nodes
    }

    /// The bed.
    pub fn bed(&self) -> &Bed {
        &self.bed
    }

    /// The step that is being played.
    pub fn current(&self) -> &str {
        &self.step
    }

    /// Begins a step, after a look at whether everything still runs.
    pub async fn step(&mut self, title: &str) -> Result<()> {
        println!("\n── {title}");
        title.clone_into(&mut self.step);
        self.bed.check()?;
        let Err(silent) = self.bed.check_tombolo().await else { return Ok(()) };
        // What dies closes its sockets a moment before the kernel says that it ended; its end says more than its silence.
        let ended = until("something ended", A_MOMENT, async || match self.bed.check() {
            Ok(()) => bail!("everything runs"),
            Err(ended) => Ok(ended),
        });
        Err(ended.await.unwrap_or(silent))
    }

    /// Runs a command as it is shown, prints what it prints, and fails if it fails.
    pub async fn run(&self, line: &str) -> Result<String> {
        let (text, ended) = self.try_run(line).await?;
        ended.map(|()| text)
    }

    /// The same, and gives back what it printed although it failed.
    pub async fn try_run(&self, line: &str) -> Result<(String, Result<()>)> {
        println!("$ {line}");
        let mut command = self.shell(line);
        let output =
            tokio::task::spawn_blocking(move || command.output()).await?.context("failed to run sh")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("{text}");
        let complaint = String::from_utf8_lossy(&output.stderr);
        print!("{complaint}");
        let ended = match output.status.success() {
            true => Ok(()),
            false => Err(anyhow!("`{line}` failed ({}): {}", output.status, complaint.trim())),
        };
        Ok((text, ended))
    }

    /// Waits until something is so, and says how long that took.
    pub async fn see<T>(&mut self, what: &str, probe: impl AsyncFnMut(&Self) -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let mut probe = probe;
        let patience = if self.has_nodes() { WITH_PODS } else { PATIENCE };
        let found = until(what, patience, async || probe(self).await).await?;
        self.proven += 1;
        say(format_args!("✓ {what} (after {} ms)", started.elapsed().as_millis()));
        Ok(found)
    }

    /// Runs a command without showing it, for a look.
    pub fn quietly(&self, line: &str) -> Result<String> {
        crate::process::run(&mut self.shell(line))
    }

    /// Says what the story has next and cannot be shown here.
    pub fn left_out(&mut self, what: &str) {
        println!("   left out: {what}");
        self.missing.push(what.to_owned());
    }

    /// Says what was shown, and gives the bed back.
    pub fn end(self) -> Bed {
        println!();
        say(format_args!("{} results were checked and hold", self.proven));
        if !self.missing.is_empty() {
            say(format_args!("left out: {}", self.missing.join("; ")));
        }
        self.bed
    }

    fn shell(&self, line: &str) -> Command {
        let kubectl = self.bed.tools.path(Tool::Kubectl);
        let programs = [kubectl.parent(), self.tombolo.parent()].into_iter().flatten();
        let mut path: OsString = programs.flat_map(|folder| [folder.as_os_str(), OsStr::new(":")]).collect();
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.folder);
        command.env("PATH", path).env("KUBECONFIG", self.bed.dir().join("all.kubeconfig"));
        command
    }
}
