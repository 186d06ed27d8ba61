//! The kinds of which a member has copies, or is to have: each is recorded on the Cluster before the first copy is made, so that
//! nothing is ever left behind by a kind that nobody selects any more, and watched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::PartialObjectMeta,
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

use super::{reconcile::lacking, session::Session};
use crate::{
    api::{
        Cluster,
        names::{annotation, label},
    },
    decide::{copy::ObjectKey, select::GroupKind, view::recorded, world::Dirty},
    hub::{
        lines::Line,
        served::{Served, Version, discover},
    },
    shell::{queue::Urgency, trouble::answer},
};

/// Between two looks at what a member serves while something is missing.
const SOON: Duration = Duration::from_secs(2);
/// Between two looks otherwise; what changes is told.
const SELDOM: Duration = Duration::from_secs(300);
/// What asking a member for its kinds may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kinds of a member.
#[derive(Debug)]
pub(super) struct Kinds {
    state: Mutex<State>,
    /// Told when kinds are to be opened, or when what the member serves may have changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    served: Arc<Served>,
    /// Whether the member was ever asked.
    asked: bool,
    /// What has to be watched.
    wanted: BTreeSet<GroupKind>,
    /// What the Cluster has on record.
    recorded: BTreeSet<GroupKind>,
    /// How often the record was to be read: another replica may have written to it.
    record_due: u64,
    /// Which of these times it was read.
    record_read: u64,
    open: BTreeMap<GroupKind, Open>,
    /// What waits for its kind.
    parked: BTreeMap<GroupKind, BTreeSet<ObjectKey>>,
    /// Whether the world was told that everything is known.
    told: bool,
}

#[derive(Debug)]
struct Open {
    synced: bool,
    task: AbortHandle,
}

/// How a kind stands in a member.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// It is watched, and all copies are known.
    Synced(Arc<Served>),
    /// It is not there yet: what waits for it is looked at when it is.
    Opening,
    /// The member does not serve it.
    Unserved,
}

// === impl Kinds ===

impl Kinds {
    /// The kinds that a Cluster has on record.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let recorded = recorded(cluster);
        // The Cluster was read before the session began, and another may have led then.
        let state = State { wanted: recorded.clone(), recorded, record_due: 1, ..State::default() };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Whether the copies of all kinds are known.
    pub(super) fn all_known(&self) -> bool {
        self.state.lock().all_known()
    }

    /// How the kind of an object stands; if it is not there, the object waits for it.
    pub(super) fn standing(&self, key: &ObjectKey) -> Standing {
        let mut state = self.state.lock();
        if state.open.get(&key.kind).is_some_and(|open| open.synced) {
            return Standing::Synced(state.served.clone());
        }
        let unserved = state.asked && !state.served.has(&key.kind);
        state.parked.entry(key.kind.clone()).or_default().insert(key.clone());
        if state.wanted.insert(key.kind.clone()) || unserved {
            self.changed.notify_one();
        }
        if unserved { Standing::Unserved } else { Standing::Opening }
    }

    /// Has the Cluster's record read again: we lead now, and another did before.
    pub(super) fn read_record(&self) {
        let mut state = self.state.lock();
        state.record_due += 1;
        state.told = false;
        self.changed.notify_one();
    }

    /// Has what the member serves looked at again.
    pub(super) fn look_again(&self) {
        self.state.lock().asked = false;
        self.changed.notify_one();
    }
}

// === impl State ===

impl State {
    fn all_known(&self) -> bool {
        let known =
            |kind: &GroupKind| !self.served.has(kind) || self.open.get(kind).is_some_and(|open| open.synced);
        self.asked && !self.is_outdated() && self.recorded.iter().all(known)
    }

    /// Whether another replica may have written to the record since it was read.
    fn is_outdated(&self) -> bool {
        self.record_read < self.record_due
    }

    fn take_record(&mut self, kinds: BTreeSet<GroupKind>) {
        self.wanted.extend(kinds.iter().cloned());
        self.recorded = kinds;
    }
}

// === impl Session ===

impl Session {
    /// Keeps a watch for every kind that has to be watched.
    pub(super) async fn keep_kinds(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().follow_crds());
        // What it is to have, and what it has: each waits for its kind.
        self.look_at_everything();
        loop {
            let missing = self.keep_kinds_once(&mut tasks).await;
            self.tell_known();
            tokio::select! {
                () = self.kinds.changed.notified() => {}
                () = tokio::time::sleep(if missing { SOON } else { SELDOM }) => {}
                Some(ended) = tasks.join_next() => {
                    // A watch that was ended on purpose is well; one that broke down ends the session.
                    if ended.is_err_and(|e| e.is_panic()) {
                        return;
                    }
                }
            }
        }
    }

    /// Says whether something is missing.
    async fn keep_kinds_once(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> bool {
        let outdated = self.kinds.state.lock().is_outdated();
        if outdated && !self.read_record().await {
            return true;
        }
        let (asked, unserved) = {
            let state = self.kinds.state.lock();
            (state.asked, state.wanted.iter().any(|kind| !state.served.has(kind)))
        };
        if !asked || unserved {
            match tokio::time::timeout(PATIENCE, discover(&self.writer)).await {
                Ok(Ok(served)) => self.take_served(served),
                // Health says what is wrong with the member.
                Ok(Err(_)) | Err(_) => return true,
            }
        }
        let (to_open, served, missing) = {
            let state = self.kinds.state.lock();
            let closed = state.wanted.iter().filter(|kind| !state.open.contains_key(*kind));
            let to_open: Vec<_> = closed.clone().filter(|kind| state.served.has(kind)).cloned().collect();
            let missing = closed.count() > to_open.len();
            (to_open, state.served.clone(), missing)
        };
        let mut failed = false;
        for kind in to_open {
            if !self.record(&kind).await {
                failed = true;
                continue;
            }
            let Some(version) = served.preferred(&kind).cloned() else { continue };
            let line = match self.lines.take() {
                Ok(line) => line,
                Err(e) => {
                    tracing::warn!(member = %self.name, %kind, "failed to set up a client, trying again: {e:#}");
                    failed = true;
                    continue;
                }
            };
            let task = tasks.spawn(self.clone().follow(line, kind.clone(), version));
            self.kinds.state.lock().open.insert(kind, Open { synced: false, task });
        }
        missing || failed
    }

    /// Takes note of what the member serves: watches of what it no longer serves end, and what waits for a kind is looked at.
    fn take_served(&self, served: Served) {
        let (lost, waiting) = {
            let mut state = self.kinds.state.lock();
            let lost: Vec<_> = state.open.keys().filter(|kind| !served.has(kind)).cloned().collect();
            for kind in &lost {
                if let Some(open) = state.open.remove(kind) {
                    open.task.abort();
                }
            }
            state.served = Arc::new(served);
            let first = !std::mem::replace(&mut state.asked, true);
            // Whoever waits for a kind that is not there says so once.
            let waiting: Vec<_> =
                state.parked.iter().filter(|(kind, _)| first && !state.served.has(kind)).collect();
            let waiting: Vec<_> = waiting.into_iter().flat_map(|(_, keys)| keys.clone()).collect();
            (lost, waiting)
        };
        for kind in lost {
            self.lose_all(&kind);
        }
        for key in waiting {
            self.queue.add(key, Urgency::Now);
        }
    }

    async fn read_record(&self) -> bool {
        let due = self.kinds.state.lock().record_due;
        let clusters: Api<Cluster> = Api::all(self.engine.hub.clone());
        let Ok(cluster) = clusters.get(self.name.as_str()).await else { return false };
        let mut state = self.kinds.state.lock();
        state.take_record(recorded(&cluster));
        // Whoever asked meanwhile asked for another.
        state.record_read = due;
        true
    }

    /// Puts a kind on the Cluster's record. Only the leader may; others watch what is there.
    async fn record(&self, kind: &GroupKind) -> bool {
        if self.kinds.state.lock().recorded.contains(kind) {
            return true;
        }
        if !self.engine.claim.holds() {
            return false;
        }
        match self.write_record(kind).await {
            Ok(kinds) => {
                self.kinds.state.lock().take_record(kinds);
                true
            }
            Err(e) => {
                tracing::warn!(member = %self.name, %kind, "failed to record a kind on the Cluster, trying again: {e}");
                false
            }
        }
    }

    async fn write_record(&self, kind: &GroupKind) -> kube::Result<BTreeSet<GroupKind>> {
        let clusters: Api<Cluster> = Api::all(self.engine.writer.clone());
        let cluster = clusters.get(self.name.as_str()).await?;
        let mut kinds = recorded(&cluster);
        if kinds.insert(kind.clone()) {
            let text = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let patch = json!({ "metadata": {
                "resourceVersion": cluster.metadata.resource_version, "annotations": { annotation::KINDS: text },
            } });
            clusters.patch(self.name.as_str(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(kinds)
    }

    fn tell_known(&self) {
        let is_due = |state: &State| !state.told && state.all_known();
        if !is_due(&self.kinds.state.lock()) {
            return;
        }
        self.engine.change(|world, view| {
            let mut state = self.kinds.state.lock();
            // Under the world's lock it is certain: whoever begins to lead has the record read anew.
            if !is_due(&state) {
                return Dirty::default();
            }
            state.told = true;
            world.set_known(view, &self.name)
        });
        self.engine.report.look_again();
    }

    /// Follows the copies of one kind.
    async fn follow(self: Arc<Self>, line: Line, kind: GroupKind, version: Version) {
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::all_with(Client::clone(&line), &version.resource);
        let ours = watcher::Config::default().labels(&format!("{}={}", label::HUB, self.hub));
        let events = watcher::watcher(api, ours).default_backoff();
        pin_mut!(events);
        let mut listed = BTreeSet::new();
        let key = |object: &PartialObjectMeta<DynamicObject>| ObjectKey {
            kind: kind.clone(),
            namespace: object.namespace().unwrap_or_default().into(),
            name: object.name_any().into(),
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(key(&object));
                    self.see(key(&object), &object.metadata, false);
                }
                Ok(Event::InitDone) => {
                    self.retain(&kind, &listed);
                    listed.clear();
                    self.opened(&kind);
                }
                Ok(Event::Apply(object)) => self.see(key(&object), &object.metadata, false),
                Ok(Event::Delete(object)) => {
                    let since = object.resource_version().and_then(|version| version.parse().ok());
                    self.doubt(key(&object), since);
                }
                Err(e) => {
                    tracing::debug!(member = %self.name, %kind, "the watch of copies broke, trying again: {e:#}");
                    if is_not_served(&e) {
                        self.kinds.look_again();
                    }
                    if let Some(said) = forbidden(&e) {
                        self.say_forbidden(&kind, said);
                    }
                }
            }
        }
    }

    /// Says of everything that waits for a kind which right is missing.
    fn say_forbidden(&self, kind: &GroupKind, said: &str) {
        let waiting = self.kinds.state.lock().parked.get(kind).cloned().unwrap_or_default();
        for key in waiting {
            self.engine.report.fail(&self.engine, &self.name, &key, &lacking(&self.name, said));
        }
    }

    fn opened(&self, kind: &GroupKind) {
        let waiting = {
            let mut state = self.kinds.state.lock();
            if let Some(open) = state.open.get_mut(kind) {
                open.synced = true;
            }
            state.parked.remove(kind).unwrap_or_default()
        };
        for key in waiting {
            self.queue.add(key, Urgency::Now);
        }
        self.tell_known();
    }

    /// Looks again at what the member serves whenever a CustomResourceDefinition comes, goes or changes there.
    async fn follow_crds(self: Arc<Self>) {
        let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.watching[0].clone());
        let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => self.kinds.look_again(),
                Ok(_) => {}
                Err(e) => {
                    tracing::debug!(member = %self.name, "the watch of its kinds broke, trying again: {e:#}");
                }
            }
        }
    }
}

/// Whether a watch failed because its kind is not there; the answer is not one of Kubernetes' own then, only its code tells.
pub(super) fn is_not_served(error: &watcher::Error) -> bool {
    answer(error).is_some_and(|status| status.code == 404)
}

/// What an API server says of a right that a watch lacks.
fn forbidden(error: &watcher::Error) -> Option<&str> {
    answer(error).filter(|status| status.is_forbidden()).map(|status| status.message.as_str())
}
