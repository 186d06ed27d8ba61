//! Leaving a member: what `tombolo join` made there goes, the hub's own ServiceAccount last.
//!
//! [`leave`] is the only entry; it can be called again after any interruption. CRDs, Namespaces and what was propagated are not
//! its business.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, ServiceAccount},
    discovery::v1::EndpointSlice,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
};
use serde::de::DeserializeOwned;

use crate::api::names::{annotation, kubernetes, label, object};

/// Removes what join made in a member, if the member says that it is this hub's cluster of that name. One that never was, or
/// that another hub has taken over, is left as it is.
///
/// The hub's ClusterRole goes before its ServiceAccount: who lost the token could not remove anything any more. What the last
/// two own (the ClusterRoleBinding; Role, RoleBinding and token) the member's garbage collector removes, since nobody can remove
/// the very right by which he does it.
pub async fn leave(member: &Client, hub_id: &str, cluster: &str) -> Result<()> {
    let leaving = Leaving { member };
    if !leaving.is_ours(hub_id, cluster).await? {
        return Ok(());
    }
    leaving.named::<Deployment>(object::AGENT).await?;
    leaving.clustered::<ClusterRoleBinding>(object::AGENT).await?;
    leaving.clustered::<ClusterRole>(object::AGENT).await?;
    leaving.named::<RoleBinding>(object::AGENT).await?;
    leaving.named::<Role>(object::AGENT).await?;
    leaving.named::<ServiceAccount>(object::AGENT).await?;
    leaving.named::<Lease>(object::AGENT).await?;
    leaving.sources().await?;
    leaving.clustered::<ClusterRole>(object::HUB).await?;
    leaving.named::<ConfigMap>(object::MARKER).await?;
    leaving.account().await
}

/// A member that is being left.
struct Leaving<'a> {
    member: &'a Client,
}

// === impl Leaving ===

impl Leaving<'_> {
    /// The marker says whose member it is; where it went already, the ServiceAccount still does. Who is not known there any more
    /// has left before, or was thrown out: either way there is nothing that he could still remove. Who may not read it was not set up by
    /// `tombolo join`, which gives that right.
    async fn is_ours(&self, hub_id: &str, cluster: &str) -> Result<bool> {
        let markers: Api<ConfigMap> = Api::namespaced(self.member.clone(), object::NAMESPACE);
        let marker = match markers.get_opt(object::MARKER).await {
            Err(kube::Error::Api(status)) if status.code == 401 => return Ok(false),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let why = &status.message;
                tracing::warn!(
                    member = cluster,
                    "whose member it is may not be read: what joining made there, if it did, stays: {why}"
                );
                return Ok(false);
            }
            marker => marker.context("failed to read whose member it is")?,
        };
        if let Some(marker) = marker {
            let says =
                |key, value| marker.data.iter().any(|data| data.get(key).is_some_and(|it| it == value));
            return Ok(says(object::MARKER_HUB, hub_id) && says(object::MARKER_CLUSTER, cluster));
        }
        let account =
            self.accounts().get_opt(object::HUB).await.context("failed to read the hub's account")?;
        Ok(account
            .is_some_and(|it| it.annotations().get(annotation::JOINED_BY).is_some_and(|by| by == hub_id)))
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.member.clone(), object::NAMESPACE)
    }

    /// Removes an object of Tombolo's own namespace.
    async fn named<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        remove::<K>(&Api::namespaced(self.member.clone(), object::NAMESPACE), name).await
    }

    /// Removes an object of no namespace.
    async fn clustered<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        remove::<K>(&Api::all(self.member.clone()), name).await
    }

    /// Removes what the cluster's own pods offered to others: nobody reads it any more, and without its rights the agent makes it no
    /// more. A hub that has no rights on slices never asked for any.
    async fn sources(&self) -> Result<()> {
        let slices: Api<EndpointSlice> = Api::all(self.member.clone());
        let ours = format!("{},{}={}", label::SOURCE, kubernetes::MANAGED_BY, kubernetes::MANAGED_BY_AGENT);
        let found = match slices.list_metadata(&ListParams::default().labels(&ours)).await {
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
            found => found.context("failed to list the slices that the agent made")?,
        };
        for slice in found {
            let namespace = slice.namespace().unwrap_or_default();
            let slices: Api<EndpointSlice> = Api::namespaced(self.member.clone(), &namespace);
            remove(&slices, &slice.name_any()).await?;
        }
        Ok(())
    }

    /// Removes the hub's own account. Its token dies with it: not to be known any more means that it is gone.
    async fn account(&self) -> Result<()> {
        let gone = |e: &kube::Error| matches!(e, kube::Error::Api(status) if status.code == 401 || status.code == 404);
        let account = match self.accounts().get_opt(object::HUB).await {
            Ok(Some(account)) => account,
            Ok(None) => return Ok(()),
            Err(e) if gone(&e) => return Ok(()),
            Err(e) => return Err(e).context("failed to read the hub's ServiceAccount"),
        };
        // Somebody who joins it anew meanwhile keeps the account that he made.
        let preconditions = Preconditions { uid: account.uid(), resource_version: None };
        let params = DeleteParams::default().preconditions(preconditions);
        match self.accounts().delete(object::HUB, &params).await {
            Ok(_) => Ok(()),
            Err(e) if gone(&e) => Ok(()),
            Err(e) => Err(e).context("failed to remove the hub's ServiceAccount"),
        }
    }
}

async fn remove<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            bail!(
                "failed to remove {} {name} in the member: {}; run `tombolo join` again to renew the hub's rights, or \
                 remove it by hand",
                K::kind(&()),
                status.message
            )
        }
        Err(e) => Err(e).with_context(|| format!("failed to remove {} {name} in the member", K::kind(&()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// Leaves a member that answers every request so; how it was asked.
    async fn left(code: u16) -> (Result<()>, Vec<String>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            noted.lock().push(format!("{} {}", request.method(), request.uri().path()));
            let answer = json!({ "kind": "Status", "status": "Failure", "message": "no", "code": code });
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { answer }
        });
        let done = leave(&Client::new(service, "default"), "hub", "a").await;
        let asked = asked.lock().clone();
        (done, asked)
    }

    #[tokio::test]
    async fn a_member_that_does_not_say_whose_it_is_is_left_as_it_is() {
        for (code, leaves) in [(401, true), (403, true), (503, false)] {
            let (done, asked) = left(code).await;
            assert_eq!(done.is_ok(), leaves, "{code}: {done:?}");
            assert_eq!(asked, ["GET /api/v1/namespaces/tombolo-system/configmaps/tombolo-member"], "{code}");
        }
    }
}
