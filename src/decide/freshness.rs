//! How fresh what is known of the members is, and what that does to their endpoints elsewhere.
//!
//! [`grades`] judges all members together: if many fall silent at once, the fault is more likely the hub's own, and none is judged.
//! Times are those at which a Cluster's conditions changed, so that a restart of the hub resets nothing.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::ids::ClusterName;
use crate::api::{
    Cluster,
    names::{annotation, condition},
};

/// How fresh what is known of a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// It answers, and its agent is at work.
    #[default]
    Fresh,
    /// Not for a moment, or many are silent at once.
    Silent,
    /// Not for a while: its endpoints are marked.
    Stale,
    /// Not for so long that its endpoints are not ready where others are.
    Lost,
}

/// Since when a member is silent, in seconds; none if it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Its API server.
    pub server: Option<i64>,
    /// Its agent.
    pub agent: Option<i64>,
}

/// How long a member may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until its endpoints are marked.
    pub stale: Duration,
    /// Until they are not ready where others are.
    pub lost: Duration,
}

/// What an imported slice says of the freshness of its cluster, as an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Its endpoints are kept as they were.
    Kept,
    /// They are not ready, since others are.
    Withdrawn,
}

// === impl Grade ===

impl Grade {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fresh, Self::Silent, Self::Stale, Self::Lost];

    /// As metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Silent => "silent",
            Self::Stale => "stale",
            Self::Lost => "lost",
        }
    }
}

// === impl Silence ===

impl Silence {
    /// What a Cluster's conditions say.
    pub fn of(cluster: &Cluster) -> Self {
        let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
        let since = |kind: &str| {
            let found = conditions.unwrap_or_default().iter().find(|found| found.type_ == kind)?;
            (found.status != "True").then(|| found.last_transition_time.0.as_second())
        };
        Self { server: since(condition::READY), agent: since(condition::AGENT_READY) }
    }
}

// === impl Mark ===

impl Mark {
    /// As an annotation has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// What a slice says.
    pub fn of(slice: &EndpointSlice) -> Option<Self> {
        match slice.metadata.annotations.as_ref()?.get(annotation::STALE)?.as_str() {
            "kept" => Some(Self::Kept),
            "withdrawn" => Some(Self::Withdrawn),
            _ => None,
        }
    }

    /// Puts it on a slice, whose endpoints become what it says.
    pub fn put(self, slice: &mut EndpointSlice) {
        let before = Self::of(slice);
        if before == Some(self) {
            return;
        }
        if self == Self::Withdrawn {
            withdraw(slice);
        } else if before == Some(Self::Withdrawn) {
            bring_back(slice);
        }
        let annotations = slice.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::STALE.to_owned(), self.as_str().to_owned());
    }
}

/// Makes endpoints neither ready nor serving, and notes which of them served: kube-proxy ends what goes on with an endpoint, such as UDP
/// from the same port, only when that serves no more.
fn withdraw(slice: &mut EndpointSlice) {
    let mut served = String::new();
    for conditions in slice.endpoints.iter_mut().map(|endpoint| endpoint.conditions.get_or_insert_default()) {
        let serves = conditions.serving.or(conditions.ready).unwrap_or(true);
        served.push(if serves { '1' } else { '0' });
        (conditions.ready, conditions.serving) = (Some(false), Some(false));
    }
    let annotations = slice.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::SERVED.to_owned(), served);
}

/// Makes endpoints again what they were before they were withdrawn: what was ready is what served and does not end.
fn bring_back(slice: &mut EndpointSlice) {
    // A release before did not note it, and left it as it was.
    let noted =
        slice.metadata.annotations.as_mut().and_then(|annotations| annotations.remove(annotation::SERVED));
    let noted = noted.unwrap_or_default();
    let mut noted = noted.chars();
    for conditions in slice.endpoints.iter_mut().map(|endpoint| endpoint.conditions.get_or_insert_default()) {
        if let Some(served) = noted.next() {
            conditions.serving = Some(served == '1');
        }
        let ends = conditions.terminating.unwrap_or_default();
        conditions.ready = Some(conditions.serving.unwrap_or(true) && !ends);
    }
}

/// Since when members are silent, in seconds; none where one is not.
pub type Silent = BTreeMap<ClusterName, Option<i64>>;

/// Since when members are silent, given what was known before: one that is silent for another reason now did not answer in between.
pub fn lasting(before: &Silent, now: Silent) -> Silent {
    let since = |name: &ClusterName, now: Option<i64>| {
        now.map(|now| before.get(name).copied().flatten().map_or(now, |before| before.min(now)))
    };
    now.into_iter().map(|(name, now)| (name.clone(), since(&name, now))).collect()
}

/// Judges all members. Who was lost before many fell silent stays lost: that the fault may be the hub's now brings none of its pods back.
pub fn grades(silent: &Silent, now: i64, limits: Limits) -> BTreeMap<ClusterName, Grade> {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let (stale, lost) = (seconds(limits.stale), seconds(limits.lost));
    // Whether at a time many had been silent for a while, since about the same moment.
    let many = |since: i64, at: i64| {
        let long = silent.values().flatten().filter(|other| at - **other >= stale);
        let together = long.filter(|other| (**other - since).abs() <= lost).count();
        // One alone says nothing of the hub, were there only two.
        together > 1 && together * 2 >= silent.len()
    };
    let grade = |since: Option<i64>| {
        let Some(since) = since else { return Grade::Fresh };
        match now - since {
            passed if passed >= lost && !many(since, since + lost) => Grade::Lost,
            passed if passed >= stale && !many(since, now) => Grade::Stale,
            _ => Grade::Silent,
        }
    };
    silent.iter().map(|(name, since)| (name.clone(), grade(*since))).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { stale: Duration::from_secs(30), lost: Duration::from_secs(120) };

    fn judged(since: &[Option<i64>], now: i64) -> Vec<Grade> {
        let named = since.iter().enumerate();
        let silent = named.map(|(n, since)| (format!("member{n}").parse().unwrap(), *since)).collect();
        grades(&silent, now, LIMITS).into_values().collect()
    }

    #[test]
    fn a_member_that_falls_silent_is_kept_then_marked_then_not_ready() {
        use Grade::{Fresh, Lost, Silent, Stale};
        for (now, grade) in
            [(100, Silent), (129, Silent), (130, Stale), (219, Stale), (220, Lost), (9999, Lost)]
        {
            assert_eq!(judged(&[Some(100), None, None], now), [grade, Fresh, Fresh], "at {now}");
        }
    }

    #[test]
    fn if_half_the_members_fall_silent_at_once_none_is_judged() {
        use Grade::{Fresh, Lost, Silent};
        assert_eq!(judged(&[Some(100), Some(110), None, None], 500), [Silent, Silent, Fresh, Fresh]);
        assert_eq!(judged(&[Some(100), Some(110), None, None, None], 500), [Lost, Lost, Fresh, Fresh, Fresh]);
        assert_eq!(judged(&[Some(100), Some(110)], 500), [Silent, Silent]);
    }

    #[test]
    fn one_of_two_is_judged_and_so_is_one_that_follows_much_later() {
        use Grade::{Fresh, Lost};
        assert_eq!(judged(&[Some(100), None], 500), [Lost, Fresh]);
        assert_eq!(judged(&[Some(100), Some(900), None, None], 2000), [Lost, Lost, Fresh, Fresh]);
    }

    #[test]
    fn who_was_lost_stays_lost_when_others_fall_silent_and_these_are_not_judged() {
        use Grade::{Fresh, Lost, Silent, Stale};
        let since = [Some(20), Some(120), None];
        for (now, grades) in
            [(140, [Lost, Silent, Fresh]), (150, [Lost, Silent, Fresh]), (999, [Lost, Silent, Fresh])]
        {
            assert_eq!(judged(&since, now), grades, "at {now}");
        }
        // Who was only stale by then is not judged any more.
        assert_eq!(judged(&[Some(20), Some(100), None], 129), [Stale, Silent, Fresh]);
        assert_eq!(judged(&[Some(20), Some(100), None], 999), [Silent, Silent, Fresh]);
    }

    #[test]
    fn a_member_that_is_silent_for_another_reason_now_is_silent_since_the_first() {
        let of = |since| BTreeMap::from([("a".parse().unwrap(), since)]);
        assert_eq!(lasting(&of(Some(5)), of(Some(9))), of(Some(5)));
        assert_eq!(lasting(&of(None), of(Some(9))), of(Some(9)));
        assert_eq!(lasting(&of(Some(5)), of(None)), of(None));
    }

    proptest! {
        #[test]
        fn whoever_answers_is_fresh_and_nobody_is_judged_before_time(
            since in proptest::collection::vec(proptest::option::of(0_i64..1000), 1..8), now in 1000_i64..1200,
        ) {
            for (since, grade) in since.iter().zip(judged(&since, now)) {
                prop_assert_eq!(since.is_none(), grade == Grade::Fresh);
                if let Some(since) = since {
                    prop_assert!(grade < Grade::Stale || now - since >= 30);
                    prop_assert!(grade < Grade::Lost || now - since >= 120);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn who_is_lost_stays_so_until_it_answers_whoever_falls_silent_after(
            since in proptest::collection::vec(proptest::option::of(proptest::sample::select(vec![0_i64, 20, 90, 110, 130])), 1..8),
            now in 120_i64..160,
            after in proptest::collection::vec(proptest::option::of(0_i64..300), 8), passed in 0_i64..600,
        ) {
            let until = |now: i64| move |since: &Option<i64>| since.filter(|since| *since <= now);
            let before: Vec<_> = since.iter().map(until(now)).collect();
            let later: Vec<_> = before.iter().zip(&after).map(|(before, after)| before.or(after.map(|after| now + after))).collect();
            let later: Vec<_> = later.iter().map(until(now + passed)).collect();
            for (before, later) in judged(&before, now).into_iter().zip(judged(&later, now + passed)) {
                prop_assert!(before != Grade::Lost || later == Grade::Lost);
            }
        }
    }

    #[test]
    fn what_was_withdrawn_is_ready_again_if_it_serves() {
        let endpoint = |ready, serving, terminating| Endpoint {
            conditions: Some(EndpointConditions {
                ready: Some(ready),
                serving: Some(serving),
                terminating: Some(terminating),
            }),
            ..Endpoint::default()
        };
        let endpoints =
            vec![endpoint(true, true, false), endpoint(false, true, true), endpoint(false, false, false)];
        let mut slice = EndpointSlice { endpoints: endpoints.clone(), ..EndpointSlice::default() };
        Mark::Withdrawn.put(&mut slice);
        let withdrawn = [false, true, false].map(|ends| endpoint(false, false, ends));
        assert_eq!(slice.endpoints, withdrawn, "kube-proxy forgets no flow of what serves");
        Mark::Withdrawn.put(&mut slice);
        Mark::Kept.put(&mut slice);
        assert_eq!(slice.endpoints, endpoints);
        assert_eq!(Mark::of(&slice), Some(Mark::Kept));
    }

    #[test]
    fn what_a_release_before_withdrew_comes_back_as_well() {
        let conditions =
            |ready| Some(EndpointConditions { ready: Some(ready), serving: Some(true), terminating: None });
        let slice = |ready| EndpointSlice {
            endpoints: vec![Endpoint { conditions: conditions(ready), ..Endpoint::default() }],
            ..EndpointSlice::default()
        };
        let mut there = slice(false);
        there.metadata.annotations =
            Some([(annotation::STALE.to_owned(), "withdrawn".to_owned())].into_iter().collect());
        Mark::Kept.put(&mut there);
        assert_eq!(there.endpoints, slice(true).endpoints);
    }
}
