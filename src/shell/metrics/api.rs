//! Requests to API servers, the own and members', by what was asked and answered. A process has one count of them, which every client
//! feeds.

use std::{sync::LazyLock, time::Duration};

use http::{Method, Request, StatusCode};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
};

use super::{Labels, catalogue::Catalogue};
use crate::decide::ids::ClusterName;

static API: LazyLock<Api> = LazyLock::new(Api::new);

/// What may be asked.
const VERBS: [&str; 6] = ["read", "watch", "create", "update", "patch", "delete"];
/// What may be answered: that somebody asks too much stands by itself.
const CODES: [&str; 6] = ["none", "2xx", "3xx", "4xx", "429", "5xx"];

/// Requests to API servers.
#[derive(Debug, Clone)]
pub struct Api {
    requests: Family<Answered, Counter>,
    durations: Family<Labels, Histogram>,
}

/// What was asked of whom, and answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: &'static str,
    code: &'static str,
    member: String,
}

/// The process's count.
pub fn api() -> &'static Api {
    &API
}

/// What a request asks for, as far as its head shows.
pub(in crate::shell) fn verb<B>(request: &Request<B>) -> &'static str {
    let watches =
        || request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    match *request.method() {
        Method::GET if watches() => "watch",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "read",
    }
}

// === impl Api ===

impl Api {
    fn new() -> Self {
        // From 1 ms to 8 s: none waits longer than ten.
        let durations = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        Self { requests: Family::default(), durations: Family::new_with_constructor(durations) }
    }

    pub(super) fn register(&self, all: &mut Catalogue) {
        all.add(
            "api_requests",
            "Requests to API servers, the own and, of the hub, those of members, by verb and class of the answer; 429 stands by itself, \
             and `none` where no answer came",
            &["verb", "code", "member"],
            self.requests.clone(),
        );
        all.add(
            "api_request_duration_seconds",
            "What the head of an API server's answer took, by verb",
            &["verb"],
            self.durations.clone(),
        );
    }

    /// Notes a request to a member, or to the own API server where that has no name; none is the answer of nobody.
    pub(in crate::shell) fn asked(
        &self,
        member: &str,
        verb: &'static str,
        answer: Option<StatusCode>,
        took: Duration,
    ) {
        let code = match answer.map(|code| code.as_u16()) {
            None => "none",
            Some(..=299) => "2xx",
            Some(300..=399) => "3xx",
            Some(429) => "429",
            Some(400..=499) => "4xx",
            Some(500..) => "5xx",
        };
        self.requests.get_or_create(&Answered { verb, code, member: member.to_owned() }).inc();
        self.durations.get_or_create(&vec![("verb", verb)]).observe(took.as_secs_f64());
    }

    /// Forgets a member that is gone.
    pub(super) fn forget(&self, member: &ClusterName) {
        for verb in VERBS {
            for code in CODES {
                self.requests.remove(&Answered { verb, code, member: member.to_string() });
            }
        }
    }
}
