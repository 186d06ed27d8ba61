//! How the agent is inside, for metrics and for whoever looks for a fault: how much each store holds, with a checksum. No object's
//! content is in it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Agent,
    store::{Kept, Store},
};
use crate::shell::{health::Readiness, lease::Claim};

/// Answers from now on whoever reads metrics or the inner state.
pub(super) fn show(agent: &Arc<Agent>, claim: &Claim, readiness: &Readiness) {
    let of_metrics = agent.clone();
    agent.metrics.queue.answer_by(move || of_metrics.queue.load());
    let (agent, claim) = (agent.clone(), claim.clone());
    readiness.state.answer_by(move || state(&agent, &claim));
}

fn state(agent: &Agent, claim: &Claim) -> Value {
    let seen = agent.seen.lock();
    json!({
        "leader": claim.holds(),
        "cluster": seen.cluster.as_ref().map(ToString::to_string),
        "hub": agent.hub.borrow().as_ref().map(|joined| joined.hub.clone()),
        "queue": agent.queue.load().told(),
        "stores": {
            "serviceexports": store(&seen.exports),
            "serviceimports": store(&seen.imports),
            "services": store(&seen.services),
            "endpointslices": store(&seen.slices),
        },
    })
}

fn store<K: Kept>(store: &Store<K>) -> Value {
    let sum = store.sum();
    json!({ "known": store.known, "count": sum.count, "checksum": format!("{:016x}", sum.checksum) })
}
