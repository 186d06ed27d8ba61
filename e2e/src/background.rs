//! Beds that outlive the command that started them: a process in the background owns the bed, and its progress is shown
//! until all is ready.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    bed::{Bed, Spec},
    process::Identity,
    progress::say,
    record::{self, Record},
    wait::until,
};

/// What the owner prints when the bed is ready; what follows is for the user.
const READY: &str = "ready: ";

/// Starts a bed in the background and returns when it is ready.
pub async fn up(spec: &Spec, dir: &Path) -> Result<()> {
    if let Some(record) = Record::find(dir)? {
        ensure!(!record.owner.is_alive(), "{}", record.taken());
    }
    let progress = std::env::temp_dir().join(format!("tombolo-bed-{}.progress", std::process::id()));
    let out = File::create(&progress).with_context(|| format!("failed to create {}", progress.display()))?;
    let mut command = Command::new(std::env::current_exe().context("failed to find this program")?);
    command
        .arg("own")
        .args(spec.flags())
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(out.try_clone().context("failed to share a file")?)
        .stderr(out)
        .process_group(0);
    let mut owner = command.spawn().context("failed to start the bed's owner")?;
    let mut seen = File::open(&progress).context("failed to read the bed's progress")?;
    let _ = fs::remove_file(&progress);
    loop {
        let ended = owner.try_wait().context("failed to look after the bed's owner")?;
        let mut news = String::new();
        seen.read_to_string(&mut news).context("failed to read the bed's progress")?;
        let _ = std::io::stderr().write_all(news.as_bytes());
        if news.contains(READY) {
            return Ok(());
        }
        if let Some(status) = ended {
            bail!("the bed did not start ({status})");
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("failed to listen for Ctrl-C")?;
                end(Identity::of(owner.id())).await?;
                bail!("interrupted: the bed was ended again");
            }
        }
    }
}

/// Owns a bed until told to end it.
pub async fn own(spec: Spec, dir: &Path) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    // The terminal may go; the bed stays.
    let _hangup = signal(SignalKind::hangup()).context("failed to listen for SIGHUP")?;
    let bed = tokio::select! {
        bed = Bed::start(spec, Some(dir)) => bed?,
        _ = terminate.recv() => bail!("ended before it was ready"),
        _ = interrupt.recv() => bail!("interrupted before it was ready"),
    };
    say(format_args!("{READY}export KUBECONFIG={}", bed.dir().join("all.kubeconfig").display()));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::task::spawn_blocking(move || drop(bed)).await.context("failed to end the bed")
}

/// Ends the bed in a folder, and cleans up what dead ones left.
pub async fn down(dir: &Path) -> Result<()> {
    let dir = std::path::absolute(dir)?;
    let found = Record::find(&dir)?;
    if let Some(record) = &found {
        end(Some(record.owner).filter(|owner| owner.is_alive())).await?;
    }
    record::sweep()?;
    match found {
        Some(_) => say(format_args!("the bed in {} is gone", dir.display())),
        None => say(format_args!("there is no bed in {}", dir.display())),
    }
    Ok(())
}

/// Asks an owner to end its bed; one that does not is killed, and the next sweep cleans up after it.
async fn end(owner: Option<Identity>) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    for (signal, patience) in [(Signal::TERM, 60), (Signal::KILL, 10)] {
        owner.signal(signal);
        let gone = until("the bed's owner ends", Duration::from_secs(patience), async || {
            ensure!(!owner.is_alive(), "process {} still runs", owner.pid);
            Ok(())
        });
        if gone.await.is_ok() {
            return Ok(());
        }
    }
    bail!("process {} does not end", owner.pid)
}
