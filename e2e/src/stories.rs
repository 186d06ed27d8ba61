//! The documents that Tombolo grew out of, as stories that can be played: `000`, `002` and `004`.
//!
//! Each is written as its document reads. What needs nodes is left out without them, and said so, never pretended.

mod s000;
mod s002;
mod s004;

use anyhow::{Result, ensure};

use crate::{stage::Stage, wait::Final};

/// A story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Story {
    /// A Service exported from one cluster and reached from another.
    #[value(name = "000")]
    Export,
    /// One Service in two clusters, imported by hand.
    #[value(name = "002")]
    ByHand,
    /// Export and import by policies on the hub.
    #[value(name = "004")]
    ByPolicy,
}

// === impl Story ===

impl Story {
    /// Its number, which names its folder.
    pub fn number(self) -> &'static str {
        match self {
            Self::Export => "000",
            Self::ByHand => "002",
            Self::ByPolicy => "004",
        }
    }

    /// How many members it takes.
    pub fn members(self) -> usize {
        match self {
            Self::Export | Self::ByHand => 2,
            Self::ByPolicy => 3,
        }
    }

    /// Plays it.
    pub async fn play(self, stage: &mut Stage) -> Result<()> {
        match self {
            Self::Export => s000::play(stage).await,
            Self::ByHand => s002::play(stage).await,
            Self::ByPolicy => s004::play(stage).await,
        }
    }
}

/// Runs the command of the documents that asks a service, until what it prints is as promised: endpoints take a moment to arrive. What
/// can never be right is [`Final`], though another request of the same command failed.
async fn answers(
    stage: &mut Stage,
    promise: &str,
    request: &str,
    holds: impl AsyncFn(&str) -> Result<()>,
) -> Result<()> {
    let judged = async |stage: &Stage| {
        let (said, ended) = stage.try_run(request).await?;
        match holds(&said).await {
            Err(never) if never.is::<Final>() => Err(never),
            judged => ended.and(judged),
        }
    };
    stage.see(promise, judged).await
}

/// Fails unless the one slice with a label in a cluster is of IPv4, has so many endpoints and, if any, port 8090.
fn slice(stage: &Stage, cluster: &str, namespace: &str, label: &str, endpoints: usize) -> Result<()> {
    let found = stage.quietly(&format!(
        "kubectl --context {cluster} -n {namespace} get endpointslice -l {label} \
         -o jsonpath='{{.items[0].addressType}} {{.items[0].ports[0].port}} {{.items[0].endpoints[*].addresses}}'"
    ))?;
    let words: Vec<&str> = found.split_whitespace().collect();
    ensure!(words.first() == Some(&"IPv4"), "no slice yet: {found:?}");
    ensure!(endpoints == 0 || words.get(1) == Some(&"8090"), "another port: {found:?}");
    ensure!(endpoints == 0 || words.len() == 2 + endpoints, "{found:?}");
    Ok(())
}
