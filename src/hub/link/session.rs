//! One connection to a member: what is seen there, and what has to be looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Result;
use kube::{Client, Config, core::ObjectMeta};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet, time::Instant};

use super::{Ended, health::Health, kinds::Kinds};
use crate::{
    api::Cluster,
    decide::{
        action::Observed,
        copy::ObjectKey,
        definition::{Definition, Dialect},
        exchange::import_kind,
        fights::Fights,
        ids::{ClusterName, ServiceKey},
        select::GroupKind,
    },
    hub::{engine::Engine, lines::Lines},
    shell::{
        client::client_of,
        queue::{Queue, Urgency},
    },
};

/// How many objects are written to one member at a time.
const WORKERS: usize = 16;
/// How many services are worked on in one member at a time.
const SERVICE_WORKERS: usize = 8;
/// As many failures of the link in a row, and nothing more is tried until it answers again.
const PATIENCE: u32 = 5;

/// One connection to a member.
pub(super) struct Session {
    pub(super) name: ClusterName,
    pub(super) engine: Arc<Engine>,
    /// Writes and probes; it writes only while we lead.
    pub(super) writer: Client,
    /// Watches, on connections of their own.
    pub(super) watching: [Client; 2],
    /// Watches copies, kind by kind.
    pub(super) lines: Lines,
    pub(super) queue: Queue<ObjectKey>,
    /// Services to look at.
    pub(super) services: Queue<ServiceKey>,
    /// ServiceImports that are to go, since when.
    pub(super) going: Mutex<BTreeMap<ServiceKey, Instant>>,
    /// How ServiceImports are spoken of in the member, once it has them.
    dialect: Mutex<Option<Dialect>>,
    pub(super) kinds: Kinds,
    /// Told when the session is to end.
    pub(super) renew: Notify,
    /// Told when it is known that the member is the one that it should be.
    pub(super) identified: Notify,
    /// Whether that is known.
    pub(super) is_identified: AtomicBool,
    /// The hub's id, which our label carries.
    pub(super) hub: Arc<str>,
    pub(super) seen: Mutex<Seen>,
    /// Whether the member is marked as this hub's.
    pub(super) marked: AtomicBool,
    troubles: Troubles,
}

/// What is seen in a member.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What carries our label.
    pub(super) copies: BTreeMap<ObjectKey, Observed>,
    /// What a watch by our label no longer shows, and since which resourceVersion if it said so: whether it is gone has to be confirmed.
    doubtful: BTreeMap<ObjectKey, Option<u64>>,
    /// What was applied last, to tell a repair from a change.
    pub(super) applied: BTreeMap<ObjectKey, Box<str>>,
    pub(super) fights: Fights<ObjectKey>,
    /// The newest resourceVersion that was seen.
    pub(super) newest: u64,
}

/// Failures of the link in a row. One lock for the number and for what follows from it: who came last has the last word.
#[derive(Debug, Default)]
struct Troubles(Mutex<u32>);

// === impl Troubles ===

impl Troubles {
    /// Takes note of a failure, and of what is one too many.
    fn failed(&self, pause: impl FnOnce()) {
        let mut number = self.0.lock();
        *number = number.saturating_add(1);
        if *number == PATIENCE {
            pause();
        }
    }

    /// Takes note of an answer, and of the first after too many failures.
    fn answered(&self, resume: impl FnOnce()) {
        let mut number = self.0.lock();
        if std::mem::take(&mut *number) >= PATIENCE {
            resume();
        }
    }
}

// === impl Seen ===

impl Seen {
    /// Takes note of what is seen of an object, `settled` in the answer to an own write; says whether that is news.
    fn take(&mut self, key: &ObjectKey, mut now: Observed, settled: bool) -> bool {
        let version = now.resource_version.parse().ok();
        if counts_with_the_server(&key.kind) {
            self.newest = self.newest.max(version.unwrap_or_default());
        }
        if let Some(gone) = self.doubtful.get(key) {
            // An answer may be read after the watch has shown what came later.
            let late = version.zip(*gone).map_or(settled, |(now, gone)| now < gone);
            if late {
                return false;
            }
            self.doubtful.remove(key);
        }
        match self.copies.get_mut(key) {
            Some(before) if now.is_older_than(before) => false,
            Some(before) => {
                let news = before.renew(now);
                if settled {
                    before.settle();
                }
                news
            }
            None => {
                if settled {
                    now.settle();
                }
                self.copies.insert(key.clone(), now);
                true
            }
        }
    }
}

/// Whether resourceVersions of a kind can be compared with those of an API server's own: what is behind one counts by itself.
fn counts_with_the_server(kind: &GroupKind) -> bool {
    !kind.group.contains('.') || kind.group.ends_with(".k8s.io")
}

// === impl Session ===

impl Session {
    /// A session that has not begun.
    pub(super) fn new(
        engine: Arc<Engine>,
        name: ClusterName,
        config: &Config,
        cluster: &Cluster,
    ) -> Result<Self> {
        Ok(Self {
            writer: client_of(&name, config, Some(engine.claim.clone()))?,
            watching: [client_of(&name, config, None)?, client_of(&name, config, None)?],
            lines: Lines::of(&name, config.clone()),
            queue: Queue::default(),
            services: Queue::default(),
            going: Mutex::default(),
            dialect: Mutex::default(),
            kinds: Kinds::new(cluster),
            renew: Notify::new(),
            identified: Notify::new(),
            is_identified: AtomicBool::new(false),
            hub: engine.id(),
            seen: Mutex::default(),
            marked: AtomicBool::new(false),
            troubles: Troubles::default(),
            name,
            engine,
        })
    }

    /// Works until a new session is to begin.
    pub(super) async fn serve(self: &Arc<Self>, health: &Arc<Health>) -> Ended {
        tokio::select! {
            () = self.renew.notified() => Ended::Renew("the way into it changed, or it came back"),
            why = self.watch_health(health) => Ended::Renew(why),
            () = self.serve_identified(health) => Ended::Renew("a part of it ended"),
        }
    }

    /// Reads and writes, as soon as it is known which cluster it is: another's copies and exports are not the member's.
    async fn serve_identified(self: &Arc<Self>, health: &Arc<Health>) {
        self.identified.notified().await;
        let mut tasks = JoinSet::new();
        for _ in 0..WORKERS {
            let session = self.clone();
            tasks.spawn(async move { session.work().await });
        }
        for _ in 0..SERVICE_WORKERS {
            let session = self.clone();
            tasks.spawn(async move { session.work_on_services().await });
        }
        tasks.spawn(self.clone().keep_kinds());
        tasks.spawn(self.clone().follow_services());
        tasks.spawn(self.clone().follow_agent(health.clone()));
        // Ends with the session: the set aborts what it holds.
        tasks.join_next().await;
    }

    /// Has everything looked at that concerns the member.
    pub(super) fn look_at_everything(&self) {
        let concerned = self.engine.look(|world, _| world.all_of(&self.name));
        let seen: Vec<_> = self.seen.lock().copies.keys().cloned().collect();
        for key in concerned.into_iter().chain(seen) {
            self.queue.add(key, Urgency::Idle);
        }
        for (_, key) in self.engine.look_exchange(|exchange| exchange.all_of(&self.name)) {
            self.services.add(key, Urgency::Idle);
        }
    }

    /// Whether nothing of ours is left, nor on its way.
    pub(super) fn is_clear(&self) -> bool {
        self.kinds.all_known()
            && self.queue.is_empty()
            && self.services.is_empty()
            && self
                .engine
                .look_exchange(|exchange| exchange.is_clear(&self.name, !self.kinds.is_gone(&import_kind())))
            && !self.seen.lock().copies.values().any(Observed::is_ours)
    }

    /// Takes note of an object with our label.
    pub(super) fn see(&self, key: ObjectKey, metadata: &ObjectMeta, settled: bool) {
        let now = Observed::of(&key, metadata, &self.hub);
        let news = self.seen.lock().take(&key, now, settled);
        if news {
            let observed = self.seen.lock().copies.get(&key).cloned();
            self.engine.hold(&self.name, &key, observed.as_ref());
            if !settled {
                self.queue.add(key, Urgency::Now);
            }
        }
    }

    /// Takes note that an object with our label is gone, or has it no more, since this resourceVersion if that is told: which of both, a look
    /// will tell.
    pub(super) fn doubt(&self, key: ObjectKey, since: Option<u64>) {
        self.seen.lock().doubtful.insert(key.clone(), since);
        self.queue.add(key, Urgency::Now);
    }

    /// Whether it is not known what became of an object.
    pub(super) fn is_doubtful(&self, key: &ObjectKey) -> bool {
        self.seen.lock().doubtful.contains_key(key)
    }

    /// Takes note that an object of ours is gone.
    pub(super) fn lose(&self, key: &ObjectKey) {
        {
            let mut seen = self.seen.lock();
            seen.doubtful.remove(key);
            seen.copies.remove(key);
        }
        self.engine.hold(&self.name, key, None);
        self.queue.add(key.clone(), Urgency::Now);
    }

    /// Takes note that these are all objects of a kind with our label.
    pub(super) fn retain(&self, kind: &GroupKind, all: &BTreeSet<ObjectKey>) {
        self.known_of(kind)
            .into_iter()
            .filter(|key| !all.contains(key))
            .for_each(|key| self.doubt(key, None));
    }

    /// Takes note that the member has a kind no more for certain, and so nothing of it.
    pub(super) fn lose_all(&self, kind: &GroupKind) {
        self.known_of(kind).iter().for_each(|key| self.lose(key));
    }

    /// What was seen of a kind, in earlier sessions too.
    fn known_of(&self, kind: &GroupKind) -> BTreeSet<ObjectKey> {
        let mut known = self.engine.look(|world, _| world.held_in(&self.name, kind));
        known.extend(self.seen.lock().copies.keys().filter(|key| key.kind == *kind).cloned());
        known
    }

    /// Takes note of how a request went, as far as the link is concerned. After some failures in a row nothing more is tried
    /// until the member answers a probe.
    pub(super) fn link_failed(&self) {
        self.troubles.failed(|| {
            tracing::warn!(member = %self.name, "it does not answer: nothing is written there until it does");
            self.pause();
        });
    }

    /// Writes nothing until [`Session::resume`].
    pub(super) fn pause(&self) {
        self.queue.pause();
        self.services.pause();
    }

    /// Writes again.
    pub(super) fn resume(&self) {
        self.queue.resume();
        self.services.resume();
    }

    /// How ServiceImports are spoken of in the member.
    pub(super) fn dialect(&self) -> Option<Dialect> {
        *self.dialect.lock()
    }

    /// Takes note of the definition of a kind of the Multi-Cluster Services API.
    pub(super) fn speak(&self, kind: &GroupKind, definition: &Definition) {
        let mut dialect = self.dialect.lock();
        if *kind == import_kind() || dialect.is_none() {
            *dialect = Some(Dialect { version: definition.version, traffic: definition.says_traffic });
        }
    }

    /// Takes note that the member answered.
    pub(super) fn link_answered(&self) {
        self.troubles.answered(|| {
            tracing::info!(member = %self.name, "it answers again");
            self.resume();
        });
    }

    async fn work_on_services(&self) {
        loop {
            let key = self.services.take().await;
            let began = Instant::now();
            let done = self.reconcile_service(&key).await;
            self.engine.metrics.reconciles.note("services", Some(&self.name), done, began.elapsed());
            self.services.done(&key, done);
        }
    }

    async fn work(self: Arc<Self>) {
        loop {
            let key = self.queue.take().await;
            let began = Instant::now();
            let done = self.reconcile(&key).await;
            self.engine.metrics.reconciles.note("copies", Some(&self.name), done, began.elapsed());
            self.queue.done(&key, done);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    #[test]
    fn a_member_that_answers_while_it_is_given_up_is_written_to() {
        let (troubles, steps) = (Troubles::default(), Mutex::new(Vec::new()));
        let (done, told) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..PATIENCE {
                let (troubles, steps, done) = (&troubles, &steps, done.clone());
                troubles.failed(|| {
                    scope.spawn(move || {
                        troubles.answered(|| steps.lock().push("resume"));
                        done.send(())
                    });
                    // The answer has to wait; one that does not is done by then.
                    let early = told.recv_timeout(Duration::from_millis(200));
                    steps.lock().push("pause");
                    assert!(early.is_err(), "it came between the failure and the pause");
                });
            }
        });
        assert_eq!(*steps.lock(), ["pause", "resume"]);
    }

    fn key(group: &str) -> ObjectKey {
        let kind = GroupKind { group: group.into(), kind: "Thing".into() };
        ObjectKey { kind, namespace: "shop".into(), name: "one".into() }
    }

    fn observed(key: &ObjectKey, version: &str) -> Observed {
        let metadata = ObjectMeta {
            uid: Some("one".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        Observed::of(key, &metadata, "hub")
    }

    #[test]
    fn an_answer_that_is_read_after_the_deletion_was_seen_does_not_bring_the_object_back() {
        let key = key("apps");
        for since in [Some(8), None] {
            let mut seen = Seen::default();
            seen.take(&key, observed(&key, "6"), false);
            seen.doubtful.insert(key.clone(), since);
            assert!(!seen.take(&key, observed(&key, "7"), true));
            assert!(seen.doubtful.contains_key(&key), "{since:?}: it is still to be looked at");
        }
    }

    #[test]
    fn what_is_newer_than_a_deletion_ends_the_doubt() {
        let key = key("apps");
        for (since, version, settled) in
            [(Some(8), "9", true), (Some(8), "9", false), (Some(8), "8", false), (None, "7", false)]
        {
            let mut seen = Seen::default();
            seen.take(&key, observed(&key, "6"), false);
            seen.doubtful.insert(key.clone(), since);
            seen.take(&key, observed(&key, version), settled);
            assert!(!seen.doubtful.contains_key(&key), "{since:?}, {version}");
            assert_eq!(&*seen.copies[&key].resource_version, version);
        }
    }

    #[test]
    fn only_what_an_api_server_keeps_itself_tells_how_new_it_is() {
        for (group, newest) in
            [("", 700), ("apps", 700), ("discovery.k8s.io", 700), ("packages.example.com", 0)]
        {
            let (key, mut seen) = (key(group), Seen::default());
            seen.take(&key, observed(&key, "700"), false);
            assert_eq!(seen.newest, newest, "{group}");
        }
    }
}
