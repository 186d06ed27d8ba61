//! What is kept of the objects that members have: as much as a plan needs, and only what can be believed.

mod slice;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

pub use self::slice::{PortSeen, SliceSeen, source_key};
pub(super) use self::slice::{fixed, imported_by_labels, source_label, source_metadata, sum};
use super::trust::{self, Reason, Refused, short};
use crate::{
    api::{
        ServiceExport, ServiceImport,
        mcs::{self, ServiceImportSpec},
        names::{annotation, condition},
    },
    decide::{
        action::Observed,
        copy::{ObjectKey, Origin, Ownership, ownership},
        derived,
        ids::{ClusterName, ServiceKey},
        merge::{AcceptedName, AcceptedNames, Created, ServiceSpec},
        ports::PortKey,
        record::{self, Unreadable},
        select::GroupKind,
    },
};

/// The longest message that a condition may have.
const LONGEST_MESSAGE: usize = 32768;

/// A ServiceExport in a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportSeen {
    /// Its UID.
    pub uid: Box<str>,
    /// Its version.
    pub resource_version: u64,
    /// When it was made.
    pub created: Created,
    /// What is exported by it.
    pub offered: Offered,
    /// Its origin, where it is a copy which goes with its template.
    pub template: Option<Arc<str>>,
    /// Its conditions, as they stand.
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
    /// Something that is not believed.
    Refused(Refused),
    /// Something in a namespace that takes no part: whatever it is counts for nothing.
    Excluded,
}

/// A ServiceImport in a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportSeen {
    /// Its UID.
    pub uid: Box<str>,
    /// Its version.
    pub resource_version: u64,
    /// Whether its agent says that it serves it as it is now.
    pub settled: bool,
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
    /// What we say on a user's own.
    pub exchanged: Option<Condition>,
    /// Why it is not believed, if it is not; then nothing of it is kept but that it is there.
    pub refused: Option<Refused>,
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
        let valid = conditions.iter().find(is(condition::VALID)).map(|valid| valid.status.as_str());
        let kept = |condition: &&Condition| {
            [condition::VALID, condition::READY, condition::CONFLICT].contains(&condition.type_.as_str())
                && condition.message.len() <= LONGEST_MESSAGE
        };
        let written = conditions.iter().filter(kept).cloned().collect();
        if let Err(refused) = trust::check_export(export) {
            return Self::of_refused(metadata, refused, written);
        }
        let record =
            annotations.and_then(|all| all.get(annotation::EXPORT_RECORD)).map(|text| record::read(text));
        let offered = match record {
            Some(Ok(service)) => Offered::Service(Box::new(ServiceSpec {
                labels: export.spec.exported_labels.clone(),
                annotations: export.spec.exported_annotations.clone(),
                ..service
            })),
            Some(Err(unknown @ (Unreadable::Newer(_) | Unreadable::Missing))) => Offered::Unreadable(unknown),
            Some(Err(garbage @ Unreadable::Garbage(_))) => {
                Offered::Refused(Refused { reason: Reason::Garbage, why: garbage.to_string() })
            }
            None => match valid {
                Some("False") => Offered::Nothing,
                Some("True") => Offered::Unreadable(Unreadable::Missing),
                _ => Offered::Pending,
            },
        };
        let observed = Observed::of(&object_key(export_kind(), key), metadata, hub);
        let stays = observed.adopted || observed.held.preserve;
        Some(Self {
            uid: metadata.uid.as_deref()?.into(),
            resource_version: version(metadata),
            created: metadata.creation_timestamp.as_ref()?.0.into(),
            offered,
            template: match observed.ownership {
                Ownership::Ours(origin) if !stays => Some(origin.text().into()),
                _ => None,
            },
            conditions: written,
        })
    }

    /// Whether it is an earlier state of the same object.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version < other.resource_version
    }

    /// Whether nothing changed but its version.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let Self { uid, resource_version: _, created, offered, template, conditions } = self;
        (uid, created, offered, template, conditions)
            == (&other.uid, &other.created, &other.offered, &other.template, &other.conditions)
    }

    /// What is kept of a ServiceExport that is not believed: that it is there.
    fn of_refused(metadata: &ObjectMeta, refused: Refused, conditions: Vec<Condition>) -> Option<Self> {
        Some(Self {
            uid: short(metadata.uid.as_deref()?).into(),
            resource_version: version(metadata),
            created: metadata.creation_timestamp.as_ref()?.0.into(),
            offered: Offered::Refused(refused),
            template: None,
            conditions,
        })
    }

    /// It is in a namespace that takes no part: nothing of it is kept but that it is there.
    pub(super) fn excluded(self) -> Self {
        Self { offered: Offered::Excluded, template: None, ..self }
    }

    /// Why it is not believed, if it is not.
    pub fn refused(&self) -> Option<&Refused> {
        match &self.offered {
            Offered::Refused(refused) => Some(refused),
            _ => None,
        }
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
        if let Err(refused) = trust::check_import(import) {
            return Self::of_refused(metadata, refused);
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
            resource_version: version(metadata),
            settled: is_settled(import),
            whose,
            derived: announced.filter(|name| derived::is_name(key, name)).map(|name| name.as_str().into()),
            spec: ServiceImportSpec { ips: Vec::new(), ip_families: Vec::new(), ..import.spec.clone() },
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations,
            clusters: clusters.iter().filter_map(|source| source.cluster.parse().ok()).collect(),
            exchanged: status.and_then(|status| {
                status.conditions.iter().find(|told| told.type_ == condition::EXCHANGED).cloned()
            }),
            refused: None,
        })
    }

    /// What is kept of a ServiceImport that is not believed: that it is there, and not ours to write.
    fn of_refused(metadata: &ObjectMeta, refused: Refused) -> Option<Self> {
        Some(Self {
            uid: short(metadata.uid.as_deref()?).into(),
            resource_version: version(metadata),
            settled: false,
            whose: Whose::Others,
            derived: None,
            spec: ServiceImportSpec::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            clusters: BTreeSet::new(),
            exchanged: None,
            refused: Some(refused),
        })
    }

    /// Whether it is an earlier state of the same object.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version < other.resource_version
    }

    /// Whether nothing changed but its version.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        *self == Self { resource_version: self.resource_version, ..other.clone() }
    }

    /// The names that its ports were accepted under, as they are written.
    pub(super) fn port_names(&self) -> Option<&str> {
        self.annotations.get(annotation::PORT_NAMES).map(String::as_str)
    }

    /// The names that its ports were accepted under.
    pub fn accepted(&self) -> AcceptedNames {
        self.port_names().map(read_names).unwrap_or_default()
    }

    /// The clusters that offer no Service by their exports, and that it is kept for too.
    pub(super) fn kept_for(&self) -> BTreeSet<ClusterName> {
        let noted = self.annotations.get(annotation::KEPT_FOR).map(String::as_str).unwrap_or_default();
        noted.split(',').filter_map(|name| name.parse().ok()).collect()
    }

    /// What it was made of, where this hub made it; without a template it was made by itself.
    pub(super) fn origin(&self, hub: &Arc<str>, key: &ServiceKey) -> Option<Origin> {
        let Whose::Ours { template, crd } = &self.whose else { return None };
        Some(Origin {
            hub: hub.clone(),
            template: template.clone().unwrap_or_default(),
            crd: crd.clone(),
            object: object_key(import_kind(), key),
        })
    }

    /// Whether this hub made it.
    pub fn is_ours(&self) -> bool {
        matches!(self.whose, Whose::Ours { .. })
    }
}

/// Whether the agent says of a ServiceImport that it serves it as it is.
fn is_settled(import: &ServiceImport) -> bool {
    let conditions = import.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.into_iter().filter(|condition| condition.type_ == condition::READY);
    // One that looked and could not change the Service has seen it, too.
    ready.any(|ready| ready.status == "True" && ready.observed_generation >= import.metadata.generation)
}

fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The origin that a slice or an export carries.
pub(super) fn origin(text: &str, key: &ServiceKey, hub: &str) -> Option<Origin> {
    let noted = BTreeMap::from([(annotation::ORIGIN.to_owned(), text.to_owned())]);
    match ownership(&noted, &object_key(export_kind(), key), hub) {
        Ownership::Ours(origin) => Some(origin),
        _ => None,
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
