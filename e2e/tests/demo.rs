//! `cargo demo`: every story plays to its end, and fails when it must.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tombolo_e2e::{
    kubectl::Kubectl,
    process::{Identity, run},
    record::{self, Record},
    suite::{self, Needs},
    tools::{Tool, Tools},
};

fn main() -> ExitCode {
    suite::run_one_by_one(vec![
        ("story_000_plays_to_its_end", Needs::Nothing, || plays(&["--story=000"], &["000"])),
        ("story_002_plays_to_its_end", Needs::Nothing, || plays(&["--story=002"], &["002"])),
        ("story_004_plays_to_its_end", Needs::Nothing, || plays(&[], &["004"])),
        ("all_stories_play_to_their_ends_with_real_pods", Needs::Root, || {
            plays(&["--nodes"], &["000", "002", "004"])
        }),
        ("it_fails_and_names_the_step_when_an_agent_dies_half_way", Needs::Nothing, an_agent_dies),
        (
            "it_fails_and_names_the_step_when_a_policy_is_deleted_half_way",
            Needs::Nothing,
            a_policy_is_deleted,
        ),
    ])
}

fn demo(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.arg("--once").args(flags);
    command
}

fn plays(flags: &[&str], stories: &[&str]) -> Result<()> {
    let shown = run(&mut demo(flags))?;
    let told: Vec<&str> =
        shown.lines().filter_map(|line| line.strip_prefix("$ cd e2e/stories/")).map(str::trim).collect();
    ensure!(told == stories, "told were {told:?}, not {stories:?}: {shown}");
    Ok(())
}

/// Plays story 004, stops the demo when it prints a line, does something to its bed, lets it go on, and gives back what it
/// complained about; it must fail.
fn sabotage(at: &str, act: impl FnOnce(&Record) -> Result<()>) -> Result<String> {
    let mut demo = demo(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let identity = Identity::of(demo.id()).context("the demo runs")?;
    let mut shown = BufReader::new(demo.stdout.take().context("its output is piped")?).lines();
    let found = shown.find(|line| line.as_ref().map_or(true, |line| line.starts_with(at)));
    found.with_context(|| format!("the demo never came to {at:?}"))??;
    identity.signal(Signal::STOP);
    let acted = record::living()?
        .iter()
        .find(|bed| bed.owner == identity)
        .context("the demo has no bed")
        .and_then(act);
    identity.signal(Signal::CONT);
    shown.for_each(drop);
    let mut complaint = String::new();
    demo.stderr.take().context("its complaints are piped")?.read_to_string(&mut complaint)?;
    let status = demo.wait()?;
    acted?;
    ensure!(!status.success(), "it ended well all the same:\n{complaint}");
    Ok(complaint)
}

fn an_agent_dies() -> Result<()> {
    let complaint = sabotage("── Step 1", |bed| {
        let agent = bed.processes.iter().find(|process| process.name == "member2/tombolo-agent");
        agent.context("there is no agent")?.identity.signal(Signal::KILL);
        Ok(())
    })?;
    ensure!(complaint.contains("step \"Step "), "no step is named: {complaint}");
    ensure!(complaint.contains("member2/tombolo-agent ended"), "the agent is not named: {complaint}");
    Ok(())
}

fn a_policy_is_deleted() -> Result<()> {
    let complaint = sabotage("── Step 2", |bed| {
        let tools = Tools::provide(&[Tool::Kubectl])?;
        let hub = Kubectl::new(tools.path(Tool::Kubectl), bed.dir.join("hub.kubeconfig"));
        hub.run(&["delete", "propagationpolicy", "mcs-workload"]).map(drop)
    })?;
    ensure!(
        complaint.contains("step \"Everything that was applied is still there"),
        "no step is named: {complaint}"
    );
    ensure!(complaint.contains("mcs-workload"), "the policy is not named: {complaint}");
    Ok(())
}
