//! Export workflow: a Service of one cluster is exported there and reached from another by its clusterset name.

use anyhow::{Result, ensure};

use super::{answers, slice};
use crate::stage::Stage;

pub(super) async fn play(stage: &mut Stage) -> Result<()> {
    stage.step("Two connected clusters").await?;
    for member in ["member1", "member2"] {
        stage.run(&format!("tombolo join {member} --context {member} --agent none")).await?;
    }

    stage.step("1–3. Deployment, pods and Service monti-host on member1").await?;
    stage.run("kubectl --context member1 create ns monti").await?;
    stage.run("kubectl --context member1 apply -f 1-workload.yaml").await?;
    if stage.has_nodes() {
        stage.run("kubectl --context member1 -n monti rollout status deployment/monti-deployment-server --timeout=180s").await?;
        stage.run("kubectl --context member1 -n monti get pods").await?;
    }

    stage.step("4. An EndpointSlice is created by Kubernetes for the Service").await?;
    let expected = if stage.has_nodes() { 2 } else { 0 };
    let own = "kubernetes.io/service-name=monti-host";
    stage
        .see(&format!("the slice of monti-host has {expected} endpoints on port 8090"), async |stage| {
            slice(stage, "member1", "monti", own, expected)
        })
        .await?;

    stage.step("5. Service monti-host is exported").await?;
    stage.run("tombolo export monti-host --namespace monti --context member1").await?;

    stage.step("11–12. Create NS monti on member2: import and slice follow").await?;
    stage.run("kubectl --context member2 create ns monti").await?;
    let imported = "multicluster.kubernetes.io/service-name=monti-host";
    stage
        .see(&format!("member2 has an imported slice with {expected} endpoints"), async |stage| {
            slice(stage, "member2", "monti", imported, expected)
        })
        .await?;
    stage.run("kubectl --context member2 -n monti get serviceimports,services,endpointslices").await?;

    stage.step("13. http://monti-host.monti.svc.clusterset.local:8091").await?;
    if !stage.has_nodes() {
        stage.left_out("the requests: they need --nodes");
        return Ok(());
    }
    let request = "kubectl --context member2 -n monti run -i --rm --restart=Never --image=jeremyot/request:0a40de8 \
                   request -- --duration=3s --address=monti-host.monti.svc.clusterset.local:8091";
    answers(stage, "member1's pods answer in member2", request, async |said| {
        let answered =
            said.lines().filter(|line| line.contains("\"hostname\":\"monti-deployment-server-")).count();
        ensure!(answered >= 2, "expected an answer a second, got {said:?}");
        Ok(())
    })
    .await
}
