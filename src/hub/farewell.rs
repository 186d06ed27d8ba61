//! What a member's agent has still to remove when the member leaves: the Services and slices of imports that are gone.
//!
//! [`left`] says what is there. The agent removes it; where none is at work, [`remove`] does.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Preconditions},
    core::ObjectMeta,
};

use super::engine::Engine;
use crate::{
    api::names::{kubernetes, label, mcs},
    decide::{
        agent::service::is_derived,
        ids::{ClusterName, ServiceKey},
    },
};

/// What is left of imports that are gone.
#[derive(Debug, Default)]
pub(super) struct Left {
    services: Vec<ObjectMeta>,
    slices: Vec<ObjectMeta>,
}

// === impl Left ===

impl Left {
    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.slices.is_empty()
    }

    /// How much is.
    pub(super) fn said(&self) -> String {
        format!("{} derived Services and {} slices", self.services.len(), self.slices.len())
    }
}

/// What an agent made in a member for imports that are gone. What serves a user's own imports stays.
pub(super) async fn left(engine: &Engine, member: &Client, name: &ClusterName) -> kube::Result<Left> {
    let imported = |key: &ServiceKey| engine.look_exchange(|exchange| exchange.has_import(name, key));
    let services: Api<Service> = Api::all(member.clone());
    let services = services.list_metadata(&ListParams::default().labels(label::IMPORT)).await?;
    let gone = |metadata: &ObjectMeta| {
        let service = Service { metadata: metadata.clone(), ..Service::default() };
        is_derived(&service).is_some_and(|key| !imported(&key))
    };
    let services = services.items.into_iter().map(|one| one.metadata).filter(gone).collect();
    let slices: Api<EndpointSlice> = Api::all(member.clone());
    let ours = format!("{}={},{}", kubernetes::MANAGED_BY, kubernetes::MANAGED_BY_AGENT, mcs::SERVICE_NAME);
    let slices = slices.list_metadata(&ListParams::default().labels(&ours)).await?;
    let gone = |metadata: &ObjectMeta| {
        let service = metadata.labels.as_ref().and_then(|labels| labels.get(mcs::SERVICE_NAME));
        let key = service.zip(metadata.namespace.as_deref());
        let key = key.and_then(|(service, namespace)| ServiceKey::parse(namespace, service).ok());
        key.is_some_and(|key| !imported(&key))
    };
    let slices = slices.items.into_iter().map(|one| one.metadata).filter(gone).collect();
    Ok(Left { services, slices })
}

/// Removes what is left, since no agent does.
pub(super) async fn remove(member: &Client, left: &Left) -> kube::Result<()> {
    for metadata in &left.services {
        let api: Api<Service> =
            Api::namespaced(member.clone(), metadata.namespace.as_deref().unwrap_or_default());
        gone(api.delete(metadata.name.as_deref().unwrap_or_default(), &that_one(metadata)).await)?;
    }
    for metadata in &left.slices {
        let api: Api<EndpointSlice> =
            Api::namespaced(member.clone(), metadata.namespace.as_deref().unwrap_or_default());
        gone(api.delete(metadata.name.as_deref().unwrap_or_default(), &that_one(metadata)).await)?;
    }
    Ok(())
}

fn that_one(metadata: &ObjectMeta) -> DeleteParams {
    let preconditions = Preconditions { uid: metadata.uid.clone(), resource_version: None };
    DeleteParams::background().preconditions(preconditions)
}

fn gone<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        done => done.map(drop),
    }
}
