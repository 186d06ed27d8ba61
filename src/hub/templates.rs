//! Templates on the hub: one watch a kind, for the kinds that policies select and those that members still hold copies of.
//!
//! [`run`] is the only entry. A kind that the hub does not serve is waited for; one whose CustomResourceDefinition was made anew is
//! read anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
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
    served::{Served, Version, discover},
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
/// How often the hub is asked what it serves after a definition changed: what it says follows only after a while.
const LOOKS: u32 = 2;
/// What one question to the hub may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The CustomResourceDefinitions of the hub, by name: their UIDs.
#[derive(Debug, Default)]
struct Crds {
    uids: Mutex<Option<BTreeMap<String, Arc<str>>>>,
    /// How often the hub is still to be asked what it serves.
    looks: AtomicU32,
    changed: Notify,
}

/// A kind that is watched.
#[derive(Debug)]
struct Watched {
    version: Version,
    crd: Option<Arc<str>>,
    task: AbortHandle,
}

// === impl Crds ===

impl Crds {
    /// Has the hub asked again what it serves.
    fn look_again(&self) {
        self.looks.store(LOOKS, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Takes note that it was asked, when so many looks were to be taken.
    fn looked(&self, before: u32) {
        // What changed meanwhile is looked at again.
        let after = before.saturating_sub(1);
        let _ = self.looks.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
    }
}

// === impl Watched ===

impl Watched {
    /// Whether what is watched is the kind as it is defined and served now. One that is served in no version at all may come back.
    fn is_fresh(&self, kind: &GroupKind, uids: &BTreeMap<String, Arc<str>>, served: &Served) -> bool {
        uids.get(&self.version.crd_name()) == self.crd.as_ref()
            && (!served.has(kind) || served.version(kind, &self.version.resource.api_version).is_some())
    }
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
    crds: &Arc<Crds>,
    watched: &mut BTreeMap<GroupKind, Watched>,
    tasks: &mut JoinSet<()>,
) -> kube::Result<bool> {
    let Some(uids) = crds.uids.lock().clone() else { return Ok(true) };
    if let Some(kinds) = policy_kinds(&uids) {
        engine.change(|world, _| world.set_policy_kinds(kinds));
    }
    let wanted = engine.wanted_kinds();
    let mut served = engine.served();
    let settled = |kind: &GroupKind| watched.get(kind).is_some_and(|it| it.is_fresh(kind, &uids, &served));
    let looks = crds.looks.load(Ordering::Relaxed);
    if looks > 0 || wanted.iter().any(|kind| !settled(kind)) {
        let found = tokio::time::timeout(PATIENCE, discover(&engine.hub)).await;
        engine.set_served(found.map_err(|_| kube::Error::Service("no answer in time".into()))??);
        served = engine.served();
        crds.looked(looks);
    }
    let (mut missing, mut failed) = (BTreeSet::new(), false);
    for kind in &wanted {
        if watched.get(kind).is_some_and(|it| it.is_fresh(kind, &uids, &served)) {
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
        let task = tasks.spawn(follow(engine.clone(), crds.clone(), line, kind.clone(), version.clone()));
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
    let waits = failed || !missing.is_empty() || crds.looks.load(Ordering::Relaxed) > 0;
    engine.change(|world, _| world.set_unserved(missing));
    Ok(waits)
}

async fn follow(engine: Arc<Engine>, crds: Arc<Crds>, line: Line, kind: GroupKind, version: Version) {
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
                match answer(&e).map(|status| status.code) {
                    Some(403) => engine.report.set_forbidden(&kind, true),
                    // Perhaps it is served in another version by now.
                    Some(404) => crds.look_again(),
                    _ => {}
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
        crds.look_again();
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};

    use super::*;

    fn gadgets(version: &str) -> Version {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("rules.example", version, "Gadget"));
        Version { resource, namespaced: true }
    }

    #[tokio::test]
    async fn a_kind_is_watched_anew_if_its_version_is_no_longer_served_or_it_was_made_anew() {
        let kind = GroupKind { group: "rules.example".into(), kind: "Gadget".into() };
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        let watched = Watched { version: gadgets("v1"), crd: Some("one".into()), task };
        let uids = |uid: &str| BTreeMap::from([("gadgets.rules.example".to_owned(), Arc::from(uid))]);
        let is_fresh = |uid, versions: &[&str]| {
            let served = versions.iter().map(|version| gadgets(version)).collect();
            watched.is_fresh(&kind, &uids(uid), &served)
        };
        assert!(is_fresh("one", &["v1"]));
        assert!(is_fresh("one", &["v2", "v1"]), "another that is preferred changes nothing");
        assert!(!is_fresh("one", &["v2"]));
        assert!(is_fresh("one", &[]), "who says nothing of it may only not know of it yet");
        assert!(!is_fresh("two", &["v1"]));
    }

    #[test]
    fn the_hub_is_asked_twice_after_each_change_of_a_definition() {
        let crds = Crds::default();
        let looks = || crds.looks.load(Ordering::Relaxed);
        crds.look_again();
        let before = looks();
        // Another change while it is asked.
        crds.look_again();
        crds.looked(before);
        assert!(looks() > 0);
        for _ in 0..LOOKS {
            crds.looked(looks());
        }
        assert_eq!(looks(), 0);
    }
}
