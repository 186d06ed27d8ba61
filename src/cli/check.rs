//! `tombolo check`: tells what is amiss with a hub or a member, and what to do about it.

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};

use super::side::Side;
use crate::{
    api::names::object,
    diagnose::{self, Finding, Severity},
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
}

// === impl Args ===

impl Args {
    /// Looks at the cluster and says what was found. Fails if anything does not work.
    pub async fn run(self) -> Result<()> {
        let config = connection::config(&self.connection).await.context("failed to find the cluster")?;
        let client = client(&config, None).context("failed to set up the client")?;
        let side = Side::of(&client, self.on).await?;
        let found = match side {
            Some(Side::Hub) => diagnose::hub(&client, &self.tombolo_namespace).await,
            Some(Side::Member) | None => diagnose::member(&client, &self.tombolo_namespace).await,
        };
        println!(
            "looked at {} as {}",
            config.cluster_url,
            if side == Some(Side::Hub) { "a hub" } else { "a member" }
        );
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        found.iter().for_each(|finding| println!("{}", line(finding, colours)));
        match found.iter().filter(|finding| finding.severity == Severity::Sick).count() {
            0 => Ok(()),
            1 => bail!("1 thing does not work"),
            sick => bail!("{sick} things do not work"),
        }
    }
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
