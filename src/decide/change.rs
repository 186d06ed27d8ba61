//! One change of endpoints, by the stamp that an agent puts on its source slices: an id to follow it by through the logs of agents and
//! hub, and when the agent saw it.
//!
//! A stamp is only ever read along: no comparison of slices knows it, so that it never is a reason to write. It is a member's data, hence
//! bounded and checked; one that makes no sense is as none.

use std::{fmt, time::Duration};

use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::api::names::annotation;

/// As many characters as an id has at most.
const LONGEST_ID: usize = 32;
/// As many characters of the hash of what was applied as name a change of a copy.
const OF_HASH: usize = 12;
/// Whoever is ahead of us by more than that has no clock to go by.
const AHEAD: i64 = 60_000;
/// What was seen longer ago did not come by itself: it waited for something, such as an importer.
const OLDEST: i64 = 600_000;

/// One change of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is called in logs.
    pub id: Box<str>,
    /// When its agent saw it, in milliseconds since 1970 by that cluster's clock.
    pub at: i64,
}

// === impl Change ===

impl Change {
    /// What a slice says it was changed by.
    pub fn of(slice: &EndpointSlice) -> Option<Self> {
        Self::read(slice.metadata.annotations.as_ref()?.get(annotation::CHANGE)?)
    }

    /// Reads a stamp; none where it makes no sense.
    pub fn read(text: &str) -> Option<Self> {
        let (id, at) = text.split_once(' ')?;
        let plain = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
        let well = (1..=LONGEST_ID).contains(&id.len()) && id.chars().all(plain);
        let number = at.len() <= 16 && at.chars().all(|c| c.is_ascii_digit());
        let at = at.parse().ok().filter(|_| number)?;
        well.then(|| Self { id: id.into(), at })
    }

    /// Puts the stamp on a slice.
    pub fn put(&self, slice: &mut EndpointSlice) {
        let annotations = slice.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::CHANGE.to_owned(), self.to_string());
    }

    /// How long ago it was seen, in the milliseconds of our own clock. A clock that is a little ahead of ours counts as ours; none where
    /// the time cannot be.
    pub fn age(&self, now: i64) -> Option<Duration> {
        let age = now.saturating_sub(self.at);
        let milliseconds = u64::try_from(age.max(0)).ok()?;
        (-AHEAD..=OLDEST).contains(&age).then(|| Duration::from_millis(milliseconds))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.at)
    }
}

/// What a change of a copy is called in logs: the beginning of the hash of what was applied, which is on the copy.
pub fn of_copy(applied: &str) -> &str {
    applied.char_indices().nth(OF_HASH).map_or(applied, |(end, _)| &applied[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_as_it_was_written() {
        let change = Change { id: "3f9a0c17b2d4".into(), at: 1_800_000_000_123 };
        assert_eq!(Change::read(&change.to_string()), Some(change.clone()));
        let mut slice = EndpointSlice::default();
        assert_eq!(Change::of(&slice), None);
        change.put(&mut slice);
        assert_eq!(Change::of(&slice), Some(change));
    }

    #[test]
    fn a_stamp_that_makes_no_sense_is_as_none() {
        let long = "a".repeat(LONGEST_ID + 1);
        for text in [
            "",
            " ",
            "abc",
            "abc ",
            " 12",
            "abc -1",
            "abc +1",
            "abc 1 2",
            "ABC 1",
            "a\nb 1",
            "a\u{e4} 1",
            "abc 99999999999999999",
            "abc 1.5",
            "abc x",
            &format!("{long} 1"),
        ] {
            assert_eq!(Change::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn clocks_that_differ_a_little_count_as_one_and_times_that_cannot_be_as_none() {
        let change = Change { id: "a".into(), at: 1_000_000 };
        for (now, age) in [
            (1_000_000, Some(0)),
            (1_000_250, Some(250)),
            (999_000, Some(0)),
            (1_000_000 - AHEAD - 1, None),
            (1_000_000 + OLDEST, Some(600_000)),
            (1_000_000 + OLDEST + 1, None),
            (i64::MIN, None),
        ] {
            assert_eq!(change.age(now), age.map(Duration::from_millis), "at {now}");
        }
    }

    #[test]
    fn a_copys_change_is_named_by_the_beginning_of_its_hash() {
        assert_eq!(of_copy("0123456789abcdef0123"), "0123456789ab");
        assert_eq!(of_copy("0123"), "0123");
    }
}
