//! A webhook that says yes to everything, over the same server and TLS as ours: what any webhook costs.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result};
use axum::{Json, Router, body::Bytes, routing::post};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tombolo::{
    shell::metrics::Metrics,
    webhook::{
        server::https,
        tls::{Loaded, Serving},
    },
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
    /// A JSON patch to answer mutations with.
    #[arg(long)]
    patch: Option<String>,
    /// What to warn of at validation.
    #[arg(long)]
    warning: Vec<String>,
}

// === impl Args ===

impl Args {
    /// Serves until it is killed.
    pub async fn run(self) -> Result<()> {
        let serving = Arc::new(Serving::new(Metrics::default().webhook));
        serving.replace(Loaded::new(&std::fs::read(&self.cert)?, &std::fs::read(&self.key)?, 0)?);
        let patch = self.patch.map(|patch| ByteString(patch.into_bytes()));
        let mutation =
            patch.map_or_else(|| json!({}), |patch| json!({ "patchType": "JSONPatch", "patch": patch }));
        let warnings = if self.warning.is_empty() { json!({}) } else { json!({ "warnings": self.warning }) };
        let on = |more: Value| post(move |body| async move { yes(&body, more) });
        let routes = Router::new().route("/validate", on(warnings)).route("/mutate", on(mutation));
        let listener = TcpListener::bind(self.address).context("failed to listen")?;
        listener.set_nonblocking(true)?;
        https(listener, &serving)?.serve(routes.into_make_service()).await.context("the server ended")
    }
}

/// Yes, but for objects of one name: so one sees that the webhook is asked.
fn yes(body: &Bytes, more: Value) -> Json<Value> {
    let review: Value = serde_json::from_slice(body).unwrap_or_default();
    let request = &review["request"];
    let mut response = more;
    response["uid"] = request["uid"].clone();
    response["allowed"] = json!(request["name"] != super::admission::CANARY);
    Json(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
}
