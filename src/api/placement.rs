//! Where objects go: the `placement` of a policy.

use k8s_openapi::{
    api::core::v1::{NodeSelectorRequirement, Toleration},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{schema, wire};

/// Which clusters get what a policy selects, and how many replicas each. Empty means all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// The clusters to choose from. Not together with `clusterAffinities`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups of clusters in order of preference: the first that will do is taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// The taints of clusters that do not matter here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How the chosen clusters spread over regions, zones and providers, and how many they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// What becomes of `spec.replicas` in each cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaScheduling>,
    /// Which workloads go together, and which keep apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// Chooses clusters. All that is given must hold; nothing given means all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinity {
    /// By the labels of the Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// By provider, region and zone of the Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// By name or glob.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// Clusters, by name or glob, that are left out in any case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Chooses clusters by their fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldSelector {
    /// Conditions that must all hold, on the keys `provider`, `region` and `zone`, by In and NotIn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::node_selector_requirements")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// One of several groups of clusters, with a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// The group's name, unique in its policy.
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// The clusters of the group.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Groups that take what does not fit into this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowAffinity>,
}

/// A group of clusters that takes what does not fit into another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverflowAffinity {
    /// The group's name.
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// The clusters of the group.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

/// How many groups of clusters are chosen, and what makes a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// A group is all clusters with the same value of this field. Not together with `spreadByLabel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadField>,
    /// A group is all clusters with the same value of this label.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub spread_by_label: Option<String>,
    /// Groups at most.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    #[schemars(transform = schema::without_format)]
    pub max_groups: Option<i64>,
    /// Groups at least; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    #[schemars(transform = schema::without_format)]
    pub min_groups: Option<i64>,
}

/// What makes a group of clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpreadField {
    /// Each cluster is a group.
    Cluster,
    /// `spec.region`.
    Region,
    /// `spec.zones`.
    Zone,
    /// `spec.provider`.
    Provider,
    /// A field of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// How replicas are shared out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaScheduling {
    /// Whether each cluster gets all replicas or a share of them.
    pub replica_scheduling_type: ReplicaSchedulingType,
    /// How shares are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// The clusters' weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<WeightPreference>,
}

/// Whether each cluster gets all replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaSchedulingType {
    /// Each gets a share.
    #[default]
    Divided,
    /// Each gets all.
    Duplicated,
    /// A type of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// How replicas are divided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaDivisionPreference {
    /// Over as few clusters as there is room in.
    Aggregated,
    /// By weight.
    Weighted,
    /// A preference of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// The weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightPreference {
    /// Weights that stay as they are written here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticWeight>,
    /// Weights that follow the clusters' state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeight>,
}

/// The weight of some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticWeight {
    /// The clusters that it holds for.
    pub target_cluster: ClusterAffinity,
    /// The weight of each.
    #[schemars(range(min = 1))]
    pub weight: i64,
}

/// What weights follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DynamicWeight {
    /// The number of replicas that a cluster has room for.
    AvailableReplicas,
    /// A factor of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// Which workloads go together, and which keep apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinity {
    /// Workloads of a group go to the same clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadGroup>,
    /// Workloads of a group go to different clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadGroup>,
}

/// Workloads that have the same value of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadGroup {
    /// The label's key.
    pub group_by_label_key: String,
}
