//! What is kept of slices: of imported ones what a plan compares, of source ones whose they are.

use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::ObjectMeta;
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::trust;
use crate::{
    api::names::{annotation, label},
    decide::{
        change::Change,
        derived,
        freshness::Mark,
        ids::{ClusterName, ServiceKey},
    },
};

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
    /// Its ports.
    pub ports: Box<[PortSeen]>,
    /// The origin of the export that it is made by.
    pub template: Option<Box<str>>,
    /// What it says of its cluster's silence.
    pub mark: Option<Mark>,
    /// Whether all its addresses are in the ranges of its cluster.
    pub within: bool,
    /// Whether a watch by our label no longer shows it: it is gone, or has only lost the label.
    pub doubted: bool,
}

/// A port of an imported slice: name, number and protocol.
pub type PortSeen = (Box<str>, i32, Box<str>);

// === impl SliceSeen ===

impl SliceSeen {
    /// The service of an imported slice, and what is kept of it.
    pub fn of(slice: &EndpointSlice) -> Option<(ServiceKey, Self)> {
        let (key, from) = imported_by_labels(slice)?;
        Some((key, Self::from(slice, &from)?))
    }

    /// What is kept of a slice that is known to be of a cluster, whatever its labels say.
    pub(in crate::decide::exchange) fn from(slice: &EndpointSlice, cluster: &ClusterName) -> Option<Self> {
        if !trust::is_modest(slice) {
            return None;
        }
        Some(Self {
            uid: slice.metadata.uid.as_deref()?.into(),
            resource_version: slice.metadata.resource_version.as_deref()?.into(),
            cluster: cluster.clone(),
            sum: sum(slice),
            fixed: fixed(slice),
            ports: ports(slice).collect(),
            template: note(slice, annotation::EXPORT_TEMPLATE).map(Into::into),
            mark: Mark::of(slice),
            within: true,
            doubted: false,
        })
    }

    /// Whether it is an earlier state of the same object.
    pub(in crate::decide::exchange) fn is_older_than(&self, other: &Self) -> bool {
        let number = |version: &str| version.parse::<u64>().unwrap_or_default();
        self.uid == other.uid && number(&self.resource_version) < number(&other.resource_version)
    }
}

fn note<'a>(slice: &'a EndpointSlice, name: &str) -> Option<&'a str> {
    slice.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn ports(slice: &EndpointSlice) -> impl Iterator<Item = PortSeen> {
    let ports = slice.ports.iter().flatten();
    ports.map(|port| {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        (text(&port.name), port.port.unwrap_or_default(), text(&port.protocol))
    })
}

/// What of a slice cannot be changed in place.
pub(in crate::decide::exchange) fn fixed(slice: &EndpointSlice) -> (Box<str>, Box<str>) {
    use crate::api::names::kubernetes::SERVICE_NAME;
    let labels = slice.metadata.labels.as_ref();
    let service = labels.and_then(|labels| labels.get(SERVICE_NAME)).map(String::as_str).unwrap_or_default();
    (slice.address_type.as_str().into(), service.into())
}

/// What a slice says, as a number: two slices of the same number need no write. Which change it was last written for does not count.
pub(in crate::decide::exchange) fn sum(slice: &EndpointSlice) -> [u8; 16] {
    let EndpointSlice { metadata, address_type, endpoints, ports } = slice;
    let annotations =
        [annotation::EXPORT_TEMPLATE, annotation::STALE, annotation::SERVED].map(|name| note(slice, name));
    let ports = ports.as_deref().unwrap_or_default();
    let body = json!([metadata.labels, annotations, address_type, endpoints, ports]).to_string();
    let mut sum = [0; 16];
    sum.copy_from_slice(&digest(&SHA256, body.as_bytes()).as_ref()[..16]);
    sum
}

/// The service of an imported slice and the cluster that it is from, by its labels; none where they do not fit its name, which nobody can
/// change.
pub(in crate::decide::exchange) fn imported_by_labels(
    slice: &EndpointSlice,
) -> Option<(ServiceKey, ClusterName)> {
    use crate::api::names::mcs;
    let ObjectMeta { name, namespace, labels, .. } = &slice.metadata;
    let labels = labels.as_ref()?;
    let key = ServiceKey::parse(namespace.as_deref()?, labels.get(mcs::SERVICE_NAME)?).ok()?;
    let from = labels.get(mcs::SOURCE_CLUSTER)?.parse().ok()?;
    derived::is_slice_name(&key, &from, name.as_deref()?).then_some((key, from))
}

/// The service of a source slice: by its name, since anybody can change the label that says it too.
pub fn source_key(slice: &EndpointSlice) -> Option<ServiceKey> {
    source_label(slice)?;
    let service = derived::source_of(slice.metadata.name.as_deref()?)?;
    ServiceKey::parse(slice.metadata.namespace.as_deref()?, service).ok()
}

/// The service that a source slice says it is of.
pub(in crate::decide::exchange) fn source_label(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.as_ref()?.get(label::SOURCE).map(String::as_str)
}

/// What is kept of a source slice's metadata: its name, its service and the change that it was last written for.
pub(in crate::decide::exchange) fn source_metadata(
    key: &ServiceKey,
    name: &str,
    change: Option<&Change>,
) -> ObjectMeta {
    let change = change.map(|change| BTreeMap::from([(annotation::CHANGE.to_owned(), change.to_string())]));
    ObjectMeta {
        annotations: change,
        namespace: Some(key.namespace.to_string()),
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(label::SOURCE.to_owned(), key.name.to_string())])),
        ..ObjectMeta::default()
    }
}
