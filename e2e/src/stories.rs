//! The documents that Tombolo grew out of, as stories that can be played: `000`, `002` and `004`.
//!
//! Each is written as its document reads. What Tombolo cannot do yet is named where it would come, never played.

mod s000;
mod s002;
mod s004;

use anyhow::Result;

use crate::stage::Stage;

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

    /// Plays it.
    pub async fn play(self, stage: &mut Stage) -> Result<()> {
        match self {
            Self::Export => s000::play(stage).await,
            Self::ByHand => s002::play(stage).await,
            Self::ByPolicy => s004::play(stage).await,
        }
    }
}
