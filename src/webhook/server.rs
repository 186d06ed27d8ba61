//! HTTPS for the API servers: two routes, `/validate` and `/mutate`.
//!
//! Every request is bounded in size and time, and answered with an `AdmissionReview` whatever it was.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, header::CONTENT_TYPE},
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
    review::{Route, answer, refusal},
    tls::Serving,
};
use crate::{decide::view::View, shell::metrics};

/// An API server takes objects of up to 3 MiB; a request holds two of them.
const LARGEST: usize = 8 << 20;
/// What sending a request may take; API servers give up after five seconds.
const SLOWEST: Duration = Duration::from_secs(5);

/// What both routes read.
pub type SharedView = Arc<RwLock<View>>;

/// Serves until told to stop; requests that are under way are answered.
pub async fn serve(
    address: SocketAddr,
    serving: Arc<Serving>,
    view: SharedView,
    metrics: metrics::Webhook,
    stop: CancellationToken,
) -> Result<()> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("--webhook-address: failed to listen on {address}"))?;
    listener.set_nonblocking(true).context("failed to set up the listener")?;
    let handle = Handle::new();
    let stopping = handle.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        stopping.graceful_shutdown(Some(SLOWEST));
    });
    let mut server = https(listener, &serving)?.handle(handle);
    server.http_builder().http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(SLOWEST);
    server
        .http_builder()
        .http2()
        .timer(hyper_util::rt::TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20));
    server.serve(router(view, metrics).into_make_service()).await.context("the webhook's server ended")
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
    let answer = judge(route, &view, &headers, body).await;
    metrics.answered(route.name(), answer["response"]["allowed"] == true, started.elapsed());
    Json(answer)
}

async fn judge(route: Route, view: &SharedView, headers: &HeaderMap, body: Body) -> Value {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return refusal("", &format!("the content type must be application/json, not {kind:?}"));
    }
    let body = match tokio::time::timeout(SLOWEST, to_bytes(body, LARGEST)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            return refusal("", &format!("the request is larger than {LARGEST} bytes, or was cut off"));
        }
        Err(_) => return refusal("", &format!("the request did not arrive within {SLOWEST:?}")),
    };
    answer(route, &view.read(), &body)
}
