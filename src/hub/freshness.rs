//! How fresh what is known of the members is, looked at every second.

use std::{sync::Arc, time::Duration};

use tokio::time::MissedTickBehavior;

use super::engine::Engine;
use crate::{
    decide::freshness::{Limits, Silent, grades, lasting},
    shell::clock,
};

/// Between two looks.
const TICK: Duration = Duration::from_secs(1);

/// Flags that say how long a member may be silent.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Args {
    /// The endpoints of a member that was silent for so many seconds are marked stale.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    stale_after: u32,
    /// The endpoints of a member that was silent for so many seconds are not ready where another member's are.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    lost_after: u32,
}

// === impl Args ===

impl Args {
    /// What they say.
    pub fn limits(self) -> Limits {
        let stale = Duration::from_secs(self.stale_after.into());
        Limits { stale, lost: Duration::from_secs(self.lost_after.into()).max(stale) }
    }
}

/// Keeps the exchange told.
pub async fn run(engine: Arc<Engine>, limits: Limits) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent = Silent::new();
    loop {
        tick.tick().await;
        let silence = {
            let view = engine.view.read();
            if !view.is_synced() {
                continue;
            }
            view.silence().clone()
        };
        // An agent that nobody needs may be silent.
        let now = engine.look_exchange(|exchange| {
            let since = silence.iter().map(|(name, silence)| {
                let agent = silence.agent.filter(|_| exchange.offers(name));
                (name.clone(), [silence.server, agent].into_iter().flatten().min())
            });
            since.collect()
        });
        silent = lasting(&silent, now);
        let grades = grades(&silent, clock::seconds(), limits);
        if engine.look_exchange(|exchange| exchange.is_graded(&grades)) {
            continue;
        }
        for (name, grade) in &grades {
            tracing::info!(member = %name, "freshness: {grade:?}");
        }
        engine.exchange(|exchange| exchange.set_grades(grades));
    }
}
