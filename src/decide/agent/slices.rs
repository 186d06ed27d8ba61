//! Source slices: what this cluster's own pods offer, one for each slice of an exported Service; and how slices become what they are to be.
//!
//! [`sources`] says which are to be there, [`steps`] what is to be done about those that are. A second look at the same slices does nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::core::ObjectMeta;

use crate::{
    api::names::{kubernetes, label, mcs},
    decide::{
        change::Change,
        derived::source_name,
        ids::{ClusterName, ServiceKey},
        merge::{IpFamily, ServiceSpec},
    },
};

/// Who marks slices of other clusters as its own; such slices are not this cluster's pods.
const MESHES: [&str; 6] =
    ["cilium.io", "fleet.azure.com", "karmada.io", "linkerd.io", "submariner.io", "tombolo.dev"];
/// As many characters of a hash as names of our slices end with.
const HASH: usize = 10;

/// What is done about a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is made.
    Create(EndpointSlice),
    /// It is replaced, if it is still as it was seen.
    Replace(EndpointSlice),
    /// The first goes, and then the second is made: what differs cannot be changed.
    Remake(Arc<EndpointSlice>, EndpointSlice),
    /// It goes.
    Delete(Arc<EndpointSlice>),
}

// === impl Step ===

impl Step {
    /// The same, with the change that it is taken for on the slice that is written.
    #[must_use]
    pub fn stamped(mut self, change: &Change) -> Self {
        match &mut self {
            Self::Create(slice) | Self::Replace(slice) | Self::Remake(_, slice) => change.put(slice),
            Self::Delete(_) => {}
        }
        self
    }
}

/// Whether a slice of a Service counts as this cluster's own endpoints.
pub fn is_original(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.iter().flatten();
    let foreign = |(key, value): (&String, &String)| {
        let within =
            |mesh: &str| value.strip_suffix(mesh).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let mesh = || MESHES.iter().any(|mesh| within(mesh));
        key.starts_with(mcs::PREFIX) || key == label::SOURCE || (key == kubernetes::MANAGED_BY && mesh())
    };
    !labels.into_iter().any(foreign) && matches!(slice.address_type.as_str(), "IPv4" | "IPv6")
}

/// Whether a slice is a source slice of ours for a service, going by its labels and its name.
pub fn is_source(key: &ServiceKey, slice: &EndpointSlice) -> bool {
    labelled(slice, label::SOURCE, key.name.as_str())
        && labelled(slice, kubernetes::MANAGED_BY, kubernetes::MANAGED_BY_AGENT)
        && unhashed(key, slice) == Some("source")
}

/// Whether a slice is an imported one of ours: what an import has of this cluster's own endpoints, whatever the cluster was called when it
/// was made.
pub fn is_own(key: &ServiceKey, slice: &EndpointSlice) -> bool {
    labelled(slice, mcs::SERVICE_NAME, key.name.as_str())
        && labelled(slice, kubernetes::MANAGED_BY, kubernetes::MANAGED_BY_AGENT)
        && !is_source(key, slice)
        && unhashed(key, slice).is_some_and(|cluster| cluster.parse::<ClusterName>().is_ok())
}

fn labelled(slice: &EndpointSlice, key: &str, value: &str) -> bool {
    slice.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
}

/// What stands between the service and the hash in the name of a slice of ours.
fn unhashed<'a>(key: &ServiceKey, slice: &'a EndpointSlice) -> Option<&'a str> {
    let digit = |c: char| c.is_ascii_digit() || ('a'..='v').contains(&c);
    let rest = slice.metadata.name.as_deref()?.strip_prefix(key.name.as_str())?.strip_prefix('-')?;
    let (between, hash) = rest.rsplit_once('-')?;
    (hash.len() == HASH && hash.chars().all(digit)).then_some(between)
}

/// The source slices of a Service: one for each of its slices, in parts of so many endpoints at most; where it has none, an empty
/// one for each of its families.
pub fn sources<'a>(
    key: &ServiceKey,
    service: &ServiceSpec,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    most: usize,
) -> Vec<EndpointSlice> {
    let originals: BTreeMap<_, _> = slices
        .into_iter()
        .filter(|slice| is_original(slice))
        .map(|slice| (slice.metadata.name.as_deref().unwrap_or_default(), slice))
        .collect();
    let mut sources: Vec<_> =
        originals.iter().flat_map(|(name, slice)| parts(key, name, slice, most)).collect();
    if sources.is_empty() {
        let families: &[_] =
            if service.ip_families.is_empty() { &[IpFamily::V4] } else { &service.ip_families };
        // No object can be called so, hence no slice either.
        sources.extend(families.iter().map(|family| {
            let name = source_name(key, family.as_str(), 0);
            source(key, name, family.as_str(), &[], Vec::new())
        }));
    }
    sources.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    sources
}

fn parts(key: &ServiceKey, name: &str, slice: &EndpointSlice, most: usize) -> Vec<EndpointSlice> {
    let ports: Vec<_> = slice.ports.iter().flatten().map(port).collect();
    let part = |number: usize, endpoints: &[Endpoint]| {
        source(key, source_name(key, name, number), &slice.address_type, endpoints, ports.clone())
    };
    if slice.endpoints.is_empty() {
        return vec![part(0, &[])];
    }
    slice
        .endpoints
        .chunks(most.max(1))
        .enumerate()
        .map(|(number, endpoints)| part(number, endpoints))
        .collect()
}

fn source(
    key: &ServiceKey,
    name: String,
    address_type: &str,
    endpoints: &[Endpoint],
    ports: Vec<EndpointPort>,
) -> EndpointSlice {
    let labels = [
        (label::SOURCE, key.name.as_str()),
        // kube-proxy ignores what is marked so.
        (kubernetes::HEADLESS, ""),
        (kubernetes::MANAGED_BY, kubernetes::MANAGED_BY_AGENT),
    ];
    EndpointSlice {
        metadata: ObjectMeta {
            namespace: Some(key.namespace.to_string()),
            name: Some(name),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        address_type: address_type.to_owned(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        ports: Some(ports),
    }
}

fn port(port: &EndpointPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        ..port.clone()
    }
}

/// An endpoint as others see it: a reference to a pod means nothing elsewhere, and hints are this cluster's own.
fn endpoint(endpoint: &Endpoint) -> Endpoint {
    Endpoint {
        addresses: endpoint.addresses.clone(),
        conditions: Some(endpoint.conditions.clone().unwrap_or_default()),
        hostname: endpoint.hostname.clone(),
        node_name: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        ..Endpoint::default()
    }
}

/// What is to be done so that these slices are there and no others of `ours`. `found` gives what has a name now, whosever it looks.
pub fn steps(
    wanted: Vec<EndpointSlice>,
    ours: &[Arc<EndpointSlice>],
    found: impl Fn(&str) -> Option<Arc<EndpointSlice>>,
) -> Vec<Step> {
    let name = |slice: &EndpointSlice| slice.metadata.name.clone().unwrap_or_default();
    let names: BTreeSet<_> = wanted.iter().map(name).collect();
    let mut steps = Vec::new();
    for slice in wanted {
        match found(&name(&slice)) {
            None => steps.push(Step::Create(slice)),
            Some(there) if remade(&slice, &there) => steps.push(Step::Remake(there, slice)),
            Some(there) if same(&slice, &there) => {}
            Some(there) => steps.push(Step::Replace(replaced(slice, &there))),
        }
    }
    let left = ours.iter().filter(|slice| !names.contains(&name(slice)));
    steps.extend(left.map(|slice| Step::Delete(slice.clone())));
    steps
}

/// Whether a slice has to go before it can be what it is to be: its family cannot change, and kube-proxy keeps an old Service's entry.
fn remade(wanted: &EndpointSlice, there: &EndpointSlice) -> bool {
    wanted.address_type != there.address_type || service_of(wanted) != service_of(there)
}

fn service_of(slice: &EndpointSlice) -> Option<&String> {
    slice.metadata.labels.as_ref()?.get(kubernetes::SERVICE_NAME)
}

/// Whether a slice is what it is to be. Labels that others added do not count, unless they mean something to Kubernetes; nor do
/// annotations, such as the change that it was last written for.
fn same(wanted: &EndpointSlice, there: &EndpointSlice) -> bool {
    let none = BTreeMap::new();
    let (labels, found) =
        (wanted.metadata.labels.as_ref().unwrap_or(&none), there.metadata.labels.as_ref().unwrap_or(&none));
    let marks = [kubernetes::HEADLESS, mcs::SERVICE_NAME, mcs::SOURCE_CLUSTER, label::SOURCE];
    labels.iter().all(|(key, value)| found.get(key) == Some(value))
        && marks.iter().all(|mark| labels.contains_key(*mark) || !found.contains_key(*mark))
        && wanted.ports.as_deref().unwrap_or_default() == there.ports.as_deref().unwrap_or_default()
        && wanted.endpoints.len() == there.endpoints.len()
        && wanted.endpoints.iter().zip(&there.endpoints).all(|(wanted, there)| alike(wanted, there))
}

fn alike(wanted: &Endpoint, there: &Endpoint) -> bool {
    let whole = |endpoint: &Endpoint| Endpoint {
        conditions: Some(endpoint.conditions.clone().unwrap_or_default()),
        ..endpoint.clone()
    };
    whole(wanted) == whole(there)
}

/// A slice as it is to be, in place of the one that is there: labels that others added stay.
fn replaced(wanted: EndpointSlice, there: &EndpointSlice) -> EndpointSlice {
    let marks = [kubernetes::HEADLESS, mcs::SERVICE_NAME, mcs::SOURCE_CLUSTER, label::SOURCE];
    let mut labels = there.metadata.labels.clone().unwrap_or_default();
    labels.retain(|key, _| !marks.contains(&key.as_str()));
    labels.extend(wanted.metadata.labels.clone().unwrap_or_default());
    let metadata = ObjectMeta { labels: Some(labels), managed_fields: None, ..there.metadata.clone() };
    EndpointSlice { metadata, ..wanted }
}
