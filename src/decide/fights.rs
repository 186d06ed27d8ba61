//! Fights: somebody keeps changing what we keep putting right. The longer that goes on, the slower we become.

use std::{collections::BTreeMap, time::Duration};

/// As many repairs within [`WINDOW`] are no fight yet.
const FREE: u32 = 5;
/// Repairs that are further apart than this have nothing to do with each other.
const WINDOW: Duration = Duration::from_secs(120);
/// The wait when a fight begins; each further repair doubles it.
const FIRST: Duration = Duration::from_secs(5);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(300);

/// What was put right lately.
#[derive(Clone, Debug)]
pub struct Fights<K>(BTreeMap<K, Fight>);

#[derive(Clone, Copy, Debug)]
struct Fight {
    repairs: u32,
    last: Duration,
}

// === impl Fights ===

impl<K> Default for Fights<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Fights<K> {
    /// How long a repair has to wait at a time, counted from any fixed moment; none if it may be made at once.
    pub fn wait(&self, key: &K, now: Duration) -> Option<Duration> {
        let fight = self.0.get(key).filter(|fight| fight.repairs >= FREE)?;
        let wait = fight.wait();
        let left = (fight.last + wait).checked_sub(now)?;
        (!left.is_zero()).then_some(left)
    }

    /// Takes note of a repair; gives back how many there were, where that is a fight.
    pub fn repaired(&mut self, key: K, now: Duration) -> Option<u32> {
        let fight = self.0.entry(key).or_insert(Fight { repairs: 0, last: now });
        let calm = now.saturating_sub(fight.last) > WINDOW + fight.wait();
        fight.repairs = if calm { 1 } else { fight.repairs.saturating_add(1) };
        fight.last = now;
        (fight.repairs > FREE).then_some(fight.repairs)
    }

    /// Forgets an object that changed for a reason of its own, or is gone.
    pub fn forget(&mut self, key: &K) {
        self.0.remove(key);
    }
}

// === impl Fight ===

impl Fight {
    fn wait(&self) -> Duration {
        match self.repairs.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(more) => LONGEST.min(FIRST * 2_u32.saturating_pow(more.min(16))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn some_repairs_are_made_at_once_then_each_waits_longer() {
        let mut fights = Fights::default();
        let (mut now, mut waits) = (seconds(1000), Vec::new());
        for _ in 0..10 {
            let wait = fights.wait(&"a", now).unwrap_or_default();
            waits.push(wait.as_secs());
            now += wait;
            fights.repaired("a", now);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 5, 10, 20, 40, 80]);
        assert_eq!(fights.wait(&"b", now), None, "others do not wait");
    }

    #[test]
    fn no_wait_is_longer_than_five_minutes() {
        let mut fights = Fights::default();
        let mut now = seconds(0);
        for _ in 0..100 {
            now += fights.wait(&"a", now).unwrap_or_default();
            fights.repaired("a", now);
        }
        assert_eq!(fights.wait(&"a", now), Some(LONGEST));
    }

    #[test]
    fn repairs_that_are_far_apart_are_no_fight() {
        let mut fights = Fights::default();
        for n in 0..100 {
            assert_eq!(fights.repaired("a", seconds(n * 121)), None);
        }
    }

    #[test]
    fn a_fight_is_over_when_nothing_was_put_right_for_a_while() {
        let mut fights = Fights::default();
        for _ in 0..8 {
            fights.repaired("a", seconds(10));
        }
        assert!(fights.wait(&"a", seconds(11)).is_some());
        assert_eq!(fights.repaired("a", seconds(10_000)), None);
        assert_eq!(fights.wait(&"a", seconds(10_001)), None);
    }
}
