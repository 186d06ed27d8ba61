//! `tombolo status`: how the whole fleet is, by what the hub has written on its own objects.

mod read;
mod table;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use self::read::{Asked, Changes};
use super::{
    NOT_WELL,
    paint::{self, Paint, Progress},
    target::HubFlags,
};
use crate::{
    decide::overview::{Overview, overview},
    shell::clock,
};

/// Clears a terminal and goes to its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Flags of `tombolo status`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// How it is printed. `table` fits the terminal, `wide` shows everything.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Whose policies, exports and imports; without it the namespace of the context. Members are always shown.
    #[arg(long, short, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Those of all namespaces.
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Ask members too, with the credentials that the hub has for them: shows what they share without the hub's objects.
    #[arg(long)]
    members: bool,
    /// Print it again whenever it changes, until interrupted.
    #[arg(long, short)]
    watch: bool,
    /// End with 3 if something is not well, or not yet.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    hub: HubFlags,
}

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Wide,
    Json,
    Yaml,
}

// === impl Args ===

impl Args {
    /// Shows how the fleet is.
    pub async fn run(self, stop: CancellationToken) -> Result<ExitCode> {
        let mut last = None;
        tokio::select! {
            () = stop.cancelled() => ensure!(last.is_some(), "it was interrupted"),
            shown = self.show(&mut last) => shown?,
        }
        let well = last.is_none_or(|last| last.problems.is_empty());
        Ok(if well || !self.exit_code { ExitCode::SUCCESS } else { NOT_WELL.into() })
    }

    /// Shows it once, or whenever it changes for as long as somebody reads; `last` is what was seen last.
    async fn show(&self, last: &mut Option<Overview>) -> Result<()> {
        let (hub, own) = self.hub.connect().await?;
        let namespace = (!self.all_namespaces).then(|| self.namespace.clone().unwrap_or(own));
        let asked = Asked { hub, namespace, system: self.hub.hub_namespace.clone(), members: self.members };
        *last = self.look(&asked, None).await?;
        let mut changes = self.watch.then(|| Changes::of(&asked));
        while let Some(changes) = &mut changes {
            changes.next().await;
            match self.look(&asked, last.as_ref()).await {
                Ok(Some(now)) => *last = Some(now),
                Ok(None) => break,
                // It is looked again; the hub may just restart.
                Err(e) => tracing::warn!("{e:#}"),
            }
        }
        Ok(())
    }

    /// Looks, and prints what is seen if it is news; none where nobody reads any more.
    async fn look(&self, asked: &Asked, last: Option<&Overview>) -> Result<Option<Overview>> {
        let now = clock::now();
        let what = if self.members { "asking the hub and its members" } else { "asking the hub" };
        let found = overview(&Progress::during(what, asked.read()).await?, now);
        if last == Some(&found) {
            return Ok(Some(found));
        }
        let text = self.shown(&found, asked, now, last.is_some())?;
        Ok(paint::print(&text)?.then_some(found))
    }

    fn shown(&self, found: &Overview, asked: &Asked, now: Timestamp, again: bool) -> Result<String> {
        let paint = Paint::of_stdout();
        let text = match self.output {
            Format::Json => return paint::json(found),
            Format::Yaml => {
                return Ok(format!("{}{}", if again { "---\n" } else { "" }, paint::yaml(found)?));
            }
            Format::Table => table::shown(found, asked.namespace.as_deref(), now, paint, false),
            Format::Wide => table::shown(found, asked.namespace.as_deref(), now, paint, true),
        };
        Ok(match (self.watch && paint.is_terminal(), again) {
            (true, _) => format!("{CLEAR}{text}"),
            (false, true) => format!("\n{now}\n{text}"),
            (false, false) => text,
        })
    }
}
