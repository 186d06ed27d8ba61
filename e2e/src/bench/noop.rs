//! A webhook that says yes to everything, over the same server and TLS as ours: what any webhook costs.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use axum::{Json, Router, body::Bytes, routing::post};
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};
use tombolo::{
    shell::metrics::Metrics,
    webhook::tls::{Loaded, Serving},
};

/// Flags of the webhook that does nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where it listens.
    #[arg(long)]
    address: SocketAddr,
    /// Its certificate.
    #[arg(long)]
    cert: PathBuf,
    /// Its key.
    #[arg(long)]
    key: PathBuf,
}

// === impl Args ===

impl Args {
    /// Serves until it is killed.
    pub async fn run(self) -> Result<()> {
        let serving = Arc::new(Serving::new(Metrics::default().webhook));
        serving.replace(Loaded::new(&std::fs::read(&self.cert)?, &std::fs::read(&self.key)?, 0)?);
        let routes = Router::new().route("/validate", post(yes)).route("/mutate", post(yes));
        axum_server::bind_rustls(self.address, RustlsConfig::from_config(serving.config()))
            .serve(routes.into_make_service())
            .await
            .context("the server ended")
    }
}

/// Yes, but for objects of one name: so one sees that the webhook is asked.
async fn yes(body: Bytes) -> Json<Value> {
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = &review["request"];
    let allowed = request["name"] != super::admission::CANARY;
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": { "uid": request["uid"], "allowed": allowed },
    }))
}
