//! When the webhook's certificates are made anew: the rules, without clock and without keys.
//!
//! API servers trust the authorities that the webhook configurations carry, so an authority must be *published* there, and have been
//! for a while, before anything signed by it may serve; and it may only go when nothing signed by it serves any more.
//! [`step`] says what to do next; doing it and asking again leads through every rotation, from nothing as well as from a crash
//! in the middle.
//!
//! ```text
//!  nothing ──MakeAuthority──▶ authority ──IssueServing──▶ serving ──Publish──▶ at rest
//!  at rest ──(2/3 of serving's life)──IssueServing──▶ at rest
//!  at rest ──(2/3 of authority's life)──MakeAuthority──▶ two ──Publish──▶ (overlap) ──IssueServing──▶ (overlap) ──DropAuthorities──▶ at rest
//! ```

use std::time::Duration;

/// How often a replica looks for what others did, at least.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// Seconds since the epoch.
pub type Seconds = i64;

/// How long things live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// A certificate authority.
    pub authority: Seconds,
    /// A serving certificate; never longer than its authority.
    pub serving: Seconds,
    /// How long API servers and replicas may take to notice a change.
    pub overlap: Seconds,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub from: Seconds,
    /// Until then.
    pub until: Seconds,
}

/// What there is. Authorities are identified by their number, which only grows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Material {
    /// The authorities, oldest first; the key of the last is at hand.
    pub authorities: Vec<(u64, Validity)>,
    /// The serving certificate and the number of its authority.
    pub serving: Option<(u64, Validity)>,
    /// The newest authority that is known to be in both webhook configurations, and since when.
    pub published: Option<(u64, Seconds)>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make a new authority beside those that are there.
    MakeAuthority,
    /// Issue a serving certificate by the newest authority, valid until then.
    IssueServing {
        /// The end of its life.
        until: Seconds,
    },
    /// Write all authorities into both webhook configurations, and note that.
    Publish,
    /// Forget all authorities but the newest, here and in the configurations.
    DropAuthorities,
    /// Nothing, until then at the latest.
    Wait {
        /// When to ask again.
        until: Seconds,
    },
}

// === impl Lifetimes ===

impl Lifetimes {
    /// Says what is wrong with them: what is renewed in the last third of its life must live through the overlap in there.
    pub fn fault(self) -> Option<String> {
        if self.serving < 6 * self.overlap {
            return Some(format!(
                "a serving certificate must live at least six times the overlap of {} s, not {} s",
                self.overlap, self.serving
            ));
        }
        if self.authority < 2 * self.serving {
            return Some(format!(
                "an authority must live at least twice as long as a serving certificate ({} s), not {} s",
                self.serving, self.authority
            ));
        }
        None
    }

    /// How long a replica may go without a look at what others did: it must have noticed a change several times over before anybody relies
    /// on that, and times are kept in whole seconds.
    pub fn between_looks(self) -> Duration {
        LONGEST_LOOK.min(Duration::from_secs(self.overlap.unsigned_abs()) / 4)
    }
}

// === impl Validity ===

impl Validity {
    /// Two thirds of its life: time to renew, with the last third for whatever goes wrong.
    fn renewal(self) -> Seconds {
        self.from + (self.until - self.from) * 2 / 3
    }
}

/// What to do next, at a moment.
pub fn step(now: Seconds, material: &Material, lifetimes: Lifetimes) -> Step {
    let Some((newest, authority)) = material.authorities.last().copied() else { return Step::MakeAuthority };
    if now >= authority.renewal() {
        return Step::MakeAuthority;
    }
    let until = (now + lifetimes.serving).min(authority.until);
    let trusted = match material.published {
        Some((number, since)) if number == newest => Some(since + lifetimes.overlap),
        _ => None,
    };
    let Some((issuer, serving)) = material.serving else {
        // Nobody is served yet, so nobody's trust is lost.
        return Step::IssueServing { until };
    };
    let Some(trusted) = trusted else { return Step::Publish };
    if issuer != newest {
        // An expired one serves nobody: there is nothing left to wait for.
        if now >= trusted || now >= serving.until {
            return Step::IssueServing { until };
        }
        return Step::Wait { until: trusted.min(serving.until) };
    }
    if now >= serving.renewal() {
        return Step::IssueServing { until };
    }
    if material.authorities.len() > 1 {
        let settled = serving.from + lifetimes.overlap;
        if now >= settled {
            return Step::DropAuthorities;
        }
        return Step::Wait { until: settled.min(serving.renewal()) };
    }
    Step::Wait { until: serving.renewal().min(authority.renewal()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFE: Lifetimes = Lifetimes { authority: 900, serving: 300, overlap: 20 };
    /// The shortest that are allowed: whatever they survive, longer ones do.
    const SHORT: Lifetimes = Lifetimes { authority: 240, serving: 120, overlap: 20 };

    /// Does what a step says, as the shell does.
    fn act(now: Seconds, material: &mut Material, step: Step, life: Lifetimes, next: &mut u64) {
        match step {
            Step::MakeAuthority => {
                *next += 1;
                material.authorities.push((*next, Validity { from: now, until: now + life.authority }));
            }
            Step::IssueServing { until } => {
                let issuer = material.authorities.last().expect("an authority issues").0;
                material.serving = Some((issuer, Validity { from: now, until }));
            }
            Step::Publish => material.published = Some((*next, now)),
            Step::DropAuthorities => {
                let newest = material.authorities.pop();
                material.authorities = newest.into_iter().collect();
            }
            Step::Wait { .. } => {}
        }
    }

    #[test]
    fn from_nothing_it_comes_to_rest_in_three_steps() {
        let (mut material, mut next) = (Material::default(), 0);
        for expected in
            [Step::MakeAuthority, Step::IssueServing { until: 300 }, Step::Publish, Step::Wait { until: 200 }]
        {
            let now = step(0, &material, LIFE);
            assert_eq!(now, expected);
            act(0, &mut material, now, LIFE, &mut next);
        }
    }

    #[test]
    fn lifetimes_too_short_for_the_overlap_are_refused() {
        assert_eq!(LIFE.fault(), None);
        assert!(
            Lifetimes { serving: 119, ..LIFE }.fault().unwrap().contains("six times the overlap of 20 s")
        );
        assert!(Lifetimes { authority: 599, ..LIFE }.fault().unwrap().contains("twice as long"));
    }

    #[test]
    fn a_replica_sees_what_others_did_well_before_anybody_relies_on_that() {
        for overlap in 5..=3600 {
            let between = Lifetimes { overlap, ..LIFE }.between_looks();
            // Three looks, and the second that whole seconds may take off an overlap.
            let seen = between * 3 + Duration::from_secs(1);
            assert!(seen <= Duration::from_secs(overlap.unsigned_abs()), "{overlap}: {between:?}");
        }
        assert_eq!(LIFE.between_looks(), Duration::from_secs(5));
    }

    #[test]
    fn an_expired_certificate_is_replaced_at_once_whoever_issued_it() {
        let authorities =
            vec![(1, Validity { from: 0, until: 900 }), (2, Validity { from: 600, until: 1500 })];
        let expired = |issuer| Some((issuer, Validity { from: 300, until: 605 }));
        for issuer in [1, 2] {
            let material = Material {
                authorities: authorities.clone(),
                serving: expired(issuer),
                published: Some((2, 600)),
            };
            assert_eq!(step(606, &material, LIFE), Step::IssueServing { until: 906 });
        }
    }

    #[test]
    fn a_serving_certificate_never_outlives_its_authority() {
        let mut material = Material::default();
        material.authorities.push((1, Validity { from: 0, until: 900 }));
        assert_eq!(step(590, &material, LIFE), Step::IssueServing { until: 890 });
        material.authorities[0].1 = Validity { from: 0, until: 800 };
        assert_eq!(step(520, &material, LIFE), Step::IssueServing { until: 800 });
    }

    #[test]
    fn a_new_authority_serves_only_after_it_was_published_for_the_overlap() {
        let old = (1, Validity { from: 0, until: 900 });
        let new = (2, Validity { from: 600, until: 1500 });
        let serving = Some((1, Validity { from: 590, until: 890 }));
        let mut material = Material { authorities: vec![old, new], serving, published: Some((1, 0)) };
        assert_eq!(step(601, &material, LIFE), Step::Publish);
        material.published = Some((2, 601));
        assert_eq!(step(620, &material, LIFE), Step::Wait { until: 621 });
        assert_eq!(step(621, &material, LIFE), Step::IssueServing { until: 921 });
    }

    proptest! {
        /// However irregularly it is asked, and wherever it crashes, who was told of an authority an overlap ago can verify what
        /// serves, and what serves has not expired.
        #[test]
        fn whoever_learns_of_changes_within_the_overlap_can_always_verify(pauses in prop::collection::vec(1_i64..10, 1..400)) {
            let (mut material, mut next) = (Material::default(), 0);
            // What the slowest API server trusts: every bundle that it may still have, oldest first.
            let mut bundles: Vec<(Seconds, Vec<u64>)> = Vec::new();
            let mut now = 0;
            for pause in pauses {
                for _ in 0..8 {
                    let todo = step(now, &material, SHORT);
                    if let Step::Wait { until } = todo {
                        prop_assert!(until > now, "waiting until {until} at {now} would loop");
                        break;
                    }
                    act(now, &mut material, todo, SHORT, &mut next);
                    if matches!(todo, Step::Publish | Step::DropAuthorities) {
                        bundles.push((now, material.authorities.iter().map(|(number, _)| *number).collect()));
                    }
                }
                prop_assert!(matches!(step(now, &material, SHORT), Step::Wait { .. }), "it never comes to rest");
                now += pause;
                let (issuer, serving) = material.serving.expect("it serves");
                prop_assert!(now < serving.until, "expired at {} (now {now})", serving.until);
                let settled = bundles.iter().rposition(|(since, _)| since + SHORT.overlap <= now).unwrap_or(0);
                for (since, trusted) in &bundles[settled..] {
                    prop_assert!(trusted.contains(&issuer), "at {now} {issuer} serves, the bundle since {since} has {trusted:?}");
                }
            }
        }
    }
}
