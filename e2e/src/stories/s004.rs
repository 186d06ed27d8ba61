//! Multi-cluster Service Discovery: a workload and its export go to member1 by policy, its import to member2.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::answers;
use crate::stage::Stage;

/// Everything that the story applies on the hub.
const MANIFESTS: [&str; 4] = ["1-crds.yaml", "2-workload.yaml", "3-export.yaml", "4-import.yaml"];

/// The definitions of the Multi-Cluster Services API.
const CRDS: &str = "crd/serviceexports.multicluster.x-k8s.io crd/serviceimports.multicluster.x-k8s.io";

pub(super) async fn play(stage: &mut Stage) -> Result<()> {
    stage.step("Three clusters become members of the hub").await?;
    for member in ["member1", "member2", "member3"] {
        stage.run(&format!("tombolo join {member} --context {member} --skip-crds --agent none")).await?;
    }
    stage.run("kubectl --context hub get clusters").await?;

    stage.step("The ServiceExport and ServiceImport CRDs go to the member clusters").await?;
    stage.run("kubectl --context hub apply -f 1-crds.yaml").await?;
    stage
        .see("member1 and member2 have them, member3 has not", async |stage| {
            for member in ["member1", "member2"] {
                stage.quietly(&format!("kubectl --context {member} get {CRDS}"))?;
            }
            absent(stage, "member3", CRDS)
        })
        .await?;

    stage.step("Step 1: Deploy service on the member1 cluster").await?;
    stage.run("kubectl --context hub apply -f 2-workload.yaml").await?;
    stage
        .see("Deployment and Service are in member1 and nowhere else; the hub makes no pod", async |stage| {
            stage.quietly("kubectl --context member1 get deployment/serve service/serve")?;
            for member in ["member2", "member3"] {
                absent(stage, member, "deployment/serve service/serve")?;
            }
            let made = stage.quietly("kubectl --context hub get replicasets,pods -A -o name")?;
            ensure!(made.is_empty(), "the hub made {made}");
            Ok(())
        })
        .await?;

    stage.step("Step 2: Export service to the member2 cluster").await?;
    stage.run("kubectl --context hub apply -f 3-export.yaml").await?;
    stage
        .see("the ServiceExport is in member1", async |stage| {
            stage.quietly("kubectl --context member1 get serviceexport/serve")
        })
        .await?;
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
    stage.run("kubectl --context hub get propagationpolicies").await?;

    access(stage).await
}

async fn access(stage: &mut Stage) -> Result<()> {
    stage.step("Step 3: Access the service from member2 cluster").await?;
    let get = "kubectl --context member2 get service derived-serve -o jsonpath='{.spec.clusterIP}'";
    let address = stage
        .see("derived-serve is in member2 and nowhere else", async |stage| {
            let address = stage.quietly(get)?;
            for member in ["member1", "member3"] {
                absent(stage, member, "service/derived-serve")?;
            }
            Ok(address)
        })
        .await?;
    stage.run("kubectl --context member2 get svc").await?;
    if !stage.has_nodes() {
        stage.left_out("the requests: they need --nodes");
        return Ok(());
    }
    stage.run("kubectl --context member1 rollout status deployment/serve --timeout=180s").await?;
    let request = format!(
        "kubectl --context member2 run -i --rm --restart=Never --image=jeremyot/request:0a40de8 \
         request -- --duration=3s --address={address}"
    );
    answers(stage, "the pod in member1 answers every second", &request, async |said| {
        let line = "'hello from cluster member1 (Node: member1-control-plane Pod: serve-";
        // kubectl may print a line twice: from the log, and when it attaches. Each has the second when it was answered.
        let answered: BTreeSet<_> = said.lines().filter(|found| found.contains(line)).collect();
        ensure!(answered.len() == 3, "{said}");
        Ok(())
    })
    .await
}

/// Fails if a cluster has any of some objects.
fn absent(stage: &Stage, cluster: &str, objects: &str) -> Result<()> {
    let found =
        stage.quietly(&format!("kubectl --context {cluster} get {objects} --ignore-not-found -o name"))?;
    ensure!(found.is_empty(), "{cluster} has {found}");
    Ok(())
}
