//! Live looks at the hub before something is removed from a member: a list that is empty proves nothing (DESIGN.md 9.1).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, core::ObjectMeta};

use super::engine::Engine;
use crate::{
    api::propagation::GROUP,
    decide::copy::{ObjectKey, Origin},
};

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

/// Whether the kinds of policies are the same that they were when a copy was made: neither being deleted nor made anew since.
pub(super) async fn policies_are_whole(engine: &Engine, copy: &ObjectMeta) -> kube::Result<bool> {
    let crds: Api<CustomResourceDefinition> = Api::all(engine.hub.clone());
    for plural in ["propagationpolicies", "clusterpropagationpolicies"] {
        let crd = crds.get_metadata_opt(&format!("{plural}.{GROUP}")).await?;
        let whole = crd.is_some_and(|crd| {
            let older = crd.metadata.creation_timestamp.zip(copy.creation_timestamp.clone());
            crd.metadata.deletion_timestamp.is_none() && older.is_some_and(|(crd, copy)| crd.0 <= copy.0)
        });
        if !whole {
            return Ok(false);
        }
    }
    Ok(true)
}
