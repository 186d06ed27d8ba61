//! Members that leave: what is there of ours is seen to, then their Clusters may go.
//!
//! [`see_off`] is the only entry; it is asked again until the member has left.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{rounds::Seen, set_condition};
use crate::{
    api::{
        Cluster,
        names::{annotation, condition, finalizer, reason},
    },
    decide::exchange::Part,
    hub::{
        certainty::cluster_kind,
        engine::Engine,
        farewell,
        link::{Heartbeat, Link, Reachability},
    },
    membership::leave,
    shell::{
        clock,
        trouble::{Trouble, trouble},
    },
};

/// So many seconds an agent has to remove what it made, before that is done without it.
const AGENTS_TIME: i64 = 60;
/// So many seconds a member has to be cleared that is to leave in any case.
const FORCED: i64 = 60;
/// What may take the removal of what its agent made, and of what joining made, from a member that is to leave in any case.
const LAST_STEP: Duration = Duration::from_secs(60);
/// What one round may take. Each of its requests, which can be many, has a limit of its own; what was done stays done.
const ROUND: Duration = Duration::from_secs(600);

/// How a member is seen off.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parting {
    /// It answers: what is there of ours is seen to.
    Together,
    /// Nothing is done there, for this reason.
    Without(&'static str),
    /// Not yet, for this reason.
    Waits(String),
}

/// How a member is seen off, by what is confirmed of it.
fn parting(health: Option<&Reachability>, at_last_step: bool, forced: bool, was_used: bool) -> Parting {
    match health {
        // As after every start of a hub: a member that was not asked yet is not one that does not answer.
        None => Parting::Waits("whether the member answers is not known yet".to_owned()),
        Some(Reachability::Ready(_)) => Parting::Together,
        Some(Reachability::Unusable(reason::CLUSTER_DUPLICATED | reason::CLUSTER_IS_HUB, _))
            if !was_used =>
        {
            Parting::Without("it never was a member of its own: what is there is not touched")
        }
        Some(Reachability::Unauthorized(_)) if at_last_step => {
            Parting::Without("it left before an interruption")
        }
        Some(Reachability::Unusable(..)) if forced => {
            Parting::Without("it cannot be used: it leaves all the same, as asked")
        }
        Some(Reachability::Unusable(_, why)) => Parting::Waits(format!(
            "{why}: the member is seen off when that is put right, or by `tombolo unjoin --force` without it"
        )),
        Some(_) if forced => Parting::Without("it does not answer: it leaves all the same, as asked"),
        Some(_) => Parting::Waits(
            "the member does not answer: it is seen off when it does, or by `tombolo unjoin --force` without it"
                .to_owned(),
        ),
    }
}

/// Whether something may be in a cluster that it led to: where it leads now may be a slip.
fn was_used(cluster: &Cluster) -> bool {
    [annotation::API_SERVER, annotation::KINDS].iter().any(|key| cluster.annotations().contains_key(*key))
}

/// Sees a member off: its copies are let go or deleted, then what `tombolo join` made there goes, then its Cluster.
pub(super) async fn see_off(
    engine: &Arc<Engine>,
    link: &Arc<Link>,
    cluster: &Cluster,
) -> anyhow::Result<Seen> {
    let round = tokio::time::timeout(ROUND, one_round(engine, link, cluster));
    round.await.unwrap_or_else(|_| anyhow::bail!("what is there could not be removed within {ROUND:?}"))
}

async fn one_round(engine: &Arc<Engine>, link: &Arc<Link>, cluster: &Cluster) -> anyhow::Result<Seen> {
    let clusters: Api<Cluster> = Api::all(engine.writer.clone());
    let name = link.name.as_str();
    let asked = |key: &str| cluster.annotations().get(key).is_some_and(|value| value == "true");
    let parting = parting(
        link.health.confirmed().as_ref(),
        at_last_step(cluster),
        asked(annotation::FORCE_UNJOIN),
        was_used(cluster),
    );
    let kind_goes = cluster_kind(&engine.hub).await?.is_none_or(|kind| kind.deleting);
    if kind_goes {
        tracing::warn!(member = name, "the kind Cluster is being deleted: the member is left as it is");
    } else if let Parting::Waits(why) = parting {
        say(&clusters, cluster, reason::PENDING, why).await?;
        // Whatever ends that is told.
        return Ok(Seen::Done);
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
            let message = format!("copies in the member are let go{left}");
            say(&clusters, cluster, reason::PENDING, message).await?;
            return Ok(Seen::Leaves);
        }
        let Some(member) = link.writer() else { return Ok(Seen::Leaves) };
        let patience = if forced { LAST_STEP } else { ROUND };
        match tokio::time::timeout(patience, agent_is_done(engine, link, &member, cluster)).await {
            Ok(Ok(true)) => {}
            left if forced => tracing::warn!(
                member = name,
                "its agent's Services and slices may be left: it leaves all the same, as asked: {left:?}"
            ),
            Ok(left) => return left.map(|_| Seen::Leaves),
            Err(_) => return Ok(Seen::Leaves),
        }
        // Our token goes with it: whoever goes on after an interruption has to know why.
        say(&clusters, cluster, reason::LAST_STEP, "what joining made in the member is removed".to_owned())
            .await?;
        match tokio::time::timeout(patience, leave::leave(&member, &engine.id(), name)).await {
            Ok(Ok(())) => {}
            failed if forced => tracing::warn!(
                member = name,
                "failed to remove what joining made there: it leaves all the same, as asked: {failed:?}"
            ),
            Ok(failed) => failed?,
            Err(_) => anyhow::bail!("what joining made there could not be removed in time"),
        }
    }
    // Its status was just written, so it is read again. One that has its name by now is another member.
    let now = clusters.get_opt(name).await?;
    if let Some(now) = now.filter(|now| now.uid() == cluster.uid()) {
        let rest: Vec<_> = now.finalizers().iter().filter(|name| *name != finalizer::MEMBER).collect();
        let patch =
            json!({ "metadata": { "finalizers": rest, "resourceVersion": now.metadata.resource_version } });
        clusters.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    if kind_goes {
        // It works on by what it knows: its Cluster may come again with its kind.
        return Ok(Seen::Leaves);
    }
    link.stop();
    tracing::info!(member = name, "it left");
    Ok(Seen::Done)
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
        assert!(matches!(parting(None, false, true, true), Parting::Waits(_)), "the hub has just started");
        assert!(matches!(parting(None, true, true, true), Parting::Waits(_)));
        assert_eq!(parting(Some(&Reachability::Ready(String::new())), false, true, true), Parting::Together);
        assert!(matches!(parting(Some(&lost), false, true, true), Parting::Without(_)));
        assert!(matches!(parting(Some(&lost), false, false, true), Parting::Waits(_)));
        let unknown = Reachability::Unauthorized(String::new());
        assert!(matches!(parting(Some(&unknown), true, false, true), Parting::Without(_)));
        assert!(matches!(parting(Some(&unknown), false, false, true), Parting::Waits(_)));
    }

    #[test]
    fn a_cluster_that_is_another_members_leaves_without_touching_it() {
        for (reason, leaves) in [
            (reason::CLUSTER_DUPLICATED, true),
            (reason::CLUSTER_IS_HUB, true),
            (reason::CLUSTER_CONFIG_INVALID, false),
        ] {
            let refused = Reachability::Unusable(reason, "its Secret is gone".to_owned());
            assert!(
                matches!(parting(Some(&refused), false, false, true), Parting::Waits(_)),
                "it led elsewhere"
            );
            match parting(Some(&refused), false, false, false) {
                Parting::Without(_) => assert!(leaves, "{reason}"),
                Parting::Waits(why) => assert!(!leaves && why.starts_with("its Secret is gone: "), "{why}"),
                Parting::Together => panic!("{reason}"),
            }
            assert!(matches!(parting(Some(&refused), false, true, true), Parting::Without(_)));
        }
    }
}
