//! Live looks at the hub before something is removed from a member: a list that is empty proves nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, core::ObjectMeta};

use super::engine::Engine;
use crate::{
    api::{ClusterPropagationPolicy, PropagationPolicy, propagation::PropagationSpec},
    decide::{
        copy::{ObjectKey, Origin},
        policies::PolicyKey,
        view::ClusterKind,
        world::Absence,
    },
};

/// The CustomResourceDefinitions of what places objects.
const POLICY_KINDS: [&str; 2] =
    ["propagationpolicies.policy.karmada.io", "clusterpropagationpolicies.policy.karmada.io"];

/// Those of what services are made of.
const SERVICE_KINDS: [&str; 2] =
    ["serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"];

/// Why nothing is removed though its template seems gone.
pub(super) const KIND_MAY_BE_GONE: &str =
    "the template seems gone, but so may be its whole kind: nothing is removed until that is certain";
const OTHER_KINDS: &str = "policies no longer place it here, but their kinds are gone or were made anew since they did: it stays; delete it \
    there if it is to go";
const UNSEEN_POLICY: &str = "policies no longer place it here, but the one that did, or that holds now, is not what was seen of it, or is faulty: \
    it stays until that is put right";
const STRANGE_POLICY: &str = "policies no longer place it here, but which did is said in words of a newer release: it stays; delete it there if it is to go";

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
    if found(version.api(&engine.hub, key).get_metadata(&key.name).await, &key.name)?.is_some() {
        return Ok(false);
    }
    let Some(uid) = &origin.crd else { return Ok(true) };
    let crds: Api<CustomResourceDefinition> = Api::all(engine.hub.clone());
    let crd = crds.get_metadata_opt(&version.crd_name()).await?;
    Ok(crd.is_some_and(|crd| {
        crd.metadata.uid.as_deref() == Some(&**uid) && crd.metadata.deletion_timestamp.is_none()
    }))
}

/// What was found of an object, if it is there. An answer that it is not has to speak of the object: a kind that is not served is 404 too.
fn found<T>(answer: kube::Result<T>, name: &str) -> kube::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status))
            if status.is_not_found() && status.details.as_ref().is_some_and(|of| of.name == *name) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Why it is not certain that policies no longer want a copy which `kinds` of them, and among them `policy`, once placed; none if it is.
pub(super) async fn doubt_of_policies(
    engine: &Engine,
    key: &ObjectKey,
    kinds: &str,
    policy: Option<&str>,
) -> kube::Result<Option<&'static str>> {
    if !policies_are(engine, kinds).await? {
        return Ok(Some(OTHER_KINDS));
    }
    let placed_it = match policy.map(PolicyKey::parse) {
        Some(None) => return Ok(Some(STRANGE_POLICY)),
        Some(Some(policy)) => Some(policy),
        // Of the release before.
        None => None,
    };
    let holds = engine.look(|world, _| world.assignment(key)?.policy.clone());
    for policy in placed_it.into_iter().chain(holds).collect::<BTreeSet<_>>() {
        if !policy_is_as_seen(engine, &policy).await? {
            return Ok(Some(UNSEEN_POLICY));
        }
    }
    // What was seen meanwhile counts once it was thought of.
    Ok(engine.look(|world, view| !world.is_settled(view, key)).then_some(UNSEEN_POLICY))
}

/// Whether a policy, or that there is none, is what the hub's watch has shown.
async fn policy_is_as_seen(engine: &Engine, policy: &PolicyKey) -> kube::Result<bool> {
    let is = |live: Option<(&ObjectMeta, &PropagationSpec)>| {
        engine.look(|_, view| view.propagations().is_as_live(policy, live))
    };
    Ok(match &policy.namespace {
        Some(namespace) => {
            let api: Api<PropagationPolicy> = Api::namespaced(engine.hub.clone(), namespace);
            let live = found(api.get(&policy.name).await, &policy.name)?;
            is(live.as_ref().map(|live| (&live.metadata, &live.spec)))
        }
        None => {
            let api: Api<ClusterPropagationPolicy> = Api::all(engine.hub.clone());
            let live = found(api.get(&policy.name).await, &policy.name)?;
            is(live.as_ref().map(|live| (&live.metadata, &live.spec)))
        }
    })
}

/// Whether the kinds of policies are those which placed a copy: neither being deleted nor made anew since.
async fn policies_are(engine: &Engine, placed_by: &str) -> kube::Result<bool> {
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
