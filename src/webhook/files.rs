//! Certificates that somebody else brings, such as cert-manager: read from files, again and again.
//!
//! Files are read by the clock, not by file events: a mounted Secret changes by a renamed symbolic link, which watchers of a file
//! do not see.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    configuration::{self, Address},
    tls::{Loaded, Serving},
};
use crate::shell::{clock, health::Part};

/// Between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// Where the certificate, its key and its authorities are.
#[derive(Debug)]
pub struct Files {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities that API servers verify it with.
    pub authorities: PathBuf,
}

// === impl Files ===

impl Files {
    /// Reads and shows them until told to stop. What cannot serve is complained about once, and the old one stays.
    pub async fn run(
        &self,
        client: &Client,
        address: &Address,
        user: &str,
        serving: &Arc<Serving>,
        part: &Part,
        stop: &CancellationToken,
    ) {
        let mut complaint = String::new();
        loop {
            match self.load(client, address, user, serving).await {
                Ok(()) => {
                    complaint.clear();
                    part.set(Ok(()));
                }
                Err(e) => {
                    let said = format!("{e:#}");
                    serving.failed();
                    if complaint != said {
                        tracing::warn!(
                            "failed to take the certificate from files, the old one stays: {said}"
                        );
                    }
                    if serving.current().is_none() {
                        part.set(Err(said.clone()));
                    }
                    complaint = said;
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    async fn load(&self, client: &Client, address: &Address, user: &str, serving: &Serving) -> Result<()> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))
        };
        serving.replace(Loaded::new(&read(&self.certificate)?, &read(&self.key)?, clock::seconds())?);
        let authorities =
            String::from_utf8(read(&self.authorities)?).context("the authorities are no text")?;
        configuration::ensure(client, address, &authorities, user).await
    }
}
