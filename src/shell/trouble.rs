//! What a failed request means for what comes next: is it the way to the cluster, our credentials, or just this object?
//!
//! [`trouble`] sorts errors by what the API server's code shows of them (Kubernetes 1.36); whoever calls decides what to do about each sort. Only
//! [`Trouble::Link`] counts against a member as a whole.

use kube::core::Status;
use kube_runtime::watcher;

use super::client::is_fenced;

/// What a failed request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The way to the API server, or the API server itself: no connection, no answer, overload, 502 to 504, and 500 for no known reason.
    Link,
    /// This object's or this kind's own: others are not concerned.
    Object,
    /// The API server does not know us (401).
    Credentials,
    /// We do not lead (any more).
    Fenced,
    /// Somebody else was faster, or it exists already (409).
    Conflict,
    /// The object, its namespace or its kind is not there.
    NotFound,
    /// A right is missing; the message names it.
    Forbidden,
}

/// What the message of a 500 (or 429) says if it is about one object or kind.
const ABOUT_ONE: &[&str] = &[
    // Server-side apply where the schema lacks a field, has a duplicate key …: a plain error, hence 500 without a reason.
    "failed to create typed patch object",
    "failed to create typed live object",
    "failed to convert new object",
    "field not declared in schema",
    // An admission webhook of that cluster is down, or does not do as it should.
    "failed calling webhook",
    "admission webhook",
    "AdmissionWebhook",
    "conversion webhook for",
    // A kind whose CRD has just come; answered as 429.
    "storage is (re)initializing",
];

// === impl Trouble ===

impl Trouble {
    /// All that there are.
    pub const ALL: [Self; 7] = [
        Self::Link,
        Self::Object,
        Self::Credentials,
        Self::Fenced,
        Self::Conflict,
        Self::NotFound,
        Self::Forbidden,
    ];

    /// As it is called in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Object => "object",
            Self::Credentials => "credentials",
            Self::Fenced => "fenced",
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
        }
    }
}

/// What an API server answered to a watch that failed, if it did.
pub fn answer(error: &watcher::Error) -> Option<&Status> {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => Some(status),
        _ => None,
    }
}

/// Sorts an error.
pub fn trouble(error: &kube::Error) -> Trouble {
    match error {
        kube::Error::Api(status) => of_status(status),
        error if is_fenced(error) => Trouble::Fenced,
        kube::Error::Auth(_) => Trouble::Credentials,
        // What came or was to be sent makes no sense: another object's may.
        kube::Error::SerdeError(_)
        | kube::Error::FromUtf8(_)
        | kube::Error::BuildRequest(_)
        | kube::Error::HttpError(_)
        | kube::Error::LinesCodecMaxLineLengthExceeded
        | kube::Error::Discovery(_) => Trouble::Object,
        _ => Trouble::Link,
    }
}

fn of_status(status: &Status) -> Trouble {
    let says = |text: &str| status.message.contains(text);
    match status.code {
        401 => Trouble::Credentials,
        // Quotas, terminating namespaces and admission are 403 too: those are no missing right.
        403 if says("\" cannot ") => Trouble::Forbidden,
        404 => Trouble::NotFound,
        409 => Trouble::Conflict,
        429 | 500 if ABOUT_ONE.iter().any(|text| says(text)) => Trouble::Object,
        408 | 429 | 500.. => Trouble::Link,
        400.. => Trouble::Object,
        // An answer in the name of nobody.
        _ => Trouble::Link,
    }
}

#[cfg(test)]
mod tests {
    use kube::Error;

    use super::*;

    fn of(code: u16, message: &str) -> Trouble {
        trouble(&Error::Api(Status::failure(message, "").with_code(code).boxed()))
    }

    #[test]
    fn a_failure_of_one_object_or_kind_is_not_the_links() {
        for (code, message) in [
            (
                500,
                "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.new: field not declared in schema",
            ),
            (
                500,
                "Internal error occurred: failed calling webhook \"validate.nginx.ingress.kubernetes.io\": failed to call webhook: Post \"https://x.y.svc:443/?timeout=10s\": dial tcp: connection refused",
            ),
            (500, "conversion webhook for example.com/v1, Kind=Widget failed: no endpoints"),
            (429, "storage is (re)initializing"),
            (422, "Service \"web\" is invalid: spec.clusterIP: may not change once set"),
            (400, "admission webhook \"x\" denied the request: no"),
            (
                403,
                "pods \"web\" is forbidden: exceeded quota: all, requested: pods=1, used: pods=1, limited: pods=1",
            ),
            (
                403,
                "configmaps \"a\" is forbidden: unable to create new content in namespace shop because it is being terminated",
            ),
            (410, "The resourceVersion for the provided watch is too old"),
            (413, "Request entity too large: limit is 3145728"),
        ] {
            assert_eq!(of(code, message), Trouble::Object, "{code} {message}");
        }
    }

    #[test]
    fn what_says_nothing_of_an_object_is_the_links() {
        for (code, message) in [
            (500, "etcdserver: request timed out"),
            (500, "etcdserver: leader changed"),
            (500, "rpc error: code = Unavailable desc = keepalive ping failed to receive ACK within timeout"),
            (
                500,
                "The POST operation against configmaps could not be completed at this time, please try again.",
            ),
            (429, "Too many requests, please try again later."),
            (502, "Bad Gateway"),
            (503, "apiserver is shutting down"),
            (504, "request did not complete within the allotted timeout"),
            (408, ""),
            (0, ""),
        ] {
            assert_eq!(of(code, message), Trouble::Link, "{code} {message}");
        }
        assert_eq!(trouble(&Error::Service("connection refused".into())), Trouble::Link);
        let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        assert_eq!(trouble(&Error::ReadEvents(cut)), Trouble::Link);
    }

    #[test]
    fn what_calls_for_its_own_answer_is_told_apart() {
        for (code, message, expected) in [
            (401, "Unauthorized", Trouble::Credentials),
            (
                403,
                "deployments.apps is forbidden: User \"hub\" cannot create resource \"deployments\" in API group \"apps\" in the namespace \"shop\"",
                Trouble::Forbidden,
            ),
            (403, "forbidden: User \"hub\" cannot get path \"/readyz\"", Trouble::Forbidden),
            (404, "configmaps \"a\" not found", Trouble::NotFound),
            (409, "configmaps \"a\" already exists", Trouble::Conflict),
        ] {
            assert_eq!(of(code, message), expected, "{code} {message}");
        }
        let fenced = Error::Service(super::super::client::Fenced::Refused.into());
        assert_eq!(trouble(&fenced), Trouble::Fenced);
    }
}
