//! What Prometheus reads at `/metrics`, beside health. Labels are few and bounded: no object's name is ever one, but for members'.
//!
//! All are registered in a [`Catalogue`], which knows what each is called and what it means: the reference page is made of it.

mod agent;
mod api;
mod arrivals;
mod catalogue;
mod fleet;
mod propagation;
mod reconciles;
mod webhook;

use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

pub(in crate::shell) use self::api::verb;
use self::catalogue::Catalogue;
pub use self::{
    agent::Agent,
    api::{Api, api},
    arrivals::Arrivals,
    catalogue::Described,
    fleet::{Fleet, Gauges, MemberState},
    propagation::Propagation,
    reconciles::Reconciles,
    webhook::Webhook,
};
use super::{asked::Asked, lease::Claim};
use crate::decide::ids::ClusterName;

/// Labels with fixed names and few values.
type Labels = Vec<(&'static str, &'static str)>;

/// All metrics of a process.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    described: Arc<[Described]>,
    /// What the webhook counts.
    pub webhook: Webhook,
    /// Whether this replica leads.
    pub leader: Leader,
    /// What the propagator counts.
    pub propagation: Propagation,
    /// What is measured of members when somebody reads.
    pub fleet: Gauges,
    /// What an agent counts.
    pub agent: Agent,
}

/// Whether this replica leads, asked when somebody reads: it is never out of date.
#[derive(Debug, Clone, Default)]
pub struct Leader {
    gauge: Family<Labels, Gauge>,
    holds: Asked<bool>,
    role: Arc<OnceLock<Role>>,
}

/// Which of the two roles a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The control plane.
    Hub,
    /// That of a member.
    Agent,
}

/// A label: the member that something is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Member {
    member: String,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let mut all = Catalogue::new("tombolo");
        let webhook = Webhook::new(&mut all);
        let leader = Leader::default();
        all.add(
            "leader",
            "Whether this replica of a hub or an agent leads and so may write: 1 or 0",
            &["role"],
            leader.gauge.clone(),
        );
        let reconciles = Reconciles::new(&mut all);
        let arrivals = Arrivals::new(&mut all);
        let propagation = Propagation::new(&mut all, arrivals, reconciles.clone());
        let agent = Agent::new(&mut all, reconciles, leader.holds.clone());
        api().register(&mut all);
        let fleet = Gauges::new(&mut all);
        let (registry, described) = all.finish();
        Self { registry: Arc::new(registry), described, webhook, leader, propagation, fleet, agent }
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

    /// What each is called and means, in the order of their names.
    pub fn described(&self) -> &[Described] {
        &self.described
    }
}

// === impl Leader ===

impl Leader {
    /// Shows this claim from now on; a process has one, and one role.
    pub fn follow(&self, role: Role, claim: &Claim) {
        let claim = claim.clone();
        self.role.get_or_init(|| role);
        self.holds.answer_by(move || claim.holds());
    }

    /// Whether it leads now.
    pub fn leads(&self) -> bool {
        self.holds.ask().unwrap_or_default()
    }

    fn look(&self) {
        if let Some(role) = self.role.get() {
            self.gauge.get_or_create(&vec![("role", role.name())]).set(self.leads().into());
        }
    }
}

// === impl Role ===

impl Role {
    /// As it is called in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Agent => "agent",
        }
    }
}

// === impl Member ===

impl Member {
    fn of(member: &ClusterName) -> Self {
        Self { member: member.to_string() }
    }
}

#[cfg(test)]
mod tests;
