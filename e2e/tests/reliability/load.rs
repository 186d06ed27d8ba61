//! A steady load: a pod that asks a name fifty times a second, whatever became of the requests before, each time by a new connection,
//! and a look at every answer.

use std::{
    cell::{Ref, RefCell},
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_e2e::{
    images,
    process::{self, Process},
    progress::say,
    scene::{Scene, object},
    wait::until,
};

/// How long something may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Which it was.
    number: usize,
    /// When it was made.
    pub(crate) due: Timestamp,
    /// When it was told.
    pub(crate) at: Timestamp,
    /// The cluster that answered; none if the request failed.
    pub(crate) cluster: Option<String>,
    /// The pod that did.
    pub(crate) pod: String,
    /// The line in the log.
    pub(crate) line: String,
}

/// A pod that asks all the time.
pub(crate) struct Load {
    scene: Scene,
    member: usize,
    log: RefCell<Log>,
}

/// What the pod printed so far: one kubectl follows it into a file, and only what is new there is read.
struct Log {
    file: PathBuf,
    follower: Option<Process>,
    /// How many bytes of the file were read.
    read: u64,
    /// In the order of the requests, up to the first of which nothing is told yet.
    answers: Vec<Answer>,
    /// What was told of those after it.
    early: BTreeMap<usize, Answer>,
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
            "--steady",
            "--ports-once",
        ];
        // A lookup is one of the whole name, and asks again after a second: a datagram may get lost on a busy machine.
        let options = json!([
            { "name": "ndots", "value": "1" }, { "name": "timeout", "value": "1" }, { "name": "attempts", "value": "3" },
        ]);
        let pod = json!({ "spec": { "restartPolicy": "Never", "dnsConfig": { "options": options }, "containers": [
            { "name": "load", "image": images::REQUEST, "args": args },
        ] } });
        let file = scene.bed.dir().join(format!("logs/load-{}.log", scene.namespace));
        let log = Log { file, follower: None, read: 0, answers: Vec::new(), early: BTreeMap::new() };
        let this = Self { scene: scene.clone(), member, log: RefCell::new(log) };
        // No pod is admitted before.
        scene.arrives(&[member], "ServiceAccount default").await?;
        scene.apply(member, [object("Pod", "load", pod)]).await?;
        scene.says(member, "Pod load", "/status/phase", "Running").await?;
        this.until("requests are answered", |answers| all_well(answers, 50)).await?;
        Ok(this)
    }

    /// What became of all requests so far, in their order, up to the first that still waits.
    pub(crate) fn answers(&self) -> Result<Vec<Answer>> {
        Ok(self.look()?.to_vec())
    }

    fn look(&self) -> Result<Ref<'_, [Answer]>> {
        let mut log = self.log.borrow_mut();
        if log.follower.as_mut().is_none_or(|follower| follower.ended().is_some()) {
            self.follow(&mut log)?;
        }
        log.read_on()?;
        drop(log);
        Ok(Ref::map(self.log.borrow(), |log| &*log.answers))
    }

    /// Has the log followed from its beginning.
    fn follow(&self, log: &mut Log) -> Result<()> {
        let (bed, namespace) = (&self.scene.bed, format!("--namespace={}", self.scene.namespace));
        let kubectl = bed.kubectl(&bed.member(self.member).name);
        let _ = fs::remove_file(&log.file);
        let command = kubectl.command(&["logs", "--follow", "--timestamps", &namespace, "load"]);
        log.follower = Some(process::spawn("the follower of the load", &log.file, command)?);
        log.read = 0;
        Ok(())
    }

    /// The first request of which nothing is told yet.
    pub(crate) fn mark(&self) -> Result<usize> {
        Ok(self.look()?.len())
    }

    /// Waits until all answers so far are as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&[Answer]) -> Result<()>) -> Result<()> {
        until(what, PATIENCE, async || wanted(&self.look()?)).await
    }

    /// Says how many requests failed from a mark until now, and gives back those that did.
    pub(crate) async fn tell(&self, phase: &str, since: usize) -> Result<Vec<Answer>> {
        let now = Timestamp::now();
        self.until("what became of the requests so far is known", |answers| {
            let last = answers.last().context("there are none")?;
            ensure!(last.due >= now, "the last was made at {}, before {now}", last.due);
            Ok(())
        })
        .await?;
        let looked = self.look()?;
        let answers = &looked[since..];
        let failed: Vec<_> = answers.iter().filter(|answer| answer.cluster.is_none()).cloned().collect();
        // As a row of the table in docs/reliability.md.
        let count = if failed.is_empty() { "**0**".to_owned() } else { failed.len().to_string() };
        say(format_args!("| {phase} | {} | {count} | {} |", answers.len(), reasons(&failed)));
        Ok(failed)
    }

    /// The same, and fails if any did.
    pub(crate) async fn none_failed(&self, phase: &str, since: usize) -> Result<()> {
        let failed = self.tell(phase, since).await?;
        let lines: Vec<&str> = failed.iter().take(10).map(|answer| answer.line.as_str()).collect();
        ensure!(failed.is_empty(), "{phase}: {} requests failed:\n{}", failed.len(), lines.join("\n"));
        Ok(())
    }

    /// Ends it.
    pub(crate) async fn end(self) -> Result<()> {
        self.scene.delete(self.member, &["Pod load"]).await
    }
}

// === impl Log ===

impl Log {
    /// Reads the whole lines that are new, but for those that an earlier follower had told already.
    fn read_on(&mut self) -> Result<()> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        new.truncate(new.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
        self.read += new.len() as u64;
        for answer in String::from_utf8_lossy(&new).lines().filter_map(Answer::read) {
            if answer.number >= self.answers.len() {
                self.early.insert(answer.number, answer);
            }
        }
        while let Some(next) = self.early.remove(&self.answers.len()) {
            self.answers.push(next);
        }
        Ok(())
    }
}

// === impl Answer ===

impl Answer {
    /// None for a line that is not the pod's, but kubectl's own.
    fn read(line: &str) -> Option<Self> {
        // A line is: the time when it was told, day and second, number, the time when it was due, what was answered.
        let [at, _, _, number, due, said] = line.splitn(6, ' ').collect::<Vec<_>>().try_into().ok()?;
        let (at, number, due) = (at.parse().ok()?, number.parse().ok()?, due.parse().ok()?);
        let answer: Value = serde_json::from_str(said).unwrap_or_default();
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        let pod = text("hostname").unwrap_or_default();
        Some(Self { number, due, at, cluster: text("cluster"), pod, line: line.to_owned() })
    }
}

/// Why requests failed, and how many each.
fn reasons(failed: &[Answer]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in failed {
        *counts.entry(answer.line.rsplit(": ").next().unwrap_or_default()).or_default() += 1;
    }
    counts.iter().map(|(reason, count)| format!("{count}: {reason}")).collect::<Vec<_>>().join("; ")
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
