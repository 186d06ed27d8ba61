//! `cargo bed` as a user runs it: up, status, logs, kubectl, down; and what is left on the machine afterwards.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tombolo_e2e::{
    bed::Spec,
    process::{Identity, run},
    record::Record,
    suite::{self, Needs},
    tools::{Tool, Tools},
};

fn main() -> ExitCode {
    suite::run_one_by_one(vec![
        ("up_returns_when_ready_and_down_leaves_nothing", Needs::Nothing, || up_and_down(&[], 30)),
        ("after_a_sigkill_nothing_outlives_the_bed_and_the_next_up_cleans_up", Needs::Nothing, || {
            sigkill(&[])
        }),
        ("one_folder_holds_one_bed", Needs::Nothing, one_folder_holds_one_bed),
        (
            "a_folder_without_a_bed_is_said_to_have_none",
            Needs::Nothing,
            a_folder_without_a_bed_is_said_to_have_none,
        ),
        ("what_a_user_put_into_the_folder_stays", Needs::Nothing, what_a_user_put_into_the_folder_stays),
        ("without_root_a_bed_without_nodes_starts", Needs::Root, without_root_a_bed_without_nodes_starts),
        (
            "without_root_nodes_are_refused_in_one_sentence",
            Needs::Root,
            without_root_nodes_are_refused_in_one_sentence,
        ),
        ("with_nodes_up_returns_when_ready_and_down_leaves_nothing", Needs::Root, || {
            up_and_down(&["--nodes"], 90)
        }),
        ("with_nodes_nothing_outlives_the_bed_after_a_sigkill", Needs::Root, || sigkill(&["--nodes"])),
        (
            "a_conformance_suite_gets_two_joined_members_and_its_report_and_end_are_told",
            Needs::Root,
            conformance,
        ),
    ])
}

/// A folder for a bed, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("bed-command-{}-{name}", std::process::id())))
    }

    fn bed(&self, action: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bed"));
        command.arg(action).args(arguments).arg("--dir").arg(&self.0);
        command
    }

    fn up(&self, arguments: &[&str]) -> Result<()> {
        run(self.bed("up", &["--bare", "--members", "2"]).args(arguments)).map(drop)
    }

    fn record(&self) -> Result<Record> {
        Record::find(&self.0)?.context("there is no record")
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        run(self.bed("kubectl", &[]).arg("--").args(arguments))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.bed("down", &[]).output();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a bed could leave behind on a machine, but for processes.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    mounts: BTreeSet<String>,
    links: BTreeSet<String>,
    routes: BTreeSet<String>,
    network_namespaces: BTreeSet<String>,
    control_groups: BTreeSet<PathBuf>,
    records: BTreeSet<PathBuf>,
}

impl Machine {
    fn look() -> Result<Self> {
        let lines = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
        let ip = |arguments: &[&str]| run(Command::new("ip").args(arguments)).map(lines);
        let mut control_groups = BTreeSet::new();
        groups(Path::new("/sys/fs/cgroup"), &mut control_groups);
        // Whatever else runs on the machine has groups that come and go.
        let ours = |group: &PathBuf| {
            ["tombolo", "k8s.io", "kubepods"].iter().any(|own| group.to_string_lossy().contains(own))
        };
        control_groups.retain(ours);
        let beds = std::env::temp_dir().join(format!("tombolo-beds-{}", rustix::process::getuid().as_raw()));
        let records = fs::read_dir(beds).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        Ok(Self {
            mounts: lines(fs::read_to_string("/proc/self/mounts")?),
            links: ip(&["-brief", "link"])?
                .iter()
                .filter_map(|l| Some(l.split_whitespace().next()?.to_owned()))
                .collect(),
            routes: ip(&["-4", "route"])?.union(&ip(&["-6", "route"])?).cloned().collect(),
            network_namespaces: lines(run(Command::new("lsns").args(["-t", "net", "-n", "-o", "NS"]))?),
            control_groups,
            records: records.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect(),
        })
    }
}

fn groups(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.insert(entry.path());
            groups(&entry.path(), found);
        }
    }
}

/// A process and everything that it started, and they, and so on.
fn family(of: u32) -> Vec<Identity> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let mut family = vec![of];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family.into_iter().filter_map(Identity::of).collect()
}

/// Looks until nothing is wrong; the kernel takes namespaces apart in the background.
fn eventually(mut look: impl FnMut() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match look() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
}

fn all_gone(family: &[Identity]) -> Result<()> {
    let left: Vec<_> = family.iter().filter(|one| one.is_alive()).map(|one| one.pid).collect();
    ensure!(left.is_empty(), "these processes of the bed are still there: {left:?}");
    Ok(())
}

fn nothing_left(before: &Machine, family: &[Identity]) -> Result<()> {
    eventually(|| {
        all_gone(family)?;
        let now = Machine::look()?;
        ensure!(
            now.mounts == before.mounts,
            "mounts changed: {:?}",
            now.mounts.symmetric_difference(&before.mounts)
        );
        ensure!(
            now.links == before.links,
            "links changed: {:?}",
            now.links.symmetric_difference(&before.links)
        );
        ensure!(now == *before, "left behind: before {before:#?}\nnow {now:#?}");
        Ok(())
    })
}

/// Something to leave behind: a pod that runs, where there are nodes.
fn busy(folder: &Folder, flags: &[&str]) -> Result<Vec<Identity>> {
    if flags.contains(&"--nodes") {
        for member in ["member1", "member2"] {
            folder.kubectl(&[
                "--context",
                member,
                "create",
                "deployment",
                "echo",
                "--image=tombolo.dev/echo:1",
            ])?;
            folder.kubectl(&[
                "--context",
                member,
                "rollout",
                "status",
                "deployment/echo",
                "--timeout=180s",
            ])?;
        }
    }
    let family = family(folder.record()?.owner.pid);
    let expected = if flags.contains(&"--nodes") { 30 } else { 8 };
    ensure!(family.len() >= expected, "a bed has more than {} processes", family.len());
    Ok(family)
}

fn up_and_down(flags: &[&str], limit: u64) -> Result<()> {
    // What takes minutes the first time is not what is measured.
    Spec { nodes: flags.contains(&"--nodes"), ..Spec::api(2) }.provide()?;
    let before = Machine::look()?;
    let folder = Folder::new("up-and-down");
    let limit = Duration::from_secs(limit);
    let up = || -> Result<Duration> {
        let started = Instant::now();
        folder.up(flags)?;
        eprintln!("bed up {flags:?} took {:.1?}", started.elapsed());
        Ok(started.elapsed())
    };
    let mut took = up()?;
    // A machine that something else kept busy the first time gets a second.
    if took >= limit {
        run(&mut folder.bed("down", &[]))?;
        took = took.min(up()?);
    }
    ensure!(took < limit, "up took {took:.1?}");
    for name in
        ["hub.kubeconfig", "member1.kubeconfig", "member2.kubeconfig", "all.kubeconfig", "members.config"]
    {
        ensure!(folder.0.join(name).is_file(), "{name} is missing");
    }
    let status = run(&mut folder.bed("status", &[]))?;
    ensure!(status.starts_with("ready in ") && status.contains("member2/kube-apiserver"), "{status}");
    ensure!(
        run(&mut folder.bed("logs", &[]))?.contains("hub/kube-controller-manager"),
        "logs lists no names"
    );
    let log = run(&mut folder.bed("logs", &["hub/kube-apiserver"]))?;
    ensure!(log.contains("Serving securely"), "this is not the log of an API server: {log}");
    for context in ["hub", "member1", "member2"] {
        let version = folder.kubectl(&["--context", context, "version"])?;
        ensure!(version.contains("Server Version: v1.36.4"), "{context}: {version}");
    }
    let family = busy(&folder, flags)?;
    run(&mut folder.bed("down", &[]))?;
    ensure!(!folder.0.exists(), "{} is still there", folder.0.display());
    nothing_left(&before, &family)
}

fn sigkill(flags: &[&str]) -> Result<()> {
    let before = Machine::look()?;
    let folder = Folder::new("sigkill");
    folder.up(flags)?;
    let family = busy(&folder, flags)?;
    let first = folder.record()?;
    first.owner.signal(Signal::KILL);
    eventually(|| all_gone(&family))?;
    let status = run(&mut folder.bed("status", &[])).err().context("a dead bed has no status")?;
    ensure!(format!("{status:#}").contains("has ended: `cargo bed down --dir"), "{status:#}");

    folder.up(flags)?;
    ensure!(folder.record()?.id != first.id, "the record is the dead bed's");
    folder.kubectl(&["--context", "member1", "get", "namespaces"])?;
    let second = busy(&folder, flags)?;
    folder.record()?.owner.signal(Signal::KILL);
    eventually(|| all_gone(&second))?;
    run(&mut folder.bed("down", &[]))?;
    ensure!(!folder.0.exists(), "{} is still there", folder.0.display());
    nothing_left(&before, &[family, second].concat())
}

fn one_folder_holds_one_bed() -> Result<()> {
    let folder = Folder::new("one");
    run(&mut folder.bed("up", &["--bare", "--members", "0"]))?;
    let refused =
        run(&mut folder.bed("up", &["--bare", "--members", "0"])).err().context("a second bed started")?;
    ensure!(format!("{refused:#}").contains("a bed is running in"), "{refused:#}");
    folder.kubectl(&["--context", "hub", "get", "namespaces"])?;
    Ok(())
}

fn a_folder_without_a_bed_is_said_to_have_none() -> Result<()> {
    let folder = Folder::new("none");
    for action in ["status", "kubectl"] {
        let refused = run(&mut folder.bed(action, &[])).err().context("there is no bed")?;
        ensure!(format!("{refused:#}").contains("`cargo bed up --dir"), "{action}: {refused:#}");
    }
    run(&mut folder.bed("down", &[])).map(drop)
}

fn what_a_user_put_into_the_folder_stays() -> Result<()> {
    let folder = Folder::new("mine");
    fs::create_dir_all(&folder.0)?;
    fs::write(folder.0.join("notes.txt"), "mine")?;
    run(&mut folder.bed("up", &["--bare", "--members", "0"]))?;
    fs::write(folder.0.join("more.yaml"), "mine too")?;
    run(&mut folder.bed("down", &[]))?;
    let left: BTreeSet<_> =
        fs::read_dir(&folder.0)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    ensure!(left == BTreeSet::from(["notes.txt".to_owned(), "more.yaml".to_owned()]), "left: {left:?}");
    Ok(())
}

/// The same command without any privilege: in a user namespace where this user is not root.
fn unprivileged(command: &Command) -> Command {
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--user", "--map-user=1000", "--map-group=1000", "--"]);
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}

fn without_root_a_bed_without_nodes_starts() -> Result<()> {
    let folder = Folder::new("no-root");
    let run_as_user = |command: &Command| run(&mut unprivileged(command));
    run_as_user(&folder.bed("up", &["--bare", "--members", "1"]))?;
    let mut kubectl = folder.bed("kubectl", &[]);
    let version = run_as_user(kubectl.args(["--", "--context", "member1", "version"]))?;
    ensure!(version.contains("Server Version"), "{version}");
    run_as_user(&folder.bed("down", &[])).map(drop)
}

fn without_root_nodes_are_refused_in_one_sentence() -> Result<()> {
    let folder = Folder::new("no-nodes");
    let refused = run(&mut unprivileged(&folder.bed("up", &["--nodes"]))).err().context("it started")?;
    ensure!(format!("{refused:#}").contains("nodes need root"), "{refused:#}");
    Ok(())
}

/// What stands in for a compiled suite: it fails unless both contexts answer and have the API, and leaves a report as the real one does.
const SUITE: &str = r#"#!/bin/sh
set -eu
for flag; do case $flag in
  --kubeconfig=*) config=${flag#*=} ;;
  --contexts=*) contexts=${flag#*=} ;;
  --fail) failed=1 ;;
esac; done
test "$contexts" = member1,member2
for context in member1 member2; do
  "$KUBECTL" --kubeconfig "$config" --context "$context" get serviceexports,deployments --all-namespaces > "$context"
done
echo page > report.html
printf 'passed: %s\ntotal: 27\n' $((27 - ${failed:-0})) > report.yaml
exit $((${failed:-0} * 3))
"#;

fn conformance() -> Result<()> {
    let folder = Folder::new("conformance");
    fs::create_dir_all(&folder.0)?;
    let suite = folder.0.join("suite");
    fs::write(&suite, SUITE)?;
    fs::set_permissions(&suite, fs::Permissions::from_mode(0o755))?;
    let kubectl = Tools::provide(&[Tool::Kubectl])?.path(Tool::Kubectl).to_owned();
    // It does all that one does whose specs all pass, whose end is among the tests of `conformance`.
    let mut command = Command::new(env!("CARGO_BIN_EXE_bed"));
    command.args(["conformance", "--suite"]).arg(&suite).arg("--reports").arg(folder.0.join("reports"));
    let ended = command.args(["--", "--fail"]).env("KUBECTL", &kubectl).output()?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.code() == Some(3), "it ended with {}: {said}", ended.status);
    ensure!(said.contains("26 of 27 specs passed"), "{said}");
    ensure!(folder.0.join("reports/report.html").is_file(), "the report was not kept: {said}");
    Ok(())
}
