//! Requests to API servers, the own and members', by what was asked and answered. A process has one count of them, which every client
//! feeds.

use std::{sync::LazyLock, time::Duration};

use http::{Method, Request, StatusCode};
use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    histogram::{Histogram, exponential_buckets},
};

use super::{Labels, catalogue::Catalogue};

static API: LazyLock<Api> = LazyLock::new(Api::new);

/// Requests to API servers.
#[derive(Debug, Clone)]
pub struct Api {
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
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
            "Requests to API servers, the own and members', by verb and class of the answer; `none` where no answer came",
            &["verb", "code"],
            self.requests.clone(),
        );
        all.add(
            "api_request_duration_seconds",
            "What the head of an API server's answer took, by verb",
            &["verb"],
            self.durations.clone(),
        );
    }

    /// Notes a request; none is the answer of nobody.
    pub(in crate::shell) fn asked(&self, verb: &'static str, answer: Option<StatusCode>, took: Duration) {
        let code = match answer.map(|code| code.as_u16()) {
            None => "none",
            Some(..=299) => "2xx",
            Some(300..=399) => "3xx",
            Some(400..=499) => "4xx",
            Some(500..) => "5xx",
        };
        self.requests.get_or_create(&vec![("verb", verb), ("code", code)]).inc();
        self.durations.get_or_create(&vec![("verb", verb)]).observe(took.as_secs_f64());
    }
}
