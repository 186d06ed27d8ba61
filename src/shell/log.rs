//! Log lines: plain for people, JSON for collectors.

use std::{env, ffi::OsStr, io::IsTerminal};

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

/// Whether NO_COLOR says that nobody wants colours (no-color.org).
pub fn colours_unwanted() -> bool {
    is_set(env::var_os("NO_COLOR").as_deref())
}

fn is_set(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|value| !value.is_empty())
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
            .with_ansi(std::io::stderr().is_terminal() && !colours_unwanted());
        match self {
            Self::Plain => lines.try_init(),
            Self::Json => lines.json().try_init(),
        }
        .map_err(|e| anyhow!("failed to start logging: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_unwanted_by_any_value_but_an_empty_one() {
        assert!(is_set(Some(OsStr::new("1"))) && is_set(Some(OsStr::new("0"))));
        assert!(!is_set(Some(OsStr::new(""))) && !is_set(None));
    }
}
