//! Whether a member is well, by what its probes say: one bad answer is none, several in a row are.

/// As many probes in a row must fail before a member counts as not well.
const FAILURES: u32 = 3;
/// As many probes in a row must succeed before it counts as well again.
const SUCCESSES: u32 = 2;

/// What one probe says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It is ready; its version.
    Ready(String),
    /// It answers that it is not.
    NotReady(String),
    /// It does not answer.
    Unreachable(String),
    /// It does not know us.
    Unauthorized(String),
    /// There is no way into it: what is wrong with its Cluster or its Secret, with a reason in one word.
    Unusable(&'static str, String),
}

/// Counts probes.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    confirmed: Option<Probe>,
    failures: u32,
    successes: u32,
}

/// The newest state of a whole cluster that was seen, to notice that it went back to an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tide {
    newest: u64,
}

// === impl Tide ===

impl Tide {
    /// Takes note of the state that a cluster says it is in; says whether that is earlier than one that was seen, here or by
    /// watches, before it was asked.
    pub fn went_back(&mut self, seen_before: u64, now: u64) -> bool {
        let newest = std::mem::replace(&mut self.newest, now).max(seen_before);
        now < newest
    }
}

// === impl Monitor ===

impl Monitor {
    /// Takes note of a probe; says whether what is confirmed changed by it.
    pub fn note(&mut self, probe: Probe) -> bool {
        let well = matches!(probe, Probe::Ready(_));
        (self.failures, self.successes) =
            if well { (0, self.successes.saturating_add(1)) } else { (self.failures.saturating_add(1), 0) };
        let was_well = matches!(self.confirmed, Some(Probe::Ready(_)));
        // A fault of the Cluster itself does not pass by waiting, and while nothing is known the first probe counts.
        let counts = self.confirmed.is_none()
            || was_well == well
            || matches!(probe, Probe::Unusable(..))
            || self.failures >= FAILURES
            || self.successes >= SUCCESSES;
        if !counts || self.confirmed.as_ref() == Some(&probe) {
            return false;
        }
        self.confirmed = Some(probe);
        true
    }

    /// What is confirmed; none before the first probe.
    pub fn confirmed(&self) -> Option<&Probe> {
        self.confirmed.as_ref()
    }

    /// How many probes failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Probe {
        Probe::Ready("v1.36.4".to_owned())
    }

    fn down() -> Probe {
        Probe::Unreachable("refused".to_owned())
    }

    #[test]
    fn a_cluster_that_was_restored_from_a_backup_is_noticed_once_by_what_was_asked_or_watched() {
        let mut tide = Tide::default();
        assert!(!tide.went_back(0, 100) && !tide.went_back(90, 100) && !tide.went_back(120, 120));
        assert!(tide.went_back(120, 50), "the cluster itself said more before");
        assert!(!tide.went_back(0, 60), "from there it goes on");
        assert!(tide.went_back(80, 70), "a watch showed more before");
    }

    #[test]
    fn the_first_probe_counts_at_once() {
        assert!(Monitor::default().note(down()));
        assert!(Monitor::default().note(ready()));
    }

    #[test]
    fn a_member_is_down_after_three_failures_in_a_row_and_up_after_two_successes() {
        let mut monitor = Monitor::default();
        monitor.note(ready());
        assert!(!monitor.note(down()) && !monitor.note(down()));
        assert!(!monitor.note(ready()), "one success ends the row");
        assert!(!monitor.note(down()) && !monitor.note(down()));
        assert!(monitor.note(down()));
        assert_eq!(monitor.confirmed(), Some(&down()));
        assert!(!monitor.note(ready()));
        assert!(monitor.note(ready()));
    }

    #[test]
    fn a_new_version_and_another_fault_are_news_and_the_same_again_is_none() {
        let mut monitor = Monitor::default();
        assert!(monitor.note(ready()) && !monitor.note(ready()));
        assert!(monitor.note(Probe::Ready("v1.37.0".to_owned())));
        for _ in 0..3 {
            monitor.note(down());
        }
        assert!(monitor.note(Probe::NotReady("etcd".to_owned())), "it is not well either way");
    }

    #[test]
    fn what_is_wrong_with_the_cluster_itself_counts_at_once() {
        let mut monitor = Monitor::default();
        monitor.note(ready());
        assert!(monitor.note(Probe::Unusable("NoSecret", "there is no Secret".to_owned())));
    }
}
