//! Multi-cluster service demo: the same Service in two clusters, each serving its own pods; then one for both, by hand.

use anyhow::{Result, ensure};

use crate::stage::Stage;

pub(super) async fn play(stage: &mut Stage) -> Result<()> {
    stage.step("Setup our demo namespace").await?;
    for cluster in ["member1", "member2"] {
        stage.run(&format!("kubectl --context {cluster} create ns demo")).await?;
    }

    stage.step("Create our service in each cluster").await?;
    stage.run("kubectl --context member1 apply -f dep1.yaml -f svc.yaml").await?;
    stage.run("kubectl --context member2 apply -f dep2.yaml -f svc.yaml").await?;
    for cluster in ["member1", "member2"] {
        let get = format!("kubectl --context {cluster} get endpointslice -n demo -o name");
        stage
            .see(&format!("{cluster} has an EndpointSlice for serve"), async |stage| {
                let slices = stage.quietly(&get)?;
                ensure!(slices.contains("endpointslice.discovery.k8s.io/serve-"), "none yet: {slices:?}");
                Ok(())
            })
            .await?;
    }

    if stage.has_nodes() {
        stage.step("Lets look at some requests to the service in cluster 1").await?;
        stage.run("kubectl --context member1 -n demo rollout status deployment/serve --timeout=60s").await?;
        let line = "kubectl --context member1 -n demo run -i --rm --restart=Never --image=jeremyot/request:0a40de8 \
                    request -- --duration=3s --address=serve.demo.svc.cluster.local";
        let said = stage.run(line).await?;
        stage
            .see("every answer is from cluster 1", async |_| {
                let answers: Vec<&str> =
                    said.lines().filter(|line| line.contains("hello from cluster")).collect();
                ensure!(answers.len() >= 2, "expected an answer a second, got {said:?}");
                ensure!(
                    answers.iter().all(|answer| answer.contains("hello from cluster 1 (Node: member1-")),
                    "{said}"
                );
                Ok(())
            })
            .await?;
    }

    stage.not_yet("import the service from our other cluster: ServiceImport and slices made by hand");
    stage.not_yet("grab the multi-cluster VIP from the ServiceImport and connect to it");
    Ok(())
}
