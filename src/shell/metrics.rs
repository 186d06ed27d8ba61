//! What Prometheus reads at `/metrics`, beside health. Labels are few and bounded: no object's name is ever one, but for members'.

mod arrivals;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

pub use self::arrivals::Arrivals;
use super::{lease::Claim, trouble::Trouble};
use crate::decide::{exchange::Reason, ids::ClusterName};

/// Labels with fixed names and few values.
type Labels = Vec<(&'static str, &'static str)>;

/// All metrics of a process.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// What the webhook counts.
    pub webhook: Webhook,
    /// Whether this replica leads.
    pub leader: Leader,
    /// What the propagator counts.
    pub propagation: Propagation,
    /// What an agent counts.
    pub agent: Agent,
}

/// What an agent counts.
#[derive(Debug, Clone)]
pub struct Agent {
    writes: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
}

/// What the propagator counts.
#[derive(Debug, Clone)]
pub struct Propagation {
    writes: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
    fights: Counter,
    refused: Family<Refusal, Counter>,
    /// How long changes take from end to end.
    pub arrivals: Arrivals,
}

/// A label: the member that something is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Member {
    member: String,
}

/// Whose object is not believed, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    member: String,
    reason: &'static str,
}

/// Whether this replica leads, asked when somebody reads: it is never out of date.
#[derive(Debug, Clone, Default)]
pub struct Leader {
    gauge: Gauge,
    claim: Arc<OnceLock<Claim>>,
}

/// What the webhook counts.
#[derive(Debug, Clone)]
pub struct Webhook {
    certificate_expiry: Gauge,
    certificate_failures: Counter,
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tombolo");
        let webhook = Webhook::new(registry.sub_registry_with_prefix("webhook"));
        let leader = Leader::default();
        registry.register(
            "leader",
            "Whether this replica leads and so may write: 1 or 0",
            leader.gauge.clone(),
        );
        let arrivals = Arrivals::new(&mut registry);
        let propagation = Propagation::new(registry.sub_registry_with_prefix("propagation"), arrivals);
        let agent = Agent::new(registry.sub_registry_with_prefix("agent"));
        Self { registry: Arc::new(registry), webhook, leader, propagation, agent }
    }
}

impl Metrics {
    /// All metrics in the form that Prometheus reads.
    pub fn text(&self) -> Result<String> {
        self.leader.look();
        let mut text = String::new();
        encode(&mut text, &self.registry).context("failed to write the metrics")?;
        Ok(text)
    }
}

// === impl Leader ===

impl Leader {
    /// Shows this claim from now on; a process has one.
    pub fn follow(&self, claim: &Claim) {
        // A second one would be of another election, which has no place here.
        let _ = self.claim.set(claim.clone());
    }

    fn look(&self) {
        self.gauge.set(self.claim.get().is_some_and(Claim::holds).into());
    }
}

// === impl Agent ===

impl Agent {
    fn new(registry: &mut Registry) -> Self {
        let this = Self { writes: Family::default(), failures: Family::default() };
        registry.register("writes", "Writes to the own cluster by kind", this.writes.clone());
        registry.register("failures", "Requests that failed, by what that means", this.failures.clone());
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

// === impl Member ===

impl Member {
    fn of(member: &ClusterName) -> Self {
        Self { member: member.to_string() }
    }
}

// === impl Propagation ===

impl Propagation {
    fn new(registry: &mut Registry, arrivals: Arrivals) -> Self {
        let this = Self {
            writes: Family::default(),
            failures: Family::default(),
            fights: Counter::default(),
            refused: Family::default(),
            arrivals,
        };
        registry.register("writes", "Writes to members by what they were for", this.writes.clone());
        registry.register(
            "failures",
            "Requests to members that failed, by what that means",
            this.failures.clone(),
        );
        registry.register("fights", "Repairs of what somebody keeps changing", this.fights.clone());
        registry.register(
            "refused",
            "Objects of members that were not believed, by member and reason",
            this.refused.clone(),
        );
        this
    }

    /// Notes that an object was applied, since its template changed or to put right what somebody changed.
    pub fn applied(&self, repair: bool) {
        self.writes.get_or_create(&vec![("for", if repair { "repair" } else { "change" })]).inc();
    }

    /// Notes that an object was deleted.
    pub fn deleted(&self) {
        self.writes.get_or_create(&vec![("for", "deletion")]).inc();
    }

    /// Notes that a request failed.
    pub fn failed(&self, trouble: Trouble) {
        self.failures.get_or_create(&vec![("trouble", trouble.name())]).inc();
    }

    /// Notes a repair of what somebody keeps changing.
    pub fn fight(&self) {
        self.fights.inc();
    }

    /// Counts an object of a member that is not believed.
    pub fn refused(&self, member: &ClusterName, reason: Reason) {
        let refusal = Refusal { member: member.to_string(), reason: reason.name() };
        self.refused.get_or_create(&refusal).inc();
    }

    /// Forgets a member that is gone.
    pub fn forget(&self, member: &ClusterName) {
        self.arrivals.forget(member);
        for reason in Reason::ALL {
            self.refused.remove(&Refusal { member: member.to_string(), reason: reason.name() });
        }
    }
}

// === impl Webhook ===

impl Webhook {
    fn new(registry: &mut Registry) -> Self {
        // From 50 µs to 0.8 s: an answer is computed from memory.
        let durations = || Histogram::new(exponential_buckets(0.000_05, 2.0, 15));
        let this = Self {
            certificate_expiry: Gauge::default(),
            certificate_failures: Counter::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
        };
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the certificate in use expires, in seconds since 1970",
            this.certificate_expiry.clone(),
        );
        registry.register(
            "certificate_failures",
            "How often a certificate could not be renewed or taken over",
            this.certificate_failures.clone(),
        );
        registry.register("requests", "Admission requests by route and verdict", this.requests.clone());
        registry.register(
            "request_duration_seconds",
            "What answering an admission request took, by route",
            this.durations.clone(),
        );
        this
    }

    /// Notes which certificate is in use.
    pub fn certificate(&self, until: i64) {
        self.certificate_expiry.set(until);
    }

    /// Notes that a certificate could not be renewed or taken over.
    pub fn certificate_failed(&self) {
        self.certificate_failures.inc();
    }

    /// Notes an answer.
    pub fn answered(&self, route: &'static str, allowed: bool, took: Duration) {
        let verdict = if allowed { "allowed" } else { "refused" };
        self.requests.get_or_create(&vec![("route", route), ("verdict", verdict)]).inc();
        self.durations.get_or_create(&vec![("route", route)]).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_what_prometheus_reads() {
        let metrics = Metrics::default();
        metrics.webhook.certificate(1_800_000_000);
        metrics.webhook.certificate_failed();
        metrics.webhook.answered("validate", false, Duration::from_micros(70));
        metrics.agent.wrote("services");
        metrics.propagation.refused(&"member1".parse().unwrap(), Reason::Address);
        metrics.propagation.refused(&"member2".parse().unwrap(), Reason::Size);
        let millis = Duration::from_millis;
        metrics.propagation.arrivals.template(&"member1".parse().unwrap(), millis(3));
        metrics.propagation.arrivals.endpoints(&"member1".parse().unwrap(), millis(0));
        metrics.propagation.arrivals.endpoints(&"member2".parse().unwrap(), millis(5));
        metrics.propagation.forget(&"member2".parse().unwrap());
        assert!(metrics.text().unwrap().contains("tombolo_leader 0"));
        metrics.leader.follow(&Claim::always());
        let text = metrics.text().unwrap();
        for line in [
            "tombolo_leader 1",
            "tombolo_webhook_certificate_expiry_timestamp_seconds 1800000000",
            "tombolo_webhook_certificate_failures_total 1",
            "tombolo_agent_writes_total{kind=\"services\"} 1",
            "tombolo_template_to_member_seconds_bucket{le=\"0.002\",member=\"member1\"} 0",
            "tombolo_template_to_member_seconds_bucket{le=\"0.004\",member=\"member1\"} 1",
            "tombolo_template_to_member_seconds_bucket{le=\"65.536\",member=\"member1\"} 1",
            "tombolo_endpoint_to_importer_seconds_bucket{le=\"0.001\",member=\"member1\"} 1",
            "tombolo_propagation_refused_total{member=\"member1\",reason=\"address\"} 1",
            "tombolo_webhook_requests_total{route=\"validate\",verdict=\"refused\"} 1",
            "tombolo_webhook_request_duration_seconds_bucket{le=\"0.0001\",route=\"validate\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("member2"), "what is gone is not counted any more: {text}");
    }
}
