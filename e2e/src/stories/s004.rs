//! Multi-cluster Service Discovery: a workload and its export go to member1 by policy, its import to member2.

use anyhow::{Result, ensure};

use crate::stage::Stage;

/// Everything that the story applies on the hub.
const MANIFESTS: [&str; 4] = ["1-crds.yaml", "2-workload.yaml", "3-export.yaml", "4-import.yaml"];

pub(super) async fn play(stage: &mut Stage) -> Result<()> {
    stage.step("The ServiceExport and ServiceImport CRDs go to the member clusters").await?;
    stage.run("kubectl --context hub apply -f 1-crds.yaml").await?;

    stage.step("Step 1: Deploy service on the member1 cluster").await?;
    stage.run("kubectl --context hub apply -f 2-workload.yaml").await?;
    stage
        .see("the hub keeps the Deployment as a template and makes no pod of it", async |stage| {
            let made = stage.quietly("kubectl --context hub get replicasets,pods -A -o name")?;
            ensure!(made.is_empty(), "the hub made {made}");
            stage.quietly("kubectl --context hub get deployment serve -o name")
        })
        .await?;

    stage.step("Step 2: Export service to the member2 cluster").await?;
    stage.run("kubectl --context hub apply -f 3-export.yaml").await?;
    stage.run("kubectl --context hub apply -f 4-import.yaml").await?;

    stage.step("Everything that was applied is still there, and Tombolo runs").await?;
    stage
        .see("the hub has the workload, the export, the import and all five policies", async |stage| {
            let files: String = MANIFESTS.iter().map(|file| format!(" -f {file}")).collect();
            let there = stage.quietly(&format!("kubectl --context hub get{files} -o name"))?;
            ensure!(there.lines().count() == 9, "found {there}");
            Ok(())
        })
        .await?;

    stage.not_yet("Deployment, Service and ServiceExport arrive in member1, the ServiceImport in member2");
    stage.not_yet("Step 3: Access the service from member2 cluster");
    Ok(())
}
