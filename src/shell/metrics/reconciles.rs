//! How often something was looked at, what came of it, and how long that took.

use std::time::Duration;

use prometheus_client::metrics::{
    family::Family,
    histogram::{Histogram, exponential_buckets},
};

use super::{Labels, catalogue::Catalogue};
use crate::shell::queue::Done;

/// How often something was looked at, what came of it, and how long that took.
#[derive(Debug, Clone)]
pub struct Reconciles(Family<Labels, Histogram>);

// === impl Reconciles ===

impl Reconciles {
    pub(super) fn new(all: &mut Catalogue) -> Self {
        // From 100 µs, where nothing is to do, to 26 s, where a member does not answer.
        let durations = || Histogram::new(exponential_buckets(0.000_1, 4.0, 10));
        let this = Self(Family::new_with_constructor(durations));
        all.add(
            "reconcile_duration_seconds",
            "What a look at one copy or service took and how it ended: well, again after a failure, or later",
            &["of", "outcome"],
            this.0.clone(),
        );
        this
    }

    /// Notes a look at a copy or a service.
    pub fn note(&self, of: &'static str, done: Done, took: Duration) {
        let outcome = match done {
            Done::Well => "well",
            Done::Again => "again",
            Done::After(_) => "later",
        };
        self.0.get_or_create(&vec![("of", of), ("outcome", outcome)]).observe(took.as_secs_f64());
    }
}
