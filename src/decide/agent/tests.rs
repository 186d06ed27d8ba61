#![expect(clippy::needless_pass_by_value, reason = "what is made on the spot is given away")]

mod exports;
mod imports;
mod slices;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::{api::ServiceImport, decide::ids::ServiceKey};

fn key() -> ServiceKey {
    ServiceKey::parse("shop", "serve").unwrap()
}

fn service(spec: Value) -> Service {
    let object = json!({ "metadata": { "namespace": "shop", "name": "serve" }, "spec": spec });
    serde_json::from_value(object).unwrap()
}

fn import(more: Value) -> ServiceImport {
    let mut object = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": { "namespace": "shop", "name": "serve" },
        "spec": { "type": "ClusterSetIP", "ports": [{ "name": "web", "port": 80, "protocol": "TCP" }] },
    });
    json_patch::merge(&mut object, &more);
    serde_json::from_value(object).unwrap()
}
