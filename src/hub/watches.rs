//! What the hub sees of its own API server: one watch a kind, applied to the view that admission reads.
//!
//! A list counts only when it is complete: until then the view keeps what it had, and what is missing then is taken out at once.

use std::fmt::Debug;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, Client, Resource, ResourceExt};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::{
    api::{
        Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
        ServiceExport, ServiceImport,
    },
    decide::{ids::ServiceKey, policies::PolicyKey, view::View},
    shell::health::{Part, Readiness},
    webhook::server::SharedView,
};

/// How a kind is put into the view.
struct Kind<K> {
    apply: fn(&mut View, K),
    delete: fn(&mut View, &K),
    reset: fn(&mut View, Vec<K>),
}

/// Starts a watch for every kind that the view holds; none of them ever ends by itself.
pub fn start(client: &Client, view: &SharedView, readiness: &Readiness) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let mut follow = Follow { client, view, readiness, watches: &mut watches };
    follow.kind::<Cluster>(Kind {
        apply: View::apply_cluster,
        delete: |view, object| view.delete_cluster(&object.name_any()),
        reset: View::reset_clusters,
    });
    follow.kind::<Namespace>(Kind {
        apply: View::apply_namespace,
        delete: |view, object| view.delete_namespace(&object.name_any()),
        reset: View::reset_namespaces,
    });
    follow.kind::<PropagationPolicy>(Kind {
        apply: View::apply_propagation_policy,
        delete: |view, object| view.delete_propagation_policy(&PolicyKey::of(&object.metadata)),
        reset: View::reset_propagation_policies,
    });
    follow.kind::<ClusterPropagationPolicy>(Kind {
        apply: View::apply_cluster_propagation_policy,
        delete: |view, object| view.delete_cluster_propagation_policy(&PolicyKey::of(&object.metadata)),
        reset: View::reset_cluster_propagation_policies,
    });
    follow.kind::<OverridePolicy>(Kind {
        apply: View::apply_override_policy,
        delete: |view, object| view.delete_override_policy(&PolicyKey::of(&object.metadata)),
        reset: View::reset_override_policies,
    });
    follow.kind::<ClusterOverridePolicy>(Kind {
        apply: View::apply_cluster_override_policy,
        delete: |view, object| view.delete_cluster_override_policy(&PolicyKey::of(&object.metadata)),
        reset: View::reset_cluster_override_policies,
    });
    follow.kind::<Service>(Kind {
        apply: View::apply_service,
        delete: |view, object| with_key(object, |key| view.delete_service(key)),
        reset: View::reset_services,
    });
    follow.kind::<ServiceExport>(Kind {
        apply: View::apply_export,
        delete: |view, object| with_key(object, |key| view.delete_export(key)),
        reset: View::reset_exports,
    });
    follow.kind::<ServiceImport>(Kind {
        apply: View::apply_import,
        delete: |view, object| with_key(object, |key| view.delete_import(key)),
        reset: View::reset_imports,
    });
    watches
}

/// What all watches share.
struct Follow<'a> {
    client: &'a Client,
    view: &'a SharedView,
    readiness: &'a Readiness,
    watches: &'a mut JoinSet<()>,
}

// === impl Follow ===

impl Follow<'_> {
    fn kind<K>(&mut self, kind: Kind<K>)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        K::DynamicType: Default,
    {
        let part = self.readiness.part(&K::plural(&K::DynamicType::default()));
        self.watches.spawn(follow(Api::all(self.client.clone()), kind, self.view.clone(), part));
    }
}

async fn follow<K>(api: Api<K>, kind: Kind<K>, view: SharedView, part: Part)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Default,
{
    let name = K::plural(&K::DynamicType::default()).into_owned();
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.push(object),
            Ok(Event::InitDone) => {
                let (count, all) = (listed.len(), std::mem::take(&mut listed));
                (kind.reset)(&mut view.write(), all);
                part.set(Ok(()));
                tracing::debug!(name, count, "synced");
            }
            Ok(Event::Apply(object)) => (kind.apply)(&mut view.write(), object),
            Ok(Event::Delete(object)) => (kind.delete)(&mut view.write(), &object),
            // Once it was synced it stays good enough to judge by; admission is checked again at reconciliation.
            Err(e) => tracing::warn!(name, "the watch broke, trying again: {e:#}"),
        }
    }
}

fn with_key<K: Resource>(object: &K, act: impl FnOnce(&ServiceKey)) {
    if let Ok(key) = ServiceKey::parse(&object.namespace().unwrap_or_default(), &object.name_any()) {
        act(&key);
    }
}
