//! An API server as the hub's propagator meets it: raw JSON, one path an object.

use std::{fmt, time::Duration};

use anyhow::{Result, anyhow};
use http::Request;
use kube::Client;
use serde_json::Value;
use tombolo::decide::copy::MANAGER;
use tombolo_e2e::wait::until;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";

/// An API server, spoken to in JSON.
pub(super) struct Server(pub(super) Client);

/// A request that was refused, with the server's code and words.
#[derive(Debug)]
pub(super) struct Refused(pub(super) u16, pub(super) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

// === impl Server ===

impl Server {
    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.0.request(Request::get(path).body(Vec::new())?).await?)
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        Ok(self.0.request(Request::post(path).body(serde_json::to_vec(body)?)?).await?)
    }

    pub(super) async fn patch(
        &self,
        path: &str,
        kind: &str,
        manager: &str,
        body: &Value,
    ) -> Result<Result<Value, Refused>> {
        let force = if kind == APPLY { "&force=true" } else { "" };
        let request =
            Request::patch(format!("{path}?fieldManager={manager}{force}")).header("content-type", kind);
        match self.0.request(request.body(serde_json::to_vec(body)?)?).await {
            Ok(object) => Ok(Ok(object)),
            Err(kube::Error::Api(status)) => Ok(Err(Refused(status.code, status.message.clone()))),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes an object as it was once, as somebody who edits it.
    pub(super) async fn put_back(&self, path: &str, original: &Value) -> Result<()> {
        until("it is put back", PATIENCE, async || {
            let mut object = original.clone();
            object["metadata"]["resourceVersion"] =
                self.get(path).await?["metadata"]["resourceVersion"].take();
            object["metadata"]["managedFields"] = Value::Null;
            let request = Request::put(format!("{path}?fieldManager=kubectl-patch"));
            let _: Value = self.0.request(request.body(serde_json::to_vec(&object)?)?).await?;
            Ok(())
        })
        .await
    }

    /// Applies as the hub does; `observed` is a resourceVersion, or none for none.
    pub(super) async fn apply(
        &self,
        path: &str,
        body: &Value,
        observed: Option<&str>,
    ) -> Result<Result<Value, Refused>> {
        let mut body = body.clone();
        if let Some(observed) = observed {
            body["metadata"]["resourceVersion"] = observed.into();
        }
        self.patch(path, APPLY, MANAGER, &body).await
    }

    pub(super) async fn applied(&self, path: &str, body: &Value, observed: Option<&str>) -> Result<Value> {
        let applied = self.apply(path, body, observed).await?;
        applied.map_err(|refused| anyhow!("{path}: {refused}"))
    }
}
