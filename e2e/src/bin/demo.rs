//! `cargo demo`: brings up a hub and members on this machine, starts Tombolo, and plays a story on them, or all of them.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tombolo_e2e::{
    bed::{Bed, Spec},
    progress::say,
    stage::Stage,
    stories::Story,
    tombolo,
};

/// Plays a story on real clusters, command by command, and checks every result.
#[derive(Debug, Parser)]
#[command(name = "demo", bin_name = "cargo demo", version)]
struct Cli {
    /// Which document is played: 000 export, 002 by hand, 004 by policy; 004 if not said, with nodes all three.
    #[arg(long, value_enum)]
    story: Option<Story>,
    /// With real pods and traffic (needs root).
    #[arg(long)]
    nodes: bool,
    /// Exit after the story instead of staying up; not with 0 if any step failed.
    #[arg(long)]
    once: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("Error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

// === impl Cli ===

impl Cli {
    async fn run(&self) -> Result<()> {
        // Wherever Ctrl-C comes, dropping the bed ends all that it started.
        let bed = tokio::select! {
            bed = self.play() => bed?,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        };
        if !self.once {
            say("the clusters stay up until Ctrl-C:");
            println!("  export KUBECONFIG={}", bed.dir().join("all.kubeconfig").display());
            println!("  kubectl --context hub get deployments,services");
            tokio::signal::ctrl_c().await.context("failed to listen for Ctrl-C")?;
            say("ending the clusters");
        }
        Ok(())
    }

    /// Plays what is asked for, each story on clusters of its own; those of the last stay.
    async fn play(&self) -> Result<Bed> {
        let (before, last) = match self.story {
            Some(story) => (&[][..], story),
            None if self.nodes => (&[Story::Export, Story::ByHand][..], Story::ByPolicy),
            None => (&[][..], Story::ByPolicy),
        };
        for story in before {
            let bed = self.tell(*story).await?;
            tokio::task::spawn_blocking(move || drop(bed)).await?;
        }
        self.tell(last).await
    }

    async fn tell(&self, story: Story) -> Result<Bed> {
        let bed = Bed::start(Spec { nodes: self.nodes, ..Spec::api(story.members()) }, None).await?;
        let tombolo = tokio::task::spawn_blocking(tombolo::binary).await??;
        let mut stage = Stage::new(bed, tombolo, story.number());
        let outcome = story.play(&mut stage).await;
        outcome.with_context(|| format!("step {:?} failed", stage.current()))?;
        Ok(stage.end())
    }
}
