//! A second pass over the same state writes nothing.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tombolo_e2e::{audit::Request, bed::Bed, fleet, kubectl::Kubectl, scene::Scene, wait::until};

use super::ground::{
    PATIENCE, REACHED, again, agents, changes, hub, leads, marks, program, share, stop, told, until_quiet,
};
use crate::words;

/// Everything that is looked at again has been by then.
const WHILE: Duration = Duration::from_secs(4);

const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: { name: one, namespace: shop }
spec: { parts: [a, b] }
";

pub(crate) async fn a_second_pass_writes_nothing(bed: Arc<Bed>) -> Result<()> {
    let first = hub(&bed, &[]).await?;
    let _agents = agents(&bed).await?;
    fleet::register_all(&bed).await?;
    bed.kubectl("hub").run(&["create", "namespace", "shop"])?;
    bed.kubectl("hub").apply(&manifests())?;
    bed.kubectl("hub").run(&["wait", "--for=condition=Established", "crd/widgets.example.com"])?;
    bed.kubectl("hub").apply(WIDGET)?;
    let wanted = names(&bed.kubectl("hub"))?;
    ensure!(wanted.len() >= 30, "only {} objects: {wanted:?}", wanted.len());
    for member in &bed.members {
        until(&format!("all is in {}", member.name), PATIENCE, async || {
            let there = names(&bed.kubectl(&member.name))?;
            let missing: Vec<_> = wanted.iter().filter(|name| !there.contains(name)).collect();
            ensure!(missing.is_empty(), "missing: {missing:?}");
            Ok(())
        })
        .await?;
    }
    let scene = Scene { bed: bed.clone(), namespace: "shop".to_owned() };
    share(&scene).await?;
    until_quiet(&bed, WHILE).await?;

    let before = marks(&bed)?;
    stop(first).await?;
    let second = again(&bed, &[]).await?;
    until("the new hub leads", PATIENCE, async || {
        ensure!(leads(&second).await?, "it does not");
        Ok(())
    })
    .await?;
    tokio::time::sleep(WHILE).await;
    let mut after = changes(&bed, &before)?;
    // Its webhook has another port on a bed than the last time, which is no idle write.
    after.retain(|(_, request)| !concerns_webhook(request));
    ensure!(after.is_empty(), "a restart wrote: {}", told(&after));

    let before = marks(&bed)?;
    let secrets: Api<Secret> = Api::namespaced(bed.hub.client.clone(), "tombolo-system");
    for member in &bed.members {
        let patch = json!({ "metadata": { "annotations": { "touched": "now" } } });
        secrets.patch(&member.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    // A session begins two seconds after the one before.
    tokio::time::sleep(WHILE + WHILE).await;
    let after = changes(&bed, &before)?;
    ensure!(after.is_empty(), "new sessions wrote: {}", told(&after));

    let standby =
        bed.start_hub(&program().await?, "standby", &["--lease-identity=standby".to_owned()]).await?;
    tokio::time::sleep(WHILE).await;
    let before = marks(&bed)?;
    stop(second).await?;
    until("the other hub leads", PATIENCE, async || {
        ensure!(leads(&standby).await?, "it does not");
        Ok(())
    })
    .await?;
    tokio::time::sleep(WHILE).await;
    let mut after = changes(&bed, &before)?;
    after.retain(|(_, request)| !concerns_webhook(request));
    ensure!(after.is_empty(), "a takeover wrote: {}", told(&after));

    scene.apply(1, [words::slice(1, &[("http", 80)], 2)]).await?;
    words::reaches(&scene, 2, &[&format!("{REACHED},10.1.0.2")]).await?;
    bed.kubectl("hub").run(&["--namespace=shop", "create", "configmap", "later", "--from-literal=a=b"])?;
    until("it still works", PATIENCE, async || {
        let last = bed.members.last().context("there are members")?;
        bed.kubectl(&last.name).run(&["--namespace=shop", "get", "configmap", "later"])
    })
    .await
    .map(drop)
}

fn concerns_webhook(request: &Request) -> bool {
    request.object_ref.resource.ends_with("webhookconfigurations")
}

/// Objects of the kinds that are sent, by kind and name.
fn names(kubectl: &Kubectl) -> Result<Vec<String>> {
    let kinds = "configmaps,secrets,serviceaccounts,services,persistentvolumeclaims,deployments,statefulsets,daemonsets,jobs,\
                 cronjobs,ingresses,networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,roles,rolebindings,\
                 resourcequotas,limitranges";
    let namespaced = kubectl.run(&["--namespace=shop", "get", kinds, "--output=name"])?;
    let cluster =
        kubectl.run(&["get", "clusterroles,priorityclasses,crd", "--selector=sent=yes", "--output=name"])?;
    let custom = kubectl.run(&["--namespace=shop", "get", "widgets.example.com", "--output=name"])?;
    let all = [namespaced, cluster, custom].concat();
    let made_by_kubernetes = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
    Ok(all.lines().filter(|name| !made_by_kubernetes.contains(name)).map(str::to_owned).collect())
}

fn manifests() -> String {
    let mut text = String::from(include_str!("quiet.yaml"));
    for number in 0..8 {
        text += &format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: map-{number}, namespace: shop }}\ndata: {{ a: \"{number}\" }}\n"
        );
    }
    text
}
