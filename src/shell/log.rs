//! Log lines: plain for people, JSON for collectors.

use std::io::IsTerminal;

use anyhow::{Context, Result, anyhow};
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum LogFormat {
    /// One readable line each.
    Plain,
    /// One JSON object each.
    Json,
}

// === impl LogFormat ===

impl LogFormat {
    /// Starts logging to standard error, with a filter such as `info` or `tombolo=debug,warn`.
    pub fn init(self, filter: &str) -> Result<()> {
        let filter: EnvFilter = filter.parse().with_context(|| {
            format!("--log: {filter:?} is no filter; use a level or `module=level` pairs")
        })?;
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        match self {
            Self::Plain => lines.try_init(),
            Self::Json => lines.json().try_init(),
        }
        .map_err(|e| anyhow!("failed to start logging: {e}"))
    }
}
