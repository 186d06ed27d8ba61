//! `/livez` and `/readyz`: whether the process lives, and whether it can do its work and if not, why.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

/// Flags of the health server.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Where /livez and /readyz are served.
    #[arg(long, env = "TOMBOLO_HEALTH_ADDRESS", default_value = "[::]:8081", value_name = "ADDRESS:PORT")]
    health_address: SocketAddr,
}

/// Says whether the process is ready; nobody else may.
#[derive(Debug)]
pub struct Readiness(watch::Sender<Result<(), Arc<str>>>);

// === impl Readiness ===

impl Readiness {
    /// Serves health until told to stop. Not ready at first.
    pub async fn serve(args: &Args, stop: CancellationToken) -> Result<Self> {
        let listener = TcpListener::bind(args.health_address)
            .await
            .with_context(|| format!("failed to serve health on {}", args.health_address))?;
        let (readiness, seen) = watch::channel(Err("starting".into()));
        let server =
            axum::serve(listener, router(seen)).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(async move {
            if let Err(e) = server.await {
                tracing::error!("the health server ended: {e}");
            }
            // A process that cannot say how it is doing is no use to its cluster.
            stop.cancel();
        });
        Ok(Self(readiness))
    }

    /// Says that the process is ready, or why not. Gives back whether that is news.
    pub fn set(&self, state: Result<(), String>) -> bool {
        let state = state.map_err(Arc::from);
        self.0.send_if_modified(|before| {
            let news = *before != state;
            *before = state;
            news
        })
    }
}

fn router(seen: watch::Receiver<Result<(), Arc<str>>>) -> Router {
    Router::new().route("/livez", get(async || "ok")).route("/readyz", get(ready)).with_state(seen)
}

async fn ready(State(seen): State<watch::Receiver<Result<(), Arc<str>>>>) -> (StatusCode, String) {
    match &*seen.borrow() {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}")),
    }
}
