//! HTTPS for the API servers: two routes, `/validate` and `/mutate`.
//!
//! Every request is bounded in size and time, and answered with an `AdmissionReview` whatever it was. API servers keep connections and use
//! them again; whoever closes one while a request is sent on it costs the user that request. So it is always the API server that closes:
//! by itself, when it has not used one for a while, or when it is asked to on the way out ([`farewell`]).

use std::{
    future::ready,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Version,
        header::{CONNECTION, CONTENT_TYPE},
    },
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::post,
};
use axum_server::{
    Handle, Server,
    accept::NoDelayAcceptor,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use parking_lot::RwLock;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    review::{self, Judged, Route, refusal},
    tls::Serving,
};
use crate::{
    decide::view::View,
    shell::{listen, metrics},
};

/// An API server takes objects of up to 3 MiB; a request holds two of them.
const LARGEST: usize = 8 << 20;
/// What sending a request may take; API servers give up after five seconds.
const SLOWEST: Duration = Duration::from_secs(5);
/// What a connection may wait for its next request. API servers give one up after 90 s, so it is they who do.
const IDLE: Duration = Duration::from_secs(120);
/// What API servers get to let go of their connections when the hub ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// What both routes read.
pub type SharedView = Arc<RwLock<View>>;

/// Serves until told to stop, and then until API servers have let go or [`FAREWELL`] is over; requests that are under way are answered.
pub async fn serve(
    address: SocketAddr,
    serving: Arc<Serving>,
    view: SharedView,
    metrics: metrics::Webhook,
    stop: CancellationToken,
) -> Result<()> {
    let listener = listen::bind(address, |at| ready(std::net::TcpListener::bind(at)))
        .await
        .with_context(|| format!("--webhook-address: failed to listen on {address}"))?;
    listener.set_nonblocking(true).context("failed to set up the listener")?;
    let handle = Handle::new();
    tokio::spawn(farewell(handle.clone(), stop.clone()));
    let mut server = https(listener, &serving)?.handle(handle);
    server.http_builder().http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(IDLE);
    server
        .http_builder()
        .http2()
        .timer(hyper_util::rt::TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20));
    let router = router(view, metrics).layer(from_fn_with_state(stop, ask_to_close));
    server.serve(router.into_make_service()).await.context("the webhook's server ended")
}

/// Waits until told to stop, then until nobody is connected any more, and ends the server.
async fn farewell(handle: Handle<SocketAddr>, stop: CancellationToken) {
    stop.cancelled().await;
    let all_gone = async {
        while handle.connection_count() > 0 {
            tokio::time::sleep(FAREWELL / 100).await;
        }
    };
    // Connections that are not used are not told; they are closed at the end.
    let _ = tokio::time::timeout(FAREWELL, all_gone).await;
    handle.graceful_shutdown(Some(SLOWEST));
}

/// Asks whoever gets an answer to close the connection, once the hub is told to stop. HTTP/2 has a message of its own for that.
async fn ask_to_close(State(stop): State<CancellationToken>, request: Request, next: Next) -> Response {
    let old = request.version() < Version::HTTP_2;
    let mut response = next.run(request).await;
    if old && stop.is_cancelled() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// HTTPS with whatever certificate is shown, without a wait for more to send.
pub fn https(
    listener: std::net::TcpListener,
    serving: &Arc<Serving>,
) -> Result<Server<SocketAddr, RustlsAcceptor<NoDelayAcceptor>>> {
    let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(serving.config())).acceptor(NoDelayAcceptor);
    let server = axum_server::from_tcp(listener).context("failed to set up the server")?;
    Ok(server.acceptor(acceptor))
}

/// The routes, for tests that need no TLS.
pub fn router(view: SharedView, metrics: metrics::Webhook) -> Router {
    let on = |route: Route| post(move |state, headers, body| review(route, state, headers, body));
    let both = Router::new().route("/validate", on(Route::Validate)).route("/mutate", on(Route::Mutate));
    both.with_state((view, metrics))
}

async fn review(
    route: Route,
    State((view, metrics)): State<(SharedView, metrics::Webhook)>,
    headers: HeaderMap,
    body: Body,
) -> Json<Value> {
    let started = Instant::now();
    let Judged { answer, kind, verdict } = judge(route, &view, &headers, body).await;
    metrics.answered(route.name(), kind, verdict, started.elapsed());
    Json(answer)
}

async fn judge(route: Route, view: &SharedView, headers: &HeaderMap, body: Body) -> Judged {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let said = format!("the content type must be application/json, not {kind:?}");
        return Judged::none(refusal("", &said));
    }
    let body = match tokio::time::timeout(SLOWEST, to_bytes(body, LARGEST)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let said = format!("the request is larger than {LARGEST} bytes, or was cut off");
            return Judged::none(refusal("", &said));
        }
        Err(_) => {
            let said = format!("the request did not arrive within {SLOWEST:?}");
            return Judged::none(refusal("", &said));
        }
    };
    review::judge(route, &view.read(), &body)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn whoever_gets_an_answer_of_a_hub_that_ends_is_asked_to_close_the_connection() {
        let stop = CancellationToken::new();
        let router = Router::new().route("/", axum::routing::get(async || StatusCode::OK));
        let router = router.layer(from_fn_with_state(stop.clone(), ask_to_close));
        let asked = async |version| {
            let request = Request::builder().version(version).uri("/").body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            response.headers().get(CONNECTION).is_some_and(|value| value == "close")
        };
        assert!(!asked(Version::HTTP_11).await, "connections are kept while the hub serves");
        stop.cancel();
        assert!(asked(Version::HTTP_11).await);
        assert!(!asked(Version::HTTP_2).await, "HTTP/2 knows no such header");
    }
}
