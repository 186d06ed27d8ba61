//! `tombolo check`: tells what is amiss with a hub or a member, and what to do about it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    paint::{self, Cell, Paint, Progress, Table, Tone},
    patience::patience,
    side::Side,
};
use crate::{
    api::names::object,
    diagnose::{
        self, Finding, Severity,
        connectivity::{self, Pair},
    },
    membership::agent,
    shell::{client::client, connection},
};

/// Flags of `tombolo check`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    connection: connection::Args,
    /// What the cluster is, where it is both the hub and a member.
    #[arg(long, value_enum, value_name = "SIDE")]
    on: Option<Side>,
    /// Tombolo's own namespace there.
    #[arg(long, default_value = object::NAMESPACE, value_name = "NAME")]
    tombolo_namespace: String,
    /// Let a pod of each member dial pods of the others, and show a table of who reaches whom. Only on a hub.
    #[arg(long)]
    connectivity: bool,
    /// The image of these pods; it is Tombolo's own.
    #[arg(long, value_name = "IMAGE", default_value = agent::IMAGE, requires = "connectivity")]
    image: String,
    /// How long a pod may take to run: in seconds, or as in 90s or 2m.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = patience, requires = "connectivity")]
    pod_timeout: Duration,
    /// How long an answer may take: in seconds, or as in 2s; more than whole seconds count as one more.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = patience, requires = "connectivity")]
    dial_timeout: Duration,
}

// === impl Args ===

impl Args {
    /// Looks at the cluster and says what was found. Fails if anything does not work.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let (client, at, mut found) = tokio::select! {
            () = stop.cancelled() => bail!("it was interrupted"),
            looked = Progress::during("looking at the cluster", self.look()) => looked?,
        };
        paint::print(&format!("looked at {at}\n"))?;
        let paint = Paint::of_stdout();
        // Before pods are started, which takes long and may fail.
        tell(&found, paint)?;
        if self.connectivity {
            let (pairs, more) = self.dial(&client, &stop).await?;
            if !pairs.is_empty() {
                let lines = reached(&pairs).lines(paint, paint.width());
                paint::print(&format!("\n{}\n\n", lines.join("\n")))?;
            }
            tell(&more, paint)?;
            found.extend(more);
        }
        match found.iter().filter(|finding| finding.severity == Severity::Sick).count() {
            0 => Ok(()),
            1 => bail!("1 thing does not work"),
            sick => bail!("{sick} things do not work"),
        }
    }

    /// Looks at the cluster: its client, where it is and as what it was looked at, and what was found.
    async fn look(&self) -> Result<(Client, String, Vec<Finding>)> {
        let config = connection::config(&self.connection).await.context("failed to find the cluster")?;
        let client = client(&config, None).context("failed to set up the client")?;
        let side = Side::of(&client, self.on).await?;
        ensure!(
            !self.connectivity || side == Some(Side::Hub),
            "--connectivity: only a hub knows its members; name it with --context or --kubeconfig"
        );
        let (role, found) = match side {
            Some(Side::Hub) => ("a hub", diagnose::hub(&client, &self.tombolo_namespace).await),
            Some(Side::Member) | None => {
                ("a member", diagnose::member(&client, &self.tombolo_namespace).await)
            }
        };
        Ok((client, format!("{} as {role}", config.cluster_url), found))
    }

    async fn dial(&self, hub: &Client, stop: &CancellationToken) -> Result<(Vec<Pair>, Vec<Finding>)> {
        let options = connectivity::Options {
            image: self.image.clone(),
            namespace: object::NAMESPACE.to_owned(),
            patience: self.pod_timeout,
            timeout: self.dial_timeout,
        };
        connectivity::dial(hub, &options, &paint::note, stop).await
    }
}

fn tell(found: &[Finding], paint: Paint) -> Result<()> {
    let lines = found.iter().map(|finding| line(finding, paint.colours) + "\n");
    paint::print(&lines.collect::<String>()).map(drop)
}

/// Who reaches whom.
fn reached(pairs: &[Pair]) -> Table {
    let mut table = Table::new(&["FROM", "TO", "ADDRESS", "TCP", "UDP"]);
    let came = |came: &Result<Duration, String>| match came {
        Ok(took) => Cell::toned(Tone::Good, format!("{:.1} ms", took.as_secs_f64() * 1e3)),
        Err(why) => Cell::toned(Tone::Bad, why.as_str()),
    };
    for Pair { from, to, address, outcome } in pairs {
        table.row([
            Cell::plain(from.as_str()),
            Cell::plain(to.as_str()),
            Cell::plain(address.to_string()),
            came(&outcome.tcp),
            came(&outcome.udp),
        ]);
    }
    table
}

fn line(finding: &Finding, colours: bool) -> String {
    let (mark, colour) = match finding.severity {
        Severity::Well => ("✓", 32),
        Severity::Doubtful => ("!", 33),
        Severity::Sick => ("✗", 31),
    };
    let mark = if colours { format!("\u{1b}[{colour}m{mark}\u{1b}[0m") } else { mark.to_owned() };
    let way_out =
        if finding.way_out.is_empty() { String::new() } else { format!("\n  → {}", finding.way_out) };
    format!("{mark} {}: {}{way_out}", finding.about, finding.says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_escapes_unless_it_is_for_a_terminal() {
        let finding = Finding {
            severity: Severity::Sick,
            about: "agent",
            says: "it does not run".to_owned(),
            way_out: "look".to_owned(),
        };
        assert_eq!(line(&finding, false), "✗ agent: it does not run\n  → look");
        assert!(line(&finding, true).starts_with("\u{1b}[31m✗\u{1b}[0m agent"));
    }
}
