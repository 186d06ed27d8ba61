//! Tombolo itself on a bed: the separate processes that it is in production, a hub and one agent a member.

use std::{
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    ports,
    process::{self, Process},
    progress::say,
    wait::until,
};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(60);

/// One process of Tombolo.
#[derive(Debug)]
pub struct Component {
    pub(crate) process: Process,
    health: u16,
}

// === impl Component ===

impl Component {
    /// Starts `tombolo hub` or `tombolo agent` for a cluster and returns when it is ready.
    pub async fn start(
        binary: &Path,
        role: &str,
        cluster: &str,
        kubeconfig: &Path,
        logs: &Path,
    ) -> Result<Self> {
        ports::on_one(
            || ports::free(LOOPBACK),
            async |port| {
                let mut command = Command::new(binary);
                command.arg(role).arg("--kubeconfig").arg(kubeconfig);
                command.arg(format!("--health-address={LOOPBACK}:{port}"));
                let log = logs.join(cluster).join(format!("tombolo-{role}.log"));
                let process = process::spawn(&format!("{cluster}/tombolo-{role}"), &log, command)?;
                let mut this = Self { process, health: port };
                until(&format!("{} is ready", this.process.name), PATIENCE, async || this.check().await)
                    .await?;
                Ok(this)
            },
        )
        .await
    }

    /// Fails unless the process runs and says that it is ready.
    pub async fn check(&mut self) -> Result<()> {
        self.process.check()?;
        let answer = get(self.health, "/readyz").await?;
        ensure!(answer.starts_with("HTTP/1.0 200"), "{}: {answer}", self.process.name);
        Ok(())
    }
}

async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect((LOOPBACK, port)).await.context("nobody listens yet")?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The `tombolo` command of this checkout, built if it is not up to date; or `$TOMBOLO_BIN`.
pub fn binary() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("TOMBOLO_BIN") {
        let given = PathBuf::from(given);
        ensure!(given.is_file(), "TOMBOLO_BIN names {}, which is no file", given.display());
        return Ok(given);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--bin", "tombolo"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to run cargo: tombolo is built with it, or given by TOMBOLO_BIN")?;
    let mut executable = None;
    let messages = build.stdout.take().context("cargo's output is piped")?;
    for line in BufReader::new(messages).lines() {
        let message: serde_json::Value = serde_json::from_str(&line?)?;
        if let Some(path) = message["executable"].as_str() {
            executable = Some(PathBuf::from(path));
            if message["fresh"] == false {
                say("built tombolo");
            }
        }
    }
    ensure!(build.wait()?.success(), "tombolo does not build, see above");
    executable.context("cargo built no tombolo")
}
