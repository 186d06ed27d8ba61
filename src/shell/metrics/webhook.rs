//! What the webhook counts.

use std::time::Duration;

use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

use super::{Labels, catalogue::Catalogue};

/// What the webhook counts.
#[derive(Debug, Clone)]
pub struct Webhook {
    certificate_start: Gauge,
    certificate_expiry: Gauge,
    certificate_failures: Counter,
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
}

// === impl Webhook ===

impl Webhook {
    pub(super) fn new(all: &mut Catalogue) -> Self {
        // From 50 µs to 0.8 s: an answer is computed from memory.
        let durations = || Histogram::new(exponential_buckets(0.000_05, 2.0, 15));
        let this = Self {
            certificate_start: Gauge::default(),
            certificate_expiry: Gauge::default(),
            certificate_failures: Counter::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
        };
        all.add(
            "webhook_certificate_start_timestamp_seconds",
            "Since when the certificate in use is valid, in seconds since 1970; 0 where there is none",
            &[],
            this.certificate_start.clone(),
        );
        all.add(
            "webhook_certificate_expiry_timestamp_seconds",
            "When the certificate in use expires, in seconds since 1970; 0 where there is none",
            &[],
            this.certificate_expiry.clone(),
        );
        all.add(
            "webhook_certificate_failures",
            "How often a certificate could not be renewed or taken over",
            &[],
            this.certificate_failures.clone(),
        );
        all.add(
            "webhook_requests",
            "Admission requests by route, kind of the object and verdict: allowed, warned, refused, or unjudged, which is admitted unchecked",
            &["route", "kind", "verdict"],
            this.requests.clone(),
        );
        all.add(
            "webhook_request_duration_seconds",
            "What answering an admission request took, by route",
            &["route"],
            this.durations.clone(),
        );
        this
    }

    /// Notes which certificate is in use.
    pub fn certificate(&self, from: i64, until: i64) {
        self.certificate_start.set(from);
        self.certificate_expiry.set(until);
    }

    /// Notes that a certificate could not be renewed or taken over.
    pub fn certificate_failed(&self) {
        self.certificate_failures.inc();
    }

    /// Notes an answer.
    pub fn answered(&self, route: &'static str, kind: &'static str, verdict: &'static str, took: Duration) {
        self.requests.get_or_create(&vec![("route", route), ("kind", kind), ("verdict", verdict)]).inc();
        self.durations.get_or_create(&vec![("route", route)]).observe(took.as_secs_f64());
    }
}
