//! What a cluster exports, in the words of the KEP.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::jiff::Timestamp;

use crate::decide::{ids::ClusterName, ports::Port};

/// A valid ServiceExport with the Service behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Export {
    // The order of the first two fields is the order of precedence (KEP-1645 G2).
    /// When the ServiceExport was made.
    pub created: Created,
    /// Where it is. A cluster has one export of a service; if several are given the oldest counts.
    pub cluster: ClusterName,
    /// What is exported.
    pub service: ServiceSpec,
}

/// When a ServiceExport was made: its `creationTimestamp`, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Created(i64);

/// What consumers are told of a service: of one cluster's or of the merged one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceSpec {
    /// Whether it has an address of its own.
    pub service_type: ServiceType,
    /// Its ports, in the order of the Service.
    pub ports: Vec<Port>,
    /// Its session affinity, with the timeout.
    pub session_affinity: SessionAffinity,
    /// Its internal traffic policy.
    pub internal_traffic_policy: InternalTrafficPolicy,
    /// Its traffic distribution, if it is set.
    pub traffic_distribution: Option<Arc<str>>,
    /// Its families, the preferred one first. None if they are not known, which limits nothing.
    pub ip_families: Vec<IpFamily>,
    /// The ServiceExport's `exportedLabels`; never the objects' own (KEP-1645 B7).
    pub labels: BTreeMap<String, String>,
    /// The ServiceExport's `exportedAnnotations`; never the objects' own (KEP-1645 B7).
    pub annotations: BTreeMap<String, String>,
}

/// Whether a service has an address of its own (KEP-1645 D1, D2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceType {
    /// It has.
    #[default]
    ClusterSetIp,
    /// It has none; its pods are found by DNS.
    Headless,
}

/// Whether a client stays with one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionAffinity {
    /// It does not.
    #[default]
    None,
    /// It does, known by its address.
    ClientIp {
        /// For how long.
        timeout_seconds: u32,
    },
}

/// Which endpoints a client in a cluster may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InternalTrafficPolicy {
    /// All. Kubernetes' default.
    #[default]
    Cluster,
    /// Those on its own node.
    Local,
}

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

// === impl Created ===

impl From<Timestamp> for Created {
    fn from(time: Timestamp) -> Self {
        Self(time.as_second())
    }
}

impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_second(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

macro_rules! written {
    ($type:ty { $($value:pat => $text:literal),+ $(,)? }) => {
        impl $type {
            /// As Kubernetes writes it.
            pub fn as_str(self) -> &'static str {
                match self { $($value => $text),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

written!(ServiceType { Self::ClusterSetIp => "ClusterSetIP", Self::Headless => "Headless" });
written!(SessionAffinity { Self::None => "None", Self::ClientIp { .. } => "ClientIP" });
written!(InternalTrafficPolicy { Self::Cluster => "Cluster", Self::Local => "Local" });
written!(IpFamily { Self::V4 => "IPv4", Self::V6 => "IPv6" });
