//! Families that this cluster has no Service addresses of, and preferences of near endpoints that it does not know, as far as its API server
//! refused them.
//!
//! A cluster can get them later, and no API tells so in all releases of Kubernetes. So what was refused is tried again when a Service is
//! seen that has such an address, and after a while, when an import is looked at anyway.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Service;

use crate::decide::{agent::service::family, merge::IpFamily};

/// How long a refusal counts.
const WHILE: Duration = Duration::from_secs(600);
/// What an API server says of a family that it has no addresses of.
const NOT_CONFIGURED: &str = "not configured on this cluster";

/// What an API server says first of a preference that it does not know.
const TRAFFIC: &str = "spec.trafficDistribution: Unsupported value";
/// The preference of near endpoints that all releases know.
const CLOSE: &str = "PreferClose";
/// As many words are remembered: users' own imports may have any.
const WORDS: usize = 16;

/// What was refused, and when.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    families: BTreeMap<IpFamily, Instant>,
    /// Preferences of near endpoints.
    words: BTreeMap<String, Instant>,
}

// === impl Lacking ===

impl Lacking {
    /// Learns from the refusal of a Service that was to have these families; says whether it is to be tried with others, whoever learnt that
    /// first.
    pub(super) fn learn(&mut self, refusal: &str, asked: &[IpFamily], now: Instant) -> bool {
        let refused = |family: &IpFamily| refusal.contains(&format!("\"{family}\": {NOT_CONFIGURED}"));
        let families = [IpFamily::V4, IpFamily::V6].into_iter().filter(refused);
        self.families.extend(families.map(|family| (family, now)));
        asked.iter().any(refused)
    }

    /// Learns from the refusal of a Service with such a preference; says whether another is to be tried, whoever learnt that first.
    pub(super) fn learn_traffic(&mut self, refusal: &str, asked: Option<&str>, now: Instant) -> bool {
        let Some(asked) = asked.filter(|_| refusal.contains(TRAFFIC)) else { return false };
        self.words.retain(|_, since| now.saturating_duration_since(*since) < WHILE);
        if self.words.contains_key(asked) {
            return true;
        }
        if self.words.len() >= WORDS {
            self.words.clear();
        }
        self.words.insert(asked.to_owned(), now);
        true
    }

    /// The preference that comes next to what is wanted, of those that the cluster knows.
    pub(super) fn traffic<'a>(&self, wanted: Option<&'a str>, now: Instant) -> Option<&'a str> {
        let refused = |word: &&str| {
            self.words.get(*word).is_some_and(|since| now.saturating_duration_since(*since) < WHILE)
        };
        [wanted?, CLOSE].into_iter().find(|word| !refused(word))
    }

    /// Forgets what a Service proves wrong; says whether there was something to forget.
    pub(super) fn unlearn(&mut self, service: &Service) -> bool {
        let before = self.families.len();
        let has = |wanted: IpFamily| {
            let mut addresses = service.spec.iter().flat_map(|spec| spec.cluster_ips.iter().flatten());
            addresses.any(|address| family(address) == Some(wanted))
        };
        self.families.retain(|family, _| !has(*family));
        self.families.len() < before
    }

    /// Whether the cluster lacks a family.
    pub(super) fn has(&self, family: IpFamily, now: Instant) -> bool {
        self.families.get(&family).is_some_and(|since| now.saturating_duration_since(*since) < WHILE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REFUSAL: &str = r#"Service "derived-serve" is invalid: spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster"#;

    const BOTH: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

    fn service(addresses: &[&str]) -> Service {
        serde_json::from_value(json!({ "spec": { "clusterIPs": addresses } })).unwrap()
    }

    #[test]
    fn a_family_that_was_refused_is_tried_again_when_a_service_has_an_address_of_it() {
        let now = Instant::now();
        let mut lacking = Lacking::default();
        lacking.learn(REFUSAL, &BOTH, now);
        assert!(lacking.has(IpFamily::V6, now) && !lacking.has(IpFamily::V4, now));
        for other in [&["10.0.0.1"][..], &["None"], &[]] {
            assert!(!lacking.unlearn(&service(other)) && lacking.has(IpFamily::V6, now), "{other:?}");
        }
        assert!(lacking.unlearn(&service(&["10.0.0.1", "fd00::1"])) && !lacking.has(IpFamily::V6, now));
        assert!(
            !lacking.unlearn(&service(&["fd00::1"])),
            "everything is looked at once, not for each such Service"
        );
    }

    #[test]
    fn a_preference_that_was_refused_gives_way_to_the_next_that_the_cluster_may_know() {
        let refusal = |word: &str| {
            format!(
                "Service \"a\" is invalid: spec.trafficDistribution: Unsupported value: \"{word}\": supported values: \"x\""
            )
        };
        let now = Instant::now();
        let mut lacking = Lacking::default();
        let near = Some("PreferSameNode");
        assert_eq!((lacking.traffic(near, now), lacking.traffic(None, now)), (near, None));
        assert!(!lacking.learn_traffic(REFUSAL, near, now), "it is about something else");
        assert!(lacking.learn_traffic(&refusal("PreferSameNode"), near, now));
        assert_eq!(lacking.traffic(near, now), Some(CLOSE));
        assert!(lacking.learn_traffic(&refusal("PreferSameNode"), near, now), "somebody else was told first");
        assert!(lacking.learn_traffic(&refusal(CLOSE), Some(CLOSE), now));
        assert_eq!(lacking.traffic(near, now), None);
        assert_eq!(lacking.traffic(near, now + WHILE), near, "it is tried again after a while");
        for word in 0..100 {
            lacking.learn_traffic(&refusal("any"), Some(&word.to_string()), now);
        }
        assert!(lacking.words.len() <= WORDS);
    }

    #[test]
    fn a_family_that_was_refused_is_tried_again_after_a_while_and_refused_anew() {
        let now = Instant::now();
        let mut lacking = Lacking::default();
        lacking.learn(REFUSAL, &BOTH, now);
        assert!(lacking.has(IpFamily::V6, now + WHILE / 2));
        let later = now + WHILE;
        assert!(!lacking.has(IpFamily::V6, later));
        assert!(lacking.learn(REFUSAL, &BOTH, later) && lacking.has(IpFamily::V6, later + WHILE / 2));
    }

    #[test]
    fn whoever_asked_for_a_family_that_was_refused_tries_without_it_though_another_was_told_first() {
        let now = Instant::now();
        let mut lacking = Lacking::default();
        assert!(lacking.learn(REFUSAL, &BOTH, now));
        assert!(lacking.learn(REFUSAL, &BOTH, now), "somebody else was told first");
        assert!(!lacking.learn(REFUSAL, &[IpFamily::V4], now), "the next attempt would be the same");
        assert!(
            !lacking.learn("spec.clusterIPs[0]: Invalid value", &BOTH, now),
            "it is about something else"
        );
    }
}
