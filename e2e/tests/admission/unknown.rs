//! Fields of a release to come.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::{Bed, Spec},
    wait::until,
};

use crate::said::{PATIENCE, run, stored};

/// On a bed of its own: the CRD is another one here.
pub(crate) async fn fields_that_this_release_does_not_know_are_kept_to_the_byte(_: Arc<Bed>) -> Result<()> {
    let bed = Bed::start(Spec::api(0), None).await?;
    let crd = "serviceimports.multicluster.x-k8s.io";
    let mut definition = stored(&bed, &["crd", crd]).await?;
    for version in definition["spec"]["versions"].as_array_mut().context("a CRD has versions")? {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        spec["flavour"] = json!({ "type": "string" });
        spec["ports"]["items"]["properties"]["shape"] = json!({
            "type": "object",
            "properties": { "count": { "type": "integer", "format": "int64" }, "share": { "type": "number" }, "rest": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } },
        });
    }
    run(&bed, &["replace", "-f", "-"], &definition).await?;

    // More than a double can hold, blanks, an escape, and things that mean nothing.
    let shape = json!({ "count": 9_007_199_254_740_993_i64, "share": 0.1, "rest": { "z": null, "a": [1.5, "", {}], "": "\u{7f}" } });
    let flavour = "  sal\u{e9}\t\"caramel\"\n";
    let import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": { "name": "serve", "namespace": "default" },
        "spec": { "flavour": flavour, "ports": [{ "port": 80, "shape": shape }] },
    });
    until("the new schema is in force", PATIENCE, async || run(&bed, &["create", "-f", "-"], &import).await)
        .await?;
    kept(&bed, &shape, flavour).await?;

    // Later changes keep them too, and fill in what they leave open.
    let patch = json!([
        { "op": "remove", "path": "/spec/type" }, { "op": "remove", "path": "/spec/ports/0/protocol" },
        { "op": "replace", "path": "/spec/ports/0/port", "value": 81 },
    ]);
    run(&bed, &["patch", "serviceimport", "serve", "--type=json", "-p", &patch.to_string()], "").await?;
    kept(&bed, &shape, flavour).await?;
    tokio::task::spawn_blocking(move || drop(bed)).await.map_err(Into::into)
}

async fn kept(bed: &Bed, shape: &Value, flavour: &str) -> Result<()> {
    let path = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/default/serviceimports/serve";
    let raw = run(bed, &["get", "--raw", path], "").await?;
    let spec = &serde_json::from_str::<Value>(&raw)?["spec"];
    ensure!(
        spec["type"] == "ClusterSetIP" && spec["ports"][0]["protocol"] == "TCP",
        "nothing was filled in: {spec}"
    );
    ensure!(spec["flavour"] == flavour && spec["ports"][0]["shape"] == *shape, "something is lost: {spec}");
    ensure!(
        raw.contains("9007199254740993") && raw.contains("\"share\":0.1"),
        "a number is another one: {raw}"
    );
    Ok(())
}
