//! `tombolo certs`: development certificates for a webhook that runs on this machine.
//!
//! What is written is what `tombolo hub --tls-cert-file … --tls-key-file … --webhook-ca-file …` takes. The authority's key is
//! forgotten at once: whoever needs another certificate makes all of them anew.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::paint;
use crate::{
    shell::clock,
    webhook::authority::{Authority, Names},
};

/// Flags of `tombolo certs`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The folder with certs.yaml, where the certificates are written.
    #[arg(long, default_value = "webhook-certs", value_name = "DIR")]
    dir: PathBuf,
}

/// What certs.yaml says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    hosts: Vec<String>,
    days: u16,
}

// === impl Args ===

impl Args {
    /// Writes an authority's certificate, a serving certificate and its key.
    pub fn run(&self) -> Result<()> {
        let path = self.dir.join("certs.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let settings: Settings = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is not as it should be", path.display()))?;
        ensure!(!settings.hosts.is_empty(), "{}: hosts: name at least one", path.display());
        ensure!(settings.days > 0, "{}: days: must be at least 1", path.display());
        let (now, until) = (clock::seconds(), clock::seconds() + i64::from(settings.days) * 86_400);
        let authority = Authority::new(1, now, until)?;
        let pair = authority.issue(&Names::of_hosts(&settings.hosts)?, now, until)?;
        for (name, content) in
            [("ca.crt", &authority.certificate), ("tls.crt", &pair.chain), ("tls.key", &pair.key)]
        {
            write(&self.dir.join(name), content)?;
            paint::print(&format!("{}\n", self.dir.join(name).display()))?;
        }
        Ok(())
    }
}

/// Writes a file that only its owner may read, whole or not at all.
fn write(path: &Path, content: &str) -> Result<()> {
    let part = path.with_extension("part");
    let _ = fs::remove_file(&part);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("failed to write {}", path.display()))
}
