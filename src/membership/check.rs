//! What is asked before a cluster may become a member: everything is read by [`Found::look`], and [`refusal`] judges it.
//!
//! Invariant: nothing here writes.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Node, Secret},
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde::de::DeserializeOwned;

use super::grant::{Grant, Preset};
use crate::{
    api::{
        Cluster,
        crds::{Role, definitions},
        names::{annotation, label, object},
    },
    decide::{
        admit::cidr::{self, Cidr},
        ids::ClusterName,
        property,
    },
    hub::identity,
    shell::connection,
};

/// A page of Nodes.
const PAGE: u32 = 500;

/// Controllers of the Multi-Cluster Services API that are told by their Deployment: its name, whose it is, and how it goes.
const CONTROLLERS: [(&str, &str, &str); 3] = [
    (
        "submariner-lighthouse-agent",
        "Submariner's Lighthouse",
        "set serviceDiscoveryEnabled: false in its Submariner resource; Submariner's network can stay",
    ),
    (
        "antrea-mc-controller",
        "Antrea Multi-cluster",
        "remove the cluster from its ClusterSet and delete that Deployment",
    ),
    ("cloud-map-mcs-controller-manager", "AWS Cloud Map MCS Controller", "delete that Deployment"),
];

/// What is found in both clusters before anything is written.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Kubernetes' version in the member.
    pub version: String,
    /// What tells the hub's API server from all others.
    pub hub_uid: String,
    /// What tells the member's API server from all others.
    pub member_uid: String,
    /// The member's own ClusterProperty, which is its id if it has one.
    pub property: Option<String>,
    /// The hub's id, if it has one yet.
    pub hub_id: Option<Arc<str>>,
    /// Whose member it says that it is.
    pub marker: Option<Marker>,
    /// The clusters of the hub.
    pub clusters: Vec<Cluster>,
    /// The Secret on the hub that the token would be in.
    pub secret: Option<Secret>,
    /// Other controllers of the Multi-Cluster Services API in the member: what they are, and how they go.
    pub controllers: Vec<(String, String)>,
    /// The ranges of the member's pods, as far as its Nodes say.
    pub pods: Vec<Cidr>,
    /// The API's definitions in the member.
    pub definitions: Vec<CustomResourceDefinition>,
    /// What the hub was granted in the member before.
    pub grant: Option<Grant>,
}

/// Whose member a cluster says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The id of the hub.
    pub hub: String,
    /// The cluster's name there.
    pub cluster: String,
    /// The id that it joined by, if that is noted.
    pub id: Option<String>,
}

/// Why a cluster cannot become the member of that name, in a sentence with the way out; nothing if it can.
pub fn refusal(name: &ClusterName, take_over: bool, found: &Found) -> Option<String> {
    if found.hub_uid == found.member_uid {
        return Some(
            "this is the hub itself, which cannot be its own member; name the member's cluster by --kubeconfig or \
             --context, and the hub by --hub-kubeconfig or --hub-context"
                .to_owned(),
        );
    }
    if let Some(twin) = twin(name, found) {
        return Some(format!(
            "this cluster is a member of this hub already, as {twin}; a cluster can be a member once only: join it as \
             {twin}, or `tombolo unjoin {twin}` first"
        ));
    }
    let elsewhere = || if take_over { None } else { other_hub(found) };
    strange_id(found)
        .or_else(|| taken(name, found))
        .or_else(|| strange_secret(name, found))
        .or_else(elsewhere)
        .or_else(|| other_controller(found))
}

/// Whether the name is that of another cluster.
fn taken(name: &ClusterName, found: &Found) -> Option<String> {
    let cluster = found.cluster(name)?;
    if cluster.metadata.deletion_timestamp.is_some() {
        return Some(format!("Cluster {name} is being deleted; join it when it is gone"));
    }
    let other = cluster.spec.id.as_deref().filter(|id| !found.is_id(id))?;
    Some(format!(
        "Cluster {name} on the hub is another cluster (spec.id {other}, this one is {}); choose another name, or \
         `tombolo unjoin {name}` first",
        found.id()
    ))
}

/// An id that is none by KEP-2149.
fn strange_id(found: &Found) -> Option<String> {
    let id = found.property.as_deref().filter(|id| !property::is_id(id))?;
    Some(format!(
        "its ClusterProperty {} says {id:?}, which is no id: it must be a DNS name in lower case, such as {}, of less than {} \
         characters; correct it, or delete it to be known by the latter",
        property::ID,
        found.member_uid,
        property::LONGEST
    ))
}

fn other_hub(found: &Found) -> Option<String> {
    let Marker { hub, cluster, .. } = found.marker.as_ref()?;
    (Some(&**hub) != found.hub_id.as_deref()).then(|| {
        format!(
            "this cluster is a member of another hub (id {hub}), as {cluster}; `tombolo unjoin {cluster}` there first, or \
             --take-over makes it this hub's: what the other one put there stays, and its token is no longer accepted"
        )
    })
}

fn other_controller(found: &Found) -> Option<String> {
    let (what, way_out) = found.controllers.first()?;
    Some(format!(
        "{what} serves the Multi-Cluster Services API in this cluster already, and two would undo each other's work; to \
         use Tombolo, {way_out}"
    ))
}

fn strange_secret(name: &ClusterName, found: &Found) -> Option<String> {
    let secret = found.secret.as_ref().filter(|secret| !found.is_members(secret, name))?;
    Some(format!(
        "Secret {}/{name} on the hub is not one that `tombolo join` made; choose another name, or remove it",
        secret.namespace().unwrap_or_default()
    ))
}

/// Under which other name the cluster is a member of this hub.
fn twin<'a>(name: &ClusterName, found: &'a Found) -> Option<&'a str> {
    let others = found.clusters.iter().filter(|other| other.name_any() != name.as_str());
    let by_id = others.clone().find(|other| other.spec.id.as_deref().is_some_and(|id| found.is_id(id)));
    // A Cluster that was written by hand may say no id. Without its Cluster, the mark is left over from a member that was
    // given up.
    let marked = found.marker.as_ref().filter(|marker| Some(&*marker.hub) == found.hub_id.as_deref());
    let by_mark =
        || others.clone().find(|other| marked.is_some_and(|marker| marker.cluster == other.name_any()));
    by_id.or_else(by_mark).and_then(|other| other.metadata.name.as_deref())
}

// === impl Found ===

impl Found {
    /// Looks at both clusters.
    pub async fn look(hub: &Client, namespace: &str, member: &Client, name: &ClusterName) -> Result<Self> {
        let version = connection::look(member).await.context("the member cannot be used")?;
        connection::look(hub).await.context("the hub cannot be used")?;
        let clusters: Api<Cluster> = Api::all(hub.clone());
        let clusters = match clusters.list(&ListParams::default()).await {
            Ok(clusters) => clusters.items,
            Err(kube::Error::Api(status)) if status.code == 404 => bail!(
                "the hub does not know the kind Cluster, so Tombolo is not installed there; is it the right cluster? \
                 (--hub-kubeconfig and --hub-context name another; `tombolo crds | kubectl apply --server-side --force-conflicts -f -` \
                 installs the kinds)"
            ),
            Err(e) => return Err(e).context("failed to list the hub's Clusters"),
        };
        let secrets: Api<Secret> = Api::namespaced(hub.clone(), namespace);
        Ok(Self {
            version,
            hub_uid: uid(hub).await.context("failed to tell the hub from other clusters")?,
            member_uid: uid(member).await.context("failed to tell the member from other clusters")?,
            property: property(member).await?,
            hub_id: identity::find(hub, namespace).await?,
            marker: marker(member).await?,
            clusters,
            secret: read(&secrets, name.as_str()).await?,
            controllers: controllers(member).await?,
            pods: pods(member).await?,
            definitions: found_definitions(member).await?,
            grant: granted(member).await?,
        })
    }

    /// The member's id, as it is written into its Cluster.
    pub fn id(&self) -> &str {
        self.property.as_deref().or_else(|| self.noted()).unwrap_or(&self.member_uid)
    }

    /// Whether an id is this member's. It may have been joined before it had a ClusterProperty, or by one that is gone.
    pub fn is_id(&self, id: &str) -> bool {
        id == self.member_uid || self.property.as_deref() == Some(id) || self.noted() == Some(id)
    }

    /// The id that it joined by, if that is noted.
    fn noted(&self) -> Option<&str> {
        self.marker.as_ref()?.id.as_deref()
    }

    /// Whether a Secret on the hub is there for the token of that member: by join's label, or by its Cluster's own word.
    fn is_members(&self, secret: &Secret, name: &ClusterName) -> bool {
        let labelled = secret.labels().get(label::MEMBER).is_some_and(|member| member == name.as_str());
        let named = self.cluster(name).and_then(|cluster| cluster.spec.secret_ref.as_ref());
        labelled
            || named.is_some_and(|it| {
                Some(&it.namespace) == secret.metadata.namespace.as_ref()
                    && Some(&it.name) == secret.metadata.name.as_ref()
            })
    }

    /// The Cluster of that name.
    pub fn cluster(&self, name: &ClusterName) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.name_any() == name.as_str())
    }
}

async fn read<K>(api: &Api<K>, name: &str) -> Result<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    api.get_opt(name).await.with_context(|| format!("failed to read {} {name}", K::kind(&())))
}

/// What tells an API server from all others: kube-system is made once, when the cluster is.
async fn uid(client: &Client) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = read(&namespaces, "kube-system").await?;
    system.and_then(|system| system.uid()).context("it has no namespace kube-system")
}

/// The ClusterProperty that is a cluster's id, by KEP-2149.
async fn property(member: &Client) -> Result<Option<String>> {
    let kinds: Api<CustomResourceDefinition> = Api::all(member.clone());
    let name = format!("{}.{}", property::PLURAL, property::GROUP);
    let Some(kind) = read(&kinds, &name).await? else { return Ok(None) };
    let Some(version) = property::version(&kind) else { return Ok(None) };
    let kind = GroupVersionKind::gvk(property::GROUP, version, "ClusterProperty");
    let resource = ApiResource::from_gvk_with_plural(&kind, property::PLURAL);
    let properties: Api<DynamicObject> = Api::all_with(member.clone(), &resource);
    let found = properties.get_opt(property::ID).await;
    let found = found.with_context(|| format!("failed to read ClusterProperty {}", property::ID))?;
    let value = found.and_then(|found| Some(found.data.pointer("/spec/value")?.as_str()?.to_owned()));
    Ok(value.filter(|value| !value.is_empty()))
}

pub(crate) async fn marker(member: &Client) -> Result<Option<Marker>> {
    let maps: Api<ConfigMap> = Api::namespaced(member.clone(), object::NAMESPACE);
    let Some(marker) = read(&maps, object::MARKER).await? else { return Ok(None) };
    let mut data = marker.data.unwrap_or_default();
    let mut value = |key| data.remove(key).unwrap_or_default();
    Ok(Some(Marker {
        hub: value(object::MARKER_HUB),
        cluster: value(object::MARKER_CLUSTER),
        id: Some(value(object::MARKER_ID)).filter(|id| !id.is_empty()),
    }))
}

pub(crate) async fn controllers(member: &Client) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let deployments: Api<Deployment> = Api::all(member.clone());
    for (name, whose, way_out) in CONTROLLERS {
        let listed = deployments.list(&named(name)).await.context("failed to look for other controllers")?;
        for one in listed {
            let what = format!("{whose} (Deployment {}/{name})", one.namespace().unwrap_or_default());
            found.push((what, way_out.to_owned()));
        }
    }
    let maps: Api<ConfigMap> = Api::all(member.clone());
    let listed = maps.list(&named("cilium-config")).await.context("failed to look for other controllers")?;
    for map in listed {
        let set =
            map.data.iter().any(|data| data.get("clustermesh-enable-mcs-api").is_some_and(|it| it == "true"));
        if set {
            let what = format!("Cilium (ConfigMap {}/cilium-config)", map.namespace().unwrap_or_default());
            let way_out = "turn that off (in its chart clustermesh.mcsapi.enabled, in older ones \
                           clustermesh.enableMCSAPISupport); the rest of Cluster Mesh can stay";
            found.push((what, way_out.to_owned()));
        }
    }
    Ok(found)
}

async fn pods(member: &Client) -> Result<Vec<Cidr>> {
    let nodes: Api<Node> = Api::all(member.clone());
    let (mut ranges, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let page = nodes.list(&params).await.context("failed to list the member's Nodes")?;
        for spec in page.items.into_iter().filter_map(|node| node.spec) {
            let several = spec.pod_cidrs.unwrap_or_default();
            ranges
                .extend(several.iter().chain(&spec.pod_cidr).filter_map(|range| range.parse::<Cidr>().ok()));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(cidr::joined(ranges)),
        }
    }
}

async fn found_definitions(member: &Client) -> Result<Vec<CustomResourceDefinition>> {
    let api: Api<CustomResourceDefinition> = Api::all(member.clone());
    let mut found = Vec::new();
    for ours in definitions(Role::Member) {
        found.extend(read(&api, &ours.name_any()).await?);
    }
    Ok(found)
}

/// What the hub was granted before; rules that cannot be read any more are left out.
pub(crate) async fn granted(member: &Client) -> Result<Option<Grant>> {
    let roles: Api<ClusterRole> = Api::all(member.clone());
    let Some(role) = read(&roles, object::HUB).await? else { return Ok(None) };
    let preset = role.annotations().get(annotation::GRANT).and_then(|name| Preset::named(name));
    let extra =
        role.annotations().get(annotation::GRANT_RULES).and_then(|rules| serde_json::from_str(rules).ok());
    Ok(preset.map(|preset| Grant { preset, extra: extra.unwrap_or_default() }))
}

#[cfg(test)]
mod tests;
