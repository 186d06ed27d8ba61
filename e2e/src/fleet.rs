//! Members of a bed's hub, registered as Karmada's users do it: a Cluster and a Secret, written by hand.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Secret, ServiceAccount},
        rbac::v1::ClusterRoleBinding,
    },
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo::api::Cluster;

use crate::{bed::Bed, control_plane::ControlPlane, wait::until};

const SYSTEM: &str = "tombolo-system";
/// A member that falls silent is noticed after 26 seconds at most; the rest is the machine's load.
const PATIENCE: Duration = Duration::from_secs(90);

/// Registers all members of a bed and waits until the hub says that they are ready.
pub async fn register_all(bed: &Bed) -> Result<()> {
    for member in &bed.members {
        register(bed, member, &json!({})).await?;
    }
    for member in &bed.members {
        until_ready(&bed.hub.client, &member.name, "True").await?;
    }
    Ok(())
}

/// Registers a member, with more of a Cluster's spec and metadata than the way into it.
pub async fn register(bed: &Bed, member: &ControlPlane, more: &Value) -> Result<()> {
    register_by(bed, member, "tombolo-hub", more).await
}

/// The same by an account of another name.
pub async fn register_by(bed: &Bed, member: &ControlPlane, account: &str, more: &Value) -> Result<()> {
    let (token, authority) = token(&member.client, account).await?;
    let (hub, name) = (&bed.hub.client, member.name.as_str());
    put::<Secret>(
        &Api::namespaced(hub.clone(), SYSTEM),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
                "data": { "token": token, "caBundle": authority } }),
    )
    .await?;
    let mut cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
        "spec": { "syncMode": "Push", "apiEndpoint": member.server, "secretRef": { "namespace": SYSTEM, "name": name } },
    });
    json_patch::merge(&mut cluster, more);
    put::<Cluster>(&Api::all(hub.clone()), cluster).await
}

/// Waits until the hub says of a member that it is ready, or not.
pub async fn until_ready(hub: &Client, name: &str, truth: &str) -> Result<()> {
    let clusters: Api<Cluster> = Api::all(hub.clone());
    until(&format!("{name} is ready: {truth}"), PATIENCE, async || {
        let status = clusters.get(name).await?.status.context("it has no status")?;
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        ensure!(ready.is_some_and(|ready| ready.status == truth), "it says {ready:?}");
        Ok(())
    })
    .await
}

/// A token with all rights in a member, and the member's authority.
async fn token(member: &Client, account: &str) -> Result<(ByteString, ByteString)> {
    put::<Namespace>(
        &Api::all(member.clone()),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM } }),
    )
    .await?;
    put::<ServiceAccount>(
        &Api::namespaced(member.clone(), SYSTEM),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account } }),
    )
    .await?;
    put::<ClusterRoleBinding>(
        &Api::all(member.clone()),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": account },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": account }],
        }),
    )
    .await?;
    let secrets: Api<Secret> = Api::namespaced(member.clone(), SYSTEM);
    put::<Secret>(
        &secrets,
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": { "name": account, "annotations": { "kubernetes.io/service-account.name": account } },
        }),
    )
    .await?;
    until("a token is issued", PATIENCE, async || {
        let mut data = secrets.get(account).await?.data.context("it has no data")?;
        let token = data.remove("token").context("it has no token")?;
        Ok((token, data.remove("ca.crt").context("it has no authority")?))
    })
    .await
}

async fn put<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let name = object["metadata"]["name"].as_str().context("it has no name")?.to_owned();
    let parameters = PatchParams::apply("bed").force();
    api.patch(&name, &parameters, &Patch::Apply(object))
        .await
        .map(drop)
        .with_context(|| format!("failed to apply {name}"))
}
