//! The one etcd of a bed: every API server keeps its objects under a prefix of its own.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::net::TcpStream;

use crate::{
    pki::{Authority, Pair, Subject},
    ports,
    process::{self, Process},
    tools::{Tool, Tools},
    wait::until,
};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A running etcd.
#[derive(Debug)]
pub struct Etcd {
    /// Its URL.
    pub url: String,
    /// The certificate of its authority.
    pub authority: Pair,
    /// What a client shows.
    pub client: Pair,
    pub(crate) process: Process,
}

// === impl Etcd ===

impl Etcd {
    /// Starts etcd on loopback, with TLS both ways: objects hold Secrets, and other users share the machine.
    pub async fn start(folder: &Path, logs: &Path, tools: &Tools) -> Result<Self> {
        Self::start_on(folder, logs, tools, || ports::free(LOOPBACK)).await
    }

    async fn start_on(
        folder: &Path,
        logs: &Path,
        tools: &Tools,
        choose: impl FnMut() -> Result<u16>,
    ) -> Result<Self> {
        let authority = Authority::new(folder, "ca")?;
        let serving = authority.issue("serving", Subject { user: "etcd", group: None }, &[], &[LOOPBACK])?;
        let client = authority.issue("client", Subject { user: "kube-apiserver", group: None }, &[], &[])?;
        let authority = authority.files("ca");
        let (process, url) = ports::on_one(choose, async |port| {
            let url = format!("https://{LOOPBACK}:{port}");
            // The only member never talks to a peer, yet insists on listening for one.
            let peer = format!("http://{LOOPBACK}:{}", ports::free(LOOPBACK)?);
            let mut command = Command::new(tools.path(Tool::Etcd));
            command
                .arg("--data-dir")
                .arg(folder.join(format!("data-{port}")))
                .args(["--name=bed", "--log-level=warn", "--quota-backend-bytes=8589934592"])
                .args([format!("--listen-client-urls={url}"), format!("--advertise-client-urls={url}")])
                .args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")])
                .arg(format!("--initial-cluster=bed={peer}"))
                // A bed does not survive its machine; the disk would be what tests wait for.
                .arg("--unsafe-no-fsync")
                .args([path("--cert-file", &serving.cert), path("--key-file", &serving.key)])
                .args([path("--trusted-ca-file", &authority.cert), "--client-cert-auth".to_owned()]);
            let log = logs.join("etcd.log");
            let _ = std::fs::remove_file(&log);
            let mut process = process::spawn("etcd", &log, command)?;
            until("etcd listens", Duration::from_secs(30), async || {
                process.check()?;
                TcpStream::connect((LOOPBACK, port)).await.context("no connection yet")?;
                // Whoever else has the port answers too: etcd is only up if it is still there a moment later.
                tokio::time::sleep(Duration::from_millis(100)).await;
                process.check()
            })
            .await?;
            Ok((process, url))
        })
        .await?;
        Ok(Self { url, authority, client, process })
    }
}

/// A flag with a path as its value.
pub(crate) fn path(flag: &str, value: &Path) -> String {
    format!("{flag}={}", value.display())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_between_choice_and_bind_is_replaced_by_another() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("etcd-port-{}", std::process::id()));
        let tools = tokio::task::spawn_blocking(|| Tools::provide(&[Tool::Etcd])).await??;
        let somebody = TcpListener::bind((LOOPBACK, 0))?;
        let mut choices = vec![ports::free(LOOPBACK)?, somebody.local_addr()?.port()];
        let second = choices[0];
        let etcd = Etcd::start_on(&folder, &folder, &tools, || choices.pop().context("a third choice")).await;
        let url = etcd.map(|etcd| etcd.url);
        std::fs::remove_dir_all(&folder)?;
        assert_eq!(url?, format!("https://{LOOPBACK}:{second}"));
        Ok(())
    }
}
