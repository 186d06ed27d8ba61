//! Live looks at the hub before something is removed from a member: a list that is empty proves nothing.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};

use super::engine::Engine;
use crate::decide::{
    copy::{ObjectKey, Origin},
    view::ClusterKind,
    world::Absence,
};

/// The CustomResourceDefinitions of what places objects.
const POLICY_KINDS: [&str; 2] =
    ["propagationpolicies.policy.karmada.io", "clusterpropagationpolicies.policy.karmada.io"];

/// Those of what services are made of.
const SERVICE_KINDS: [&str; 2] =
    ["serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"];

/// The definition of Clusters as it is now, if there is one.
pub(super) async fn cluster_kind(hub: &Client) -> kube::Result<Option<ClusterKind>> {
    let crds: Api<CustomResourceDefinition> = Api::all(hub.clone());
    let crd = crds.get_metadata_opt(&format!("clusters.{}", crate::api::cluster::GROUP)).await?;
    Ok(crd.map(|crd| ClusterKind {
        made: crd.metadata.creation_timestamp.map_or(0, |made| made.0.as_second()),
        deleting: crd.metadata.deletion_timestamp.is_some(),
    }))
}

/// Whether a template is gone, and not its whole kind.
pub(super) async fn template_is_gone(
    engine: &Engine,
    key: &ObjectKey,
    origin: &Origin,
) -> kube::Result<bool> {
    let served = engine.served();
    let Some(version) = served.preferred(&key.kind) else { return Ok(false) };
    match version.api(&engine.hub, key).get_metadata(&key.name).await {
        Ok(_) => return Ok(false),
        // The answer has to speak of the object: a kind that is not served is 404 too.
        Err(kube::Error::Api(status))
            if status.is_not_found() && status.details.as_ref().is_some_and(|of| of.name == *key.name) => {}
        Err(error) => return Err(error),
    }
    let Some(uid) = &origin.crd else { return Ok(true) };
    let crds: Api<CustomResourceDefinition> = Api::all(engine.hub.clone());
    let crd = crds.get_metadata_opt(&version.crd_name()).await?;
    Ok(crd.is_some_and(|crd| {
        crd.metadata.uid.as_deref() == Some(&**uid) && crd.metadata.deletion_timestamp.is_none()
    }))
}

/// Whether the kinds of policies are those which placed a copy: neither being deleted nor made anew since.
pub(super) async fn policies_are(engine: &Engine, placed_by: &str) -> kube::Result<bool> {
    let crds: Api<CustomResourceDefinition> = Api::all(engine.hub.clone());
    let mut uids = BTreeMap::new();
    for name in POLICY_KINDS {
        match crds.get_metadata_opt(name).await? {
            Some(crd) if crd.metadata.deletion_timestamp.is_none() => {
                uids.insert(name.to_owned(), crd.metadata.uid.unwrap_or_default().into());
            }
            _ => return Ok(false),
        }
    }
    Ok(policy_kinds(&uids).is_some_and(|kinds| *kinds == *placed_by))
}

/// Which kinds of policies there are, as copies have it; none while one is missing.
pub(super) fn policy_kinds(uids: &BTreeMap<String, Arc<str>>) -> Option<Arc<str>> {
    let short = |name: &&str| Some(uids.get(*name)?.split('-').next().unwrap_or_default());
    let both: Option<Vec<&str>> = POLICY_KINDS.iter().map(short).collect();
    both.map(|both| both.join(".").into())
}

/// Whether an export or import is no longer wanted in a member, and not only because the hub lost its kinds, or has not seen yet what was
/// made again.
pub(super) async fn is_to_go(engine: &Engine, origin: &Origin, why: Absence) -> kube::Result<bool> {
    let crds: Api<CustomResourceDefinition> = Api::all(engine.hub.clone());
    for name in POLICY_KINDS.iter().chain(&SERVICE_KINDS) {
        let crd = crds.get_metadata_opt(name).await?;
        if crd.is_none_or(|crd| crd.metadata.deletion_timestamp.is_some()) {
            return Ok(false);
        }
    }
    if origin.template.is_empty() {
        return Ok(true);
    }
    let key = &origin.object;
    let served = engine.served();
    let Some(version) = served.preferred(&key.kind) else { return Ok(false) };
    // One that is there is placed elsewhere, if that was said in knowledge of it.
    if why == Absence::Elsewhere && version.api(&engine.hub, key).get_metadata_opt(&key.name).await?.is_some()
    {
        return Ok(true);
    }
    template_is_gone(engine, key, origin).await
}
