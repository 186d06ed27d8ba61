//! `cluster.karmada.io`: [`Cluster`], a member. In Karmada an aggregated API, here a CustomResourceDefinition.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Condition},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{kind::kind, schema, wire};

/// The group of Cluster.
pub const GROUP: &str = "cluster.karmada.io";

kind! {
    /// A member cluster.
    Cluster: ClusterResourceScope, GROUP, "v1alpha1", "clusters", ClusterSpec, ClusterStatus
}

/// What a member is and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// What tells this cluster from all others: its ClusterProperty or the UID of its kube-system.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    #[schemars(length(max = 128_000))]
    pub id: Option<String>,
    /// Who carries objects to the cluster.
    pub sync_mode: SyncMode,
    /// Address of the API server, such as `https://10.0.0.1:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub api_endpoint: Option<String>,
    /// Secret with `token` and `caBundle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Secret with the `token` of an impersonator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<SecretReference>,
    /// Trusts any certificate that the API server shows.
    #[serde(rename = "insecureSkipTLSVerification", default, skip_serializing_if = "wire::is_default")]
    pub insecure_skip_tls_verification: bool,
    /// Proxy on the way to the API server.
    #[serde(
        rename = "proxyURL",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "wire::unset_if_default"
    )]
    pub proxy_url: Option<String>,
    /// Headers that the proxy asks for. Several values of one are separated by commas.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_header: BTreeMap<String, String>,
    /// Who runs the cluster, for `fieldSelector` and spreading.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub provider: Option<String>,
    /// Where the cluster is, for `fieldSelector` and spreading.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub region: Option<String>,
    /// Older name of `zones`, for a single one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub zone: Option<String>,
    /// The zones that the cluster is in, for `fieldSelector` and spreading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Keeps away what does not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
    /// Sizes by which nodes are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_models: Vec<ResourceModel>,
}

/// Who carries objects to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// The hub writes them.
    #[default]
    Push,
    /// The cluster's agent fetches them.
    Pull,
    /// A mode of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// A Secret on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A size of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModel {
    /// Its place among the sizes, from 0.
    #[schemars(transform = schema::int32_from_zero)]
    pub grade: u32,
    /// What a node of this size has.
    pub ranges: Vec<ResourceModelRange>,
}

/// How much of a resource a node has: `min` or more and less than `max`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModelRange {
    /// The resource, such as `cpu`.
    pub name: String,
    /// The least.
    #[schemars(schema_with = "schema::quantity")]
    pub min: Quantity,
    /// What it stays below. Of the last size this means nothing.
    #[schemars(schema_with = "schema::quantity")]
    pub max: Quantity,
}

/// What is known of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Version of its API server.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub kubernetes_version: Option<String>,
    /// The kinds that it serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<ApiEnablement>,
    /// Ready, AgentReady and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// What its nodes have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// What is to be done about the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

/// Kinds that a cluster serves in a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    /// Group and version.
    pub group_version: String,
    /// The kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResource>,
}

/// A kind that a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// Its plural name, as in URLs.
    pub name: String,
    /// The kind.
    pub kind: String,
}

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// How many there are.
    #[serde(skip_serializing_if = "wire::is_default")]
    pub total_num: i32,
    /// How many of them are ready.
    #[serde(skip_serializing_if = "wire::is_default")]
    pub ready_num: i32,
}

/// What the nodes of a cluster have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSummary {
    /// In all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Asked for by pods that wait for a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocating: BTreeMap<String, Quantity>,
    /// Taken by pods that have a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocated: BTreeMap<String, Quantity>,
    /// Nodes by size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// How many nodes of a size have room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatableModeling {
    /// The size's grade.
    #[schemars(transform = schema::int32_from_zero)]
    pub grade: u32,
    /// How many.
    pub count: i32,
}
