//! Whether a member's agent is at work, by the Lease that it renews. Only this process's clock counts: what matters is that the Lease
//! changes.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use tokio::time::{Instant, MissedTickBehavior};

use super::{Reachability, health::Health, session::Session};
use crate::api::names::object;

/// A Lease that was not renewed for so long is not: it lasts ten seconds, and an agent that takes over needs a moment.
const SILENCE: Duration = Duration::from_secs(15);
/// Between two looks at the time.
const TICK: Duration = Duration::from_secs(1);

/// What is known of a member's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// It renews its Lease.
    Beats,
    /// Its Lease is there, and nobody renews it.
    Silent,
    /// There is no Lease: no agent was ever there, or it was removed.
    Absent,
}

// === impl Session ===

impl Session {
    /// Follows the Lease of the member's agent.
    pub(super) async fn follow_agent(self: Arc<Self>, health: Arc<Health>) {
        let leases: Api<Lease> = Api::namespaced(self.watching[1].clone(), object::NAMESPACE);
        let named = watcher::Config::default().fields(&format!("metadata.name={}", object::AGENT));
        let events = watcher::watcher(leases, named).default_backoff();
        pin_mut!(events);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last: Option<String> = None;
        let mut known = false;
        let mut since = Instant::now();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = tick.tick() => {
                    let well = matches!(health.confirmed(), Some(Reachability::Ready(_)));
                    if known && well && since.elapsed() > SILENCE {
                        self.hear(&health, if last.is_some() { Heartbeat::Silent } else { Heartbeat::Absent });
                    }
                    continue;
                }
            };
            match event {
                Some(Ok(Event::Apply(lease) | Event::InitApply(lease))) => {
                    let version = lease.resource_version();
                    let renewed = last.is_some() && last != version;
                    last = version;
                    if renewed && held(&lease) {
                        since = Instant::now();
                        self.hear(&health, Heartbeat::Beats);
                    }
                }
                Some(Ok(Event::Delete(_))) => last = None,
                Some(Ok(Event::InitDone)) => known = true,
                Some(Ok(Event::Init)) => {}
                // Who may not read it knows nothing of the agent.
                Some(Err(_)) => known = false,
                None => return,
            }
        }
    }

    fn hear(&self, health: &Health, heartbeat: Heartbeat) {
        if health.hear(heartbeat) {
            tracing::info!(member = %self.name, "agent: {heartbeat:?}");
            self.engine.members_changed.notify_one();
        }
    }
}

fn held(lease: &Lease) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    holder.is_some_and(|holder| !holder.is_empty())
}
