//! Whether a member is well: a probe every few seconds, which also notices that the member is not the one it should be, or that it
//! went back to an earlier state.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, api::ListParams};
use parking_lot::Mutex;

use super::{heartbeat::Heartbeat, session::Session};
use crate::{
    api::names::{object, reason},
    decide::{
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
/// Between two probes of a member that is not well.
const SOON: Duration = Duration::from_secs(2);
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
    /// The UID of its kube-system: which cluster it is.
    identity: Option<Arc<str>>,
    tide: Tide,
    agent: Option<Heartbeat>,
}

/// What is confirmed of a member.
pub type Reachability = Probe;

// === impl Health ===

impl Health {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            monitor: Monitor::default(),
            identity: None,
            tide: Tide::default(),
            agent: None,
        }))
    }

    /// What is confirmed; none before the first probe.
    pub fn confirmed(&self) -> Option<Reachability> {
        self.0.lock().monitor.confirmed().cloned()
    }

    /// What is known of its agent, once something is.
    pub fn agent(&self) -> Option<Heartbeat> {
        self.0.lock().agent
    }

    /// Takes note of its agent; says whether that is news.
    pub(super) fn hear(&self, heartbeat: Heartbeat) -> bool {
        self.0.lock().agent.replace(heartbeat) != Some(heartbeat)
    }

    /// Which cluster it is, once known.
    pub fn identity(&self) -> Option<Arc<str>> {
        self.0.lock().identity.clone()
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
        self.pause();
        let mut identified = false;
        loop {
            let probe = self.probe().await;
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
                match self.check_identity(health, identified).await {
                    Ok(true) if !identified => {
                        identified = true;
                        self.resume();
                    }
                    Ok(true) => {}
                    Ok(false) => return "it cannot be used",
                    Err(why) => {
                        tracing::debug!(member = %self.name, "failed to tell which cluster it is: {why}");
                    }
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
            Ok(Err(error)) => match trouble(&error) {
                Trouble::Credentials => Probe::Unauthorized(error.to_string()),
                Trouble::Link if !matches!(error, kube::Error::Api(_)) => Probe::Unreachable(said(&error)),
                _ => Probe::NotReady(said(&error)),
            },
            Err(_) => Probe::Unreachable(format!("it did not answer within {PATIENCE:?}")),
        }
    }

    /// Whether the member is a cluster of its own, and ours.
    async fn check_identity(&self, health: &Health, known: bool) -> kube::Result<bool> {
        if known {
            return Ok(true);
        }
        let of = |client: kube::Client| async move {
            let namespaces: Api<Namespace> = Api::all(client);
            let found = namespaces.get_metadata("kube-system").await?;
            Ok::<_, kube::Error>(Arc::<str>::from(found.metadata.uid.unwrap_or_default()))
        };
        let (own, hub) = (of(self.writer.clone()).await?, of(self.engine.hub.clone()).await?);
        let unusable = |reason, why: String| {
            health.unusable(&self.engine, &self.name, reason, &why);
            Ok(false)
        };
        if own == hub {
            return unusable(
                reason::CLUSTER_IS_HUB,
                "spec.apiEndpoint leads to the hub itself, which cannot be its own member".to_owned(),
            );
        }
        let twin = self
            .engine
            .links()
            .into_values()
            .find(|link| link.name < self.name && link.health.identity().as_ref() == Some(&own));
        if let Some(twin) = twin {
            let why = format!("it is the same cluster as {}; a cluster can be a member once", twin.name);
            return unusable(reason::CLUSTER_DUPLICATED, why);
        }
        let markers: Api<ConfigMap> = Api::namespaced(self.writer.clone(), object::NAMESPACE);
        match markers.get_opt(object::MARKER).await {
            Ok(Some(marker)) => {
                let other = marker.data.and_then(|mut data| data.remove(object::MARKER_HUB));
                self.marked.store(other.as_deref() == Some(&*self.hub), Ordering::Relaxed);
                if let Some(other) = other.filter(|other| **other != *self.hub) {
                    let why = format!(
                        "it is a member of another hub ({other}); take it over by `tombolo join {} --take-over`",
                        self.name
                    );
                    return unusable(reason::CLUSTER_OF_ANOTHER_HUB, why);
                }
            }
            Ok(None) => {}
            // Whoever may not read it was not set up by `tombolo join`; then there is no mark to read.
            Err(error) if trouble(&error) == Trouble::Forbidden => {}
            Err(error) => return Err(error),
        }
        health.0.lock().identity = Some(own);
        Ok(true)
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
