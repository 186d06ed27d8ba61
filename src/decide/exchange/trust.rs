//! A member's data is hostile until checked: addresses that would lead into other clusters' own machinery, and sizes that
//! would hurt whoever reads them.
//!
//! What is refused is refused as a whole, and never causes a deletion: the last good one stays.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::ObjectMeta;

use crate::{
    api::{ServiceExport, ServiceImport, names::mcs},
    decide::{
        admit::cidr::Cidr,
        ids::{ClusterName, PortName, ServiceName},
        select::labels::{key_fault_of, value_fault},
    },
};

/// As many endpoints as an API server stores in a slice.
const ENDPOINTS: usize = 1000;
/// As many ports as a slice may have, of the 20,000 that an API server stores: as many as an export.
const PORTS: usize = 1000;
/// As many addresses as an API server stores in an endpoint.
const ADDRESSES: usize = 100;
/// The longest name of a node or zone, and the longest UID or version.
const LONGEST: usize = 253;
/// As many bytes of annotations as an API server stores.
const ANNOTATIONS: usize = 256 << 10;
/// As many bytes of labels as anybody has. API servers bound their number only by the size of the whole.
const LABELS: usize = 64 << 10;
/// As many bytes of exported labels and annotations as are taken to other clusters.
const EXPORTED: usize = 128 << 10;
/// As many ports as a ServiceImport may have, and as many clusters.
const MANY: usize = 1000;

/// What is wrong with an object of a member: few enough to be counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is in a namespace that takes no part.
    Namespace,
    /// It says that it is another cluster's.
    Claim,
    /// It has an address that leads to no pod.
    Address,
    /// It has an address outside the cluster's ranges.
    Range,
    /// It is larger than anything that an API server stores.
    Size,
    /// It makes no sense.
    Garbage,
}

/// Why an object of a member is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// In a word.
    pub reason: Reason,
    /// In words.
    pub why: String,
}

// === impl Reason ===

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Namespace, Self::Claim, Self::Address, Self::Range, Self::Size, Self::Garbage];

    /// As metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Claim => "claim",
            Self::Address => "address",
            Self::Range => "range",
            Self::Size => "size",
            Self::Garbage => "garbage",
        }
    }
}

// === impl Refused ===

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

fn refused<T>(reason: Reason, why: impl fmt::Display) -> Result<T, Refused> {
    Err(Refused { reason, why: why.to_string() })
}

/// Checks a source slice that came by a cluster's link; where ranges are given its addresses must be in one of them.
pub(super) fn check(
    cluster: &ClusterName,
    slice: &EndpointSlice,
    ranges: Option<&[Cidr]>,
) -> Result<(), Refused> {
    metadata(&slice.metadata)?;
    let labels = slice.metadata.labels.as_ref();
    if let Some(other) =
        labels.and_then(|all| all.get(mcs::SOURCE_CLUSTER)).filter(|name| **name != cluster.as_str())
    {
        return refused(Reason::Claim, format_args!("it says that it is of cluster {:?}", short(other)));
    }
    let ports = slice.ports.as_deref().unwrap_or_default();
    if slice.endpoints.len() > ENDPOINTS || ports.len() > PORTS {
        let (endpoints, ports) = (slice.endpoints.len(), ports.len());
        return refused(Reason::Size, format_args!("it has {endpoints} endpoints and {ports} ports"));
    }
    check_ports(slice)?;
    check_endpoints(slice)?;
    match outside(slice, ranges) {
        Some(address) => {
            refused(Reason::Range, format_args!("{address} is in none of the cluster's endpoint ranges"))
        }
        None => Ok(()),
    }
}

fn check_ports(slice: &EndpointSlice) -> Result<(), Refused> {
    let mut names = BTreeSet::new();
    for port in slice.ports.as_deref().unwrap_or_default() {
        let name = port.name.as_deref().unwrap_or_default();
        if let Err(e) = name.parse::<PortName>() {
            return refused(Reason::Garbage, e);
        }
        if !names.insert(name) {
            return refused(Reason::Garbage, format_args!("it has two ports of the name {name:?}"));
        }
        if let Some(number) = port.port.filter(|number| !(1..=65535).contains(number)) {
            return refused(Reason::Garbage, format_args!("it has port {number}"));
        }
        let application =
            port.app_protocol.as_ref().filter(|text| key_fault_of("a protocol", text).is_some());
        if let Some(text) = port.protocol.as_ref().filter(|text| !is_name(text)).or(application) {
            return refused(Reason::Garbage, format_args!("{:?} is no protocol", short(text)));
        }
    }
    Ok(())
}

fn check_endpoints(slice: &EndpointSlice) -> Result<(), Refused> {
    let v6 = match slice.address_type.as_str() {
        "IPv4" => false,
        "IPv6" => true,
        other => {
            return refused(Reason::Garbage, format_args!("it has addresses of type {:?}", short(other)));
        }
    };
    for endpoint in &slice.endpoints {
        if endpoint.addresses.is_empty() || endpoint.addresses.len() > ADDRESSES {
            let number = endpoint.addresses.len();
            return refused(Reason::Size, format_args!("it has an endpoint of {number} addresses"));
        }
        for text in &endpoint.addresses {
            let Ok(address) = text.parse::<IpAddr>() else {
                return refused(Reason::Garbage, format_args!("{:?} is no address", short(text)));
            };
            if let Some(what) = special(address) {
                return refused(Reason::Address, format_args!("{address} is {what}"));
            }
            if address.is_ipv6() != v6 {
                let family = &slice.address_type;
                return refused(Reason::Garbage, format_args!("{address} is not of type {family}"));
            }
        }
        let names = [&endpoint.hostname, &endpoint.node_name, &endpoint.zone];
        // Of these an API server looks at a host's alone: it is a label, as a Service's is.
        let host = endpoint.hostname.as_ref().filter(|name| name.parse::<ServiceName>().is_err());
        if let Some(name) = names.into_iter().flatten().find(|name| !is_name(name)).or(host) {
            let reason = if name.len() > LONGEST { Reason::Size } else { Reason::Garbage };
            return refused(reason, format_args!("{:?} names no host, node or zone", short(name)));
        }
    }
    Ok(())
}

/// The first address of a slice that is in none of the ranges; none where no ranges are given.
pub(super) fn outside(slice: &EndpointSlice, ranges: Option<&[Cidr]>) -> Option<IpAddr> {
    let ranges = ranges?;
    let addresses = slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
    let mut addresses = addresses.filter_map(|text| text.parse::<IpAddr>().ok());
    addresses.find(|address| !ranges.iter().any(|range| range.contains(*address)))
}

/// Checks a ServiceExport: what it says goes to other clusters.
pub(super) fn check_export(export: &ServiceExport) -> Result<(), Refused> {
    metadata(&export.metadata)?;
    let (labels, annotations) = (&export.spec.exported_labels, &export.spec.exported_annotations);
    let bytes = size(labels) + size(annotations);
    if bytes > EXPORTED {
        let why = format_args!("it exports {bytes} bytes of labels and annotations, {EXPORTED} are allowed");
        return refused(Reason::Size, why);
    }
    for (key, value) in labels {
        if let Some(fault) = key_fault_of("a label", key).or_else(|| value_fault(value)) {
            return refused(Reason::Garbage, format_args!("spec.exportedLabels[{:?}]: {fault}", short(key)));
        }
    }
    for key in annotations.keys() {
        if let Some(fault) = key_fault_of("an annotation", &key.to_lowercase()) {
            let key = short(key);
            return refused(Reason::Garbage, format_args!("spec.exportedAnnotations[{key:?}]: {fault}"));
        }
    }
    Ok(())
}

/// Checks a ServiceImport.
pub(super) fn check_import(import: &ServiceImport) -> Result<(), Refused> {
    metadata(&import.metadata)?;
    let clusters = import.status.as_ref().map_or(0, |status| status.clusters.len());
    let ports = import.spec.ports.len();
    if ports > MANY || clusters > MANY {
        return refused(Reason::Size, format_args!("it has {ports} ports and {clusters} clusters"));
    }
    Ok(())
}

/// Whether a slice is no larger than any that an API server stores: what we wrote ourselves is, unless the member lies.
pub(super) fn is_modest(slice: &EndpointSlice) -> bool {
    metadata(&slice.metadata).is_ok() && slice.ports.as_ref().is_none_or(|ports| ports.len() <= PORTS)
}

fn metadata(metadata: &ObjectMeta) -> Result<(), Refused> {
    let (labels, annotations) =
        (metadata.labels.as_ref().map_or(0, size), metadata.annotations.as_ref().map_or(0, size));
    if labels > LABELS || annotations > ANNOTATIONS {
        let why = format_args!("it has {labels} bytes of labels and {annotations} of annotations");
        return refused(Reason::Size, why);
    }
    let texts = [&metadata.name, &metadata.uid, &metadata.resource_version];
    if let Some(text) = texts.into_iter().flatten().find(|text| text.len() > LONGEST) {
        return refused(Reason::Size, format_args!("{:?}… is longer than a name", short(text)));
    }
    Ok(())
}

fn size(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// What an address is that leads to no pod of another cluster.
fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.octets()[0] == 0 {
        Some("unspecified")
    } else if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_link_local() {
        Some("link-local")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if address.is_broadcast() {
        Some("the broadcast address")
    } else {
        None
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        Some("unspecified")
    } else if address.is_loopback() {
        Some("a loopback address")
    } else if address.to_ipv4_mapped().is_some() {
        Some("an IPv4 address in disguise")
    } else if address.segments()[..6] == [0; 6] {
        Some("an IPv4 address in an old disguise")
    } else if address.is_unicast_link_local() {
        Some("link-local")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else {
        None
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    !text.is_empty() && text.len() <= LONGEST && text.chars().all(allowed)
}

pub(super) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
