//! Definitions that come late.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{Scene, object},
    tombolo::Manner,
    wait::until,
};

use super::ground::{PATIENCE, create_namespace, program};

pub(crate) async fn an_agent_without_the_definitions_waits_and_starts_by_itself_when_they_come(
    bed: Arc<Bed>,
) -> Result<()> {
    create_namespace(&bed.member(1).client, "tombolo-system").await?;
    let agent = bed.start_agent(&program().await?, 1, "tombolo-agent", &[], Manner::default()).await?;
    until("the agent leads", PATIENCE, async || {
        ensure!(agent.says("/metrics").await?.contains("tombolo_leader{role=\"agent\"} 1"), "it does not");
        Ok(())
    })
    .await?;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-agent/crds");
    let kubectl = bed.kubectl("member1");
    kubectl.run(&["apply", "--server-side", "-f", crds])?;
    kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", "-f", crds])?;
    let scene = Scene { bed: bed.clone(), namespace: "shop".to_owned() };
    scene.apply(1, [scene.here()]).await?;
    let spec = json!({ "type": "ClusterSetIP", "ports": [{ "name": "web", "port": 80, "protocol": "TCP" }] });
    scene.apply(1, [object("ServiceImport", "serve", json!({ "spec": spec }))]).await?;
    scene.arrives(&[1], "Service derived-serve").await?;
    scene.apply(1, [object("ServiceExport", "serve", json!({}))]).await?;
    until("the export is judged", PATIENCE, async || {
        let found = scene.field(1, "ServiceExport serve", "/status/conditions/0/reason").await?;
        ensure!(found == "NoService", "it says {found}");
        Ok(())
    })
    .await
}
