//! Export workflow: a Service of one cluster is exported there and reached from another by its clusterset name.

use anyhow::{Result, ensure};

use crate::stage::Stage;

pub(super) async fn play(stage: &mut Stage) -> Result<()> {
    stage.step("1–3. Deployment, pods and Service monti-host on member1").await?;
    stage.run("kubectl --context member1 create ns monti").await?;
    stage.run("kubectl --context member1 apply -f 1-workload.yaml").await?;
    if stage.has_nodes() {
        stage.run("kubectl --context member1 -n monti rollout status deployment/monti-deployment-server --timeout=60s").await?;
        stage.run("kubectl --context member1 -n monti get pods").await?;
    }

    stage.step("4. An EndpointSlice is created by Kubernetes for the Service").await?;
    let expected = if stage.has_nodes() { 2 } else { 0 };
    stage
        .see(&format!("the slice of monti-host has {expected} endpoints on port 8090"), async |stage| {
            let get = "kubectl --context member1 -n monti get endpointslice -l kubernetes.io/service-name=monti-host \
                       -o jsonpath='{.items[0].addressType} {.items[0].ports[0].port} {.items[0].endpoints[*].addresses}'";
            let slice = stage.quietly(get)?;
            let words: Vec<&str> = slice.split_whitespace().collect();
            ensure!(words.first() == Some(&"IPv4"), "no slice yet: {slice:?}");
            ensure!(expected == 0 || words.get(1) == Some(&"8090"), "another port: {slice:?}");
            ensure!(words.len().saturating_sub(2) == expected, "{slice:?}");
            Ok(())
        })
        .await?;

    stage.not_yet("5. service monti-host is exported: tombolo export");
    stage.not_yet("13. http://monti-host.monti.svc.clusterset.local:8091 answers in another cluster");
    Ok(())
}
