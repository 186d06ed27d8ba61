//! How the hub is inside, for metrics and for whoever looks for a fault: how much each cache holds with a checksum, so that two replicas
//! can be compared, and how each member's link is. No object's content and no credential is in it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    engine::Engine,
    link::{Heartbeat, Link, Reachability},
};
use crate::{
    decide::{
        exchange::{Exchange, Part, Tally, Trust},
        freshness::Mark,
        sum::Sum,
    },
    shell::{
        health::Readiness,
        metrics::{Fleet, MemberState, Metrics},
        queue::Load,
    },
};

/// Answers from now on whoever reads metrics or the inner state.
pub fn show(engine: &Arc<Engine>, metrics: &Metrics, readiness: &Readiness) {
    let of_metrics = engine.clone();
    metrics.fleet.answer_by(move || fleet(&of_metrics));
    let of_state = engine.clone();
    readiness.state.answer_by(move || state(&of_state));
}

/// How members and services are.
fn fleet(engine: &Engine) -> Fleet {
    let tally = engine.look_exchange(Exchange::tally);
    let members = engine.links().into_values().map(|link| MemberState {
        ready: matches!(link.health.confirmed(), Some(Reachability::Ready(_))),
        agent: link.health.agent() == Some(Heartbeat::Beats),
        trusted: engine
            .look_exchange(|exchange| exchange.trust(&link.name))
            .map(|trust| trust == Trust::Full),
        grade: engine.look_exchange(|exchange| exchange.grade(&link.name)),
        queues: queues(&link),
        failed: engine.claim.holds().then(|| engine.report.failures(&link.name)),
        stale: [Mark::Kept, Mark::Withdrawn]
            .map(|mark| (mark, tally.stale.get(&(link.name.clone(), mark)).copied().unwrap_or_default()))
            .into(),
        name: link.name.clone(),
    });
    Fleet { members: members.collect(), conflicts: tally.conflicts }
}

fn queues(link: &Link) -> [(&'static str, Load); 2] {
    let (copies, services) = link.loads();
    [("copies", copies), ("services", services)]
}

/// The hub's inner state.
fn state(engine: &Engine) -> Value {
    let tally = engine.look_exchange(Exchange::tally);
    let (view, world) = engine.look(|world, view| {
        let services = view.services().keys();
        let unsynced: Vec<_> = view.unsynced().map(|source| format!("{source:?}")).collect();
        let view = json!({
            "unsynced": unsynced,
            "clusters": sum(Sum::of(view.members().keys())),
            "namespaces": sum(Sum::of(view.namespaces().map(|(name, _)| name))),
            "propagationPolicies": sum(Sum::of(view.propagations().keys())),
            "overridePolicies": sum(Sum::of(view.overrides().keys())),
            "services": sum(Sum::of(services)),
            "serviceExports": sum(Sum::of(view.exports().keys())),
            "serviceImports": sum(Sum::of(view.imports().keys())),
        });
        (view, json!({ "templates": sum(world.templates()), "copies": sum(world.copies()) }))
    });
    let members: Map<String, Value> = engine
        .links()
        .into_values()
        .map(|link| (link.name.to_string(), member(engine, &link, &tally)))
        .collect();
    json!({
        "leader": engine.claim.holds(),
        "hub": &*engine.id(),
        "view": view,
        "world": world,
        "services": tally.services,
        "members": members,
    })
}

/// How a member's link is, and what is kept of the member.
fn member(engine: &Engine, link: &Link, tally: &Tally) -> Value {
    let health = match link.health.confirmed() {
        None => "Unknown",
        Some(Reachability::Ready(_)) => "Ready",
        Some(Reachability::NotReady(_)) => "NotReady",
        Some(Reachability::Unreachable(_)) => "Unreachable",
        Some(Reachability::Unauthorized(_)) => "Unauthorized",
        Some(Reachability::Unusable(..)) => "Unusable",
    };
    let kept = tally.members.get(&link.name);
    let parts: Map<String, Value> = Part::ALL
        .into_iter()
        .map(|part| {
            let held = kept.and_then(|kept| kept.get(&part)).copied().unwrap_or_default();
            let mut told = sum(held);
            told["known"] = engine.look_exchange(|exchange| exchange.knows(&link.name, part)).into();
            (format!("{part:?}").to_lowercase(), told)
        })
        .collect();
    let copies = link.copies();
    let queues = queues(link).map(|(of, load)| (of.to_owned(), load.told()));
    json!({
        "health": health,
        "agent": link.health.agent().map_or_else(|| "Unknown".to_owned(), |agent| format!("{agent:?}")),
        "freshness": engine.look_exchange(|exchange| exchange.grade(&link.name)).name(),
        "session": copies.is_some(),
        "copies": sum(copies.unwrap_or_default()),
        "queues": Map::from_iter(queues),
        "services": parts,
    })
}

/// A sum as it is shown.
fn sum(Sum { count, checksum }: Sum) -> Value {
    json!({ "count": count, "checksum": format!("{checksum:016x}") })
}
