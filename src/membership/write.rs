//! Writing so that one can say what it changed: created, changed, or already there.

use std::{fmt, fmt::Debug};

use anyhow::{Context, Result, anyhow};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde::{Serialize, de::DeserializeOwned};

/// The field manager of what `tombolo join` writes; it never changes between releases.
const MANAGER: &str = "tombolo-join";

/// What a write changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Created,
    Changed,
    Kept,
}

/// What several writes changed, for a line of progress.
#[derive(Debug, Default)]
pub(super) struct Tally {
    created: Vec<String>,
    changed: Vec<String>,
}

// === impl Tally ===

impl Tally {
    pub(super) fn add(&mut self, what: impl Into<String>, outcome: Outcome) {
        match outcome {
            Outcome::Created => self.created.push(what.into()),
            Outcome::Changed => self.changed.push(what.into()),
            Outcome::Kept => {}
        }
    }

    /// Applies an object and notes what that changed.
    pub(super) async fn apply(&mut self, client: &Client, object: &DynamicObject) -> Result<DynamicObject> {
        let (written, outcome) = apply(client, object).await?;
        self.add(described(object), outcome);
        Ok(written)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: Vec<_> = [("created", &self.created), ("changed", &self.changed)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(verb, names)| format!("{verb} {}", names.join(", ")))
            .collect();
        if said.is_empty() { f.write_str("already there") } else { f.write_str(&said.join("; ")) }
    }
}

/// An API server's refusal in its own words, once; any other failure as it is.
pub(crate) fn words(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => anyhow!(status.message),
        other => other.into(),
    }
}

/// Kind and name of an object.
pub(super) fn described(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| &types.kind);
    format!("{kind} {}", object.name_any())
}

/// Where objects of that type are.
pub(super) fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("a manifest has a type")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    Ok(match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}

/// Applies an object. A Namespace that is there is left as it is: it may be somebody else's too.
pub(super) async fn apply(client: &Client, object: &DynamicObject) -> Result<(DynamicObject, Outcome)> {
    let (api, name, what) = (api_of(client, object)?, object.name_any(), described(object));
    let before = api.get_opt(&name).await.with_context(|| format!("failed to read {what}"))?;
    match before {
        Some(before) if what.starts_with("Namespace ") => Ok((before, Outcome::Kept)),
        before => {
            let params = PatchParams::apply(MANAGER).force();
            let after = api.patch(&name, &params, &Patch::Apply(object)).await.map_err(words);
            let after = after.with_context(|| format!("failed to write {what}"))?;
            let outcome = match before {
                None => Outcome::Created,
                Some(before) if before.resource_version() == after.resource_version() => Outcome::Kept,
                Some(_) => Outcome::Changed,
            };
            Ok((after, outcome))
        }
    }
}

/// Makes an object what it is to be, without touching what others wrote meanwhile. Given what was found.
pub(super) async fn put<K>(api: &Api<K>, found: Option<&K>, wanted: &K, dry_run: bool) -> Result<(K, Outcome)>
where
    K: Resource<DynamicType = ()> + Clone + PartialEq + Serialize + DeserializeOwned + Debug,
{
    let params = PostParams { dry_run, field_manager: Some(MANAGER.to_owned()) };
    let (name, kind) = (wanted.name_any(), K::kind(&()));
    match found {
        Some(found) if found == wanted => Ok((found.clone(), Outcome::Kept)),
        Some(_) => {
            let written = api.replace(&name, &params, wanted).await.map_err(words);
            Ok((written.with_context(|| format!("failed to write {kind} {name}"))?, Outcome::Changed))
        }
        None => {
            let written = api.create(&params, wanted).await.map_err(words);
            Ok((written.with_context(|| format!("failed to create {kind} {name}"))?, Outcome::Created))
        }
    }
}
