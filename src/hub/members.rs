//! Members: a link for every Cluster, their status on the hub, and their leaving.
//!
//! [`run`] is the only entry. Links run in every replica; status, taints and finalizers are written by the leader.

mod leaving;
mod rounds;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context;
use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use kube_runtime::events::{Event, EventType};
use serde_json::json;
use tokio::time::Instant;

use self::rounds::{Rounds, SELDOM, SOON, Seen};
use super::{
    engine::Engine,
    link::{Heartbeat, Link, Reachability},
};
use crate::{
    api::{
        Cluster,
        names::{condition, event, finalizer, karmada, object, reason},
    },
    decide::{exchange::Trust, ids::ClusterName},
    shell::clock,
};

/// What of members becomes known within this time is told together.
const TOGETHER: Duration = Duration::from_millis(500);
/// What one look at a member that stays may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps a link for every Cluster.
pub async fn run(engine: Arc<Engine>) {
    let (mut rounds, mut looks) = (Rounds::default(), FuturesUnordered::new());
    let (mut kept, mut state) = (false, State::Unknown);
    loop {
        if !kept {
            state = keep(&engine, &mut rounds);
        }
        let now = Instant::now();
        let next = match state {
            State::Unknown => now + SOON,
            State::Follows => now + SELDOM,
            State::Leads => {
                for (name, link) in engine.links() {
                    if let Some(look) = rounds.begin(&name, now) {
                        looks.push(look_at(engine.clone(), link, look));
                    }
                }
                rounds.next().unwrap_or(now + SELDOM)
            }
        };
        kept = tokio::select! {
            () = engine.members_changed.notified() => {
                rounds.news(Instant::now());
                false
            }
            // What is refused may change often: it is told together.
            () = engine.trust_changed.notified() => {
                rounds.news(Instant::now() + TOGETHER);
                false
            }
            Some((name, look, seen)) = looks.next() => {
                rounds.end(&name, look, seen, Instant::now());
                true
            }
            () = tokio::time::sleep_until(next) => false,
        };
    }
}

/// What is this replica's to do.
#[derive(Clone, Copy)]
enum State {
    /// Who is a member is not known yet.
    Unknown,
    /// It keeps links, and writes nothing.
    Follows,
    /// It sees to members.
    Leads,
}

/// Starts and ends links.
fn keep(engine: &Arc<Engine>, rounds: &mut Rounds) -> State {
    if !engine.view.read().is_synced() {
        return State::Unknown;
    }
    let names: BTreeSet<ClusterName> = engine.view.read().members().keys().cloned().collect();
    for (name, link) in engine.links() {
        if !names.contains(&name) {
            tracing::info!(member = %name, "it is no member any more");
            link.stop();
            engine.remove_link(&name);
            rounds.forget(&name);
        }
    }
    // Before anything is read: nothing is believed by ranges that are not known.
    engine.take_ranges();
    for name in names {
        if !engine.links().get(&name).is_some_and(|link| link.runs()) {
            tracing::info!(member = %name, "a member");
            engine.add_link(Link::start(engine.clone(), name));
        }
    }
    if engine.claim.holds() { State::Leads } else { State::Follows }
}

/// Looks at one member, however long that takes.
async fn look_at(engine: Arc<Engine>, link: Arc<Link>, look: u64) -> (ClusterName, u64, Seen) {
    let seen = attend(&engine, &link).await.unwrap_or_else(|e| {
        tracing::warn!(member = %link.name, "failed to see to its Cluster, trying again: {e:#}");
        Seen::Failed
    });
    (link.name.clone(), look, seen)
}

/// Sees to one Cluster.
async fn attend(engine: &Arc<Engine>, link: &Arc<Link>) -> anyhow::Result<Seen> {
    let clusters: Api<Cluster> = Api::all(engine.writer.clone());
    let Some(cluster) = clusters.get_opt(link.name.as_str()).await? else { return Ok(Seen::Done) };
    let ours = cluster.finalizers().iter().any(|name| name == finalizer::MEMBER);
    if cluster.metadata.deletion_timestamp.is_some() {
        return if ours { leaving::see_off(engine, link, &cluster).await } else { Ok(Seen::Done) };
    }
    let told = tokio::time::timeout(PATIENCE, tell(engine, link, &clusters, &cluster, ours));
    told.await.context("it took too long")??;
    Ok(Seen::Done)
}

/// Says on the Cluster of a member that stays how it is.
async fn tell(
    engine: &Engine,
    link: &Link,
    clusters: &Api<Cluster>,
    cluster: &Cluster,
    ours: bool,
) -> kube::Result<()> {
    if !ours {
        let mut all = cluster.finalizers().to_vec();
        all.push(finalizer::MEMBER.to_owned());
        let patch = json!({ "metadata": { "finalizers": all, "resourceVersion": cluster.metadata.resource_version } });
        clusters.patch(link.name.as_str(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    if let Some(health) = link.health.confirmed() {
        write_status(engine, clusters, cluster, link, &health).await?;
        write_taints(clusters, cluster, &health).await?;
    }
    engine.record_server(clusters, cluster, &link.name).await
}

/// What the Ready condition says: truth, reason and message.
pub(super) fn ready(health: &Reachability) -> (&'static str, &str, String) {
    match health {
        Reachability::Ready(_) => {
            ("True", reason::CLUSTER_READY, "its API server answers and is ready".to_owned())
        }
        Reachability::NotReady(why) => {
            ("False", reason::CLUSTER_NOT_READY, format!("its API server is not ready: {why}"))
        }
        Reachability::Unreachable(why) => {
            ("Unknown", reason::CLUSTER_NOT_REACHABLE, format!("its API server does not answer: {why}"))
        }
        Reachability::Unauthorized(why) => (
            "False",
            reason::CREDENTIALS_EXPIRED,
            format!(
                "its API server does not accept the token in the Cluster's Secret: {why}; join it again to renew it"
            ),
        ),
        Reachability::Unusable(reason, why) => ("False", reason, why.clone()),
    }
}

/// What the AgentReady condition says: truth, reason and message.
pub(super) fn agent_ready(heartbeat: Heartbeat) -> (&'static str, &'static str, String) {
    let lease = format!("the Lease {}/{}", object::NAMESPACE, object::AGENT);
    match heartbeat {
        Heartbeat::Beats => ("True", reason::AGENT_READY, "its agent is at work".to_owned()),
        Heartbeat::Silent => (
            "False",
            reason::AGENT_SILENT,
            format!("its agent does not renew {lease}: look at the agent's pods there"),
        ),
        Heartbeat::Absent => (
            "False",
            reason::NO_AGENT,
            format!(
                "there is no agent, for there is not {lease}: its services are neither exported nor imported; deploy it with `tombolo join`"
            ),
        ),
    }
}

async fn write_status(
    engine: &Engine,
    clusters: &Api<Cluster>,
    cluster: &Cluster,
    link: &Link,
    health: &Reachability,
) -> kube::Result<()> {
    let before = cluster.status.clone().unwrap_or_default();
    let mut after = before.clone();
    if let Reachability::Ready(version) = health {
        after.kubernetes_version = Some(version.clone());
    }
    let (truth, reason, message) = ready(health);
    set_condition(&mut after.conditions, condition::READY, truth, reason, message);
    if let Some(heartbeat) = link.health.agent() {
        let (truth, reason, message) = agent_ready(heartbeat);
        set_condition(&mut after.conditions, condition::AGENT_READY, truth, reason, message);
    }
    if let Some(trust) = engine.look_exchange(|exchange| exchange.trust(&link.name)) {
        let (truth, reason) = match &trust {
            Trust::Full => ("True", reason::ALL_BELIEVED),
            Trust::Refused { .. } => ("False", reason::REFUSED),
        };
        let message = trust.message(&cluster.name_any());
        set_condition(&mut after.conditions, condition::DATA_TRUSTED, truth, reason, message);
    }
    let orphans = engine.report.orphans(engine, &link.name);
    tell_while(&mut after.conditions, &ORPHANS, orphans);
    let stale = engine.report.stale(engine, &link.name);
    tell_while(&mut after.conditions, &STALE, stale);
    if after == before {
        return Ok(());
    }
    let patch = json!({ "status": after, "metadata": { "uid": cluster.uid() } });
    clusters.patch_status(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    tell_trust(engine, cluster, &before.conditions, &after.conditions);
    Ok(())
}

/// A condition that is there since it had to be told the first time that something fails: its type, and what it says when that is over.
struct Lasting {
    type_: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// What could not be removed and has no template that could tell.
const ORPHANS: Lasting = Lasting {
    type_: condition::COPIES_REMOVED,
    reason: reason::ALL_REMOVED,
    message: "what has no template any more is gone",
};
/// What could not be written and has no policy that could tell.
const STALE: Lasting = Lasting {
    type_: condition::COPIES_CURRENT,
    reason: reason::ALL_CURRENT,
    message: "what no policy selects any more is as its templates say",
};

/// Says what fails, and when that is over.
fn tell_while(conditions: &mut Vec<Condition>, lasting: &Lasting, fails: Option<String>) {
    let told = conditions.iter().any(|of| of.type_ == lasting.type_);
    match fails {
        Some(why) => set_condition(conditions, lasting.type_, "False", reason::FAILED, why),
        None if told => {
            set_condition(conditions, lasting.type_, "True", lasting.reason, lasting.message.to_owned());
        }
        None => {}
    }
}

/// Tells by an event that something of a member is not believed, or that all of it is again.
fn tell_trust(engine: &Engine, cluster: &Cluster, before: &[Condition], after: &[Condition]) {
    let of = |all: &[Condition]| all.iter().find(|one| one.type_ == condition::DATA_TRUSTED).cloned();
    let (before, Some(after)) = (of(before), of(after)) else { return };
    let told = before.as_ref().map(|before| (&*before.status, &*before.message));
    let well = after.status == "True";
    if told == Some((&*after.status, &*after.message)) || (told.is_none() && well) {
        return;
    }
    engine.report.tell(
        cluster.object_ref(&()),
        Event {
            type_: if well { EventType::Normal } else { EventType::Warning },
            reason: if well { event::DATA_BELIEVED } else { event::DATA_REFUSED }.to_owned(),
            note: Some(after.message.chars().take(1000).collect()),
            action: "Judge".to_owned(),
            secondary: None,
        },
    );
}

/// Keeps objects that are not there yet away from a member that is not well, by Karmada's own taints.
async fn write_taints(clusters: &Api<Cluster>, cluster: &Cluster, health: &Reachability) -> kube::Result<()> {
    let Some(taints) = tainted(&cluster.spec.taints, health) else { return Ok(()) };
    let patch = |taints: &[Taint], of: &Cluster| {
        let patch = json!({ "spec": { "taints": taints }, "metadata": { "resourceVersion": of.metadata.resource_version } });
        Patch::Merge(patch)
    };
    let name = cluster.name_any();
    match clusters.patch(&name, &PatchParams::default(), &patch(&taints, cluster)).await {
        // Its status was just written, or somebody else's taints: those are not to be undone.
        Err(kube::Error::Api(status)) if status.is_conflict() => {
            let now = clusters.get(&name).await?;
            let Some(taints) = tainted(&now.spec.taints, health) else { return Ok(()) };
            clusters.patch(&name, &PatchParams::default(), &patch(&taints, &now)).await.map(drop)
        }
        done => done.map(drop),
    }
}

/// The taints of a member by its health, where those that it has are others.
fn tainted(before: &[Taint], health: &Reachability) -> Option<Vec<Taint>> {
    let wanted = match health {
        Reachability::Ready(_) => None,
        Reachability::Unreachable(_) => Some(karmada::TAINT_UNREACHABLE),
        _ => Some(karmada::TAINT_NOT_READY),
    };
    let ours = [karmada::TAINT_UNREACHABLE, karmada::TAINT_NOT_READY];
    let is = |taint: &Taint, key: &str| taint.key == key && taint.effect == "NoSchedule";
    let kept = before
        .iter()
        .filter(|taint| !ours.iter().any(|key| is(taint, key)) || wanted.is_some_and(|key| is(taint, key)));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    if let Some(key) = wanted.filter(|key| !taints.iter().any(|taint| is(taint, key))) {
        taints.push(Taint {
            key: key.to_owned(),
            effect: "NoSchedule".to_owned(),
            time_added: Some(now()),
            value: None,
        });
    }
    (taints != before).then_some(taints)
}

fn set_condition(conditions: &mut Vec<Condition>, type_: &str, status: &str, reason: &str, message: String) {
    let old = conditions
        .iter()
        .position(|condition| condition.type_ == type_)
        .map(|place| conditions.remove(place));
    let since = old.filter(|old| old.status == status).map_or_else(now, |old| old.last_transition_time);
    conditions.push(Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: None,
    });
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

fn now() -> Time {
    Time(clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_removed_or_written_is_told_until_it_is_and_not_before() {
        let mut conditions = Vec::new();
        tell_while(&mut conditions, &ORPHANS, None);
        assert!(conditions.is_empty(), "there was nothing to tell");
        tell_while(&mut conditions, &ORPHANS, Some("no right".to_owned()));
        assert_eq!((&*conditions[0].status, &*conditions[0].message), ("False", "no right"));
        tell_while(&mut conditions, &ORPHANS, None);
        assert_eq!((&*conditions[0].type_, &*conditions[0].status), (condition::COPIES_REMOVED, "True"));
    }

    #[test]
    fn taints_of_health_come_and_go_and_a_users_own_stay() {
        let own = Taint { key: "own".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let keys = |taints: Option<Vec<Taint>>| {
            taints.map(|all| all.into_iter().map(|taint| taint.key).collect::<Vec<_>>())
        };
        let (well, lost) = (Reachability::Ready("v1".to_owned()), Reachability::Unreachable(String::new()));
        assert_eq!(tainted(std::slice::from_ref(&own), &well), None);
        let both = tainted(&[own], &lost).unwrap();
        assert_eq!(keys(Some(both.clone())).unwrap(), ["own", karmada::TAINT_UNREACHABLE]);
        assert_eq!(tainted(&both, &lost), None, "it is said once");
        assert_eq!(keys(tainted(&both, &well)).unwrap(), ["own"]);
    }
}
