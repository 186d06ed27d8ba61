//! What could not be told: it is tried again, ever more seldom.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

/// After the first failure; each further one doubles it.
const FIRST: Duration = Duration::from_millis(500);
/// It is tried again after that time at the latest.
const LONGEST: Duration = Duration::from_secs(60);
/// As many failures in a row are no accident any more.
const PATIENCE: u32 = 4;

/// What could not be told.
#[derive(Debug)]
pub(super) struct Retries<K>(BTreeMap<K, Retry>);

#[derive(Debug)]
struct Retry {
    /// When it is due; it is under way if it has none.
    due: Option<Instant>,
    failures: u32,
}

// === impl Retries ===

impl<K> Default for Retries<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord> Retries<K> {
    /// What is to be told now: what is due again, and of what is wanted all that does not wait after a failure.
    pub(super) fn take(&mut self, mut wanted: BTreeSet<K>, now: Instant) -> BTreeSet<K> {
        for (key, retry) in &mut self.0 {
            match retry.due {
                None => {}
                Some(due) if due > now => {
                    wanted.remove(key);
                }
                Some(_) => {
                    retry.due = None;
                    wanted.insert(key.clone());
                }
            }
        }
        wanted
    }

    /// Takes note that something could not be told; says whether that is to be said aloud, which is once.
    pub(super) fn fail(&mut self, key: K, now: Instant) -> bool {
        let retry = self.0.entry(key).or_insert(Retry { due: None, failures: 0 });
        retry.due = Some(now + LONGEST.min(FIRST.saturating_mul(2_u32.saturating_pow(retry.failures))));
        retry.failures = retry.failures.saturating_add(1);
        retry.failures == PATIENCE
    }

    /// Takes note that something was told, or is not to be told; says whether it was said aloud that it could not be.
    pub(super) fn settle(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some_and(|retry| retry.failures >= PATIENCE)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|retry| retry.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_is_tried_ever_more_seldom_and_said_once() {
        let (mut retries, began) = (Retries::default(), Instant::now());
        let (mut now, mut times, mut said) = (began, Vec::new(), 0);
        for _ in 0..10 {
            assert_eq!(retries.take(BTreeSet::from(["a"]), now), BTreeSet::from(["a"]));
            said += usize::from(retries.fail("a", now));
            times.push((now - began).as_secs_f64());
            assert!(retries.take(BTreeSet::from(["a"]), now).is_empty(), "it waits, whoever wants it told");
            now = retries.next().unwrap();
        }
        assert_eq!(times, [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 123.5, 183.5]);
        assert_eq!(said, 1);
        assert!(retries.settle(&"a"), "that it is well again is worth a word");
    }

    #[test]
    fn what_is_due_again_is_told_though_nobody_wants_it_and_what_was_told_is_not() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        retries.fail("a", now);
        let later = retries.next().unwrap();
        assert_eq!(retries.take(BTreeSet::from(["b"]), now), BTreeSet::from(["b"]), "others do not wait");
        assert_eq!(retries.take(BTreeSet::new(), later), BTreeSet::from(["a"]));
        assert_eq!(retries.next(), None, "it is under way");
        assert!(!retries.settle(&"a"), "it was an accident");
        assert!(retries.take(BTreeSet::new(), later + LONGEST).is_empty());
    }
}
