//! What the agent sees of its own cluster: one watch a kind, kept in [`Seen`]; whatever changes puts the services that it concerns into
//! the queue.
//!
//! The kinds of the Multi-Cluster Services API may come later, or go: they are watched while their definitions are there. While one is not,
//! its objects are unknown, which is not the same as gone.

use std::{collections::BTreeSet, sync::Arc};

use futures::{StreamExt, pin_mut};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Service},
        discovery::v1::EndpointSlice,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Resource};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use tokio::{sync::watch, task::JoinSet};

use super::{
    Agent, Joined,
    store::{Kept, Store, name},
};
use crate::{
    api::{
        ServiceExport, ServiceImport,
        mcs::{GROUP, Version},
        names::object,
    },
    decide::{
        definition::Definition,
        ids::{ClusterName, ServiceKey},
        property,
    },
    shell::health::{Part, Readiness},
};

/// All that the agent sees.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) exports: Store<ServiceExport>,
    pub(super) imports: Store<ServiceImport>,
    pub(super) services: Store<Service>,
    pub(super) slices: Store<EndpointSlice>,
    /// What this cluster is called on its hub, if it has one.
    pub(super) cluster: Option<ClusterName>,
}

/// Where a kind is kept.
pub(super) type Kind<K> = fn(&mut Seen) -> &mut Store<K>;

/// Starts all watches; none of them ever ends by itself.
pub(super) fn start(agent: &Arc<Agent>, readiness: &Readiness) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let client = &agent.reader;
    let (services, slices) = (readiness.part("services"), readiness.part("endpointslices"));
    let services =
        Follow { api: Api::all(client.clone()), kind: |seen| &mut seen.services, part: Some(services) };
    watches.spawn(services.run(agent.clone()));
    let slices = Follow { api: Api::all(client.clone()), kind: |seen| &mut seen.slices, part: Some(slices) };
    watches.spawn(slices.run(agent.clone()));
    // Without the definitions there is nothing to do, which is no reason not to be ready.
    readiness.part("definitions of the Multi-Cluster Services API").set(Ok(()));
    watches.spawn(follow_definition::<ServiceExport>(agent.clone(), agent.definitions.exports.clone()));
    watches.spawn(follow_definition::<ServiceImport>(agent.clone(), agent.definitions.imports.clone()));
    watches.spawn(keep(agent.clone(), agent.definitions.exports.subscribe(), |seen| &mut seen.exports));
    watches.spawn(keep(agent.clone(), agent.definitions.imports.subscribe(), |seen| &mut seen.imports));
    watches.spawn(follow_marker(agent.clone()));
    watches
}

/// A watch of one kind.
struct Follow<K> {
    api: Api<K>,
    kind: Kind<K>,
    part: Option<Part>,
}

// === impl Follow ===

impl<K: Kept> Follow<K> {
    async fn run(self, agent: Arc<Agent>) {
        let kind = std::any::type_name::<K>().rsplit(':').next().unwrap_or_default();
        let events = watcher::watcher(self.api, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            let whole = matches!(event, Ok(Event::InitDone));
            let service = match &event {
                Ok(Event::InitApply(object) | Event::Apply(object)) => object.service(),
                _ => None,
            };
            let learnt = service.is_some_and(|service| agent.lacking.lock().unlearn(service));
            let touched = {
                let mut seen = agent.seen.lock();
                let store = (self.kind)(&mut seen);
                match event {
                    Ok(Event::Init) => {
                        listed.clear();
                        continue;
                    }
                    Ok(Event::InitApply(object)) => {
                        listed.insert(name(&object));
                        store.take(object, true)
                    }
                    // What is missing is taken out when the list is complete, never before.
                    Ok(Event::InitDone) => store.retain(&std::mem::take(&mut listed)),
                    Ok(Event::Apply(object)) => store.take(object, false),
                    Ok(Event::Delete(object)) => store.lose(&object),
                    Err(e) => {
                        tracing::warn!(kind, "the watch broke, trying again: {e:#}");
                        continue;
                    }
                }
            };
            agent.look_at(touched);
            if learnt {
                tracing::info!("this cluster has Service addresses of a family that it lacked");
                agent.look_at_everything();
            }
            if whole {
                tracing::debug!(kind, "synced");
                if let Some(part) = &self.part {
                    part.set(Ok(()));
                }
                agent.look_at_everything();
            }
        }
    }
}

/// Follows a kind while its definition is there; without it, its objects are unknown.
async fn keep<K: Kept + Resource<DynamicType = Version>>(
    agent: Arc<Agent>,
    mut definition: watch::Receiver<Option<Definition>>,
    kind: Kind<K>,
) {
    loop {
        let usable = |found: &Option<Definition>| found.as_ref().is_some_and(|found| found.usable);
        let Ok(current) = definition.wait_for(usable).await.map(|found| found.clone()) else { return };
        let Some(current) = current else { continue };
        let api = Api::all_with(agent.reader.clone(), &current.version);
        let other = |found: &Option<Definition>| {
            found.as_ref().is_none_or(|found| {
                !found.usable || found.uid != current.uid || found.version != current.version
            })
        };
        tokio::select! {
            () = (Follow { api, kind, part: None }).run(agent.clone()) => {}
            _ = definition.wait_for(other) => {}
        }
        kind(&mut agent.seen.lock()).known = false;
    }
}

async fn follow_definition<K: Resource<DynamicType = Version>>(
    agent: Arc<Agent>,
    told: watch::Sender<Option<Definition>>,
) {
    let name = format!("{}.{GROUP}", K::plural(&Version::default()));
    let api: Api<CustomResourceDefinition> = Api::all(agent.reader.clone());
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher::watcher(api, only).default_backoff();
    pin_mut!(events);
    let mut listed = false;
    while let Some(event) = events.next().await {
        let found = match event {
            Ok(Event::Init) => {
                listed = false;
                continue;
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                listed = true;
                Definition::of(&object)
            }
            Ok(Event::InitDone) if listed => continue,
            Ok(Event::InitDone) => {
                tracing::info!(definition = name, "not there yet: waiting for it");
                None
            }
            Ok(Event::Delete(_)) => None,
            Err(e) => {
                tracing::warn!(definition = name, "the watch broke, trying again: {e:#}");
                continue;
            }
        };
        let changed = told.send_if_modified(|before| std::mem::replace(before, found.clone()) != found);
        if changed {
            agent.look_at_everything();
        }
    }
}

/// Follows what this cluster is called.
async fn follow_marker(agent: Arc<Agent>) {
    let api: Api<ConfigMap> = Api::namespaced(agent.reader.clone(), object::NAMESPACE);
    let only = watcher::Config::default().fields(&format!("metadata.name={}", object::MARKER));
    let events = watcher::watcher(api, only).default_backoff();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let map = match event {
            Ok(Event::InitApply(map) | Event::Apply(map)) => map,
            // Who is no member any more keeps what it has: leaving removes it.
            Ok(Event::Delete(_)) => {
                agent.hub.send_replace(None);
                continue;
            }
            Ok(Event::Init | Event::InitDone) => continue,
            Err(e) => {
                tracing::warn!("the watch of ConfigMap {} broke, trying again: {e:#}", object::MARKER);
                continue;
            }
        };
        let mut data = map.data.unwrap_or_default();
        let hub = data.remove(object::MARKER_HUB).filter(|hub| !hub.is_empty());
        let id = data.remove(object::MARKER_ID).filter(|id| property::is_id(id));
        let joined = hub.map(|hub| Joined { hub, id });
        agent.hub.send_if_modified(|before| std::mem::replace(before, joined.clone()) != joined);
        let name = data.remove(object::MARKER_CLUSTER).unwrap_or_default();
        match name.parse() {
            Ok(cluster) => {
                agent.seen.lock().cluster = Some(cluster);
                agent.look_at_everything();
            }
            Err(e) => tracing::warn!("key {} of ConfigMap {}: {e}", object::MARKER_CLUSTER, object::MARKER),
        }
    }
}

// === impl Seen ===

impl Seen {
    /// All services that something is known about.
    pub(super) fn services(&self) -> BTreeSet<ServiceKey> {
        let (exports, imports) = (self.exports.services(), self.imports.services());
        exports
            .chain(imports)
            .chain(self.services.services())
            .chain(self.slices.services())
            .cloned()
            .collect()
    }
}
