//! How often something was looked at, what came of it, and how long that took.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
};

use super::catalogue::Catalogue;
use crate::{decide::ids::ClusterName, shell::queue::Done};

/// How often something was looked at, what came of it, and how long that took.
#[derive(Debug, Clone)]
pub struct Reconciles(Family<Look, Histogram>);

/// A look at a copy or a service: in which member, if it is the hub that looks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Look {
    of: &'static str,
    outcome: &'static str,
    member: String,
}

// === impl Reconciles ===

impl Reconciles {
    pub(super) fn new(all: &mut Catalogue) -> Self {
        // From 100 µs, where nothing is to do, to 26 s, where a member does not answer.
        let durations = || Histogram::new(exponential_buckets(0.000_1, 4.0, 10));
        let this = Self(Family::new_with_constructor(durations));
        all.add(
            "reconcile_duration_seconds",
            "What a look at one copy or service took and how it ended: well, again after a failure, or later; by member where the hub looks",
            &["of", "outcome", "member"],
            this.0.clone(),
        );
        this
    }

    /// Notes a look at a copy or a service, in a member or in the own cluster.
    pub fn note(&self, of: &'static str, member: Option<&ClusterName>, done: Done, took: Duration) {
        let outcome = match done {
            Done::Well => "well",
            Done::Again => "again",
            Done::After(_) => "later",
        };
        let look = Look { of, outcome, member: member.map(ToString::to_string).unwrap_or_default() };
        self.0.get_or_create(&look).observe(took.as_secs_f64());
    }

    /// Forgets a member that is gone.
    pub(super) fn forget(&self, member: &ClusterName) {
        for of in ["copies", "services"] {
            for outcome in ["well", "again", "later"] {
                self.0.remove(&Look { of, outcome, member: member.to_string() });
            }
        }
    }
}
