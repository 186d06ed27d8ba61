//! ClusterProperties: where a cluster has the kind (KEP-2149), it says who the cluster is and which clusterset it belongs to.
//!
//! [`keep`] is the only entry. Both properties belong to the hub's ClusterRole, so that they go with the membership even if no agent runs any
//! more: without that role there is no membership, and nothing is made. Properties of others are left as they are. Nothing else is
//! ever called by a name of `k8s.io`.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use k8s_openapi::{
    api::{core::v1::Namespace, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use serde_json::{Value, json};

use super::{Agent, Joined};
use crate::{
    api::names::object,
    decide::{
        agent::MANAGER,
        property::{Due, Found, GROUP, ID, PLURAL, SET, due, version},
    },
    membership::account::MANAGED_BY,
    shell::lease::Claim,
};

/// After a failure it is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// Between two looks: who writes against us does not make us write without end.
const QUIET: Duration = Duration::from_secs(1);

/// Where properties are, in the version that the cluster speaks.
struct Properties {
    resource: ApiResource,
    api: Api<DynamicObject>,
}

/// What is to be said of this cluster.
struct Membership {
    /// The UID of the ClusterRole that the properties belong to.
    role: String,
    /// The value of each property. The id is there first: it must be as long as the other is.
    values: [(&'static str, String); 2],
}

/// Keeps the properties while this agent leads; never ends by itself.
pub(super) async fn keep(agent: Arc<Agent>, claim: Claim) {
    let (mut hub, mut leads) = (agent.hub.subscribe(), claim.changes());
    let mut definitions = pin!(definitions(&agent));
    let (mut properties, mut changes) = (None, stream::pending().boxed());
    loop {
        let leading = *leads.borrow_and_update();
        let (joined, mut failed) = (hub.borrow_and_update().clone(), false);
        if let (true, Some(properties), Some(joined)) = (leading, &properties, joined) {
            if let Err(e) = agent.say(properties, joined).await {
                tracing::warn!("failed to keep the ClusterProperties, trying again: {e:#}");
                failed = true;
            }
            tokio::time::sleep(QUIET).await;
        }
        tokio::select! {
            changed = hub.changed() => if changed.is_err() { return },
            changed = leads.changed() => if changed.is_err() { return },
            found = definitions.next() => {
                let Some(found) = found else { return };
                properties = found.map(|version| Properties::new(&agent, &version));
                let read = properties.as_ref().map(|found| Api::all_with(agent.reader.clone(), &found.resource));
                changes = read.map_or_else(|| stream::pending().boxed(), |read| changed(read).boxed());
            }
            Some(()) = changes.next() => {}
            () = tokio::time::sleep(PAUSE), if failed => {}
        }
    }
}

/// The version in which the cluster speaks of properties, whenever that changes.
fn definitions(agent: &Agent) -> impl Stream<Item = Option<String>> + use<> {
    let api: Api<CustomResourceDefinition> = Api::all(agent.reader.clone());
    let only = watcher::Config::default().fields(&format!("metadata.name={PLURAL}.{GROUP}"));
    let events = watcher::watcher(api, only).default_backoff();
    events.filter_map(async |event| match event {
        Ok(Event::InitApply(found) | Event::Apply(found)) => Some(version(&found).map(str::to_owned)),
        Ok(Event::Delete(_)) => Some(None),
        Ok(Event::Init | Event::InitDone) => None,
        Err(e) => {
            tracing::warn!("the watch of the definition of ClusterProperties broke, trying again: {e:#}");
            None
        }
    })
}

/// Says whenever a property changed.
fn changed(api: Api<DynamicObject>) -> impl Stream<Item = ()> {
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    events.filter_map(async |event| match event {
        Ok(Event::Init | Event::InitApply(_)) => None,
        Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(()),
        Err(e) => {
            tracing::debug!("the watch of ClusterProperties broke, trying again: {e:#}");
            None
        }
    })
}

// === impl Agent ===

impl Agent {
    /// Makes both properties say what they should.
    async fn say(&self, properties: &Properties, joined: Joined) -> kube::Result<()> {
        let Some(membership) = self.membership(joined).await? else { return Ok(()) };
        for (name, value) in &membership.values {
            let found = properties.api.get_opt(name).await?.map(|found| membership.found(&found));
            let due = due(found.as_ref(), value);
            match due {
                Due::Nothing => {}
                // A cluster that has an id already is known by that one.
                Due::Foreign if *name == ID => {}
                Due::Foreign => {
                    let says = found.map(|found| found.value).unwrap_or_default();
                    tracing::warn!(
                        "ClusterProperty {name} is not Tombolo's and says {says:?}, where {value:?} is to be said: delete it if it is \
                         left over from another clusterset"
                    );
                }
                Due::Create | Due::Repair => {
                    let property = membership.property(&properties.resource, name, value);
                    // What somebody else makes at the same moment is his.
                    let params = PatchParams { force: due == Due::Repair, ..PatchParams::apply(MANAGER) };
                    properties.api.patch(name, &params, &Patch::Apply(&property)).await?;
                    self.metrics.wrote(PLURAL);
                    tracing::info!(property = name, value, "written");
                }
            }
        }
        Ok(())
    }

    /// What is to be said; nothing if the cluster is no member of a hub.
    async fn membership(&self, joined: Joined) -> kube::Result<Option<Membership>> {
        let roles: Api<ClusterRole> = Api::all(self.reader.clone());
        let role = roles.get_opt(object::HUB).await?;
        let Some(role) = role.filter(|role| role.metadata.deletion_timestamp.is_none()) else {
            return Ok(None);
        };
        let id = match joined.id {
            Some(id) => id,
            // Joined by an older release.
            None => {
                let namespaces: Api<Namespace> = Api::all(self.reader.clone());
                namespaces.get("kube-system").await?.uid().unwrap_or_default()
            }
        };
        Ok(role.uid().map(|role| Membership { role, values: [(ID, id), (SET, joined.hub)] }))
    }
}

// === impl Properties ===

impl Properties {
    fn new(agent: &Agent, version: &str) -> Self {
        let kind = GroupVersionKind::gvk(GROUP, version, "ClusterProperty");
        let resource = ApiResource::from_gvk_with_plural(&kind, PLURAL);
        Self { api: Api::all_with(agent.writer.clone(), &resource), resource }
    }
}

// === impl Membership ===

impl Membership {
    fn found(&self, property: &DynamicObject) -> Found {
        let value =
            property.data.pointer("/spec/value").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ours = property.labels().get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1);
        Found { value, ours, owned: property.owner_references().iter().any(|owner| owner.uid == self.role) }
    }

    fn property(&self, resource: &ApiResource, name: &str, value: &str) -> Value {
        let owner = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": object::HUB,
                            "uid": self.role });
        json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name, "labels": { MANAGED_BY.0: MANAGED_BY.1 }, "ownerReferences": [owner] },
            "spec": { "value": value },
        })
    }
}
