//! What is kept of the objects that members have: as much as a plan needs, and only what can be believed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::Condition};
use kube::core::ObjectMeta;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{
    api::{
        ServiceExport, ServiceImport,
        mcs::{self, ServiceImportSpec},
        names::{annotation, condition, label},
    },
    decide::{
        copy::{ObjectKey, Ownership, ownership},
        derived,
        ids::{ClusterName, ServiceKey},
        merge::{AcceptedName, AcceptedNames, Created, ServiceSpec},
        ports::PortKey,
        record::{self, Unreadable},
        select::GroupKind,
    },
};

/// A ServiceExport in a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportSeen {
    /// Its UID.
    pub uid: Box<str>,
    /// When it was made.
    pub created: Created,
    /// What is exported by it.
    pub offered: Offered,
    /// The UID of the hub's template that it is a copy of.
    pub template: Option<Arc<str>>,
    /// The conditions that the hub writes, as they stand.
    pub conditions: Vec<Condition>,
}

/// What a ServiceExport exports.
#[derive(Clone, Debug, PartialEq)]
pub enum Offered {
    /// A Service.
    Service(Box<ServiceSpec>),
    /// Nothing: there is no Service of that name, or none that can be exported.
    Nothing,
    /// The member's agent has not said yet.
    Pending,
    /// Something that is not understood.
    Unreadable(Unreadable),
}

/// A ServiceImport in a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportSeen {
    /// Its UID.
    pub uid: Box<str>,
    /// Whose it is.
    pub whose: Whose,
    /// The derived Service that the agent announced, if it is one that can be.
    pub derived: Option<Box<str>>,
    /// What it says, without what the agent writes.
    pub spec: ServiceImportSpec,
    /// Its labels and annotations.
    pub labels: BTreeMap<String, String>,
    /// See `labels`.
    pub annotations: BTreeMap<String, String>,
    /// The clusters that it says it is made of.
    pub clusters: BTreeSet<ClusterName>,
}

/// Whose a ServiceImport is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This hub's.
    Ours {
        /// The UID of its template on the hub; none where it was made without one.
        template: Option<Arc<str>>,
        /// The UID of the hub's CustomResourceDefinition.
        crd: Option<Arc<str>>,
    },
    /// A user's.
    Users,
    /// Another hub's, or a newer release's.
    Others,
}

/// An imported slice in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSeen {
    /// Its UID.
    pub uid: Box<str>,
    /// Its version.
    pub resource_version: Box<str>,
    /// The cluster that it is from.
    pub cluster: ClusterName,
    /// What it says, as a number.
    pub sum: [u8; 16],
    /// What cannot be changed in place: its family and the Service that it belongs to.
    pub fixed: (Box<str>, Box<str>),
}

/// The kind ServiceImport.
pub fn import_kind() -> GroupKind {
    GroupKind { group: mcs::GROUP.into(), kind: "ServiceImport".into() }
}

/// The kind ServiceExport.
pub fn export_kind() -> GroupKind {
    GroupKind { group: mcs::GROUP.into(), kind: "ServiceExport".into() }
}

/// The object of a kind that belongs to a service.
pub fn object_key(kind: GroupKind, key: &ServiceKey) -> ObjectKey {
    ObjectKey { kind, namespace: key.namespace.as_str().into(), name: key.name.as_str().into() }
}

/// The service that an object belongs to by its name.
pub fn service_key(metadata: &ObjectMeta) -> Option<ServiceKey> {
    ServiceKey::parse(metadata.namespace.as_deref()?, metadata.name.as_deref()?).ok()
}

// === impl ExportSeen ===

impl ExportSeen {
    /// What is kept of a ServiceExport; none if it is on its way out.
    pub fn of(key: &ServiceKey, export: &ServiceExport, hub: &str) -> Option<Self> {
        let metadata = &export.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let annotations = metadata.annotations.as_ref();
        let conditions =
            export.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is = |kind: &'static str| move |condition: &&Condition| condition.type_ == kind;
        let invalid =
            conditions.iter().find(is(condition::VALID)).is_some_and(|valid| valid.status == "False");
        let offered = match annotations
            .and_then(|all| all.get(annotation::EXPORT_RECORD))
            .map(|text| record::read(text))
        {
            Some(Ok(service)) => Offered::Service(Box::new(ServiceSpec {
                labels: export.spec.exported_labels.clone(),
                annotations: export.spec.exported_annotations.clone(),
                ..service
            })),
            Some(Err(unreadable)) => Offered::Unreadable(unreadable),
            None if invalid => Offered::Nothing,
            None => Offered::Pending,
        };
        let owner = annotations.map(|all| ownership(all, &object_key(export_kind(), key), hub));
        let ours = |condition: &&Condition| {
            [condition::READY, condition::CONFLICT].contains(&condition.type_.as_str())
        };
        Some(Self {
            uid: metadata.uid.as_deref()?.into(),
            created: metadata.creation_timestamp.as_ref()?.0.into(),
            offered,
            template: match owner {
                Some(Ownership::Ours(origin)) => Some(origin.template),
                _ => None,
            },
            conditions: conditions.iter().filter(ours).cloned().collect(),
        })
    }

    /// The Service that it exports.
    pub fn service(&self) -> Option<&ServiceSpec> {
        match &self.offered {
            Offered::Service(service) => Some(service),
            _ => None,
        }
    }
}

// === impl ImportSeen ===

impl ImportSeen {
    /// What is kept of a ServiceImport; none if it is on its way out.
    pub fn of(key: &ServiceKey, import: &ServiceImport, hub: &str) -> Option<Self> {
        let metadata = &import.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let whose = match ownership(&annotations, &object_key(import_kind(), key), hub) {
            Ownership::Ours(origin) => {
                Whose::Ours { template: Some(origin.template).filter(|uid| !uid.is_empty()), crd: origin.crd }
            }
            Ownership::None => Whose::Users,
            Ownership::Newer | Ownership::OtherHub(_) => Whose::Others,
        };
        let announced = annotations.get(crate::api::names::mcs::DERIVED_SERVICE);
        let status = import.status.as_ref();
        let clusters = status.map(|status| status.clusters.as_slice()).unwrap_or_default();
        Some(Self {
            uid: metadata.uid.as_deref()?.into(),
            whose,
            derived: announced.filter(|name| derived::is_name(key, name)).map(|name| name.as_str().into()),
            spec: ServiceImportSpec { ips: Vec::new(), ip_families: Vec::new(), ..import.spec.clone() },
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations,
            clusters: clusters.iter().filter_map(|source| source.cluster.parse().ok()).collect(),
        })
    }

    /// The names that its ports were accepted under.
    pub fn accepted(&self) -> AcceptedNames {
        let text = self.annotations.get(annotation::PORT_NAMES);
        text.map(|text| read_names(text)).unwrap_or_default()
    }

    /// Whether this hub made it.
    pub fn is_ours(&self) -> bool {
        matches!(self.whose, Whose::Ours { .. })
    }
}

/// Accepted names as an annotation: `[["http",80,"TCP","member1"], …]`.
pub(super) fn write_names(names: &AcceptedNames) -> String {
    let names = names.iter().map(|(key, accepted)| {
        let by = accepted.given_by.as_ref().map(ToString::to_string);
        json!([accepted.name.to_string(), key.port, key.protocol.to_string(), by])
    });
    Value::Array(names.collect()).to_string()
}

/// What makes no sense is left out: a name is only kept for its users' comfort.
fn read_names(text: &str) -> AcceptedNames {
    let entries: Vec<(String, u16, String, Option<String>)> = serde_json::from_str(text).unwrap_or_default();
    let names = entries.into_iter().filter_map(|(name, port, protocol, by)| {
        let key = PortKey { port, protocol: protocol.parse().ok()? };
        let given_by = by.and_then(|by| by.parse().ok());
        Some((key, AcceptedName { name: name.parse().ok()?, given_by }))
    });
    names.collect()
}

// === impl SliceSeen ===

impl SliceSeen {
    /// The service of an imported slice, and what is kept of it.
    pub fn of(slice: &EndpointSlice) -> Option<(ServiceKey, Self)> {
        use crate::api::names::mcs;
        let labels = slice.metadata.labels.as_ref()?;
        let key =
            ServiceKey::parse(slice.metadata.namespace.as_deref()?, labels.get(mcs::SERVICE_NAME)?).ok()?;
        let seen = Self {
            uid: slice.metadata.uid.as_deref()?.into(),
            resource_version: slice.metadata.resource_version.as_deref()?.into(),
            cluster: labels.get(mcs::SOURCE_CLUSTER)?.parse().ok()?,
            sum: sum(slice),
            fixed: fixed(slice),
        };
        Some((key, seen))
    }
}

/// What of a slice cannot be changed in place.
pub(super) fn fixed(slice: &EndpointSlice) -> (Box<str>, Box<str>) {
    use crate::api::names::kubernetes::SERVICE_NAME;
    let labels = slice.metadata.labels.as_ref();
    let service = labels.and_then(|labels| labels.get(SERVICE_NAME)).map(String::as_str).unwrap_or_default();
    (slice.address_type.as_str().into(), service.into())
}

/// What a slice says, as a number: two slices of the same number need no write.
pub(super) fn sum(slice: &EndpointSlice) -> [u8; 16] {
    let EndpointSlice { metadata, address_type, endpoints, ports } = slice;
    let annotations = metadata.annotations.as_ref().and_then(|all| all.get(annotation::EXPORT_TEMPLATE));
    let ports = ports.as_deref().unwrap_or_default();
    let body = json!([metadata.labels, annotations, address_type, endpoints, ports]).to_string();
    let mut sum = [0; 16];
    sum.copy_from_slice(&digest(&SHA256, body.as_bytes()).as_ref()[..16]);
    sum
}

/// The service of a source slice.
pub fn source_key(slice: &EndpointSlice) -> Option<ServiceKey> {
    let service = slice.metadata.labels.as_ref()?.get(label::SOURCE)?;
    ServiceKey::parse(slice.metadata.namespace.as_deref()?, service).ok()
}
