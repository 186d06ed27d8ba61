//! What an agent counts.

use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::Counter, family::Family},
};

use super::{
    Labels, Reconciles,
    catalogue::Catalogue,
    fleet::{Gauge, count, write},
};
use crate::shell::{asked::Asked, queue::Load, trouble::Trouble};

const DEPTH: Gauge = (
    "agent_queue_depth",
    "Services that an agent has to look at: waiting, working, or later after a failure; no value from who does not lead",
    &["state"],
);
const OLDEST: Gauge = (
    "agent_queue_oldest_seconds",
    "How long the change has been waiting that an agent looks at next; no value from who does not lead",
    &[],
);

/// What an agent counts.
#[derive(Debug, Clone)]
pub struct Agent {
    writes: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
    /// What its queue has to do, asked when somebody reads.
    pub queue: Asked<Load>,
    /// What was reconciled.
    pub reconciles: Reconciles,
}

/// What an agent's queue has to do. That of one that does not lead is not worked on: what is in it, another has done.
#[derive(Debug)]
struct Queued {
    queue: Asked<Load>,
    leads: Asked<bool>,
}

// === impl Agent ===

impl Agent {
    pub(super) fn new(all: &mut Catalogue, reconciles: Reconciles, leads: Asked<bool>) -> Self {
        let this = Self {
            writes: Family::default(),
            failures: Family::default(),
            queue: Asked::default(),
            reconciles,
        };
        all.add("agent_writes", "Writes to the own cluster by kind", &["kind"], this.writes.clone());
        all.add(
            "agent_failures",
            "Requests that failed, by what that means",
            &["trouble"],
            this.failures.clone(),
        );
        all.collect(&[DEPTH, OLDEST], Queued { queue: this.queue.clone(), leads });
        this
    }

    /// Notes that an object of a kind was written or deleted.
    pub fn wrote(&self, kind: &'static str) {
        self.writes.get_or_create(&vec![("kind", kind)]).inc();
    }

    /// Notes that a request failed.
    pub fn failed(&self, trouble: Trouble) {
        self.failures.get_or_create(&vec![("trouble", trouble.name())]).inc();
    }
}

// === impl Queued ===

impl Collector for Queued {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let leads = self.leads.ask().unwrap_or_default();
        let Some(load) = self.queue.ask().filter(|_| leads) else { return Ok(()) };
        let depths = load.states().into_iter().map(|(state, number)| (vec![state], count(number)));
        write(&mut encoder, DEPTH, depths)?;
        write(&mut encoder, OLDEST, [(vec![], load.oldest.as_secs_f64())].into_iter())
    }
}
