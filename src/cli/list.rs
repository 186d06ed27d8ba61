//! Lists objects of the hub for commands that only look.

use std::fmt::Debug;

use anyhow::{Context, Result};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{DynamicResourceScope, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;

use crate::api::mcs;

/// Objects of a namespace, or of all.
pub fn somewhere<K>(hub: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(hub.clone(), namespace),
        None => Api::all(hub.clone()),
    }
}

/// The same of the Multi-Cluster Services API.
pub fn versioned<K>(hub: &Client, namespace: Option<&str>, version: &mcs::Version) -> Api<K>
where
    K: Resource<DynamicType = mcs::Version, Scope = DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(hub.clone(), namespace, version),
        None => Api::all_with(hub.clone(), version),
    }
}

/// All objects; none where the hub does not know the kind.
pub async fn listed<K>(api: Api<K>) -> Result<Vec<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", api.resource_url())),
    }
}
