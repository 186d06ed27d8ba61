//! Every command in README.md and docs/quick-start.md is run as it is written, and prints what is shown.
//!
//! A document has one shell, which goes through its ```` ```console ```` blocks from the first to the last. A command that fails, and
//! output that is not as shown, fail the test, which names file and line. What counts as the same output: `transcript::shown`, in short
//! `…` stands for anything, durations and addresses are as good as others. Commands that only look (`kubectl get`, a request by
//! `kubectl run --rm`, `tombolo status`, `explain`, `check`) are run again for a while until they show it. Comments before a block
//! (`<!-- test: … -->`) say what is to be there before, that its last command has to fail, or that all of it is what one command prints.
//!
//! The README's few commands that are not run here are in [`ELSEWHERE`], with who runs them. `cargo bed` and `cargo demo` are the
//! programs that these aliases would build, in a folder of the test's own.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tombolo_e2e::{
    bed::{Bed, Spec},
    kubeconfig,
    suite::{self, Needs},
    tombolo,
    tools::{Tool, Tools},
    transcript::{self, Block, Note, Shell, blocks, shown},
    wait::{Final, until},
};

const README: &str = "README.md";
const QUICK_START: &str = "docs/quick-start.md";
/// How long a look may take until it shows what it is to show.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands of the README that others run: the command, and a file with a line of it that shows so.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    // It does not end by itself. The same with --once is run there, and what it prints is compared here.
    ("cargo demo", "e2e/tests/demo.rs", r#"("story_004_plays_to_its_end","#),
    // It runs this very test.
    ("cargo verify", ".ci/run", "exec cargo verify"),
    // Of a demo with nodes, as the README says.
    (
        "kubectl --context member2 run -i --rm --restart=Never --image=jeremyot/request:0a40de8 request -- --duration=3s --address=10.66.24.18",
        "e2e/tests/demo.rs",
        r#"("all_stories_play_to_their_ends_with_real_pods","#,
    ),
    (
        "helm install tombolo-hub charts/tombolo-hub --kube-context hub --namespace tombolo-system --create-namespace --wait",
        QUICK_START,
        "$ helm install tombolo-hub charts/tombolo-hub --kube-context hub --namespace tombolo-system --create-namespace --wait",
    ),
    (
        "tombolo join member1 --context member1 --hub-context hub",
        QUICK_START,
        "$ tombolo join member1 --context member1 --hub-context hub",
    ),
];

fn main() -> ExitCode {
    suite::run_one_by_one(vec![
        (
            "what_the_readme_leaves_to_others_they_do",
            Needs::Nothing,
            what_the_readme_leaves_to_others_they_do,
        ),
        ("every_command_of_the_readme_works_as_it_is_written", Needs::Nothing, || {
            suite::on_its_own_bed("readme", Spec::api(2).joined(), readme)
        }),
        ("cargo_demo_prints_what_the_readme_shows", Needs::Nothing, cargo_demo_prints_what_the_readme_shows),
        ("every_command_of_the_quick_start_works_as_it_is_written", Needs::Root, || {
            suite::on_its_own_bed("quick-start", Spec::nodes(2).hosting().bare(), quick_start)
        }),
    ])
}

/// A document, with the shell that goes through it.
struct Reader {
    name: &'static str,
    blocks: Vec<Block>,
    shell: Shell,
    /// Where it is, for as long as it reads.
    _folder: Folder,
}

/// A folder that looks to a shell as a checkout does, gone with the test.
struct Folder(PathBuf);

// === impl Folder ===

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let folder = Self(env::temp_dir().join(format!("tombolo-docs-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0)?;
        for entry in ["charts", "e2e"] {
            symlink(root().join(entry), folder.0.join(entry))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let bed = self.0.join("target/bed");
        if bed.exists() {
            let _ = Command::new(env!("CARGO_BIN_EXE_bed")).arg("down").arg("--dir").arg(bed).output();
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

// === impl Reader ===

impl Reader {
    /// Opens a document, for a shell that finds clusters by a kubeconfig.
    fn open(name: &'static str, kubeconfig: &Path) -> Result<Self> {
        let blocks = blocks(&read(name)?).with_context(|| name.to_owned())?;
        let folder = Folder::new(&name.replace('/', "-"))?;
        let tools = Tools::provide(&[Tool::Kubectl, Tool::Helm])?;
        let programs = [tools.path(Tool::Kubectl), tools.path(Tool::Helm), &tombolo::binary()?];
        let programs = programs.iter().filter_map(|program| program.parent().map(Path::to_owned));
        let found = env::var_os("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.current_dir(&folder.0).env("KUBECONFIG", kubeconfig);
        bash.env("PATH", env::join_paths(programs.chain(env::split_paths(&found)))?);
        bash.env("KUBECACHEDIR", folder.0.join(".kube"));
        for kind in ["CACHE", "CONFIG", "DATA"] {
            bash.env(format!("HELM_{kind}_HOME"), folder.0.join(".helm").join(kind));
        }
        bash.env("bed", env!("CARGO_BIN_EXE_bed")).env("demo", env!("CARGO_BIN_EXE_demo"));
        let mut shell = Shell::start(bash)?;
        shell.run(
            r#"cargo() { case $1 in bed|demo) "${!1}" "${@:2}" ;; *) echo "cargo $1: not here"; false ;; esac; }"#,
        )?;
        Ok(Self { name, blocks, shell, _folder: folder })
    }

    /// Runs every command but those that others run.
    async fn read(&mut self, others: &[&str]) -> Result<()> {
        let mut count = 0;
        for block in self.blocks.clone() {
            match &block.note {
                Some(Note::OutputOf(_)) => continue,
                Some(Note::Given(file)) => self.done(&format!("kubectl apply -f {file}"))?,
                Some(Note::Fails) | None => {}
            }
            let commands = block.commands().with_context(|| self.name)?;
            ensure!(!commands.is_empty(), "{}:{}: there is no command", self.name, block.line);
            for (place, command) in commands.iter().enumerate() {
                if others.contains(&command.text.as_str()) {
                    continue;
                }
                let fails = block.note == Some(Note::Fails) && place + 1 == commands.len();
                self.follow(command, fails)
                    .await
                    .with_context(|| format!("{}:{}: $ {}", self.name, command.line, command.text))?;
                count += 1;
            }
        }
        ensure!(count > 0, "{} has no command", self.name);
        eprintln!("{}: {count} commands were run", self.name);
        Ok(())
    }

    async fn follow(&mut self, command: &transcript::Command, fails: bool) -> Result<()> {
        if !command.looks() {
            return self.once(command, fails);
        }
        until("it shows what it is to show", PATIENCE, async || self.once(command, fails)).await
    }

    fn once(&mut self, command: &transcript::Command, fails: bool) -> Result<()> {
        let ended = self.shell.run(&command.text).map_err(|e| Final(format!("{e:#}")))?;
        eprintln!("$ {}\n{}", command.text, ended.printed.trim_end());
        match (ended.well, fails) {
            (false, false) => bail!("it failed:\n{}", ended.printed),
            (true, true) => bail!("it did not fail:\n{}", ended.printed),
            _ => {}
        }
        if command.output.is_empty() { Ok(()) } else { same(&command.output, &ended.printed) }
    }

    fn done(&mut self, line: &str) -> Result<()> {
        let ended = self.shell.run(line)?;
        ensure!(ended.well, "{line}: {}", ended.printed);
        Ok(())
    }
}

/// What admission may warn of that is no more: of what was deleted just before it may not have heard.
const LATE: &str = "Warning: stays in ";

/// Fails, with both, if what was printed is not what is shown.
fn same(shown: &[String], printed: &str) -> Result<()> {
    let expected = shown.iter().any(|line| line.starts_with(LATE));
    let lines = printed.lines().filter(|line| expected || !line.starts_with(LATE));
    let heard = lines.collect::<Vec<_>>().join("\n");
    shown::compare(shown, &heard).map_err(|mismatch| {
        let line = shown.get(mismatch.line).map_or("(what comes after it)", String::as_str);
        anyhow::anyhow!("what is shown as\n{line}\nis not in what was printed:\n{printed}")
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).with_context(|| format!("failed to read {name}"))
}

fn what_the_readme_leaves_to_others_they_do() -> Result<()> {
    let mut commands = Vec::new();
    for block in blocks(&read(README)?)? {
        if !matches!(block.note, Some(Note::OutputOf(_))) {
            commands.extend(block.commands()?.into_iter().map(|command| command.text));
        }
    }
    for (command, file, line) in ELSEWHERE {
        ensure!(commands.iter().any(|found| found == command), "the README has no `{command}` any more");
        ensure!(
            read(file)?.contains(line),
            "{file} does not run `{command}` any more: {line:?} is not in it"
        );
    }
    Ok(())
}

async fn readme(bed: Arc<Bed>) -> Result<()> {
    let others: Vec<&str> = ELSEWHERE.iter().map(|(command, ..)| *command).collect();
    let mut reader = Reader::open(README, &bed.dir().join("all.kubeconfig"))?;
    reader.read(&others).await
}

fn cargo_demo_prints_what_the_readme_shows() -> Result<()> {
    let mut reader = Reader::open(README, Path::new("none"))?;
    let mut compared = 0;
    for block in reader.blocks.clone() {
        let Some(Note::OutputOf(command)) = &block.note else {
            continue;
        };
        let ended = reader.shell.run(command)?;
        let place = format!("{README}:{}: $ {command}", block.line);
        ensure!(ended.well, "{place}: it failed:\n{}", ended.printed);
        same(&block.lines, &ended.printed).context(place)?;
        compared += 1;
    }
    ensure!(compared > 0, "the README shows nothing of it any more");
    Ok(())
}

/// The host cluster of the bed is the hub here, which runs in its own cluster; the hub of the bed is not used.
async fn quick_start(bed: Arc<Bed>) -> Result<()> {
    let mut hub = bed.host.as_ref().context("there is a cluster for the hub")?.admin.clone();
    hub.name = "hub".to_owned();
    let members = bed.members.iter().map(|member| member.admin.clone());
    let all: Vec<_> = std::iter::once(hub).chain(members).collect();
    let kubeconfig = bed.dir().join("state/quick-start.kubeconfig");
    kubeconfig::save(&kubeconfig, &all)?;
    let mut reader = Reader::open(QUICK_START, &kubeconfig)?;
    reader.read(&[]).await?;
    // It ends as it says: nothing of Tombolo runs any more, and nobody refuses anything.
    for cluster in ["hub", "member1", "member2"] {
        let kinds = "deployments,services,validatingwebhookconfigurations,mutatingwebhookconfigurations";
        let left =
            format!("kubectl --context {cluster} get {kinds} -A -o name | grep -e tombolo -e derived-");
        let left = reader.shell.run(&left)?;
        ensure!(left.printed.is_empty(), "in {cluster} there is still {}", left.printed);
    }
    Ok(())
}
