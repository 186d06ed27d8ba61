//! Propagation on real API servers: what a policy selects arrives where it says, and nowhere else.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tombolo_e2e::{
    bed::{Bed, Spec},
    fleet, suite, tests,
    wait::until,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    suite::run(Spec::api(2), tests![what_a_policy_selects_arrives_in_the_clusters_that_it_names])
}

async fn what_a_policy_selects_arrives_in_the_clusters_that_it_names(bed: Arc<Bed>) -> Result<()> {
    fleet::register_all(&bed).await?;
    let hub = bed.kubectl("hub").in_namespace("first")?;
    hub.apply(
        r"
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: { name: one }
spec:
  resourceSelectors: [{ apiVersion: v1, kind: ConfigMap, name: one }]
  placement: { clusterAffinity: { clusterNames: [member1] } }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: one }
data: { a: b }
",
    )?;
    let there: Api<ConfigMap> = Api::namespaced(bed.member(1).client.clone(), "first");
    until("the ConfigMap is in member1", PATIENCE, async || {
        let data = there.get("one").await?.data.context("it has no data")?;
        ensure!(data.get("a").map(String::as_str) == Some("b"), "it says {data:?}");
        Ok(())
    })
    .await?;
    let elsewhere: Api<ConfigMap> = Api::namespaced(bed.member(2).client.clone(), "first");
    ensure!(elsewhere.get_opt("one").await?.is_none(), "member2 has it too");
    Ok(())
}
