//! The link to one member: a connection that is kept, a queue of what has to be looked at there, and workers of its own, so that no
//! member waits for another.
//!
//! A [`Link`] lives as long as its Cluster; [`session::Session`] as long as one connection. When the Cluster's Secret changes, the
//! member comes back after a fault, or was restored from a backup, a new session begins and reads everything anew.

mod exchange;
mod health;
mod heartbeat;
mod kinds;
mod reconcile;
mod removal;
mod services;
mod session;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};
use kube_runtime::{WatchStreamExt, watcher};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use self::session::Session;
pub use self::{
    health::{Health, Reachability},
    heartbeat::Heartbeat,
};
use super::{engine::Engine, lines::Line};
use crate::{
    api::{Cluster, names::reason::CLUSTER_CONFIG_INVALID},
    decide::{
        copy::ObjectKey,
        ids::{ClusterName, ServiceKey},
        sum::Sum,
    },
    membership::member,
    shell::queue::{Load, Urgency},
};

/// Between two attempts to make a connection.
const PAUSE: Duration = Duration::from_secs(2);

/// The link to one member.
pub struct Link {
    /// The member.
    pub name: ClusterName,
    engine: Arc<Engine>,
    /// What is known of the member's health.
    pub health: Arc<Health>,
    session: RwLock<Option<Arc<Session>>>,
    stop: CancellationToken,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The link is to end.
    Stopped,
    /// A new session is to begin.
    Renew(&'static str),
}

/// What of a Cluster leads into the member. One that was made anew is read anew.
fn way(cluster: &Cluster) -> impl PartialEq + use<> {
    let spec = &cluster.spec;
    (
        cluster.uid(),
        spec.api_endpoint.clone(),
        spec.secret_ref.clone(),
        spec.insecure_skip_tls_verification,
        spec.proxy_url.clone(),
        spec.proxy_header.clone(),
    )
}

// === impl Link ===

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("name", &self.name).field("health", &self.health).finish_non_exhaustive()
    }
}

impl Link {
    /// Starts a link.
    pub fn start(engine: Arc<Engine>, name: ClusterName) -> Arc<Self> {
        let link = Arc::new(Self {
            health: Arc::new(Health::new()),
            session: RwLock::new(None),
            stop: CancellationToken::new(),
            name,
            engine,
        });
        tokio::spawn(link.clone().keep());
        link
    }

    /// Ends the link.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether it was not ended.
    pub fn runs(&self) -> bool {
        !self.stop.is_cancelled()
    }

    /// Begins a new session, since the way into the member may have changed.
    pub fn renew(&self) {
        if let Some(session) = &*self.session.read() {
            session.renew.notify_one();
        }
    }

    /// Has an object looked at.
    pub fn add(&self, key: ObjectKey, urgency: Urgency) {
        // Without a session nothing is lost: the next one begins with everything.
        if let Some(session) = &*self.session.read() {
            session.queue.add(key, urgency);
        }
    }

    /// Has a service looked at.
    pub fn add_service(&self, key: ServiceKey, urgency: Urgency) {
        if let Some(session) = &*self.session.read() {
            session.services.add(key, urgency);
        }
    }

    /// What there is to do for copies, and for services.
    pub fn loads(&self) -> (Load, Load) {
        let session = self.session.read();
        session.as_ref().map(|session| (session.queue.load(), session.services.load())).unwrap_or_default()
    }

    /// The copies that were seen; none without a session.
    pub fn copies(&self) -> Option<Sum> {
        let session = self.session.read().clone()?;
        let seen = session.seen.lock();
        let copies = seen.copies.iter().map(|(key, copy)| (key, &copy.uid, &copy.resource_version));
        Some(Sum::of(copies))
    }

    /// Has everything looked at.
    pub fn look_at_everything(&self) {
        if let Some(session) = self.session.read().clone() {
            session.look_at_everything();
        }
    }

    /// Has read anew which kinds the member was given: we lead now, and another did before.
    pub fn read_record(&self) {
        // A session that begins later reads it by itself.
        if let Some(session) = &*self.session.read() {
            session.kinds.read_record();
        }
    }

    /// Whether nothing of ours is left in the member, nor on its way there.
    pub fn is_clear(&self) -> bool {
        self.session.read().as_ref().is_some_and(|session| session.is_clear())
    }

    /// A client of the member that writes, if there is a session that knows it to be that member.
    pub fn writer(&self) -> Option<kube::Client> {
        let session = self.session.read();
        let session = session.as_ref().filter(|session| session.is_identified.load(Ordering::Relaxed));
        session.map(|session| session.writer.clone())
    }

    /// Runs until it is stopped; a panic costs a session, not the member.
    async fn keep(self: Arc<Self>) {
        while let Err(e) = tokio::spawn(self.clone().run()).await {
            tracing::error!(member = %self.name, "its link broke, it begins anew: {e}");
            *self.session.write() = None;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn run(self: Arc<Self>) {
        loop {
            let ended = tokio::select! {
                () = self.stop.cancelled() => Ended::Stopped,
                ended = self.connect_and_serve() => ended,
            };
            *self.session.write() = None;
            match ended {
                Ended::Stopped => return,
                Ended::Renew(why) => tracing::debug!(member = %self.name, "a new session begins: {why}"),
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    async fn connect_and_serve(self: &Arc<Self>) -> Ended {
        let clusters: Api<Cluster> = Api::all(self.engine.hub.clone());
        let cluster = match clusters.get_opt(self.name.as_str()).await {
            Ok(Some(cluster)) => cluster,
            Ok(None) => return Ended::Renew("the Cluster is not there"),
            Err(e) => {
                tracing::warn!(member = %self.name, "failed to read the Cluster, trying again: {e}");
                return Ended::Renew("its Cluster could not be read");
            }
        };
        let (config, secret) = match member::versioned(&self.engine.hub, &cluster).await {
            Ok(way) => way,
            Err(e) => {
                self.health.unusable(&self.engine, &self.name, CLUSTER_CONFIG_INVALID, &format!("{e}"));
                return Ended::Renew("there is no way into it");
            }
        };
        let session = match Session::new(self.engine.clone(), self.name.clone(), &config, &cluster) {
            Ok(session) => Arc::new(session),
            Err(e) => {
                self.health.unusable(&self.engine, &self.name, CLUSTER_CONFIG_INVALID, &format!("{e:#}"));
                return Ended::Renew("there is no way into it");
            }
        };
        let line = match self.engine.lines.take() {
            Ok(line) => line,
            Err(e) => {
                tracing::warn!(member = %self.name, "failed to set up a client of the hub, trying again: {e:#}");
                return Ended::Renew("its Cluster cannot be watched");
            }
        };
        *self.session.write() = Some(session.clone());
        tokio::select! {
            ended = session.serve(&self.health) => ended,
            () = self.way_changed(&line, &cluster, secret.as_deref()) => Ended::Renew("its Cluster or its Secret changed"),
        }
    }

    /// Waits until the way into the member is another: its Cluster says so, or the Secret that it names is not the version that was read.
    async fn way_changed(&self, line: &Line, cluster: &Cluster, read: Option<&str>) {
        let way = way(cluster);
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let hub = Client::clone(line);
        let clusters: Api<Cluster> = Api::all(hub.clone());
        let cluster_changed = async {
            let events =
                watcher::watcher(clusters, named(self.name.as_str())).default_backoff().applied_objects();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                if event.is_ok_and(|now| self::way(&now) != way) {
                    return;
                }
            }
        };
        let Some(reference) = &cluster.spec.secret_ref else { return cluster_changed.await };
        let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(hub, &reference.namespace);
        let events = watcher::watcher(secrets, named(&reference.name)).default_backoff().touched_objects();
        tokio::select! {
            () = cluster_changed => {}
            () = secret_changed(events, read) => {}
        }
    }
}

/// Waits until a Secret is not the version that was read. What the watch shows first may be newer already.
async fn secret_changed(
    events: impl Stream<Item = watcher::Result<PartialObjectMeta<Secret>>>,
    read: Option<&str>,
) {
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if event.is_ok_and(|now| now.resource_version().as_deref() != read) {
            return;
        }
    }
    // A watch does not end by itself.
    std::future::pending::<()>().await;
}
