//! How long a change takes until it is where it is to be, from end to end.

use std::time::Duration;

use prometheus_client::metrics::{
    family::Family,
    histogram::{Histogram, exponential_buckets},
};

use super::{Member, catalogue::Catalogue};
use crate::decide::ids::ClusterName;

/// How long changes take until they are where they are to be.
#[derive(Debug, Clone)]
pub struct Arrivals {
    templates: Family<Member, Histogram>,
    endpoints: Family<Member, Histogram>,
}

/// From 1 ms to a little over a minute.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

// === impl Arrivals ===

impl Arrivals {
    pub(super) fn new(all: &mut Catalogue) -> Self {
        let this = Self {
            templates: Family::new_with_constructor(histogram),
            endpoints: Family::new_with_constructor(histogram),
        };
        all.add(
            "template_to_member_seconds",
            "From when the hub saw a change of what is to be in a member, copies and ServiceImports, until the member has acknowledged it, \
             deletions included, by member",
            &["member"],
            this.templates.clone(),
        );
        all.add(
            "endpoint_to_importer_seconds",
            "From a change of endpoints that an exporting cluster's agent saw until an importing member has acknowledged it, by importer",
            &["member"],
            this.endpoints.clone(),
        );
        this
    }

    /// Notes that a change of a template, or of what places it, reached a member.
    pub fn template(&self, member: &ClusterName, took: Duration) {
        self.templates.get_or_create(&Member::of(member)).observe(took.as_secs_f64());
    }

    /// Notes that a change of endpoints reached an importing member.
    pub fn endpoints(&self, member: &ClusterName, took: Duration) {
        self.endpoints.get_or_create(&Member::of(member)).observe(took.as_secs_f64());
    }

    /// Forgets a member that is gone.
    pub(super) fn forget(&self, member: &ClusterName) {
        self.templates.remove(&Member::of(member));
        self.endpoints.remove(&Member::of(member));
    }
}
