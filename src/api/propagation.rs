//! `policy.karmada.io`: [`PropagationPolicy`] and [`ClusterPropagationPolicy`], which say what goes to which clusters.
//!
//! Both have one spec. A namespaced policy selects in its own namespace; any of them beats any cluster-wide one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{kind::kind, placement::Placement, schema, wire};

/// The group of all policies.
pub const GROUP: &str = "policy.karmada.io";
/// The only scheduler there is.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

kind! {
    /// Sends objects of its own namespace to clusters.
    PropagationPolicy: NamespaceResourceScope, GROUP, "v1alpha1", "propagationpolicies", PropagationSpec, PolicyStatus
}

kind! {
    /// Sends objects of any namespace, and of none, to clusters.
    ClusterPropagationPolicy: ClusterResourceScope, GROUP, "v1alpha1", "clusterpropagationpolicies", PropagationSpec, PolicyStatus
}

/// What goes to which clusters, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// What the policy is about: an object is if any selector matches it.
    #[schemars(length(min = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Older name of `propagateDeps`.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub association: bool,
    /// Whether what a workload refers to, such as its ConfigMaps, goes along.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub propagate_deps: bool,
    /// The clusters, and the replicas in each.
    #[serde(default, skip_serializing_if = "wire::is_default")]
    pub placement: Placement,
    /// Of several policies that match, the one with the highest priority holds.
    #[serde(default)]
    pub priority: i32,
    /// Whether the policy takes over what a policy of lower priority already holds.
    #[serde(default)]
    pub preemption: Preemption,
    /// OverridePolicies that must exist before anything is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// Who chooses the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    #[schemars(extend("default" = DEFAULT_SCHEDULER))]
    pub scheduler_name: Option<String>,
    /// What happens when a workload, or a whole cluster, fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// What happens to an object of the same name that a cluster already has.
    #[serde(default)]
    pub conflict_resolution: ConflictResolution,
    /// When a change of the policy takes effect; at once when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// What is held back for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether the clusters keep their copies when the template is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Whose clusters are chosen first when many wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
}

/// Selects objects: by name if one is given, else by labels, else all of the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// Group and version of the kind. The version does not matter.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, by name or glob; any when absent. Of a namespaced policy, its own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub namespace: Option<String>,
    /// The object's name or a glob. With it, `labelSelector` means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub name: Option<String>,
    /// The object's labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// Whether a policy takes over what another holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Preemption {
    /// It does not.
    #[default]
    Never,
    /// It does, by priority.
    Always,
    /// A behaviour of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// What happens to an object that a cluster already has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConflictResolution {
    /// It stays, and the policy's status says so.
    #[default]
    Abort,
    /// It is overwritten.
    Overwrite,
    /// A resolution of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// When a change of a policy takes effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ActivationPreference {
    /// With the next change of the template.
    Lazy,
    /// A preference of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// What is held back: everything, or what goes to some clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Suspension {
    /// Nothing is sent anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Nothing is sent to these clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendedClusters>,
}

/// Clusters that nothing is sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspendedClusters {
    /// Their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// What happens when a workload or a cluster fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Failover {
    /// A workload fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailover>,
    /// A cluster fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailover>,
}

/// How a failed workload moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailover {
    /// When a workload counts as failed.
    pub decision_conditions: DecisionConditions,
    /// When the old copy goes.
    #[serde(default)]
    pub purge_mode: ApplicationPurgeMode,
    /// Seconds that the old copy is kept at most, where it goes gracefully.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// What the new copy takes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// How the workloads of a failed cluster move.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterFailover {
    /// When the old copy goes.
    pub purge_mode: ClusterPurgeMode,
    /// What the new copy takes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// When a workload counts as failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecisionConditions {
    /// Seconds that it may be unhealthy.
    pub toleration_seconds: i32,
}

/// When the old copy of a failed workload goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ApplicationPurgeMode {
    /// When the new one is healthy.
    #[default]
    Gracefully,
    /// At once.
    Directly,
    /// Only by a person's hand.
    Never,
    /// Older name of Directly.
    Immediately,
    /// Older name of Gracefully.
    Graciously,
    /// A mode of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// When the old copies in a failed cluster go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPurgeMode {
    /// When the new one is healthy.
    #[default]
    Gracefully,
    /// At once.
    Directly,
    /// A mode of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// What a moved workload takes over from its old copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservation {
    /// One rule a value.
    pub rules: Vec<StatePreservationRule>,
}

/// A value that a moved workload takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// The label by which the new copy gets the value.
    pub alias_label_name: String,
    /// Where the value is in the old copy's status.
    pub json_path: String,
}

/// Whose clusters are chosen first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePriority {
    /// What kind of class is named.
    pub priority_class_source: PriorityClassSource,
    /// The class's name.
    pub priority_class_name: String,
}

/// Where a priority class comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassSource {
    /// A PriorityClass of the hub.
    KubePriorityClass,
    /// A source of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// What became of a policy. Karmada's have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// The generation of the policy that the rest speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many objects the policy holds for: those that it matches and no stronger policy does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<i32>,
    /// What each cluster made of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub clusters: Vec<ClusterOutcome>,
    /// The policy as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What a cluster made of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOutcome {
    /// The cluster's name.
    pub name: String,
    /// Objects that are to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub wanted: Option<i32>,
    /// Objects that are there as wanted.
    #[schemars(range(min = 0))]
    pub applied: i32,
    /// Objects that could not be written.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Why the first of them could not, in the cluster's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What could not be written, and why; of a policy of which much could not be, the first hundred in all clusters together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// An object that could not be written to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The object, such as `ConfigMap shop/one`.
    pub object: String,
    /// Why it could not be written, in the cluster's own words.
    pub message: String,
}

// === impl DecisionConditions ===

impl Default for DecisionConditions {
    fn default() -> Self {
        Self { toleration_seconds: 300 }
    }
}
