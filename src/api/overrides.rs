//! `policy.karmada.io`: [`OverridePolicy`] and [`ClusterOverridePolicy`], which say how copies differ by cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    kind::kind,
    placement::ClusterAffinity,
    propagation::{GROUP, PolicyStatus, ResourceSelector},
    schema, wire,
};

kind! {
    /// Changes copies of objects of its own namespace, cluster by cluster.
    OverridePolicy: NamespaceResourceScope, GROUP, "v1alpha1", "overridepolicies", OverrideSpec, PolicyStatus
}

kind! {
    /// Changes copies of objects of any namespace, and of none, cluster by cluster.
    ClusterOverridePolicy: ClusterResourceScope, GROUP, "v1alpha1", "clusteroverridepolicies", OverrideSpec, PolicyStatus
}

/// What is changed, where and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideSpec {
    /// What the policy is about; everything when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The changes, applied in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<OverrideRule>,
    /// Older way to name the clusters. Not together with `overrideRules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Older way to name the changes. Not together with `overrideRules`.
    #[serde(skip_serializing_if = "wire::is_default")]
    pub overriders: Overriders,
}

/// Changes for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// The clusters; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// The changes.
    pub overriders: Overriders,
}

/// Changes, applied by kind: image, command, args, labels, annotations, field, plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Overriders {
    /// Changes at any path, as JSON patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Changes of image names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Changes of containers' commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Changes of containers' arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Changes of labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes of annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes inside a string that holds a JSON or YAML document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

/// A change at a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// A JSON pointer into the object.
    pub path: String,
    /// What is done there.
    pub operator: Operator,
    /// The value to add or to put in place, anything but `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_value")]
    pub value: Option<Value>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// What is done.
    pub operator: Operator,
    /// The keys it is done to, with their values. Of a removal only the keys count.
    pub value: BTreeMap<String, String>,
}

/// A change of image names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Which images; every one in the pod template when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The part of the name.
    pub component: ImageComponent,
    /// What is done to it.
    pub operator: Operator,
    /// The value to add or to put in place.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub value: Option<String>,
}

/// Which image is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePredicate {
    /// A JSON pointer to the image's name.
    pub path: String,
}

/// A part of an image's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ImageComponent {
    /// `registry.example:5000` of `registry.example:5000/team/app:v1`.
    #[default]
    Registry,
    /// `team/app` of it.
    Repository,
    /// `v1` of it, or a digest.
    Tag,
    /// A part of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// A change of a container's command or arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgsOverrider {
    /// The container's name.
    pub container_name: String,
    /// What is done.
    pub operator: AddRemove,
    /// The words to add or to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// Changes inside a string that holds a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// A JSON pointer to the string.
    pub field_path: String,
    /// Changes of a JSON document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<DocumentPatch>,
    /// Changes of a YAML document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<DocumentPatch>,
}

/// A change at a path of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentPatch {
    /// A JSON pointer into the document.
    pub sub_path: String,
    /// What is done there.
    pub operator: Operator,
    /// The value to add or to put in place, anything but `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_value")]
    pub value: Option<Value>,
}

/// What a change does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// Adds.
    #[default]
    Add,
    /// Removes.
    Remove,
    /// Replaces.
    Replace,
    /// An operator of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// What a change of a list of words does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddRemove {
    /// Adds.
    #[default]
    Add,
    /// Removes.
    Remove,
    /// An operator of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}
