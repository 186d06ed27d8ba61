//! Members: a link for every Cluster, their status on the hub, and their leaving.
//!
//! [`run`] is the only entry. Links run in every replica; status, taints and finalizers are written by the leader.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::join_all;
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

use super::{
    certainty::cluster_kind,
    engine::Engine,
    farewell,
    link::{Heartbeat, Link, Reachability},
};
use crate::{
    api::{
        Cluster,
        names::{annotation, condition, event, finalizer, karmada, object, reason},
    },
    decide::{
        exchange::{Part, Trust},
        ids::ClusterName,
    },
    membership::leave,
    shell::{
        clock,
        trouble::{Trouble, trouble},
    },
};

/// Between two looks where nothing was told.
const SELDOM: Duration = Duration::from_secs(30);
/// Between two looks while a member leaves.
const SOON: Duration = Duration::from_millis(500);
/// What of members becomes known within this time is told together.
const TOGETHER: Duration = Duration::from_millis(500);
/// So many seconds an agent has to remove what it made, before that is done without it.
const AGENTS_TIME: i64 = 60;
/// So many seconds a member has to be cleared that is to leave in any case.
const FORCED: i64 = 60;
/// What the removal of what joining made may take.
const LAST_STEP: Duration = Duration::from_secs(15);
/// What one look at a member may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps a link for every Cluster.
pub async fn run(engine: Arc<Engine>) {
    loop {
        let busy = keep(&engine).await;
        tokio::select! {
            () = engine.members_changed.notified() => {}
            // What is refused may change often: it is told together.
            () = engine.trust_changed.notified() => tokio::time::sleep(TOGETHER).await,
            () = tokio::time::sleep(if busy { SOON } else { SELDOM }) => {}
        }
    }
}

/// Starts and ends links and sees to each member; says whether one leaves.
async fn keep(engine: &Arc<Engine>) -> bool {
    if !engine.view.read().is_synced() {
        return true;
    }
    let names: BTreeSet<ClusterName> = engine.view.read().members().keys().cloned().collect();
    for (name, link) in engine.links() {
        if !names.contains(&name) {
            tracing::info!(member = %name, "it is no member any more");
            link.stop();
            engine.remove_link(&name);
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
    if !engine.claim.holds() {
        return false;
    }
    // Side by side, so that none waits for one that takes its time to leave.
    let links = engine.links();
    let attended = links.values().map(|link| async move {
        match tokio::time::timeout(PATIENCE, attend(engine, link)).await {
            Ok(Ok(leaving)) => leaving,
            Ok(Err(e)) => {
                tracing::warn!(member = %link.name, "failed to write its Cluster, trying again: {e:#}");
                true
            }
            Err(_) => true,
        }
    });
    join_all(attended).await.contains(&true)
}

/// Sees to one Cluster; says whether it leaves.
async fn attend(engine: &Arc<Engine>, link: &Arc<Link>) -> anyhow::Result<bool> {
    let clusters: Api<Cluster> = Api::all(engine.writer.clone());
    let Some(cluster) = clusters.get_opt(link.name.as_str()).await? else { return Ok(false) };
    let ours = cluster.finalizers().iter().any(|name| name == finalizer::MEMBER);
    if cluster.metadata.deletion_timestamp.is_some() {
        if ours {
            see_off(engine, link, &cluster).await?;
        }
        return Ok(ours);
    }
    if !ours {
        let mut all = cluster.finalizers().to_vec();
        all.push(finalizer::MEMBER.to_owned());
        let patch = json!({ "metadata": { "finalizers": all, "resourceVersion": cluster.metadata.resource_version } });
        clusters.patch(link.name.as_str(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    if let Some(health) = link.health.confirmed() {
        write_status(engine, &clusters, &cluster, link, &health).await?;
        write_taints(&clusters, &cluster, &health).await?;
    }
    Ok(false)
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
    tell_orphans(&mut after.conditions, orphans);
    if after == before {
        return Ok(());
    }
    let patch = json!({ "status": after, "metadata": { "uid": cluster.uid() } });
    clusters.patch_status(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    tell_trust(engine, cluster, &before.conditions, &after.conditions);
    Ok(())
}

/// Says what could not be removed and has no template that could tell, and when that is over.
fn tell_orphans(conditions: &mut Vec<Condition>, orphans: Option<String>) {
    let told = conditions.iter().any(|of| of.type_ == condition::COPIES_REMOVED);
    match orphans {
        Some(why) => set_condition(conditions, condition::COPIES_REMOVED, "False", reason::FAILED, why),
        None if told => {
            let message = "what has no template any more is gone".to_owned();
            set_condition(conditions, condition::COPIES_REMOVED, "True", reason::ALL_REMOVED, message);
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

/// How a member is seen off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// It answers: what is there of ours is seen to.
    Together,
    /// Nothing is done there, for this reason.
    Without(&'static str),
    /// Not yet, for this reason.
    Waits(&'static str),
}

/// How a member is seen off, by what is confirmed of it.
fn parting(health: Option<&Reachability>, at_last_step: bool, forced: bool) -> Parting {
    match health {
        // As after every start of a hub: a member that was not asked yet is not one that does not answer.
        None => Parting::Waits("whether the member answers is not known yet"),
        Some(Reachability::Ready(_)) => Parting::Together,
        Some(Reachability::Unusable(reason::CLUSTER_DUPLICATED | reason::CLUSTER_IS_HUB, _)) => {
            Parting::Without("it never was a member of its own: what is there is not touched")
        }
        Some(Reachability::Unauthorized(_)) if at_last_step => {
            Parting::Without("it left before an interruption")
        }
        Some(_) if forced => Parting::Without("it does not answer: it leaves all the same, as asked"),
        Some(_) => Parting::Waits(
            "the member does not answer: it is seen off when it does, or by `tombolo unjoin --force` without it",
        ),
    }
}

/// Sees a member off: its copies are let go or deleted, then what `tombolo join` made there goes, then its Cluster.
async fn see_off(engine: &Arc<Engine>, link: &Arc<Link>, cluster: &Cluster) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(engine.writer.clone());
    let name = link.name.as_str();
    let asked = |key: &str| cluster.annotations().get(key).is_some_and(|value| value == "true");
    let parting =
        parting(link.health.confirmed().as_ref(), at_last_step(cluster), asked(annotation::FORCE_UNJOIN));
    let kind_goes = cluster_kind(&engine.hub).await?.is_none_or(|kind| kind.deleting);
    if kind_goes {
        tracing::warn!(member = name, "the kind Cluster is being deleted: the member is left as it is");
    } else if let Parting::Waits(why) = parting {
        return say(&clusters, cluster, reason::PENDING, why.to_owned()).await;
    } else if let Parting::Without(why) = parting {
        tracing::info!(member = name, "{why}");
    } else {
        // It answers, but something there may never go: a right is missing, a finalizer stays.
        let forced = asked(annotation::FORCE_UNJOIN) && leaving_for(cluster, clock::seconds()) > FORCED;
        if forced && !link.is_clear() {
            tracing::warn!(
                member = name,
                "not all could be removed from it: it leaves all the same, as asked"
            );
        } else if !link.is_clear() {
            link.look_at_everything();
            let failed = engine.report.failures(&link.name);
            let left = if failed == 0 {
                String::new()
            } else {
                format!("; {failed} objects could not be let go yet")
            };
            return say(
                &clusters,
                cluster,
                reason::PENDING,
                format!("copies in the member are let go{left}"),
            )
            .await;
        }
        let Some(member) = link.writer() else { return Ok(()) };
        if !asked(annotation::FORCE_UNJOIN) && !agent_is_done(engine, link, &member, cluster).await? {
            return Ok(());
        }
        // Our token goes with it: whoever goes on after an interruption has to know why.
        say(&clusters, cluster, reason::LAST_STEP, "what joining made in the member is removed".to_owned())
            .await?;
        match tokio::time::timeout(LAST_STEP, leave::leave(&member, &engine.id(), name)).await {
            Ok(Ok(())) => {}
            failed if forced => tracing::warn!(
                member = name,
                "failed to remove what joining made there: it leaves all the same, as asked: {failed:?}"
            ),
            Ok(failed) => failed?,
            Err(_) => anyhow::bail!("what joining made there could not be removed in time"),
        }
    }
    // Its status was just written, so it is read again.
    if let Some(cluster) = clusters.get_opt(name).await? {
        let rest: Vec<_> = cluster.finalizers().iter().filter(|name| *name != finalizer::MEMBER).collect();
        let patch = json!({ "metadata": { "finalizers": rest, "resourceVersion": cluster.metadata.resource_version } });
        clusters.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    if kind_goes {
        // It works on by what it knows: its Cluster may come again with its kind.
        return Ok(());
    }
    link.stop();
    tracing::info!(member = name, "it left");
    Ok(())
}

/// Whether nothing is left that the member's agent has to remove. It is waited for; where none is at work, or not for long enough, it is
/// done for it.
async fn agent_is_done(
    engine: &Arc<Engine>,
    link: &Link,
    member: &kube::Client,
    cluster: &Cluster,
) -> anyhow::Result<bool> {
    if !engine.look_exchange(|exchange| exchange.knows(&link.name, Part::Imports)) {
        // Whose imports are not known keeps what serves them.
        return Ok(true);
    }
    let left = match farewell::left(engine, member, &link.name).await {
        Ok(left) => left,
        // Whoever may not look at Services was never to have any made there.
        Err(error) if trouble(&error) == Trouble::Forbidden => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    if left.is_empty() {
        return Ok(true);
    }
    let waited = leaving_for(cluster, clock::seconds());
    if link.health.agent() != Some(Heartbeat::Beats) || waited > AGENTS_TIME {
        tracing::warn!(member = %link.name, "its agent does not remove {}: it is done without it", left.said());
        farewell::remove(member, &left).await?;
    }
    let clusters: Api<Cluster> = Api::all(engine.writer.clone());
    let message = format!("its agent removes {}", left.said());
    say(&clusters, cluster, reason::PENDING, message).await?;
    Ok(false)
}

/// For how many seconds a member has been leaving.
fn leaving_for(cluster: &Cluster, now: i64) -> i64 {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let since = conditions.find(|of| of.type_ == condition::LEAVING);
    since.map_or(0, |since| now - since.last_transition_time.0.as_second())
}

fn at_last_step(cluster: &Cluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|of| of.type_ == condition::LEAVING && of.reason == reason::LAST_STEP)
}

async fn say(
    clusters: &Api<Cluster>,
    cluster: &Cluster,
    reason: &str,
    message: String,
) -> anyhow::Result<()> {
    let before = cluster.status.clone().unwrap_or_default();
    let mut after = before.clone();
    set_condition(&mut after.conditions, condition::LEAVING, "True", reason, message);
    if after != before {
        let patch = json!({ "status": after, "metadata": { "uid": cluster.uid() } });
        clusters.patch_status(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
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
    fn a_member_is_leaving_since_its_condition_says_so() {
        let mut cluster = Cluster::new("a", crate::api::cluster::ClusterSpec::default());
        assert_eq!(leaving_for(&cluster, 100), 0, "it does not say so yet");
        let conditions = &mut cluster.status.get_or_insert_default().conditions;
        set_condition(conditions, condition::LEAVING, "True", reason::PENDING, String::new());
        let since = conditions[0].last_transition_time.0.as_second();
        assert_eq!(leaving_for(&cluster, since + FORCED), FORCED);
    }

    #[test]
    fn a_member_is_abandoned_only_if_it_is_known_not_to_answer() {
        let lost = Reachability::Unreachable(String::new());
        assert!(matches!(parting(None, false, true), Parting::Waits(_)), "the hub has just started");
        assert!(matches!(parting(None, true, true), Parting::Waits(_)));
        assert_eq!(parting(Some(&Reachability::Ready(String::new())), false, true), Parting::Together);
        assert!(matches!(parting(Some(&lost), false, true), Parting::Without(_)));
        assert!(matches!(parting(Some(&lost), false, false), Parting::Waits(_)));
        let unknown = Reachability::Unauthorized(String::new());
        assert!(matches!(parting(Some(&unknown), true, false), Parting::Without(_)));
        assert!(matches!(parting(Some(&unknown), false, false), Parting::Waits(_)));
    }

    #[test]
    fn a_cluster_that_is_another_members_leaves_without_touching_it() {
        for (reason, leaves) in [
            (reason::CLUSTER_DUPLICATED, true),
            (reason::CLUSTER_IS_HUB, true),
            (reason::CLUSTER_CONFIG_INVALID, false),
        ] {
            let refused = Reachability::Unusable(reason, String::new());
            assert_eq!(
                matches!(parting(Some(&refused), false, false), Parting::Without(_)),
                leaves,
                "{reason}"
            );
        }
    }

    #[test]
    fn what_could_not_be_removed_is_told_until_it_is_and_not_before() {
        let mut conditions = Vec::new();
        tell_orphans(&mut conditions, None);
        assert!(conditions.is_empty(), "there was nothing to tell");
        tell_orphans(&mut conditions, Some("no right".to_owned()));
        assert_eq!((&*conditions[0].status, &*conditions[0].message), ("False", "no right"));
        tell_orphans(&mut conditions, None);
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
