//! The kinds of which a member has copies, or is to have: each is watched, and recorded on the Cluster before the first copy is made, so that
//! nothing is ever left behind by a kind that nobody selects any more. One that cannot be read is not recorded: nothing was made of it, and a
//! hub that starts anew need not wait for it.

mod record;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    core::PartialObjectMeta,
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{reconcile::lacking, session::Session};
use crate::{
    api::{Cluster, names::label},
    decide::{copy::ObjectKey, exchange::import_kind, select::GroupKind, view::recorded, world::Dirty},
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
    /// What was looked for and not found.
    missed: BTreeMap<GroupKind, Missed>,
    /// What waits for its kind.
    parked: BTreeMap<GroupKind, BTreeSet<ObjectKey>>,
    /// Whether the world was told that everything is known.
    told: bool,
}

#[derive(Debug)]
struct Open {
    synced: bool,
    /// The version that is watched, with the group.
    api_version: Arc<str>,
    task: AbortHandle,
}

/// A kind that the member did not say that it serves: an API server that has just begun may not know all of them yet.
#[derive(Debug, Clone, Copy)]
struct Missed {
    /// Since when nothing spoke for it.
    since: Instant,
    /// Whether it is gone for certain, and with it all of its objects.
    gone: bool,
}

/// How a kind stands in a member.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// It is watched and on record, and all copies are known.
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
        if state.is_ready(&key.kind) {
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

    /// Whether the member does not have a kind for certain.
    pub(super) fn is_gone(&self, kind: &GroupKind) -> bool {
        self.state.lock().is_gone(kind)
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
        let known = |kind: &GroupKind| self.is_gone(kind) || self.is_synced(kind);
        self.asked && !self.is_outdated() && self.recorded.iter().all(known)
    }

    /// Whether a kind is watched, and all copies of it are known.
    fn is_synced(&self, kind: &GroupKind) -> bool {
        self.open.get(kind).is_some_and(|open| open.synced)
    }

    /// Whether a kind may be written.
    fn is_ready(&self, kind: &GroupKind) -> bool {
        self.is_synced(kind) && self.recorded.contains(kind)
    }

    /// The kinds to record: what could not be read is not written either.
    fn unrecorded(&self) -> Vec<GroupKind> {
        let kinds = self.open.keys().filter(|kind| self.is_synced(kind) && !self.is_ready(kind));
        kinds.cloned().collect()
    }

    /// What waits for a kind that may be written.
    fn take_ready(&mut self) -> Vec<ObjectKey> {
        let (ready, parked) =
            std::mem::take(&mut self.parked).into_iter().partition(|(kind, _)| self.is_ready(kind));
        self.parked = parked;
        let ready: BTreeMap<GroupKind, BTreeSet<ObjectKey>> = ready;
        ready.into_values().flatten().collect()
    }

    /// Whether another replica may have written to the record since it was read.
    fn is_outdated(&self) -> bool {
        self.record_read < self.record_due
    }

    fn take_record(&mut self, kinds: BTreeSet<GroupKind>) {
        self.wanted.extend(kinds.iter().cloned());
        self.recorded = kinds;
    }

    fn is_gone(&self, kind: &GroupKind) -> bool {
        self.missed.get(kind).is_some_and(|missed| missed.gone)
    }

    /// The kinds that matter, those of services too, and that are not served.
    fn unserved(&self, served: &Served) -> BTreeSet<GroupKind> {
        let matter = self.wanted.iter().cloned().chain([import_kind()]);
        matter.filter(|kind| !served.has(kind)).collect()
    }

    /// Whether a kind is missing of which it is not certain that it is gone.
    fn has_doubts(&self, served: &Served) -> bool {
        self.unserved(served).iter().any(|kind| !self.is_gone(kind))
    }

    /// Ends the watches of versions that are not served.
    fn close_unserved(&mut self, served: &Served) {
        self.open.retain(|kind, open| {
            let stays = served.version(kind, &open.api_version).is_some();
            if !stays {
                open.task.abort();
            }
            stays
        });
    }

    /// Takes note of what is served, and of the CustomResourceDefinitions that are there, where these could be read; gives back what is gone
    /// for certain by now. That is a kind which was missing twice, with a while between, and all custom kinds of its group were served.
    fn miss(&mut self, served: Served, defined: Option<&BTreeSet<String>>, now: Instant) -> Vec<GroupKind> {
        let unserved = self.unserved(&served);
        self.missed.retain(|kind, _| unserved.contains(kind));
        let mut gone = Vec::new();
        for kind in unserved {
            let of_group =
                |crd: &&String| crd.split_once('.').is_some_and(|(_, group)| group == &*kind.group);
            let complete =
                defined.is_some_and(|crds| crds.iter().filter(of_group).all(|crd| served.has_defined(crd)));
            let missed = self.missed.entry(kind.clone()).or_insert(Missed { since: now, gone: false });
            if missed.gone {
                continue;
            }
            if !complete {
                missed.since = now;
            } else if now.duration_since(missed.since) >= SOON {
                missed.gone = true;
                gone.push(kind);
            }
        }
        self.served = Arc::new(served);
        gone
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
        let look = {
            let state = self.kinds.state.lock();
            let unserved = state.wanted.iter().any(|kind| !state.served.has(kind));
            !state.asked || unserved || state.has_doubts(&state.served)
        };
        if look {
            match tokio::time::timeout(PATIENCE, discover(&self.writer)).await {
                Ok(Ok(served)) => {
                    let doubts = self.kinds.state.lock().has_doubts(&served);
                    // Read after what is served: what comes meanwhile is there, and missing.
                    let defined = if doubts { self.defined().await } else { None };
                    self.take_served(served, defined.as_ref());
                }
                // Health says what is wrong with the member.
                Ok(Err(_)) | Err(_) => return true,
            }
        }
        let (to_open, served, missing) = {
            let state = self.kinds.state.lock();
            let closed = state.wanted.iter().filter(|kind| !state.open.contains_key(*kind));
            let to_open: Vec<_> = closed.clone().filter(|kind| state.served.has(kind)).cloned().collect();
            let missing = closed.count() > to_open.len() || state.has_doubts(&state.served);
            (to_open, state.served.clone(), missing)
        };
        let mut failed = false;
        for kind in to_open {
            let Some(version) = served.preferred(&kind).cloned() else { continue };
            let line = match self.lines.take() {
                Ok(line) => line,
                Err(e) => {
                    tracing::warn!(member = %self.name, %kind, "failed to set up a client, trying again: {e:#}");
                    failed = true;
                    continue;
                }
            };
            let api_version = version.api_version();
            // It is there before its watch can say anything of it.
            let mut state = self.kinds.state.lock();
            let task = tasks.spawn(self.clone().follow(line, kind.clone(), version));
            state.open.insert(kind, Open { synced: false, api_version, task });
        }
        let unrecorded = self.kinds.state.lock().unrecorded();
        for kind in unrecorded {
            failed |= !self.record(&kind).await;
        }
        self.release();
        missing || failed
    }

    /// The names of the member's CustomResourceDefinitions; none if they could not be read.
    async fn defined(&self) -> Option<BTreeSet<String>> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.writer.clone());
        let found = tokio::time::timeout(PATIENCE, crds.list_metadata(&ListParams::default())).await;
        Some(found.ok()?.ok()?.iter().map(ResourceExt::name_any).collect())
    }

    /// Takes note of what the member serves: watches of versions that it no longer serves end, what it had of a kind counts until that is
    /// gone for certain, and what waits for a kind is looked at.
    fn take_served(&self, served: Served, defined: Option<&BTreeSet<String>>) {
        let (gone, waiting) = {
            let mut state = self.kinds.state.lock();
            state.close_unserved(&served);
            let gone = state.miss(served, defined, Instant::now());
            let first = !std::mem::replace(&mut state.asked, true);
            // Whoever waits for a kind that is not there says so once.
            let waiting: Vec<_> =
                state.parked.iter().filter(|(kind, _)| first && !state.served.has(kind)).collect();
            let waiting: Vec<_> = waiting.into_iter().flat_map(|(_, keys)| keys.clone()).collect();
            (gone, waiting)
        };
        for kind in gone {
            self.lose_all(&kind);
        }
        for key in waiting {
            self.queue.add(key, Urgency::Now);
        }
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

    /// Takes note that all copies of a kind are known.
    fn opened(&self, kind: &GroupKind) {
        {
            let mut state = self.kinds.state.lock();
            if let Some(open) = state.open.get_mut(kind) {
                open.synced = true;
            }
            if !state.recorded.contains(kind) {
                self.kinds.changed.notify_one();
            }
        }
        self.release();
        self.tell_known();
    }

    /// Has looked at what waited for kinds that can be written by now.
    fn release(&self) {
        let waiting = self.kinds.state.lock().take_ready();
        for key in waiting {
            self.queue.add(key, Urgency::Now);
        }
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
