//! Objects of the Multi-Cluster Services API in the version that the cluster serves, which is known only when it is asked.

use std::marker::PhantomData;

use kube::{
    Api, Client, Error, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::Value;

use super::store::Kept;
use crate::{api::mcs::Version, decide::agent::MANAGER};

/// The objects of a kind in a namespace.
pub(super) struct Versioned<K> {
    api: Api<DynamicObject>,
    kind: PhantomData<K>,
}

// === impl Versioned ===

impl<K: Kept + Resource<DynamicType = Version>> Versioned<K> {
    pub(super) fn new(client: &Client, namespace: &str, version: Version) -> Self {
        let resource = ApiResource::erase::<K>(&version);
        Self { api: Api::namespaced_with(client.clone(), namespace, &resource), kind: PhantomData }
    }

    /// Whether an object is there, asked live.
    pub(super) async fn has(&self, name: &str) -> kube::Result<bool> {
        Ok(self.api.get_metadata_opt(name).await?.is_some())
    }

    /// Applies the fields that are ours.
    pub(super) async fn apply(&self, name: &str, fields: Value) -> kube::Result<K> {
        let parameters = PatchParams::apply(MANAGER).force();
        read(self.api.patch(name, &parameters, &Patch::Apply(fields)).await?)
    }

    /// Applies the fields of the status that are ours.
    pub(super) async fn apply_status(&self, name: &str, fields: Value) -> kube::Result<K> {
        let parameters = PatchParams::apply(MANAGER).force();
        read(self.api.patch_status(name, &parameters, &Patch::Apply(fields)).await?)
    }

    /// Changes fields, whosever they are.
    pub(super) async fn merge(&self, name: &str, fields: Value) -> kube::Result<K> {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        read(self.api.patch(name, &parameters, &Patch::Merge(fields)).await?)
    }
}

fn read<K: Kept>(object: DynamicObject) -> kube::Result<K> {
    let value = serde_json::to_value(object).map_err(Error::SerdeError)?;
    serde_json::from_value(value).map_err(Error::SerdeError)
}
