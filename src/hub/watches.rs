//! What the hub sees of its own API server: one watch a kind, applied to the view that admission reads.
//!
//! A list counts as a whole only when it is complete: what is missing then is taken out, never before.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, Client, Resource, ResourceExt};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::Notify, task::JoinSet};

use super::departures;
use crate::{
    api::{
        Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
        ServiceExport, ServiceImport,
    },
    decide::{ids::ServiceKey, policies::PolicyKey, view::View},
    shell::{
        health::{Part, Readiness},
        trouble::answer,
    },
    webhook::server::SharedView,
};

/// How a kind is put into the view.
struct Kind<K, Key> {
    key: fn(&K) -> Option<Key>,
    apply: fn(&mut View, K),
    delete: fn(&mut View, &Key),
    retain: fn(&mut View, &BTreeSet<Key>),
}

/// Starts a watch for every kind that the view holds; none of them ever ends by itself.
pub fn start(
    client: &Client,
    view: &SharedView,
    changed: &Arc<Notify>,
    readiness: &Readiness,
) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let clusters = Arc::new(Notify::new());
    watches.spawn(departures::run(client.clone(), view.clone(), clusters.clone(), changed.clone()));
    let mut follow = Follow { client, view, changed: &clusters, readiness, watches: &mut watches };
    follow.kind::<Cluster, _>(Kind {
        key: by_name,
        apply: View::see_cluster,
        delete: |view, name| view.miss_cluster(name),
        retain: View::miss_clusters,
    });
    follow.changed = changed;
    follow.kind::<Namespace, _>(Kind {
        key: by_name,
        apply: View::apply_namespace,
        delete: |view, name| view.delete_namespace(name),
        retain: View::retain_namespaces,
    });
    follow.kind::<PropagationPolicy, _>(Kind {
        key: by_policy,
        apply: View::apply_propagation_policy,
        delete: View::delete_propagation_policy,
        retain: View::retain_propagation_policies,
    });
    follow.kind::<ClusterPropagationPolicy, _>(Kind {
        key: by_policy,
        apply: View::apply_cluster_propagation_policy,
        delete: View::delete_cluster_propagation_policy,
        retain: View::retain_cluster_propagation_policies,
    });
    follow.kind::<OverridePolicy, _>(Kind {
        key: by_policy,
        apply: View::apply_override_policy,
        delete: View::delete_override_policy,
        retain: View::retain_override_policies,
    });
    follow.kind::<ClusterOverridePolicy, _>(Kind {
        key: by_policy,
        apply: View::apply_cluster_override_policy,
        delete: View::delete_cluster_override_policy,
        retain: View::retain_cluster_override_policies,
    });
    follow.kind::<Service, _>(Kind {
        key: by_service,
        apply: View::apply_service,
        delete: View::delete_service,
        retain: View::retain_services,
    });
    follow.kind::<ServiceExport, _>(Kind {
        key: by_service,
        apply: View::apply_export,
        delete: View::delete_export,
        retain: View::retain_exports,
    });
    follow.kind::<ServiceImport, _>(Kind {
        key: by_service,
        apply: View::apply_import,
        delete: View::delete_import,
        retain: View::retain_imports,
    });
    watches
}

/// What all watches share.
struct Follow<'a> {
    client: &'a Client,
    view: &'a SharedView,
    /// Told after every change of the view.
    changed: &'a Arc<Notify>,
    readiness: &'a Readiness,
    watches: &'a mut JoinSet<()>,
}

// === impl Follow ===

impl Follow<'_> {
    fn kind<K, Key>(&mut self, kind: Kind<K, Key>)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        K::DynamicType: Default,
        Key: Ord + Send + 'static,
    {
        let part = self.readiness.part(&K::plural(&K::DynamicType::default()));
        let changed = self.changed.clone();
        self.watches.spawn(follow(Api::all(self.client.clone()), kind, self.view.clone(), part, changed));
    }
}

async fn follow<K, Key>(api: Api<K>, kind: Kind<K, Key>, view: SharedView, part: Part, changed: Arc<Notify>)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Default,
    Key: Ord + Send + 'static,
{
    let name = K::plural(&K::DynamicType::default()).into_owned();
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            // What is listed is taken note of at once and not kept as it came: ten thousand policies would be forty megabytes.
            Ok(Event::InitApply(object)) => {
                listed.extend((kind.key)(&object));
                (kind.apply)(&mut view.write(), object);
            }
            Ok(Event::InitDone) => {
                (kind.retain)(&mut view.write(), &listed);
                part.set(Ok(()));
                tracing::debug!(name, count = listed.len(), "synced");
                listed.clear();
            }
            Ok(Event::Apply(object)) => (kind.apply)(&mut view.write(), object),
            Ok(Event::Delete(object)) => {
                if let Some(key) = (kind.key)(&object) {
                    (kind.delete)(&mut view.write(), &key);
                }
            }
            // Once it was synced it stays good enough to judge by; admission is checked again at reconciliation.
            Err(e) if is_passing(&e) => {
                tracing::debug!(name, "the watch begins anew: {e:#}");
                continue;
            }
            Err(e) => {
                tracing::warn!(name, "the watch broke, trying again: {e:#}");
                continue;
            }
        }
        changed.notify_one();
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
fn by_name<K: Resource>(object: &K) -> Option<String> {
    Some(object.name_any())
}

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
fn by_policy<K: Resource>(object: &K) -> Option<PolicyKey> {
    Some(PolicyKey::of(object.meta()))
}

fn by_service<K: Resource>(object: &K) -> Option<ServiceKey> {
    ServiceKey::parse(&object.namespace().unwrap_or_default(), &object.name_any()).ok()
}

/// Whether a watch ended as watches do all day: what it would go on from is forgotten, or its kind has just come.
fn is_passing(error: &watcher::Error) -> bool {
    answer(error).is_some_and(|status| matches!(status.code, 410 | 429))
}
