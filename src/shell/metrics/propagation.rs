//! What the propagator counts.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use super::{Arrivals, Labels, Reconciles, api, catalogue::Catalogue};
use crate::{
    decide::{exchange::Reason, ids::ClusterName},
    shell::trouble::Trouble,
};

/// What the propagator counts.
#[derive(Debug, Clone)]
pub struct Propagation {
    writes: Family<Labels, Counter>,
    failures: Family<Failure, Counter>,
    fights: Counter,
    refused: Family<Refusal, Counter>,
    /// How long changes take from end to end.
    pub arrivals: Arrivals,
    /// What was reconciled.
    pub reconciles: Reconciles,
}

/// Whose API server did not do what it was asked, and what that means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    member: String,
    trouble: &'static str,
}

/// Whose object is not believed, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    member: String,
    reason: &'static str,
}

// === impl Propagation ===

impl Propagation {
    pub(super) fn new(all: &mut Catalogue, arrivals: Arrivals, reconciles: Reconciles) -> Self {
        let this = Self {
            writes: Family::default(),
            failures: Family::default(),
            fights: Counter::default(),
            refused: Family::default(),
            arrivals,
            reconciles,
        };
        all.add(
            "propagation_writes",
            "Writes to members by what they were for: a change, a repair of what somebody changed there, a deletion",
            &["for"],
            this.writes.clone(),
        );
        all.add(
            "propagation_failures",
            "Requests to members that failed, by member and what that means",
            &["member", "trouble"],
            this.failures.clone(),
        );
        all.add("propagation_fights", "Repairs of what somebody keeps changing", &[], this.fights.clone());
        all.add(
            "propagation_refused",
            "Objects of members that were not believed, by member and reason",
            &["member", "reason"],
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

    /// Notes that a request to a member failed.
    pub fn failed(&self, member: &ClusterName, trouble: Trouble) {
        self.failures.get_or_create(&Failure { member: member.to_string(), trouble: trouble.name() }).inc();
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
        self.reconciles.forget(member);
        api().forget(member);
        for trouble in Trouble::ALL {
            self.failures.remove(&Failure { member: member.to_string(), trouble: trouble.name() });
        }
        for reason in Reason::ALL {
            self.refused.remove(&Refusal { member: member.to_string(), reason: reason.name() });
        }
    }
}
