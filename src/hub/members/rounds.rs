//! When each member is looked at: when there is news, soon again while it leaves, ever more seldom while its Cluster cannot be written.
//!
//! A look that takes its time holds up nobody else's.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::decide::ids::ClusterName;

/// Between two looks where nothing was told.
pub(super) const SELDOM: Duration = Duration::from_secs(30);
/// Between two looks while a member leaves, at first.
pub(super) const SOON: Duration = Duration::from_millis(500);
/// News that come within this time after others are looked into together: what is written of one member is news itself.
const TOGETHER: Duration = Duration::from_millis(200);
/// After so many looks at a member that leaves, the time between them doubles, up to this.
const HOPEFUL: u32 = 16;
const AT_LENGTH: Duration = Duration::from_secs(5);

/// What a look at a member came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is nothing to do before there is news.
    Done,
    /// It leaves.
    Leaves,
    /// Its Cluster, or what is to go there, could not be written.
    Failed,
}

/// When each member is looked at.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    visits: BTreeMap<ClusterName, Visit>,
    /// How many looks there were: each is known by its number.
    looks: u64,
    /// When the last news are looked into.
    news: Option<Instant>,
}

#[derive(Debug)]
struct Visit {
    due: Instant,
    /// The look that goes on.
    look: Option<u64>,
    /// When it is to be looked at again for news that came meanwhile.
    news: Option<Instant>,
    /// How it went last, and how often in a row.
    last: (Seen, u32),
}

// === impl Rounds ===

impl Rounds {
    /// Begins a look at a member if one is due: its number.
    pub(super) fn begin(&mut self, name: &ClusterName, now: Instant) -> Option<u64> {
        let visit = self.visits.entry(name.clone()).or_insert_with(|| Visit::new(now));
        if visit.look.is_some() || visit.due > now {
            return None;
        }
        self.looks += 1;
        visit.look = Some(self.looks);
        visit.look
    }

    /// Takes note of what a look came to. One at a member that is gone meanwhile says nothing of whoever has its name now.
    pub(super) fn end(&mut self, name: &ClusterName, look: u64, seen: Seen, now: Instant) {
        if let Some(visit) = self.visits.get_mut(name).filter(|visit| visit.look == Some(look)) {
            let (last, times) = visit.last;
            visit.last = (seen, if last == seen { times.saturating_add(1) } else { 0 });
            visit.look = None;
            let again = now + visit.pause();
            visit.due = visit.news.take().map_or(again, |news| news.min(again));
        }
    }

    /// Takes note that something may be news of any member: each is looked at then, or a little later.
    pub(super) fn news(&mut self, at: Instant) {
        let at = match self.news {
            Some(last) if last >= at => last,
            Some(last) => at.max(last + TOGETHER),
            None => at,
        };
        self.news = Some(at);
        for visit in self.visits.values_mut() {
            if visit.look.is_some() {
                visit.news = Some(visit.news.map_or(at, |news| news.min(at)));
            } else {
                visit.due = visit.due.min(at);
            }
        }
    }

    /// Forgets a member that is gone.
    pub(super) fn forget(&mut self, name: &ClusterName) {
        self.visits.remove(name);
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.visits.values().filter(|visit| visit.look.is_none()).map(|visit| visit.due).min()
    }
}

// === impl Visit ===

impl Visit {
    fn new(now: Instant) -> Self {
        Self { due: now, look: None, news: None, last: (Seen::Done, 0) }
    }

    /// Until it is looked at again though there is no news.
    fn pause(&self) -> Duration {
        let doubled = |times: u32| SELDOM.min(SOON.saturating_mul(2_u32.saturating_pow(times)));
        match self.last {
            (Seen::Done, _) => SELDOM,
            (Seen::Leaves, times) => AT_LENGTH.min(doubled(times.saturating_sub(HOPEFUL))),
            (Seen::Failed, times) => doubled(times),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    /// After how many seconds a member is looked at that is always seen so, for some looks.
    fn looked_at(seen: Seen, looks: usize) -> Vec<f64> {
        let (mut rounds, began) = (Rounds::default(), Instant::now());
        let (mut now, mut times) = (began, Vec::new());
        for _ in 0..looks {
            let look = rounds.begin(&name("a"), now).unwrap();
            times.push((now - began).as_secs_f64());
            rounds.end(&name("a"), look, seen, now);
            now = rounds.next().unwrap();
        }
        times
    }

    #[test]
    fn a_member_of_which_there_is_no_news_is_looked_at_seldom() {
        assert_eq!(looked_at(Seen::Done, 3), [0.0, 30.0, 60.0]);
    }

    #[test]
    fn a_member_whose_cluster_cannot_be_written_is_tried_ever_more_seldom() {
        assert_eq!(looked_at(Seen::Failed, 9), [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]);
    }

    #[test]
    fn a_member_that_leaves_is_looked_at_soon_again_and_less_often_if_that_takes_its_time() {
        let times = looked_at(Seen::Leaves, 40);
        assert_eq!(times[..4], [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(times[39] - times[38], AT_LENGTH.as_secs_f64(), "{times:?}");
    }

    #[test]
    fn a_look_that_takes_its_time_holds_up_nobody_elses() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        let slow = rounds.begin(&name("slow"), now).unwrap();
        let other = rounds.begin(&name("other"), now).unwrap();
        rounds.end(&name("other"), other, Seen::Done, now);
        rounds.news(now);
        assert!(rounds.begin(&name("other"), now).is_some(), "there is news of it");
        assert_eq!(rounds.begin(&name("slow"), now), None, "it is looked at already");
        rounds.end(&name("slow"), slow, Seen::Done, now);
        assert!(rounds.begin(&name("slow"), now).is_some(), "the news came while it was looked at");
    }

    #[test]
    fn news_that_come_one_upon_the_other_are_looked_into_together() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        let mut looks = Vec::new();
        for ms in 0..1000 {
            let now = now + Duration::from_millis(ms);
            rounds.news(now);
            if let Some(look) = rounds.begin(&name("a"), now) {
                looks.push(ms);
                rounds.end(&name("a"), look, Seen::Done, now);
            }
        }
        assert_eq!(looks, [0, 200, 400, 600, 800]);
    }

    #[test]
    fn a_look_at_a_member_that_is_gone_says_nothing_of_whoever_has_its_name_now() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        let before = rounds.begin(&name("a"), now).unwrap();
        rounds.forget(&name("a"));
        let after = rounds.begin(&name("a"), now).unwrap();
        rounds.end(&name("a"), before, Seen::Done, now);
        assert_eq!(rounds.next(), None, "it is being looked at");
        rounds.end(&name("a"), after, Seen::Done, now);
        assert_eq!(rounds.next(), Some(now + SELDOM));
    }
}
