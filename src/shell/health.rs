//! `/livez`, `/readyz`, `/metrics` and `/debug/state`: whether the process lives, whether it can do its work and if not, what is missing,
//! and how it is inside.
//!
//! Readiness has parts, each with one owner that says how it stands through a [`Part`]; the process is ready when all parts are.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, extract::State, http::StatusCode, routing::get};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    asked::Asked,
    guard::{self, Guard},
    listen,
    metrics::Metrics,
};

/// How old an answer about the inner state may be: whoever asks more often gets the same again.
const SHOWN: Duration = Duration::from_secs(1);

/// Flags of the health server.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Where /livez, /readyz, /metrics and /debug/state are served.
    #[arg(long, env = "TOMBOLO_HEALTH_ADDRESS", default_value = "[::]:8081", value_name = "ADDRESS:PORT")]
    health_address: SocketAddr,
    #[command(flatten)]
    guard: guard::Args,
}

type Parts = Arc<Mutex<BTreeMap<String, Result<(), String>>>>;

/// How ready the process is.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    parts: Parts,
    /// How the process is inside, asked when somebody reads; never with credentials or objects' contents.
    pub state: Asked<Value>,
    shown: Arc<Mutex<Option<(Instant, String)>>>,
}

/// One part of readiness, for its owner.
#[derive(Debug)]
pub struct Part {
    name: String,
    all: Parts,
}

// === impl Readiness ===

impl Readiness {
    /// Adds a part that is not ready yet.
    pub fn part(&self, name: &str) -> Part {
        self.parts.lock().insert(name.to_owned(), Err("starting".to_owned()));
        Part { name: name.to_owned(), all: self.parts.clone() }
    }

    /// Serves health until told to stop, and what else is given, guarded as metrics are. If it cannot go on, the process is told to
    /// stop: one that cannot say how it is doing is no use to its cluster.
    pub async fn serve(
        &self,
        args: &Args,
        client: &Client,
        metrics: &Metrics,
        more: Router,
        stop: CancellationToken,
    ) -> Result<()> {
        let listener = listen::bind(args.health_address, TcpListener::bind::<SocketAddr>)
            .await
            .with_context(|| format!("--health-address: failed to listen on {}", args.health_address))?;
        let guard = args.guard.guard(client);
        let server = axum::serve(listener, self.router(metrics, more, guard))
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(async move {
            if let Err(e) = server.await {
                tracing::error!("the health server ended: {e}");
            }
            stop.cancel();
        });
        Ok(())
    }

    /// Probes come without a token; all else is guarded.
    fn router(&self, metrics: &Metrics, more: Router, guard: Option<Guard>) -> Router {
        let guarded = Router::new()
            .route("/metrics", get(scrape))
            .with_state(metrics.clone())
            .route("/debug/state", get(inside))
            .with_state(self.clone())
            .merge(more);
        Router::new()
            .route("/livez", get(async || "ok"))
            .route("/readyz", get(ready))
            .with_state(self.clone())
            .merge(match guard {
                Some(guard) => guard.before(guarded),
                None => guarded,
            })
    }

    /// What is missing, a line each; nothing if the process is ready.
    fn missing(&self) -> Vec<String> {
        let parts = self.parts.lock();
        let missing =
            parts.iter().filter_map(|(name, state)| Some(format!("{name}: {}", state.as_ref().err()?)));
        missing.collect()
    }
}

/// How the process is inside, as JSON; none while nobody knows.
async fn inside(
    State(readiness): State<Readiness>,
) -> (StatusCode, [(&'static str, &'static str); 1], String) {
    let form = [("content-type", "application/json")];
    let mut shown = readiness.shown.lock();
    if let Some((_, text)) = shown.as_ref().filter(|(at, _)| at.elapsed() < SHOWN) {
        return (StatusCode::OK, form, text.clone());
    }
    match readiness.state.ask() {
        Some(state) => {
            let text = format!("{state:#}\n");
            *shown = Some((Instant::now(), text.clone()));
            (StatusCode::OK, form, text)
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, form, "{}\n".to_owned()),
    }
}

// === impl Part ===

impl Part {
    /// Says that the part is ready, or why not. Gives back whether that is news.
    pub fn set(&self, state: Result<(), String>) -> bool {
        let before = self.all.lock().insert(self.name.clone(), state.clone());
        before != Some(state)
    }
}

async fn scrape(State(metrics): State<Metrics>) -> (StatusCode, [(&'static str, &'static str); 1], String) {
    let form = [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match metrics.text() {
        Ok(text) => (StatusCode::OK, form, text),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, form, format!("{e:#}")),
    }
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let missing = readiness.missing();
    if missing.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready\n{}\n", missing.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_all_its_parts_are_and_says_which_is_not() {
        let readiness = Readiness::default();
        let (one, two) = (readiness.part("one"), readiness.part("two"));
        assert_eq!(readiness.missing(), ["one: starting", "two: starting"]);
        assert!(one.set(Ok(())));
        assert!(!one.set(Ok(())), "the same again is no news");
        assert!(two.set(Err("cut off".to_owned())));
        assert_eq!(readiness.missing(), ["two: cut off"]);
        assert!(two.set(Ok(())));
        assert!(readiness.missing().is_empty());
    }
}
