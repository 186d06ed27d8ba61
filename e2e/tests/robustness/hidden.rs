//! An API server of the hub that lists nothing, as one that has not read its storage: what it does not list is not gone.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authentication::v1::TokenRequest,
    core::v1::{Secret, ServiceAccount},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use tombolo_e2e::{bed::Bed, fleet, kubeconfig::Access, proxy::Proxy, scene::Scene, wait::until};

use super::ground::{
    PATIENCE, REACHED, agents, changes, copies, create_namespace, leads, maps, marks, place, program, put,
    share, told, until_says,
};
use crate::words;

/// How long a kind is hidden: several sweeps and attempts.
const HIDDEN: Duration = Duration::from_secs(12);
const OBJECTS: usize = 10;
/// A Secret that is to go with its policy, and one that another policy would place in fewer clusters.
const MARKED: [&str; 2] = ["along", "fewer"];

pub(crate) async fn an_api_server_that_lists_nothing_deletes_nothing(bed: Arc<Bed>) -> Result<()> {
    bed.prepare_hub()?;
    let proxy = Proxy::start(&bed.hub)?;
    let token = token(&bed).await?;
    let hub = bed.start_hub_through(&program().await?, &proxy.url, &token).await?;
    let eyes = Access::with_token("hub", &proxy.url, &bed.hub.authority, &token).client().await?;
    let _agents = agents(&bed).await?;
    fleet::register_all(&bed).await?;
    create_namespace(&bed.hub.client, "shop").await?;
    place(&bed.hub.client, "shop", "all", &[]).await?;
    for number in 0..OBJECTS {
        put(&bed.hub.client, "shop", &format!("object-{number}"), "all", "1").await?;
    }
    workload(&bed).await?;
    marked(&bed)?;
    let last = format!("object-{}", OBJECTS - 1);
    for member in &bed.members {
        until_says(&member.client, "shop", &last, "1").await?;
        let (workloads, secrets): (Api<Deployment>, Api<Secret>) =
            (Api::namespaced(member.client.clone(), "shop"), Api::namespaced(member.client.clone(), "shop"));
        until("the workload is there", PATIENCE, async || Ok(workloads.get("web").await?)).await?;
        until("what it names is there", PATIENCE, async || Ok(secrets.get("named").await?)).await?;
        for marked in MARKED {
            until("what its policy speaks of is there", PATIENCE, async || Ok(secrets.get(marked).await?))
                .await?;
        }
    }
    let scene = Scene { bed: bed.clone(), namespace: "shop".to_owned() };
    share(&scene).await?;
    let before = marks(&bed)?;

    for hidden in [
        &["configmaps"][..],
        &["deployments"],
        &["propagationpolicies"],
        &["serviceexports"],
        &["serviceimports"],
        &["clusters"],
        &["configmaps", "deployments", "propagationpolicies", "serviceexports", "serviceimports"],
    ] {
        proxy.hide(hidden);
        tokio::time::sleep(HIDDEN).await;
        let mut changes = changes(&bed, &before)?;
        changes.retain(|(cluster, request)| request.verb.starts_with("delete") && cluster != "hub");
        ensure!(changes.is_empty(), "when {hidden:?} were not listed, it deleted: {}", told(&changes));
        for member in &bed.members {
            let there = copies(&member.client, "shop").await?;
            ensure!(
                there.len() == OBJECTS,
                "when {hidden:?} were not listed, {} had {}",
                member.name,
                there.len()
            );
            let secrets: Api<Secret> = Api::namespaced(member.client.clone(), "shop");
            for name in ["named"].iter().chain(&MARKED) {
                secrets.get(name).await.with_context(|| format!("when {hidden:?} were not listed"))?;
            }
        }
        is_shared(&scene).await.with_context(|| format!("when {hidden:?} were not listed"))?;
    }

    // So it was: what is there is given, and not listed.
    maps(&eyes, "shop").get(&last).await?;
    ensure!(maps(&eyes, "shop").list(&ListParams::default()).await?.items.is_empty(), "it was listed");
    proxy.hide(&[]);
    put(&bed.hub.client, "shop", &last, "all", "2").await?;
    for member in &bed.members {
        until_says(&member.client, "shop", &last, "2").await?;
    }
    ensure!(leads(&hub).await?, "the hub does not lead any more");
    Ok(())
}

/// Fails unless the service is exported and imported as it was.
async fn is_shared(scene: &Scene) -> Result<()> {
    scene.find(1, "ServiceExport serve").await?;
    scene.find(2, "ServiceImport serve").await?;
    scene.find(2, "Service derived-serve").await?;
    let found = words::reached(scene, 2).await?;
    ensure!(found == [REACHED], "member2 reaches {found:?}");
    scene.is_absent(&[1], "ServiceImport serve").await
}

/// A token of an account that may do everything on the hub: what a proxy passes on.
async fn token(bed: &Bed) -> Result<String> {
    let kubectl = bed.kubectl("hub");
    kubectl.run(&["create", "serviceaccount", "through", "--namespace=default"])?;
    let binding = [
        "create",
        "clusterrolebinding",
        "through",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:through",
    ];
    kubectl.run(&binding)?;
    let accounts: Api<ServiceAccount> = Api::namespaced(bed.hub.client.clone(), "default");
    let asked = TokenRequest::default();
    let given: TokenRequest =
        accounts.create_subresource("token", "through", &PostParams::default(), &asked).await?;
    Ok(given.status.context("a token that was asked for is given")?.token)
}

/// A Deployment that names a Secret, which goes along with it.
async fn workload(bed: &Bed) -> Result<()> {
    let pod = json!({ "containers": [{ "name": "web", "image": "none", "envFrom": [{ "secretRef": { "name": "named" } }] }] });
    let objects = [
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "named", "namespace": "shop" } }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" }, "spec": {
            "replicas": 0, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod },
        } }),
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "propagateDeps": true, "placement": {},
                "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }],
            },
        }),
    ];
    objects.iter().try_for_each(|object| bed.kubectl("hub").apply(&object.to_string()).map(drop))
}

/// Secrets that would go if their policies did.
fn marked(bed: &Bed) -> Result<()> {
    let select =
        |name: &str| json!([{ "apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": name }]);
    let policy = |kind: &str, name: &str, placement: Value| {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
            "metadata": { "name": name, "annotations": { "tombolo.dev/on-policy-deletion": "delete" } },
            "spec": { "placement": placement, "resourceSelectors": select(name) },
        })
    };
    let few = json!({ "clusterAffinity": { "clusterNames": [bed.members[0].name] } });
    bed.kubectl("hub").apply(&policy("ClusterPropagationPolicy", "fewer", few).to_string())?;
    for name in MARKED {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "shop" } });
        let mut policy = policy("PropagationPolicy", name, json!({}));
        policy["metadata"]["namespace"] = "shop".into();
        bed.kubectl("hub").apply(&policy.to_string())?;
        bed.kubectl("hub").apply(&secret.to_string())?;
    }
    Ok(())
}
