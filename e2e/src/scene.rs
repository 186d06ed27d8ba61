//! A scene: a namespace on the hub of a bed, and short words for what a test does and sees there and in the members.
//!
//! Objects are called by kind and name, as in `"ConfigMap one"`; places by number: [`HUB`], then the members from 1 on. What is
//! waited for is waited for with [`PATIENCE`]; to show that something does *not* happen, [`Scene::settles`] first.

#![expect(clippy::needless_pass_by_value, reason = "what is made on the spot is given away")]

mod manifest;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::discovery::v1::Endpoint;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PropagationPolicy},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

pub use self::manifest::{
    annotated, config_map, definition, deployment, labelled, members, object, overrides, places, places_from,
    selector, with,
};
use crate::{bed::Bed, wait::until};

/// How long something may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The hub among the places.
pub const HUB: usize = 0;

const POLICIES: &str = "policy.karmada.io/v1alpha1";
/// Kinds of the whole cluster.
const CLUSTER_WIDE: [&str; 12] = [
    "Cluster",
    "ClusterOverridePolicy",
    "ClusterPropagationPolicy",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PersistentVolume",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];
/// The versions of kinds, by what their names begin with; all others are of the core.
const VERSIONS: [(&str, &str); 20] = [
    ("ClusterOverridePolicy", POLICIES),
    ("ClusterPropagationPolicy", POLICIES),
    ("ClusterRole", "rbac.authorization.k8s.io/v1"),
    ("Cluster", "cluster.karmada.io/v1alpha1"),
    ("CronJob", "batch/v1"),
    ("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
    ("Deployment", "apps/v1"),
    ("EndpointSlice", "discovery.k8s.io/v1"),
    ("Job", "batch/v1"),
    ("MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1"),
    ("OverridePolicy", POLICIES),
    ("PropagationPolicy", POLICIES),
    ("ReplicaSet", "apps/v1"),
    ("Role", "rbac.authorization.k8s.io/v1"),
    ("ServiceExport", "multicluster.x-k8s.io/v1alpha1"),
    ("ServiceImport", "multicluster.x-k8s.io/v1alpha1"),
    ("StatefulSet", "apps/v1"),
    ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"),
    ("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1"),
    ("Gadget", "rules.example/v1"),
];

/// A namespace on the hub of a bed.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The bed.
    pub bed: Arc<Bed>,
    /// The namespace.
    pub namespace: String,
}

/// An object by kind and name.
struct What<'a> {
    api_version: String,
    kind: &'a str,
    name: &'a str,
}

// === impl What ===

impl<'a> What<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let (kind, name) = text.split_once(' ').with_context(|| format!("{text:?} is no kind and name"))?;
        Ok(Self { api_version: api_version(kind).to_owned(), kind, name })
    }

    fn of(object: &'a Value) -> Result<Self> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).context("it lacks a field");
        Ok(Self {
            api_version: text("/apiVersion")?.to_owned(),
            kind: text("/kind")?,
            name: text("/metadata/name")?,
        })
    }
}

// === impl Scene ===

impl Scene {
    /// A scene in a namespace of its own, which is made on the hub.
    pub async fn open(bed: &Arc<Bed>, namespace: &str) -> Result<Self> {
        let scene = Self { bed: bed.clone(), namespace: namespace.to_owned() };
        scene.apply(HUB, [scene.here()]).await?;
        Ok(scene)
    }

    /// The namespace itself.
    pub fn here(&self) -> Value {
        object("Namespace", &self.namespace, json!({}))
    }

    /// A name that no other scene has, for objects of the whole cluster.
    pub fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// A client of a place.
    pub fn client(&self, place: usize) -> &Client {
        if place == HUB { &self.bed.hub.client } else { &self.bed.member(place).client }
    }

    fn api(&self, place: usize, what: &What<'_>) -> Api<DynamicObject> {
        let (group, version) = what.api_version.split_once('/').unwrap_or(("", &what.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, what.kind));
        if CLUSTER_WIDE.contains(&what.kind) {
            Api::all_with(self.client(place).clone(), &resource)
        } else {
            Api::namespaced_with(self.client(place).clone(), &self.namespace, &resource)
        }
    }

    /// Applies objects as a user does; a kind that has just come is waited for.
    pub async fn apply(&self, place: usize, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        for object in objects {
            let what = What::of(&object)?;
            let api = self.api(place, &what);
            let parameters = PatchParams::apply("user").force();
            until(&format!("{} {} is applied", what.kind, what.name), PATIENCE, async || {
                match api.patch(what.name, &parameters, &Patch::Apply(&object)).await {
                    Err(kube::Error::Api(status)) if status.code != 404 && status.code < 500 => {
                        bail!(crate::wait::Final(status.message))
                    }
                    done => Ok(done.map(drop)?),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Says why an object is refused.
    pub async fn refused(&self, object: Value) -> Result<String> {
        match self.apply(HUB, [object]).await {
            Ok(()) => bail!("it was admitted"),
            Err(why) => Ok(format!("{why:#}")),
        }
    }

    /// Changes an object in somebody's name, by a merge patch.
    pub async fn edit(&self, place: usize, what: &str, patch: Value) -> Result<()> {
        let what = What::parse(what)?;
        let parameters = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
        self.api(place, &what).patch(what.name, &parameters, &Patch::Merge(patch)).await.map(drop)?;
        Ok(())
    }

    /// Changes the number of replicas as an autoscaler does.
    pub async fn scale(&self, place: usize, what: &str, replicas: u32) -> Result<()> {
        let what = What::parse(what)?;
        let parameters =
            PatchParams { field_manager: Some("autoscaler".to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.api(place, &what).patch_scale(what.name, &parameters, &patch).await.map(drop)?;
        Ok(())
    }

    /// Deletes objects, if they are there.
    pub async fn delete(&self, place: usize, all: &[&str]) -> Result<()> {
        for what in all {
            let what = What::parse(what)?;
            let parameters = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Background),
                ..DeleteParams::default()
            };
            match self.api(place, &what).delete(what.name, &parameters).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// An object, if it is there.
    pub async fn get(&self, place: usize, what: &str) -> Result<Option<Value>> {
        let what = What::parse(what)?;
        match self.api(place, &what).get_opt(what.name).await? {
            Some(found) => Ok(Some(serde_json::to_value(found)?)),
            None => Ok(None),
        }
    }

    /// An object, which must be there.
    pub async fn find(&self, place: usize, what: &str) -> Result<Value> {
        self.get(place, what).await?.with_context(|| format!("{what} is not in {}", name(place)))
    }

    /// A field of an object, which must be there.
    pub async fn field(&self, place: usize, what: &str, pointer: &str) -> Result<Value> {
        let found = self.find(place, what).await?;
        found.pointer(pointer).cloned().with_context(|| format!("{what} has no {pointer}: {found}"))
    }

    /// Waits until an object is in all of these members.
    pub async fn arrives(&self, members: &[usize], what: &str) -> Result<()> {
        try_join_all(members.iter().map(async |&member| {
            until(&format!("{what} is in {}", name(member)), PATIENCE, async || self.find(member, what).await)
                .await
        }))
        .await
        .map(drop)
    }

    /// Waits until an object is in none of these members any more.
    pub async fn goes(&self, members: &[usize], what: &str) -> Result<()> {
        try_join_all(members.iter().map(async |&member| {
            until(&format!("{what} is gone from {}", name(member)), PATIENCE, async || {
                self.is_absent(&[member], what).await
            })
            .await
        }))
        .await
        .map(drop)
    }

    /// Waits until an object is in these of the members, and then looks that it is in no other.
    pub async fn is_in_exactly(&self, members: &[usize], what: &str) -> Result<()> {
        self.arrives(members, what).await?;
        let others: Vec<_> =
            (1..=self.bed.members.len()).filter(|member| !members.contains(member)).collect();
        self.goes(&others, what).await
    }

    /// Fails unless an object is in none of these members now.
    pub async fn is_absent(&self, members: &[usize], what: &str) -> Result<()> {
        for &member in members {
            let found = self.get(member, what).await?;
            ensure!(found.is_none(), "{what} is in {}: {found:?}", name(member));
        }
        Ok(())
    }

    /// Waits until a field of an object says this; null is a field that is not there.
    pub async fn says(
        &self,
        place: usize,
        what: &str,
        pointer: &str,
        wanted: impl Into<Value>,
    ) -> Result<()> {
        let wanted = wanted.into();
        until(&format!("{pointer} of {what} in {} is {wanted}", name(place)), PATIENCE, async || {
            let found = self.find(place, what).await?;
            let said = found.pointer(pointer).cloned().unwrap_or_default();
            ensure!(said == wanted, "it is {said}");
            Ok(())
        })
        .await
    }

    /// Fails unless a field of an object says this now.
    pub async fn still_says(
        &self,
        place: usize,
        what: &str,
        pointer: &str,
        wanted: impl Into<Value>,
    ) -> Result<()> {
        let (wanted, found) = (wanted.into(), self.find(place, what).await?);
        let said = found.pointer(pointer).cloned().unwrap_or_default();
        ensure!(said == wanted, "{pointer} of {what} in {} is {said}, not {wanted}", name(place));
        Ok(())
    }

    /// Waits until a policy's Propagated condition has this reason, and what it and its clusters say has all of these words.
    pub async fn reports(&self, policy: &str, reason: &str, words: &[&str]) -> Result<()> {
        until(&format!("{policy} reports {reason} {words:?}"), PATIENCE, async || {
            let status = self.field(HUB, policy, "/status").await?;
            let text = status.to_string();
            ensure!(status["conditions"][0]["reason"] == reason, "it says {text}");
            ensure!(words.iter().all(|word| text.contains(word)), "it says {text}");
            Ok(())
        })
        .await
    }

    /// The notes of all events about objects of a name in the namespace.
    pub async fn events(&self, name: &str) -> Result<Vec<String>> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("events.k8s.io", "v1", "Event"));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client(HUB).clone(), &self.namespace, &resource);
        let all = api.list(&Default::default()).await?;
        let about = all.into_iter().filter(|event| event.data["regarding"]["name"] == name);
        Ok(about.map(|event| event.data["note"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Waits until all that was done before has had its effect, as far as one can tell: objects that come later went all the way
    /// to every member, twice.
    pub async fn settles(&self) -> Result<()> {
        let members: Vec<_> = (1..=self.bed.members.len()).collect();
        for _ in 0..2 {
            let marker = config_map("the-marker", json!({ "a": "b" }));
            let policy = places("the-marker", &["ConfigMap the-marker"], &members);
            self.apply(HUB, [marker, policy]).await?;
            self.arrives(&members, "ConfigMap the-marker").await?;
            self.delete(HUB, &["ConfigMap the-marker"]).await?;
            self.goes(&members, "ConfigMap the-marker").await?;
        }
        self.delete(HUB, &["PropagationPolicy the-marker"]).await
    }
}

fn name(place: usize) -> String {
    if place == HUB { "the hub".to_owned() } else { format!("member{place}") }
}

/// The version that a kind is spoken of in.
fn api_version(kind: &str) -> &'static str {
    VERSIONS.iter().find(|(known, _)| kind.starts_with(known)).map_or("v1", |(_, version)| version)
}

/// Whether connections are sent to an endpoint; they are where nothing is said of it.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}
