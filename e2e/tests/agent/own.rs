//! A cluster that imports what it exports.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, object},
    wait::until,
};

use super::{
    ground::{HERE, address, export, scene, service, settles, sizes, slice, sources, written},
    imports::{apply_status, hubs_import},
};

const IMPORTED: &str = "multicluster.kubernetes.io/service-name=serve";

pub(crate) async fn what_this_cluster_exports_and_imports_is_served_by_its_own_endpoints_too(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "both-ways").await?;
    scene.apply(HERE, [service("serve", json!({})), slice("by-hand", "serve", 2), export("serve")]).await?;
    sources(&scene, HERE, "serve", &[2]).await?;
    let (import, status) = hubs_import(&scene, "serve", &["member1", "member2"]);
    scene.apply(HERE, [import]).await?;
    address(&scene, HERE, "serve").await?;
    settles(&scene, HERE).await?;
    sizes(&scene, HERE, IMPORTED, &[]).await?;
    apply_status(&scene, HERE, status).await?;
    let found = sizes(&scene, HERE, IMPORTED, &[2]).await?;
    let labels = found[0].metadata.labels.clone().unwrap_or_default();
    for (key, value) in [
        ("kubernetes.io/service-name", "derived-serve"),
        ("multicluster.kubernetes.io/source-cluster", "member1"),
        ("endpointslice.kubernetes.io/managed-by", "agent.tombolo.dev"),
    ] {
        ensure!(labels.get(key).is_some_and(|found| found == value), "{key}: {labels:?}");
    }
    // What was made while this cluster was called otherwise goes.
    let mut former = slice("serve-east-0123456789", "derived-serve", 1);
    former["metadata"]["labels"] = json!(labels);
    former["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"] = json!("east");
    scene.apply(HERE, [former]).await?;
    sizes(&scene, HERE, IMPORTED, &[2]).await?;
    settles(&scene, HERE).await?;
    let mark = bed.audit("member1").mark()?;
    scene.apply(HERE, [slice("by-hand", "serve", 3)]).await?;
    sizes(&scene, HERE, IMPORTED, &[3]).await?;
    settles(&scene, HERE).await?;
    let writes = written(&scene, HERE, mark)?;
    ensure!(writes.len() == 2, "its source slice and its own imported one, not {writes:#?}");
    // Named by an import that has another port only, it is withheld.
    let ports = json!({ "spec": { "ports": [{ "name": "web", "port": 8080, "protocol": "TCP" }] } });
    scene.edit(HERE, "ServiceImport serve", ports).await?;
    sizes(&scene, HERE, IMPORTED, &[0]).await?;
    scene.delete(HERE, &["ServiceExport serve"]).await?;
    sizes(&scene, HERE, IMPORTED, &[]).await.map(drop)
}

pub(crate) async fn its_own_endpoints_follow_while_its_export_cannot_be_written(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "told-nobody").await?;
    scene.apply(HERE, [service("serve", json!({})), slice("by-hand", "serve", 2), export("serve")]).await?;
    sources(&scene, HERE, "serve", &[2]).await?;
    let (import, status) = hubs_import(&scene, "serve", &["member1", "member2"]);
    scene.apply(HERE, [import]).await?;
    address(&scene, HERE, "serve").await?;
    apply_status(&scene, HERE, status).await?;
    sizes(&scene, HERE, IMPORTED, &[2]).await?;
    let refusing = json!({ "spec": {
        "matchConstraints": {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "told-nobody" } },
            "resourceRules": [{
                "apiGroups": ["multicluster.x-k8s.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                "resources": ["serviceexports", "serviceexports/status"],
            }],
        },
        "validations": [{ "expression": "false" }],
    } });
    let binding = json!({ "spec": { "policyName": "told-nobody", "validationActions": ["Deny"] } });
    let refusing = [
        object("ValidatingAdmissionPolicy", "told-nobody", refusing),
        object("ValidatingAdmissionPolicyBinding", "told-nobody", binding),
    ];
    scene.apply(HERE, refusing).await?;
    until("its export cannot be written", PATIENCE, async || {
        let label = json!({ "metadata": { "labels": { "tried": "again" } } });
        ensure!(scene.edit(HERE, "ServiceExport serve", label).await.is_err(), "it can");
        Ok(())
    })
    .await?;
    // Its record would have to follow.
    scene.edit(HERE, "Service serve", json!({ "spec": { "sessionAffinity": "ClientIP" } })).await?;
    scene.apply(HERE, [slice("by-hand", "serve", 3)]).await?;
    sources(&scene, HERE, "serve", &[3]).await?;
    sizes(&scene, HERE, IMPORTED, &[3]).await?;
    scene.delete(HERE, &["ValidatingAdmissionPolicyBinding told-nobody"]).await?;
    scene.delete(HERE, &["ValidatingAdmissionPolicy told-nobody"]).await
}
