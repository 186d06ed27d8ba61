//! The yardstick: the least that can bring objects from a hub to members.

use std::sync::Arc;

use anyhow::Result;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Config, ResourceExt, api::PostParams, core::ObjectMeta};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use tokio::{sync::Semaphore, task::JoinSet};
use tombolo::shell::client::client;

/// How many objects are written to one member at a time.
const AT_ONCE: usize = 32;

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub(in crate::bench) struct Relay(#[expect(dead_code, reason = "held for its end")] JoinSet<()>);

/// One member of a relay.
struct Member {
    maps: Api<ConfigMap>,
    permits: Semaphore,
}

// === impl Relay ===

impl Relay {
    /// Starts to copy the ConfigMaps of a namespace to all members.
    pub(in crate::bench) fn start(hub: &Config, members: &[Config], namespace: &'static str) -> Result<Self> {
        let members: Vec<Arc<Member>> = members
            .iter()
            .map(|config| {
                let maps = Api::namespaced(client(config, None)?, namespace);
                Ok(Arc::new(Member { maps, permits: Semaphore::new(AT_ONCE) }))
            })
            .collect::<Result<_>>()?;
        // Of all namespaces: Tombolo too sees objects that are none of its own.
        let all: Api<ConfigMap> = Api::all(client(hub, None)?);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let events = watcher::watcher(all, watcher::Config::default()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let Ok(Event::Apply(map) | Event::InitApply(map)) = event else { continue };
                if map.namespace().as_deref() == Some(namespace) && map.labels().contains_key("measured") {
                    members.iter().for_each(|member| drop(tokio::spawn(member.clone().write(map.clone()))));
                }
            }
        });
        Ok(Self(tasks))
    }
}

// === impl Member ===

impl Member {
    async fn write(self: Arc<Self>, map: ConfigMap) {
        let _permit = self.permits.acquire().await;
        let metadata = ObjectMeta {
            name: map.metadata.name.clone(),
            labels: map.metadata.labels.clone(),
            ..ObjectMeta::default()
        };
        let copy = ConfigMap { metadata, ..map };
        if let Err(e) = self.maps.create(&PostParams::default(), &copy).await {
            eprintln!("the relay failed: {e}");
        }
    }
}
