//! What an agent counts.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use super::{Labels, Reconciles, catalogue::Catalogue};
use crate::shell::{asked::Asked, queue::Load, trouble::Trouble};

/// What an agent counts.
#[derive(Debug, Clone)]
pub struct Agent {
    writes: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
    depth: Family<Labels, Gauge>,
    oldest: Gauge<f64, std::sync::atomic::AtomicU64>,
    /// What its queue has to do, asked when somebody reads.
    pub queue: Asked<Load>,
    /// What was reconciled.
    pub reconciles: Reconciles,
}

// === impl Agent ===

impl Agent {
    pub(super) fn new(all: &mut Catalogue, reconciles: Reconciles) -> Self {
        let this = Self {
            writes: Family::default(),
            failures: Family::default(),
            depth: Family::default(),
            oldest: Gauge::default(),
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
        all.add(
            "agent_queue_depth",
            "Services that an agent has to look at: waiting, working, or later after a failure",
            &["state"],
            this.depth.clone(),
        );
        all.add(
            "agent_queue_oldest_seconds",
            "How long the change has been waiting that an agent looks at next",
            &[],
            this.oldest.clone(),
        );
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

    pub(super) fn look(&self) {
        let Some(load) = self.queue.ask() else { return };
        for (state, number) in load.states() {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            self.depth.get_or_create(&vec![("state", state)]).set(number);
        }
        self.oldest.set(load.oldest.as_secs_f64());
    }
}
