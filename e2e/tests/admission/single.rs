//! Rules that one manifest and one text do not show.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{bed::Bed, wait::until};

use crate::said::{PATIENCE, ask, clusters, run, stored};

const RULE: &str = "tombolo.dev/port-conflicts";

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let version = if kind == "Service" { "v1" } else { "multicluster.x-k8s.io/v1beta1" };
    json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

pub(crate) async fn a_namespace_with_the_rule_gives_it_to_its_exports_and_imports(
    bed: Arc<Bed>,
) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "merging", "annotations": { RULE: "resolve" } },
    });
    run(&bed, &["create", "-f", "-"], namespace).await?;
    let within = ["--namespace", "merging", "-f", "-"];
    let export = object("ServiceExport", "serve", &json!({}));
    let dry = [&["create", "--dry-run=server", "-o", "json"], &within[..]].concat();
    until("admission knows the Namespace's rule", PATIENCE, async || {
        let said = ask(&bed, &dry, &export).await?.text;
        ensure!(said.contains(RULE), "{said}");
        Ok(())
    })
    .await?;
    let import =
        object("ServiceImport", "serve", &json!({ "type": "ClusterSetIP", "ports": [{ "port": 80 }] }));
    for object in [&export, &import] {
        run(&bed, &[&["create"], &within[..]].concat(), object).await?;
    }
    // Not to policies and Services, which it is not about.
    run(
        &bed,
        &[&["create"], &within[..]].concat(),
        object("Service", "serve", &json!({ "ports": [{ "port": 80 }] })),
    )
    .await?;
    for (kind, rule) in
        [("serviceexport", json!("resolve")), ("serviceimport", json!("resolve")), ("service", Value::Null)]
    {
        let found = stored(&bed, &[kind, "serve", "--namespace", "merging"]).await?;
        ensure!(found["metadata"]["annotations"][RULE] == rule, "{kind}: {}", found["metadata"]);
    }
    // The object's own word is left as it is, even where it is wrong: then it is refused.
    let mut own = object("ServiceImport", "own", &json!({ "ports": [{ "port": 80 }] }));
    own["metadata"]["annotations"] = json!({ RULE: "merge" });
    let said = ask(&bed, &[&["create"], &within[..]].concat(), &own).await?;
    ensure!(!said.done && said.text.contains("must be \"resolve\", not \"merge\""), "{}", said.text);
    Ok(())
}

pub(crate) async fn a_dry_run_says_the_same_and_stores_nothing(bed: Arc<Bed>) -> Result<()> {
    clusters(&bed).await?;
    run(&bed, &["create", "namespace", "dry"], "").await?;
    let within = ["--namespace", "dry", "-f", "-"];
    let good = object("ServiceImport", "serve", &json!({ "ports": [{ "port": 80 }] }));
    let bad = object("ServiceImport", "serve", &json!({ "ports": [{ "port": 0 }], "ips": ["10.0.0.1"] }));
    for (verb, flags) in [("create", &[][..]), ("apply", &[][..]), ("apply", &["--server-side"][..])] {
        let dry = [&[verb, "--dry-run=server"], flags, &within[..]].concat();
        let wet = [&[verb], flags, &within[..]].concat();
        let (tried, done) = (ask(&bed, &dry, &bad).await?, ask(&bed, &wet, &bad).await?);
        ensure!(!tried.done && tried.text == done.text, "dry: {}\nnot dry: {}", tried.text, done.text);
        let shown = run(&bed, &[&dry[..], &["-o", "json"]].concat(), &good).await?;
        ensure!(
            shown.contains("\"type\": \"ClusterSetIP\"") && shown.contains("\"protocol\": \"TCP\""),
            "{shown}"
        );
    }
    let left = run(&bed, &["get", "serviceimports", "--namespace", "dry"], "").await?;
    ensure!(left == "No resources found in dry namespace.", "{left}");
    Ok(())
}

pub(crate) async fn a_name_of_63_characters_is_fine(bed: Arc<Bed>) -> Result<()> {
    run(&bed, &["create", "namespace", "long-names"], "").await?;
    let name = "a".repeat(63);
    for (kind, spec) in
        [("ServiceExport", json!({})), ("ServiceImport", json!({ "ports": [{ "port": 80 }] }))]
    {
        run(&bed, &["create", "--namespace", "long-names", "-f", "-"], object(kind, &name, &spec)).await?;
    }
    Ok(())
}

pub(crate) async fn a_service_that_nobody_exports_is_stored_as_it_was_written(bed: Arc<Bed>) -> Result<()> {
    run(&bed, &["create", "namespace", "unexported"], "").await?;
    let within = ["--namespace", "unexported", "-f", "-"];
    for ports in [json!([{ "name": "a", "port": 80 }]), json!([{ "name": "a", "port": 8080 }])] {
        let service = object("Service", "plain", &json!({ "selector": { "app": "plain" }, "ports": ports }));
        let said = run(&bed, &[&["apply"], &within[..]].concat(), &service).await?;
        ensure!(!said.contains("Warning"), "{said}");
    }
    let found = stored(&bed, &["service", "plain", "--namespace", "unexported"]).await?;
    let annotations = found["metadata"]["annotations"].as_object().map(serde_json::Map::len);
    ensure!(annotations == Some(1) && found["metadata"]["labels"].is_null(), "{}", found["metadata"]);
    ensure!(
        found["spec"]["ports"]
            == json!([{ "name": "a", "port": 8080, "protocol": "TCP", "targetPort": 8080 }]),
        "{found}"
    );
    Ok(())
}

/// As a file it would be 128 KiB long.
pub(crate) async fn labels_and_annotations_to_export_have_a_size_limit(bed: Arc<Bed>) -> Result<()> {
    run(&bed, &["create", "namespace", "large"], "").await?;
    let export = |length: usize| {
        object("ServiceExport", "serve", &json!({ "exportedAnnotations": { "a": "x".repeat(length) } }))
    };
    let create = ["create", "--namespace", "large", "-f", "-"];
    let said = ask(&bed, &create, export(131_072)).await?;
    let expected =
        "spec.exportedAnnotations: must not have more than 131072 bytes with spec.exportedLabels, not 131073";
    ensure!(!said.done && said.text.contains(expected), "{}", said.text);
    run(&bed, &create, export(131_071)).await.map(drop)
}
