//! A steady load: a pod that asks a name fifty times a second, each time by a new connection, and a look at every answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    images,
    progress::say,
    scene::{Scene, object},
    wait::until,
};

/// How long something may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The cluster that answered; none if the request failed.
    pub(crate) cluster: Option<String>,
    /// The pod that did.
    pub(crate) pod: String,
    /// The line in the log.
    pub(crate) line: String,
}

/// A pod that asks all the time.
pub(crate) struct Load {
    bed: Arc<Bed>,
    scene: Scene,
    member: usize,
}

// === impl Load ===

impl Load {
    /// Starts it in a member, on a URL's host, and waits until enough answers came in a row.
    pub(crate) async fn start(scene: &Scene, member: usize, host: &str) -> Result<Self> {
        // A request that takes three seconds has failed; less is the machine's load. With ports taken once, each connection goes
        // where kube-proxy sends it at that time.
        let args = [
            &format!("--address={host}"),
            "--interval=20ms",
            "--duration=1h",
            "--timeout=3s",
            "--ports-once",
        ];
        let pod = json!({ "spec": { "restartPolicy": "Never", "containers": [
            { "name": "load", "image": images::REQUEST, "args": args },
        ] } });
        let this = Self { bed: scene.bed.clone(), scene: scene.clone(), member };
        scene.apply(member, [object("Pod", "load", pod)]).await?;
        scene.says(member, "Pod load", "/status/phase", "Running").await?;
        this.until("requests are answered", |answers| all_well(answers, 50)).await?;
        Ok(this)
    }

    /// What became of all requests so far.
    pub(crate) fn answers(&self) -> Result<Vec<Answer>> {
        let namespace = format!("--namespace={}", self.scene.namespace);
        let kubectl = self.bed.kubectl(&self.bed.member(self.member).name);
        let log = kubectl.run(&["logs", &namespace, "load"])?;
        Ok(log.lines().map(Answer::read).collect())
    }

    /// How many requests were made so far.
    pub(crate) fn mark(&self) -> Result<usize> {
        Ok(self.answers()?.len())
    }

    /// Waits until all answers so far are as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&[Answer]) -> Result<()>) -> Result<()> {
        until(what, PATIENCE, async || wanted(&self.answers()?)).await
    }

    /// Says how many requests failed since a mark, and gives back those that did.
    pub(crate) fn tell(&self, phase: &str, since: usize) -> Result<Vec<Answer>> {
        let answers = self.answers()?.split_off(since);
        let failed: Vec<_> = answers.iter().filter(|answer| answer.cluster.is_none()).cloned().collect();
        say(format_args!("{phase}: {} requests, {} failed{}", answers.len(), failed.len(), reasons(&failed)));
        Ok(failed)
    }

    /// The same, and fails if any did.
    pub(crate) fn none_failed(&self, phase: &str, since: usize) -> Result<()> {
        let failed = self.tell(phase, since)?;
        let lines: Vec<&str> = failed.iter().take(10).map(|answer| answer.line.as_str()).collect();
        ensure!(failed.is_empty(), "{phase}: {} requests failed:\n{}", failed.len(), lines.join("\n"));
        Ok(())
    }

    /// Ends it.
    pub(crate) async fn end(self) -> Result<()> {
        self.scene.delete(self.member, &["Pod load"]).await
    }
}

// === impl Answer ===

impl Answer {
    fn read(line: &str) -> Self {
        // A line is: day, time, what was answered.
        let said = line.splitn(3, ' ').nth(2).unwrap_or_default();
        let answer: Value = serde_json::from_str(said).unwrap_or_default();
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        Self { cluster: text("cluster"), pod: text("hostname").unwrap_or_default(), line: line.to_owned() }
    }
}

/// Why requests failed, and how many each.
fn reasons(failed: &[Answer]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in failed {
        *counts.entry(answer.line.rsplit(": ").next().unwrap_or_default()).or_default() += 1;
    }
    counts.iter().map(|(reason, count)| format!("; {count}: {reason}")).collect()
}

/// Fails unless the last so many requests were answered.
pub(crate) fn all_well(answers: &[Answer], number: usize) -> Result<()> {
    answered_by(answers, number, |_| true)
}

/// Fails unless the last so many requests were answered by the clusters that are wanted.
pub(crate) fn answered_by(answers: &[Answer], number: usize, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let last =
        answers.len().checked_sub(number).with_context(|| format!("{} requests so far", answers.len()))?;
    for answer in &answers[last..] {
        let well = answer.cluster.as_deref().is_some_and(&wanted);
        ensure!(well, "{}", answer.line);
    }
    Ok(())
}

/// How many pods answered among the last so many requests.
pub(crate) fn pods(answers: &[Answer], number: usize) -> usize {
    let last = answers.iter().rev().take(number).filter(|answer| answer.cluster.is_some());
    last.map(|answer| &answer.pod).collect::<BTreeSet<_>>().len()
}
