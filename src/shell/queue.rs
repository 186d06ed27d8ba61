//! A queue of keys: each is in it once, handed to one worker at a time, and comes back later where it failed.
//!
//! Put keys in with [`Queue::add`], take them with [`Queue::take`], hand each back with [`Queue::done`]. Keys that come in while
//! they are worked on are handed out again afterwards, so that no change is lost. What changed goes before what is only looked at
//! again ([`Urgency`]).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

/// The first wait after a failure; each further one doubles it.
const FIRST: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// How soon a key is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Something changed.
    Now,
    /// It is only looked at again: after all that changed.
    Idle,
}

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is as it should be.
    Well,
    /// It is to be tried again, a little later each time.
    Again,
    /// It is to be looked at again after that time.
    After(Duration),
}

/// A queue of keys.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<K> {
    now: VecDeque<K>,
    idle: VecDeque<K>,
    /// What is in one of the two, with its urgency.
    waiting: BTreeMap<K, Urgency>,
    /// What is worked on.
    working: BTreeMap<K, Work>,
    /// Since when a change of what is in the queue, or comes back to it, waits to be answered.
    since: BTreeMap<K, Instant>,
    later: BTreeSet<(Instant, K)>,
    due: BTreeMap<K, Instant>,
    failures: BTreeMap<K, u32>,
    paused: bool,
}

/// What happened while a key is worked on.
#[derive(Debug, Default)]
struct Work {
    /// It has to be looked at once more.
    again: bool,
    /// Since when, if something changed.
    since: Option<Instant>,
}

/// How much a queue has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Keys that wait for a worker.
    pub waiting: usize,
    /// Keys that are worked on.
    pub working: usize,
    /// Keys that failed, or are to be looked at again, and wait for their time.
    pub later: usize,
    /// How long the next change has been waiting.
    pub oldest: Duration,
}

// === impl Load ===

impl Load {
    /// How many keys are in which state.
    pub fn states(&self) -> [(&'static str, usize); 3] {
        [("waiting", self.waiting), ("working", self.working), ("later", self.later)]
    }

    /// As whoever looks for a fault is told.
    pub fn told(&self) -> Value {
        let Self { waiting, working, later, oldest } = self;
        json!({ "waiting": waiting, "working": working, "later": later, "oldestMilliseconds": oldest.as_millis() as u64 })
    }
}

// === impl Queue ===

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            now: VecDeque::new(),
            idle: VecDeque::new(),
            waiting: BTreeMap::new(),
            working: BTreeMap::new(),
            since: BTreeMap::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            paused: false,
        };
        Self { state: Mutex::new(state), wake: Notify::new() }
    }
}

impl<K: Clone + Ord> Queue<K> {
    /// Puts a key in. A wait after a failure ends by that, if something changed.
    pub fn add(&self, key: K, urgency: Urgency) {
        let mut state = self.state.lock();
        if urgency == Urgency::Now {
            state.note(&key, Instant::now());
        }
        let wake = state.add(key, urgency);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Since when the change waited that a key is worked on for, if it is for one. To be called when it is answered: a change counts once.
    pub fn answer(&self, key: &K) -> Option<Duration> {
        self.state.lock().since.remove(key).map(|since| since.elapsed())
    }

    /// Since when the change waits that a key is worked on for, if it is for one.
    pub fn waited(&self, key: &K) -> Option<Duration> {
        self.state.lock().since.get(key).map(Instant::elapsed)
    }

    /// How much there is to do.
    pub fn load(&self) -> Load {
        let state = self.state.lock();
        let next = state.now.front().and_then(|key| state.since.get(key));
        Load {
            waiting: state.waiting.len(),
            working: state.working.len(),
            later: state.later.len(),
            oldest: next.map(Instant::elapsed).unwrap_or_default(),
        }
    }

    /// The next key; waits until there is one.
    pub async fn take(&self) -> K {
        loop {
            let wake = self.wake.notified();
            let next = {
                let mut state = self.state.lock();
                state.ripen(Instant::now());
                if let Some(key) = state.next() {
                    let more = state.has_more();
                    drop(state);
                    if more {
                        self.wake.notify_one();
                    }
                    return key;
                }
                if state.paused { None } else { state.later.first().map(|(at, _)| *at) }
            };
            match next {
                Some(at) => tokio::select! {
                    () = wake => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => wake.await,
            }
        }
    }

    /// Hands a key back.
    pub fn done(&self, key: &K, done: Done) {
        let mut state = self.state.lock();
        let Work { again, since } = state.working.remove(key).unwrap_or_default();
        if done == Done::Well {
            state.failures.remove(key);
            state.since.remove(key);
        }
        if let Some(since) = since {
            state.since.entry(key.clone()).or_insert(since);
        }
        let wake = if again {
            state.add(key.clone(), Urgency::Now)
        } else {
            match done {
                Done::Well => false,
                Done::Again => {
                    let failures = state.failures.entry(key.clone()).or_insert(0);
                    let wait = LONGEST.min(FIRST * 2_u32.saturating_pow(*failures));
                    *failures = failures.saturating_add(1);
                    state.add_later(key.clone(), wait);
                    true
                }
                Done::After(wait) => {
                    state.add_later(key.clone(), wait);
                    true
                }
            }
        };
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Hands out nothing until [`Queue::resume`].
    pub fn pause(&self) {
        self.state.lock().paused = true;
    }

    /// Hands out keys again.
    pub fn resume(&self) {
        self.state.lock().paused = false;
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// How many keys wait or are worked on; those that failed and wait for their time are not counted.
    pub fn len(&self) -> usize {
        let state = self.state.lock();
        state.waiting.len() + state.working.len()
    }

    /// Whether nothing waits and nothing is worked on.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl State ===

impl<K: Clone + Ord> State<K> {
    /// Takes note of a change; what waits already waits since the first.
    fn note(&mut self, key: &K, now: Instant) {
        match self.working.get_mut(key) {
            Some(work) => drop(work.since.get_or_insert(now)),
            None => drop(self.since.entry(key.clone()).or_insert(now)),
        }
    }

    fn add(&mut self, key: K, urgency: Urgency) -> bool {
        if let Some(work) = self.working.get_mut(&key) {
            work.again = true;
            return false;
        }
        if let Some(at) = self.due.get(&key).copied() {
            // What is only looked at again does not shorten the wait after a failure.
            if urgency == Urgency::Idle {
                return false;
            }
            self.due.remove(&key);
            self.later.remove(&(at, key.clone()));
        }
        match (self.waiting.get(&key), urgency) {
            (None | Some(Urgency::Idle), Urgency::Now) => self.now.push_back(key.clone()),
            (None, Urgency::Idle) => self.idle.push_back(key.clone()),
            (Some(_), _) => return false,
        }
        self.waiting.insert(key, urgency);
        true
    }

    fn add_later(&mut self, key: K, wait: Duration) {
        let at = Instant::now() + wait;
        if let Some(before) = self.due.insert(key.clone(), at) {
            self.later.remove(&(before, key.clone()));
        }
        self.later.insert((at, key));
    }

    /// Puts in what has waited long enough.
    fn ripen(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.later.pop_first() else { return };
            self.due.remove(&key);
            self.add(key, Urgency::Now);
        }
    }

    fn has_more(&self) -> bool {
        !self.paused && !self.waiting.is_empty()
    }

    fn next(&mut self) -> Option<K> {
        if self.paused {
            return None;
        }
        loop {
            // A key that became urgent is in both; its place among the idle ones no longer counts.
            let (key, urgency) = match self.now.pop_front() {
                Some(key) => (key, Urgency::Now),
                None => (self.idle.pop_front()?, Urgency::Idle),
            };
            if self.waiting.get(&key) == Some(&urgency) {
                self.waiting.remove(&key);
                self.working.insert(key.clone(), Work::default());
                return Some(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_once<K: Clone + Ord>(queue: &Queue<K>) -> Option<K> {
        use futures::FutureExt;
        queue.take().now_or_never()
    }

    #[tokio::test]
    async fn a_key_is_handed_out_once_however_often_it_was_put_in() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.add("a", Urgency::Now);
        }
        assert_eq!(at_once(&queue), Some("a"));
        assert_eq!(at_once(&queue), None);
    }

    #[tokio::test]
    async fn a_key_that_comes_in_while_it_is_worked_on_is_handed_out_again_afterwards_and_not_before() {
        let queue = Queue::default();
        queue.add("a", Urgency::Now);
        assert_eq!(at_once(&queue), Some("a"));
        queue.add("a", Urgency::Now);
        assert_eq!(at_once(&queue), None);
        queue.done(&"a", Done::Well);
        assert_eq!(at_once(&queue), Some("a"));
    }

    #[tokio::test]
    async fn what_changed_goes_before_what_is_only_looked_at_again() {
        let queue = Queue::default();
        queue.add("idle", Urgency::Idle);
        queue.add("both", Urgency::Idle);
        queue.add("both", Urgency::Now);
        assert_eq!(at_once(&queue), Some("both"));
        assert_eq!(at_once(&queue), Some("idle"));
        assert_eq!(at_once(&queue), None, "no key is handed out twice");
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_comes_back_later_each_time_and_at_once_if_something_changed() {
        let queue = Queue::default();
        queue.add("a", Urgency::Now);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let started = Instant::now();
            let key = queue.take().await;
            waits.push(started.elapsed().as_millis());
            queue.done(&key, Done::Again);
        }
        assert_eq!(waits, [0, 50, 100, 200]);
        queue.add("a", Urgency::Idle);
        assert_eq!(at_once(&queue), None, "looking again does not shorten the wait");
        queue.add("a", Urgency::Now);
        assert_eq!(at_once(&queue), Some("a"));
        queue.done(&"a", Done::Well);
        tokio::time::sleep(LONGEST).await;
        assert_eq!(at_once(&queue), None, "it was handed out: the wait is over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_counts_from_when_it_came_in_until_it_is_answered_failures_included_and_once() {
        let queue = Queue::default();
        let millis = |waited: Option<Duration>| waited.map(|waited| waited.as_millis());
        queue.add("a", Urgency::Now);
        tokio::time::advance(Duration::from_millis(7)).await;
        queue.add("a", Urgency::Now);
        assert_eq!(queue.load(), Load { waiting: 1, oldest: Duration::from_millis(7), ..Load::default() });
        let key = queue.take().await;
        assert_eq!(queue.load(), Load { working: 1, ..Load::default() });
        queue.done(&key, Done::Again);
        assert_eq!(queue.load().later, 1);
        let key = queue.take().await;
        assert_eq!(millis(queue.waited(&key)), Some(57));
        // The next change comes while the first is worked on.
        queue.add("a", Urgency::Now);
        assert_eq!(millis(queue.answer(&key)), Some(57));
        assert_eq!(queue.answer(&key), None, "it counts once");
        tokio::time::advance(Duration::from_millis(3)).await;
        queue.done(&key, Done::Well);
        let key = queue.take().await;
        assert_eq!(millis(queue.answer(&key)), Some(3));
        queue.done(&key, Done::Well);
        queue.add("a", Urgency::Idle);
        assert_eq!(queue.take().await, "a");
        assert_eq!(queue.answer(&"a"), None, "nothing changed");
    }

    #[tokio::test]
    async fn a_change_that_needs_no_answer_is_forgotten() {
        let queue = Queue::default();
        queue.add("a", Urgency::Now);
        let key = queue.take().await;
        queue.done(&key, Done::Well);
        queue.add("a", Urgency::Idle);
        assert_eq!(queue.waited(&queue.take().await), None);
    }

    #[tokio::test]
    async fn a_paused_queue_keeps_what_it_gets() {
        let queue = Queue::default();
        queue.pause();
        queue.add("a", Urgency::Now);
        assert_eq!(at_once(&queue), None);
        queue.resume();
        assert_eq!(at_once(&queue), Some("a"));
    }

    #[tokio::test]
    async fn several_workers_get_different_keys() {
        let queue = Queue::default();
        let (one, two) = (queue.take(), queue.take());
        futures::pin_mut!(one, two);
        assert!(futures::poll!(&mut one).is_pending() && futures::poll!(&mut two).is_pending());
        queue.add("a", Urgency::Now);
        queue.add("b", Urgency::Now);
        let mut got = [one.await, two.await];
        got.sort_unstable();
        assert_eq!(got, ["a", "b"]);
    }
}
