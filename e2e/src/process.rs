//! Child processes that never outlive the process that started them.
//!
//! [`spawn`] starts a program under `setpriv --pdeathsig KILL`: whatever ends the owner, the kernel ends the child, even
//! after a SIGKILL. The signal is bound to the *thread* that forks, so one thread that lives as long as the process does
//! all the forking.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{LazyLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::Final;

/// A running program with its log.
#[derive(Debug)]
pub struct Process {
    /// What it is, such as `member1/kubelet`.
    pub name: String,
    /// Where its output goes.
    pub log: PathBuf,
    child: Child,
}

/// Identifies a process for good: numbers are reused, a number with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// The process number.
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
}

type Order = (Command, mpsc::SyncSender<std::io::Result<Child>>);

static FORKER: LazyLock<mpsc::SyncSender<Order>> = LazyLock::new(|| {
    let (orders, inbox) = mpsc::sync_channel::<Order>(0);
    thread::Builder::new()
        .name("forker".to_owned())
        .spawn(move || {
            for (mut command, reply) in inbox {
                // A caller that went away takes its child with it.
                if let Err(mpsc::SendError(Ok(mut orphan))) = reply.send(command.spawn()) {
                    let _ = orphan.kill();
                    let _ = orphan.wait();
                }
            }
        })
        .expect("a process can start a thread");
    orders
});

// === impl Process ===

impl Process {
    /// The process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Fails with the end of the log if the process is not running any more.
    pub fn check(&mut self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => {
                let end = tail(&self.log, 30);
                Err(Final(format!(
                    "{} ended ({status}); the end of {}:\n{end}",
                    self.name,
                    self.log.display()
                ))
                .into())
            }
        }
    }

    /// Ends it at once and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

// === impl Identity ===

impl Identity {
    /// The process that runs this code.
    pub fn own() -> Self {
        Self::of(std::process::id()).expect("a process that runs has a start time")
    }

    /// The process that has a number now.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: start_time(pid)? })
    }

    /// Whether that very process still runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// Sends a signal to that very process. One that is told to stop has stopped then.
    pub fn signal(self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| self.is_alive()) {
            let _ = kill_process(pid, signal);
        }
        // Threads stop one after the other, and one that still runs may answer a request that is sent now.
        let patience = Instant::now() + Duration::from_secs(5);
        while signal == Signal::STOP && self.is_alive() && !is_stopped(self.pid) && Instant::now() < patience
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().next());
        state.is_none_or(|state| ["T", "Z", "X"].contains(&state))
    })
}

/// When a process started, in clock ticks since boot; nothing for one that is gone or a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything; the fields after it are state (3rd) … starttime (22nd).
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Starts a program with its output in a log file; it ends with this process.
pub fn spawn(name: &str, log: &Path, mut command: Command) -> Result<Process> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    }
    let out = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("failed to open {}", log.display()))?;
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    command = wrapped;
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone().context("failed to share a log file")?)
        .stderr(out)
        // Ctrl-C is for the owner, which ends its children in order.
        .process_group(0);
    let (reply, answer) = mpsc::sync_channel(1);
    FORKER.send((command, reply)).map_err(|_| anyhow!("the thread that starts processes is gone"))?;
    let child =
        answer.recv().map_err(|_| anyhow!("the thread that starts processes is gone"))?.with_context(
            || format!("failed to start {name}: is setpriv (Debian package util-linux) installed?"),
        )?;
    Ok(Process { name: name.to_owned(), log: log.to_owned(), child })
}

/// Runs a short command and gives back its output; its error text is in the error.
pub fn run(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("failed to run {command:?}"))?;
    said(command, &output)
}

/// What a command printed, if it ended well.
pub(crate) fn said(command: &Command, output: &Output) -> Result<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(anyhow!("{command:?} failed ({}): {}", output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits for a command with piped output; one that is not done in time is killed, which is an error.
pub(crate) fn finished(child: Child, limit: Duration) -> Result<Output> {
    let running = Identity::of(child.id());
    let (done, ended) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let late = ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if let Some(running) = running.filter(|_| late) {
            running.signal(Signal::KILL);
        }
        late
    });
    let output = child.wait_with_output().context("failed to wait for it");
    drop(done);
    let late = watch.join().map_err(|_| anyhow!("the thread that watches it is gone"))?;
    let output = output?;
    if late && !output.status.success() {
        return Err(anyhow!("it was not done within {limit:?}"));
    }
    Ok(output)
}

/// The last lines of a file.
pub fn tail(path: &Path, lines: usize) -> String {
    let Ok(mut file) = File::open(path) else {
        return "(no log)".to_owned();
    };
    let length = file.metadata().map(|m| m.len()).unwrap_or_default();
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(64 * 1024)));
    let mut text = Vec::new();
    let _ = file.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished_within(seconds: u64, script: &str) -> Result<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        finished(command.spawn().unwrap(), Duration::from_secs(seconds))
    }

    #[test]
    fn a_command_that_hangs_is_ended_in_time_and_one_that_ends_tells_how() {
        let started = Instant::now();
        let hung = finished_within(1, "exec sleep 60").unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(30), "{hung:#}");
        let ended = finished_within(60, "echo told; exit 3").unwrap();
        assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(3), &b"told\n"[..]));
    }

    #[test]
    fn a_process_that_was_told_to_stop_has_stopped_in_all_its_threads() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Identity::of(child.id()).unwrap();
        assert!(!is_stopped(process.pid));
        process.signal(Signal::STOP);
        assert!(is_stopped(process.pid));
        process.signal(Signal::KILL);
        child.wait().unwrap();
    }
}
