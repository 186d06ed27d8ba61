//! `tombolo plan -f FILE`: what applying some objects would change in which cluster, before anything is applied. Nothing is
//! written: the hub's API server is asked by dry runs.

mod ask;
mod documents;
mod read;
mod table;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use self::{ask::Asking, documents::Given};
use super::{
    NOT_WELL,
    paint::{self, Paint, Progress},
    target::HubFlags,
};
use crate::{
    decide::{
        copy::ObjectKey,
        plan::{Hub, Plan, plan},
    },
    hub::served::discover,
    shell::shutdown,
};

/// Flags of `tombolo plan`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// What would be applied: a file, a folder with files of YAML or JSON, or `-` for standard input. Several are taken in order.
    #[arg(long, short, value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Take files of folders within folders too.
    #[arg(long, short = 'R')]
    recursive: bool,
    /// The namespace of objects that name none; without it that of the context.
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Say what deleting these objects would change, as `kubectl delete -f` does it.
    #[arg(long, conflicts_with = "server_side")]
    delete: bool,
    /// Ask for server-side apply, as `kubectl apply --server-side` does it.
    #[arg(long)]
    server_side: bool,
    /// How it is printed.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    hub: HubFlags,
}

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

// === impl Args ===

impl Args {
    /// Says what would change. Ends with 3 if anything would be refused.
    pub async fn run(self) -> Result<ExitCode> {
        // Whoever waits for standard input ends at Ctrl-C as any program does.
        let given = Given::read(&self.filename, self.recursive)?;
        let stop = shutdown::on_signal()?;
        let planned = tokio::select! {
            () = stop.cancelled() => bail!("it was interrupted; nothing was changed"),
            planned = self.planned(&given) => planned?,
        };
        let paint = Paint::of_stdout();
        let text = match self.output {
            Format::Table => table::shown(&planned, paint),
            Format::Json => paint::json(&planned)?,
            Format::Yaml => paint::yaml(&planned)?,
        };
        paint::print(&text)?;
        Ok(if planned.refused() == 0 { ExitCode::SUCCESS } else { NOT_WELL.into() })
    }

    async fn planned(&self, given: &Given) -> Result<Plan> {
        let mut progress = Progress::new();
        let (client, own) = self.hub.connect().await?;
        let served = discover(&client).await.context("failed to ask the hub for its kinds")?;
        let documents =
            given.documents(&served, self.namespace.as_deref(), &own).context("nothing was asked")?;
        let system = &self.hub.hub_namespace;
        let reading = read::Reading { hub: &client, served: &served };
        let mut objects = reading.rules().await?;
        let asking = Asking { reading: &reading, delete: self.delete, server_side: self.server_side };
        let live = asking.live(&documents, &mut progress).await?;
        // In the version that the file has it in, so that the two can be compared.
        objects.retain(|object| ObjectKey::of(object).is_none_or(|key| !live.contains_key(&key)));
        objects.extend(live.values().cloned());
        objects.extend(reading.concerned(&documents, &objects).await?);
        let before = Hub::of(system, objects.iter().cloned());
        let mut after = Hub::of(system, objects);
        let judged = asking.judge(&documents, &live, &before, &mut after, &mut progress).await?;
        progress.done();
        Ok(plan(&before, &after, judged))
    }
}
