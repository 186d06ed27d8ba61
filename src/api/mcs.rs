//! `multicluster.x-k8s.io`: [`ServiceExport`] and [`ServiceImport`], as upstream has them in v0.5.2.
//!
//! Both versions have one schema, so one Rust type serves both. Its [`Version`] is kube's dynamic type:
//! `Api::<ServiceExport>::all_with(client, &Version::V1Alpha1)` talks to a cluster that has only the older one.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Resource,
    core::{DynamicResourceScope, ObjectMeta},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{kind, schema, wire};

/// The group of both kinds.
pub const GROUP: &str = "multicluster.x-k8s.io";

/// A version of the API. Storage is v1beta1; CoreDNS and older clusters know only v1alpha1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    /// Served and stored.
    #[default]
    #[serde(rename = "multicluster.x-k8s.io/v1beta1")]
    V1Beta1,
    /// Served.
    #[serde(rename = "multicluster.x-k8s.io/v1alpha1")]
    V1Alpha1,
}

/// Asks that the Service of the same name be offered to the other clusters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceExport {
    /// The version in which the object was read, or is to be written.
    #[serde(rename = "apiVersion")]
    pub version: Version,
    /// Name, namespace, labels, annotations and so on.
    pub metadata: ObjectMeta,
    /// What is exported besides the Service itself; mostly absent.
    pub spec: ServiceExportSpec,
    /// What became of the export.
    pub status: Option<ServiceExportStatus>,
}

/// What a ServiceExport adds to its Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceExportSpec {
    /// Labels that the imported Service is to carry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_labels: BTreeMap<String, String>,
    /// Annotations that the imported Service is to carry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_annotations: BTreeMap<String, String>,
}

/// What became of an export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceExportStatus {
    /// Valid, Ready and Conflict, one of each at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A Service of other clusters, as it is served in this one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceImport {
    /// The version in which the object was read, or is to be written.
    #[serde(rename = "apiVersion")]
    pub version: Version,
    /// Name, namespace, labels, annotations and so on.
    pub metadata: ObjectMeta,
    /// What is served.
    pub spec: ServiceImportSpec,
    /// Where it comes from, and whether it is served.
    pub status: Option<ServiceImportStatus>,
}

/// What an imported Service offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportSpec {
    /// The ports that are served.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<ServicePort>,
    /// The addresses in this cluster, at most one of each family. Empty when headless.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ips: Vec<String>,
    /// Whether there is an address for the whole or one for each pod.
    #[serde(rename = "type")]
    pub type_: ServiceImportType,
    /// Whether a client stays with an endpoint: ClientIP or None. Means nothing when headless.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub session_affinity: Option<String>,
    /// For how long a client stays with an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// The address families, primary first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ip_families: Vec<String>,
    /// Whether traffic from within this cluster may leave its node: Cluster or Local.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub internal_traffic_policy: Option<String>,
    /// Which endpoints are preferred, in the words of a Service's own field.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub traffic_distribution: Option<String>,
}

/// A port of an imported Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The port's name, unique in its Service. May be left out where there is only one port.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub name: Option<String>,
    /// TCP, UDP or SCTP; TCP when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub protocol: Option<String>,
    /// What is spoken on the port, such as `http` or `kubernetes.io/h2c`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "wire::unset_if_default")]
    pub app_protocol: Option<String>,
    /// The port's number.
    pub port: i32,
}

/// How session affinity works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionAffinityConfig {
    /// Affinity by the client's address.
    #[serde(rename = "clientIP", skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<ClientIpConfig>,
}

/// How affinity by the client's address works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// Seconds for which a client stays with its endpoint, 1 to 86400; 10800 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// How an imported Service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ServiceImportType {
    /// By an address of its own.
    #[default]
    ClusterSetIP,
    /// By the addresses of its pods.
    Headless,
    /// A type of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

/// Where an import comes from, and whether it is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportStatus {
    /// The clusters whose endpoints are served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub clusters: Vec<SourceCluster>,
    /// Ready, and what Tombolo has to add to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether the endpoints are in EndpointSlices of this cluster (KEP-1645, since May 2026).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_slice_objects: Option<EndpointSliceObjects>,
}

/// A cluster that an import comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceCluster {
    /// The cluster's name.
    pub cluster: String,
}

/// Whether an import's endpoints are to be found in EndpointSlices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EndpointSliceObjects {
    /// They are.
    #[default]
    Present,
    /// They are kept elsewhere.
    Absent,
    /// A value of a release to come.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

// === impl Version ===

impl Version {
    /// The version without its group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Alpha1 => "v1alpha1",
        }
    }
}

// === impl ServiceExport, ServiceImport ===

macro_rules! versioned {
    ($Kind:ident, $Spec:ty, $plural:literal, $spec_is_written:expr) => {
        impl $Kind {
            /// An object of that name to be written in that version, without status.
            pub fn new(version: Version, namespace: &str, name: &str, spec: $Spec) -> Self {
                let metadata = ObjectMeta {
                    namespace: Some(namespace.to_owned()),
                    name: Some(name.to_owned()),
                    ..Default::default()
                };
                Self { version, metadata, spec, status: None }
            }
        }

        impl Resource for $Kind {
            type DynamicType = Version;
            type Scope = DynamicResourceScope;

            fn kind(_: &Version) -> Cow<'_, str> {
                stringify!($Kind).into()
            }
            fn group(_: &Version) -> Cow<'_, str> {
                GROUP.into()
            }
            fn version(version: &Version) -> Cow<'_, str> {
                version.name().into()
            }
            fn plural(_: &Version) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Serialize for $Kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let spec_is_written: fn(&$Spec) -> bool = $spec_is_written;
                let api_version = Self::api_version(&self.version);
                kind::root(
                    serializer,
                    &api_version,
                    stringify!($Kind),
                    &self.metadata,
                    spec_is_written(&self.spec).then_some(&self.spec),
                    self.status.as_ref(),
                )
            }
        }
    };
}

// Most exports have no spec; an apply of theirs must not give them one.
versioned!(ServiceExport, ServiceExportSpec, "serviceexports", |spec| !wire::is_default(spec));
versioned!(ServiceImport, ServiceImportSpec, "serviceimports", |_| true);
