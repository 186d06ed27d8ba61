//! Templates on the hub: one watch a kind, for the kinds that policies select and those that members still hold copies of.
//!
//! [`run`] is the only entry. A kind that the hub does not serve is waited for; one whose CustomResourceDefinition was made anew is
//! read anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::{PartialObjectMeta, TypeMeta},
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

use super::{
    certainty::policy_kinds,
    engine::Engine,
    lines::Line,
    served::{Version, discover},
};
use crate::{
    decide::{
        copy::ObjectKey,
        exchange::{export_kind, import_kind},
        select::GroupKind,
    },
    shell::trouble::answer,
};

/// Between two looks while a kind is not served.
const SOON: Duration = Duration::from_secs(2);
/// Between two looks otherwise; what changes is told.
const SELDOM: Duration = Duration::from_secs(60);
/// What one question to the hub may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The CustomResourceDefinitions of the hub, by name: their UIDs.
#[derive(Debug, Default)]
struct Crds {
    uids: Mutex<Option<BTreeMap<String, Arc<str>>>>,
    changed: Notify,
}

/// A kind that is watched.
#[derive(Debug)]
struct Watched {
    version: Version,
    crd: Option<Arc<str>>,
    task: AbortHandle,
}

/// Keeps watches for the kinds that have to be watched; ends only if one of its tasks panics.
pub async fn run(engine: Arc<Engine>) {
    let crds = Arc::new(Crds::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_crds(engine.clone(), crds.clone()));
    let mut watched: BTreeMap<GroupKind, Watched> = BTreeMap::new();
    loop {
        let missing = match keep(&engine, &crds, &mut watched, &mut tasks).await {
            Ok(missing) => missing,
            Err(e) => {
                tracing::warn!("failed to ask the hub which kinds it serves, trying again: {e}");
                true
            }
        };
        tokio::select! {
            () = engine.kinds_changed.notified() => {}
            () = crds.changed.notified() => {}
            () = tokio::time::sleep(if missing { SOON } else { SELDOM }) => {}
            Some(ended) = tasks.join_next() => {
                if ended.is_err_and(|e| e.is_panic()) {
                    return;
                }
            }
        }
    }
}

/// Starts and ends watches; says whether a kind is missing.
async fn keep(
    engine: &Arc<Engine>,
    crds: &Crds,
    watched: &mut BTreeMap<GroupKind, Watched>,
    tasks: &mut JoinSet<()>,
) -> kube::Result<bool> {
    let Some(uids) = crds.uids.lock().clone() else { return Ok(true) };
    if let Some(kinds) = policy_kinds(&uids) {
        engine.change(|world, _| world.set_policy_kinds(kinds));
    }
    let wanted = engine.wanted_kinds();
    let mut served = engine.served();
    let fresh = |watched: &Watched| uids.get(&watched.version.crd_name()) == watched.crd.as_ref();
    let settled = |kind: &GroupKind| watched.get(kind).is_some_and(fresh);
    if wanted.iter().any(|kind| !settled(kind)) {
        let found = tokio::time::timeout(PATIENCE, discover(&engine.hub)).await;
        engine.set_served(found.map_err(|_| kube::Error::Service("no answer in time".into()))??);
        served = engine.served();
    }
    let (mut missing, mut failed) = (BTreeSet::new(), false);
    for kind in &wanted {
        if watched.get(kind).is_some_and(fresh) {
            continue;
        }
        if let Some(stale) = watched.remove(kind) {
            stale.task.abort();
            // Of a kind that was taken away, or made anew, nothing is known: its copies are left alone.
            engine.change(|world, view| {
                world.close_kind(view, kind);
                Default::default()
            });
        }
        let Some(version) = served.preferred(kind) else {
            missing.insert(kind.clone());
            continue;
        };
        let line = match engine.lines.take() {
            Ok(line) => line,
            Err(e) => {
                tracing::warn!(%kind, "failed to set up a client of the hub, trying again: {e:#}");
                failed = true;
                continue;
            }
        };
        let crd = uids.get(&version.crd_name()).cloned();
        engine.change(|world, _| {
            world.open_kind(kind.clone(), version.api_version(), crd.clone());
            Default::default()
        });
        let task = tasks.spawn(follow(engine.clone(), line, kind.clone(), version.clone()));
        tracing::debug!(%kind, "watching");
        watched.insert(kind.clone(), Watched { version: version.clone(), crd, task });
    }
    let unwanted: Vec<_> = watched.keys().filter(|kind| !wanted.contains(*kind)).cloned().collect();
    for kind in unwanted {
        if let Some(watch) = watched.remove(&kind) {
            watch.task.abort();
            tracing::debug!(%kind, "no longer watching");
        }
        engine.report.set_forbidden(&kind, false);
        engine.change(|world, view| {
            world.close_kind(view, &kind);
            Default::default()
        });
    }
    engine.report.set_missing_kinds(&missing);
    let waits = failed || !missing.is_empty();
    engine.change(|world, _| world.set_unserved(missing));
    Ok(waits)
}

async fn follow(engine: Arc<Engine>, line: Line, kind: GroupKind, version: Version) {
    let api: Api<DynamicObject> = Api::all_with(Client::clone(&line), &version.resource);
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut listed = BTreeSet::new();
    let key = |object: &DynamicObject| ObjectKey {
        kind: kind.clone(),
        namespace: object.namespace().unwrap_or_default().into(),
        name: object.name_any().into(),
    };
    // What is listed does not say of which kind it is, and much depends on that.
    let types =
        TypeMeta { api_version: version.resource.api_version.clone(), kind: version.resource.kind.clone() };
    let apply = |object: DynamicObject| {
        let key = key(&object);
        let object = DynamicObject { types: Some(types.clone()), ..object };
        match serde_json::to_value(&object) {
            Ok(value) => engine.change(|world, view| world.apply_template(view, &key, &value)),
            Err(e) => tracing::error!(%key, "failed to read a template: {e}"),
        }
    };
    while let Some(event) = events.next().await {
        match event {
            // Nothing was asked yet.
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.insert(key(&object));
                apply(object);
            }
            Ok(Event::InitDone) => {
                engine.report.set_forbidden(&kind, false);
                let all = std::mem::take(&mut listed);
                engine.change(|world, view| world.retain_templates(view, &kind, &all));
                engine.report.look_again();
                if kind == export_kind() || kind == import_kind() {
                    // Until now nobody could tell who imports what.
                    engine.exchange(|exchange| exchange.everything());
                }
            }
            Ok(Event::Apply(object)) => apply(object),
            Ok(Event::Delete(object)) => {
                let key = key(&object);
                engine.change(|world, view| world.delete_template(view, &key));
            }
            Err(e) => {
                if answer(&e).is_some_and(|status| status.code == 403) {
                    engine.report.set_forbidden(&kind, true);
                }
                tracing::warn!(%kind, "the watch of templates broke, trying again: {e:#}");
            }
        }
    }
}

async fn follow_crds(engine: Arc<Engine>, crds: Arc<Crds>) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(engine.watching.clone());
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        let uid = |crd: &PartialObjectMeta<_>| Arc::from(crd.metadata.uid.as_deref().unwrap_or_default());
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(crd)) => drop(listed.insert(crd.name_any(), uid(&crd))),
            Ok(Event::InitDone) => *crds.uids.lock() = Some(std::mem::take(&mut listed)),
            Ok(Event::Apply(crd)) => {
                crds.uids.lock().get_or_insert_default().insert(crd.name_any(), uid(&crd));
            }
            Ok(Event::Delete(crd)) => {
                crds.uids.lock().get_or_insert_default().remove(&crd.name_any());
            }
            Err(e) => {
                tracing::warn!("the watch of CustomResourceDefinitions broke, trying again: {e:#}");
                continue;
            }
        }
        crds.changed.notify_one();
    }
}
