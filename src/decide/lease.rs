//! Who leads: the rules of a Lease that replicas compete for, without clock and without network.
//!
//! As in client-go, nobody trusts another machine's clock: a Lease is over when *this* replica has not seen it change for as long as it
//! is good for, measured on its own clock that never steps back. Writes are compare-and-swap, so of several that find it
//! over one wins. The winner's claim is counted from *before* its write was sent, and others count from after they saw it: the claim is
//! over before anybody else can take the Lease. [`decide`] says what is to be done; a property plays replicas against each other.

use std::time::Duration;

/// How long a holder may lead without renewing.
pub const DURATION: Duration = Duration::from_secs(10);
/// What renewing may take; each call gets half of it, so that one call that hangs does not cost the lead.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(6);
/// Between two renewals.
pub const RETRY: Duration = Duration::from_secs(1);

/// What a Lease says. Times are microseconds since 1970 on the holder's clock; others only look whether they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty once released.
    pub holder: String,
    /// For how long it is good without being renewed.
    pub duration: Duration,
    /// When this holder took it.
    pub acquired: i64,
    /// When it was last renewed.
    pub renewed: i64,
    /// How often it changed hands.
    pub transitions: i32,
}

/// A Lease as one replica sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// What it says.
    pub record: Record,
    /// When it was first seen to say that, on this replica's own clock.
    pub since: Duration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take it: there is none, it was released, or it is over.
    Acquire,
    /// Renew it: it is ours.
    Renew,
    /// It is another's for that long at least.
    Wait(Duration),
}

/// What a replica that goes by `me` does about the Lease at `now` on its own clock.
pub fn decide(observed: Option<&LeaseView>, me: &str, now: Duration) -> Step {
    match observed {
        None => Step::Acquire,
        Some(LeaseView { record, .. }) if record.holder.is_empty() => Step::Acquire,
        Some(LeaseView { record, .. }) if record.holder == me => Step::Renew,
        Some(LeaseView { record, since }) => match (*since + record.duration).checked_sub(now) {
            None | Some(Duration::ZERO) => Step::Acquire,
            Some(left) => Step::Wait(left),
        },
    }
}

/// For how long a write that succeeded makes a leader, counted from when it was sent: a tenth less than the Lease is good for, since clocks
/// run at slightly different speeds.
pub fn claim(duration: Duration) -> Duration {
    duration / 10 * 9
}

// === impl LeaseView ===

impl LeaseView {
    /// The view after another look, which came back at `now`: time runs on where nothing changed.
    pub fn see(before: Option<Self>, record: Record, now: Duration) -> Self {
        match before {
            Some(before) if before.record == record => before,
            _ => Self { record, since: now },
        }
    }
}

// === impl Record ===

impl Record {
    /// What `me` writes to take or renew it, at `now` on its wall clock.
    pub fn taken(before: Option<&Self>, me: &str, duration: Duration, now: i64) -> Self {
        // A renewal must show, even if the wall clock stands still.
        let renewed = if before.is_some_and(|before| before.renewed == now) { now + 1 } else { now };
        let (acquired, transitions) = match before {
            None => (renewed, 0),
            Some(before) if before.holder == me => (before.acquired, before.transitions),
            Some(before) => (renewed, before.transitions.saturating_add(1)),
        };
        Self { holder: me.to_owned(), duration, acquired, renewed, transitions }
    }

    /// What its holder writes to let it go, at `now` on its wall clock: whoever sees that takes it at once.
    #[must_use]
    pub fn released(&self, now: i64) -> Self {
        Self { holder: String::new(), duration: Duration::from_secs(1), renewed: now, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
