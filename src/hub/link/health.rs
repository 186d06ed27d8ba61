//! Whether a member is well: a probe every few seconds, which also notices that the member is not the one it should be, or that it
//! went back to an earlier state.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, api::ListParams};
use parking_lot::Mutex;

use super::{heartbeat::Heartbeat, reconcile::lacking, session::Session};
use crate::{
    api::names::{object, reason},
    decide::{
        claims::Claimed,
        health::{Monitor, Probe, Tide},
        ids::ClusterName,
    },
    hub::engine::Engine,
    shell::{
        clock,
        trouble::{Trouble, trouble},
    },
};

/// Between two probes.
const INTERVAL: Duration = Duration::from_secs(5);
/// A UID that is longer is none.
const UID: usize = 253;
/// Between two probes of a member that is not well.
const SOON: Duration = Duration::from_secs(2);
/// Between two looks whether another member is the same cluster.
const MOMENT: Duration = Duration::from_millis(250);
/// What one probe may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// As many failures in a row, and everything is read anew when the member answers again.
const FORGOTTEN: u32 = 2;

/// What is known of a member's health. It outlives sessions.
#[derive(Debug)]
pub struct Health(Mutex<State>);

#[derive(Debug)]
struct State {
    monitor: Monitor,
    tide: Tide,
    agent: Option<Heartbeat>,
}

/// What is confirmed of a member.
pub type Reachability = Probe;

// === impl Health ===

impl Health {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { monitor: Monitor::default(), tide: Tide::default(), agent: None }))
    }

    /// What is confirmed; none before the first probe.
    pub fn confirmed(&self) -> Option<Reachability> {
        self.0.lock().monitor.confirmed().cloned()
    }

    /// Whether nothing is confirmed yet: neither which cluster it is, nor that it cannot be told.
    pub fn is_unknown(&self) -> bool {
        self.0.lock().monitor.confirmed().is_none()
    }

    /// Whether it was identified as none of ours to use: the hub itself, another hub's, another Cluster's.
    pub fn leads_elsewhere(&self) -> bool {
        const ELSEWHERE: [&str; 3] =
            [reason::CLUSTER_IS_HUB, reason::CLUSTER_OF_ANOTHER_HUB, reason::CLUSTER_DUPLICATED];
        matches!(self.0.lock().monitor.confirmed(), Some(Probe::Unusable(why, _)) if ELSEWHERE.contains(why))
    }

    /// What is known of its agent, once something is.
    pub fn agent(&self) -> Option<Heartbeat> {
        self.0.lock().agent
    }

    /// Takes note of its agent; says whether that is news.
    pub(super) fn hear(&self, heartbeat: Heartbeat) -> bool {
        self.0.lock().agent.replace(heartbeat) != Some(heartbeat)
    }

    /// Takes note that there is no way into the member.
    pub(super) fn unusable(&self, engine: &Engine, name: &ClusterName, reason: &'static str, why: &str) {
        if self.0.lock().monitor.note(Probe::Unusable(reason, why.to_owned())) {
            tracing::warn!(member = %name, reason, "it cannot be used: {why}");
            engine.members_changed.notify_one();
            engine.report.look_again();
        }
    }
}

// === impl Session ===

impl Session {
    /// Probes the member until a new session has to begin, and says why.
    pub(super) async fn watch_health(&self, health: &Health) -> &'static str {
        let mut identified = false;
        loop {
            let mut probe = self.probe().await;
            if !identified && matches!(probe, Probe::Ready(_)) {
                probe = match self.identify(probe).await {
                    Ok(probe) => probe,
                    Err(wait) => {
                        tokio::time::sleep(clock::jittered(wait)).await;
                        continue;
                    }
                };
            }
            if let Probe::Unusable(reason, why) = &probe {
                health.unusable(&self.engine, &self.name, reason, why);
                return "it cannot be used";
            }
            let well = matches!(probe, Probe::Ready(_));
            let (changed, failed_before) = {
                let mut state = health.0.lock();
                let before = state.monitor.failures();
                (state.monitor.note(probe.clone()), before)
            };
            if changed {
                tracing::info!(member = %self.name, "health: {probe:?}");
                self.engine.members_changed.notify_one();
                self.engine.report.look_again();
            }
            if well {
                if failed_before >= FORGOTTEN && identified {
                    return "it answers again";
                }
                if !std::mem::replace(&mut identified, true) {
                    self.is_identified.store(true, Ordering::Relaxed);
                    self.identified.notify_one();
                }
                self.link_answered();
                if self.went_back(health).await {
                    return "it went back to an earlier state";
                }
            } else {
                self.link_failed();
            }
            tokio::time::sleep(clock::jittered(if well { INTERVAL } else { SOON })).await;
        }
    }

    async fn probe(&self) -> Probe {
        let request = match http::Request::get("/readyz").body(Vec::new()) {
            Ok(request) => request,
            Err(e) => return Probe::NotReady(e.to_string()),
        };
        // At once: a member that takes two seconds for each is slow, not gone.
        let asked =
            async { tokio::try_join!(self.writer.request_text(request), self.writer.apiserver_version()) };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok((_, version))) => Probe::Ready(version.git_version),
            Ok(Err(error)) => failed(&error),
            Err(_) => silent(),
        }
    }

    /// What a good answer is worth, by which cluster gave it: it has to be one of its own, and ours. Where that is not decided, when to
    /// ask again.
    async fn identify(&self, good: Probe) -> Result<Probe, Duration> {
        let hub = kube_system(&self.engine.hub).await.map_err(|e| {
            tracing::warn!(member = %self.name, "failed to tell which cluster the hub is, trying again: {e}");
            SOON
        })?;
        let asked = async { tokio::try_join!(kube_system(&self.writer), self.marker()) };
        let (own, marker) = match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => return Ok(unidentified(&self.name, &error)),
            Err(_) => return Ok(silent()),
        };
        if own.is_empty() || own.len() > UID {
            let why =
                "which cluster it is cannot be told: its Namespace kube-system has no UID that can be used";
            return Ok(Probe::NotReady(why.to_owned()));
        }
        if own == hub {
            let why = "spec.apiEndpoint leads to the hub itself, which cannot be its own member";
            return Ok(Probe::Unusable(reason::CLUSTER_IS_HUB, why.to_owned()));
        }
        let says = |key: &str| marker.get(key).map(String::as_str);
        let marked_by = says(object::MARKER_HUB);
        self.marked.store(marked_by == Some(&*self.hub), Ordering::Relaxed);
        if let Some(other) = marked_by.filter(|other| **other != *self.hub) {
            let why = format!(
                "it is a member of another hub ({other}); take it over by `tombolo join {} --take-over`",
                self.name
            );
            return Ok(Probe::Unusable(reason::CLUSTER_OF_ANOTHER_HUB, why));
        }
        let marked = marked_by.and_then(|_| says(object::MARKER_CLUSTER));
        match self.engine.claim(&self.name, &own, marked) {
            Claimed::Granted => Ok(good),
            Claimed::Refused(twin) => {
                let why = format!("it is the same cluster as {twin}; a cluster can be a member once");
                Ok(Probe::Unusable(reason::CLUSTER_DUPLICATED, why))
            }
            Claimed::Open(other)
                if self.engine.links().get(&other).is_some_and(|it| !it.health.is_unknown()) =>
            {
                let why = format!(
                    "it may be the same cluster as {other}, of which it is not known where it leads: nothing is read or written there \
                     until that one answers, or is unjoined"
                );
                Ok(Probe::Unusable(reason::CLUSTER_NOT_IDENTIFIED, why))
            }
            Claimed::Ousted(other) | Claimed::Open(other) => {
                tracing::debug!(member = %self.name, %other, "it may be the same cluster");
                Err(MOMENT)
            }
        }
    }

    /// What the member says of whose it is.
    async fn marker(&self) -> kube::Result<BTreeMap<String, String>> {
        let markers: Api<ConfigMap> = Api::namespaced(self.writer.clone(), object::NAMESPACE);
        match markers.get_opt(object::MARKER).await {
            Ok(marker) => Ok(marker.and_then(|marker| marker.data).unwrap_or_default()),
            // Whoever may not read it was not set up by `tombolo join`; then there is no mark to read.
            Err(error) if trouble(&error) == Trouble::Forbidden => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether the member went back to an earlier state, as one that was restored from a backup does: watches would be silent
    /// for ever.
    async fn went_back(&self, health: &Health) -> bool {
        // Before it is asked: what watches show meanwhile may be newer than its answer.
        let seen = self.seen.lock().newest;
        let namespaces: Api<Namespace> = Api::all(self.writer.clone());
        let Ok(Ok(list)) =
            tokio::time::timeout(PATIENCE, namespaces.list_metadata(&ListParams::default().limit(1))).await
        else {
            return false;
        };
        let now = list.metadata.resource_version.and_then(|version| version.parse::<u64>().ok());
        now.is_some_and(|now| health.0.lock().tide.went_back(seen, now))
    }
}

/// The id of a cluster.
async fn kube_system(client: &Client) -> kube::Result<Arc<str>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_metadata("kube-system").await?;
    Ok(found.metadata.uid.unwrap_or_default().into())
}

fn silent() -> Probe {
    Probe::Unreachable(format!("it did not answer within {PATIENCE:?}"))
}

/// What a failed request says of a member.
fn failed(error: &kube::Error) -> Probe {
    match trouble(error) {
        Trouble::Credentials => Probe::Unauthorized(error.to_string()),
        Trouble::Link if !matches!(error, kube::Error::Api(_)) => Probe::Unreachable(said(error)),
        _ => Probe::NotReady(said(error)),
    }
}

/// The same, of one that was to show which cluster it is.
fn unidentified(name: &ClusterName, error: &kube::Error) -> Probe {
    match trouble(error) {
        Trouble::Forbidden => {
            let why = format!("which cluster it is cannot be told: {}", lacking(name, &said(error)));
            Probe::Unusable(reason::CLUSTER_NOT_IDENTIFIED, why)
        }
        Trouble::NotFound | Trouble::Object => {
            Probe::NotReady(format!("which cluster it is cannot be told: {}", said(error)))
        }
        _ => failed(error),
    }
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(inner) = source {
                text = format!("{text}: {inner}");
                source = inner.source();
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, message: &str) -> Probe {
        let error = kube::Error::Api(Status::failure(message, "").with_code(code).boxed());
        unidentified(&"member1".parse().unwrap(), &error)
    }

    #[test]
    fn a_member_that_may_not_be_identified_says_which_right_is_missing() {
        let said = "namespaces \"kube-system\" is forbidden: User \"a\" cannot get resource \"namespaces\"";
        let Probe::Unusable(reason, why) = refused(403, said) else { panic!("it passes") };
        assert_eq!(reason, reason::CLUSTER_NOT_IDENTIFIED);
        assert!(why.contains(said) && why.contains("tombolo join member1 --grant"), "{why}");
    }

    #[test]
    fn whatever_else_keeps_a_member_from_being_identified_is_a_fault_of_its_health() {
        assert!(matches!(refused(401, "Unauthorized"), Probe::Unauthorized(_)));
        assert!(matches!(refused(404, "namespaces \"kube-system\" not found"), Probe::NotReady(_)));
        assert!(matches!(refused(503, "shutting down"), Probe::NotReady(_)));
    }
}
