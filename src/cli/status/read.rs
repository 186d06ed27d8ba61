//! Reads what a status is made of, and notices that it changed.

use std::{fmt::Debug, pin::Pin, time::Duration};

use anyhow::{Context, Result};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Resource};
use kube_runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;

use crate::{
    api::{
        Cluster, ClusterPropagationPolicy, PropagationPolicy, ServiceExport, ServiceImport, mcs,
        names::object,
    },
    cli::{
        list::{listed, somewhere, versioned},
        members,
    },
    decide::{explain::PolicyRead, overview::Listed},
};

/// What changes within this time is shown together.
const TOGETHER: Duration = Duration::from_millis(300);
/// It is looked again at least as often: that a hub ceased to work is no change of an object that is watched.
const TICK: Duration = Duration::from_secs(5);

/// What is asked for.
pub(super) struct Asked {
    pub(super) hub: Client,
    /// None: all namespaces.
    pub(super) namespace: Option<String>,
    /// Tombolo's own namespace.
    pub(super) system: String,
    /// Whether members are asked too.
    pub(super) members: bool,
}

/// Tells that something changed.
pub(super) struct Changes(Pin<Box<dyn Stream<Item = ()> + Send>>);

// === impl Asked ===

impl Asked {
    /// Reads it all.
    pub(super) async fn read(&self) -> Result<Listed> {
        let Self { hub, namespace, system, members: and_members } = self;
        let own = namespace.as_deref();
        let version = mcs::Version::default();
        let leases: Api<Lease> = Api::namespaced(hub.clone(), system);
        let lease = async { leases.get_opt(object::HUB).await.context("failed to read the hub's Lease") };
        let (lease, clusters, policies, wide, exports, imports) = tokio::try_join!(
            lease,
            listed(Api::<Cluster>::all(hub.clone())),
            listed(somewhere::<PropagationPolicy>(hub, own)),
            listed(Api::<ClusterPropagationPolicy>::all(hub.clone())),
            listed(versioned::<ServiceExport>(hub, own, &version)),
            listed(versioned::<ServiceImport>(hub, own, &version)),
        )?;
        let mut all: Vec<_> = policies.into_iter().map(PolicyRead::from).collect();
        all.extend(wide.into_iter().map(PolicyRead::from));
        let members = if *and_members { Some(members::ask(hub, &clusters, own).await) } else { None };
        Ok(Listed { lease, clusters, policies: all, exports, imports, members })
    }
}

// === impl Changes ===

impl Changes {
    /// Watches what is asked for.
    pub(super) fn of(asked: &Asked) -> Self {
        let Asked { hub, namespace, .. } = asked;
        let own = namespace.as_deref();
        let version = mcs::Version::default();
        let all = [
            changes(Api::<Cluster>::all(hub.clone())),
            changes(somewhere::<PropagationPolicy>(hub, own)),
            changes(Api::<ClusterPropagationPolicy>::all(hub.clone())),
            changes(versioned::<ServiceExport>(hub, own, &version)),
            changes(versioned::<ServiceImport>(hub, own, &version)),
        ];
        Self(stream::select_all(all).boxed())
    }

    /// Waits until something may have changed.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.next() => {}
            () = tokio::time::sleep(TICK) => return,
        }
        let more = async { while self.0.next().await.is_some() {} };
        let _together = tokio::time::timeout(TOGETHER, more).await;
    }
}

fn changes<K>(api: Api<K>) -> Pin<Box<dyn Stream<Item = ()> + Send>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    // What cannot be watched is looked at by and by.
    events.filter_map(async |event| event.ok().map(drop)).boxed()
}
