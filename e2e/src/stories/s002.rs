//! Multi-cluster service demo: the same Service in two clusters, each serving its own pods; then one for both, by hand.

use anyhow::{Result, ensure};

use super::answers;
use crate::{stage::Stage, wait::Final};

const CLUSTERS: [&str; 2] = ["member1", "member2"];

pub(super) async fn play(stage: &mut Stage) -> Result<()> {
    stage.step("What the agent's chart brings along: its namespace and the API").await?;
    for cluster in CLUSTERS {
        stage.run(&format!("kubectl --context {cluster} create ns tombolo-system")).await?;
        let apply = format!("kubectl --context {cluster} apply --server-side -f -");
        stage.run(&format!("tombolo crds --for member | {apply}")).await?;
    }

    stage.step("Setup our demo namespace").await?;
    for cluster in CLUSTERS {
        stage.run(&format!("kubectl --context {cluster} create ns demo")).await?;
    }

    stage.step("Create our service in each cluster").await?;
    stage.run("kubectl --context member1 apply -f dep1.yaml -f svc.yaml").await?;
    stage.run("kubectl --context member2 apply -f dep2.yaml -f svc.yaml").await?;
    for cluster in CLUSTERS {
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
        for cluster in CLUSTERS {
            let status = "rollout status deployment/serve --timeout=180s";
            stage.run(&format!("kubectl --context {cluster} -n demo {status}")).await?;
        }
        let request = request("serve.demo.svc.cluster.local", "--duration=3s");
        answers(stage, "every answer is from cluster 1", &request, async |said| {
            ensure!(from(said, 2) == 0, Final(said.to_owned()));
            ensure!(from(said, 1) >= 2, "{said}");
            Ok(())
        })
        .await?;
        for cluster in CLUSTERS {
            stage
                .see(&format!("all endpoints of {cluster} are ready"), async |stage| ready(stage, cluster))
                .await?;
        }
    }
    import(stage).await?;
    let vip = vip(stage).await?;
    if !stage.has_nodes() {
        stage.left_out("connecting to it: that needs --nodes");
        return Ok(());
    }
    let request = request(&vip, "--duration=5s --interval=200ms");
    answers(stage, "both clusters answer", &request, async |said| {
        ensure!(from(said, 1) > 0 && from(said, 2) > 0, "{said}");
        Ok(())
    })
    .await
}

/// Fails unless the slice of a cluster has endpoints, all of them ready: what is copied stays as it is.
fn ready(stage: &Stage, cluster: &str) -> Result<()> {
    let found = stage.quietly(&format!(
        "kubectl --context {cluster} -n demo get endpointslice -l kubernetes.io/service-name=serve \
         -o jsonpath='{{.items[*].endpoints[*].conditions.ready}}'"
    ))?;
    let all: Vec<&str> = found.split_whitespace().collect();
    ensure!(!all.is_empty() && all.iter().all(|ready| *ready == "true"), "they are ready: {found:?}");
    Ok(())
}

/// The imports and the slices of both clusters, in both clusters.
async fn import(stage: &mut Stage) -> Result<()> {
    stage.step("Ok, looks normal. Let's import the service from our other cluster").await?;
    for cluster in CLUSTERS {
        stage
            .run(&format!(
                "kubectl --context {cluster} apply -f serviceimport.yaml -f serviceimport-with-vip.yaml"
            ))
            .await?;
        for other in CLUSTERS {
            let slice = format!(
                "kubectl --context {other} -n demo get endpointslice -l kubernetes.io/service-name=serve \
                 -o go-template-file=imported.gotmpl"
            );
            stage.run(&format!("{slice} | kubectl --context {cluster} apply -f -")).await?;
        }
    }
    Ok(())
}

/// The address of the import in the first cluster.
async fn vip(stage: &mut Stage) -> Result<String> {
    stage.step("See what we've created, and grab the multi-cluster VIP from the ServiceImport").await?;
    let get = "kubectl --context member1 -n demo get serviceimport serve -o jsonpath='{.spec.ips[0]}'";
    let vip = stage
        .see("the ServiceImport has a VIP", async |stage| {
            let vip = stage.quietly(get)?;
            ensure!(!vip.is_empty(), "not yet");
            Ok(vip)
        })
        .await?;
    stage.run("kubectl --context member1 get -n demo serviceimports,services,endpointslices").await?;
    stage.run(get).await?;
    println!();
    Ok(vip)
}

fn request(address: &str, flags: &str) -> String {
    format!(
        "kubectl --context member1 -n demo run -i --rm --restart=Never --image=jeremyot/request:0a40de8 \
         request -- {flags} --address={address}"
    )
}

/// How many answers came from a cluster.
fn from(said: &str, cluster: usize) -> usize {
    let greeting = format!("hello from cluster {cluster} (Node: member{cluster}-");
    said.lines().filter(|line| line.contains(&greeting)).count()
}
