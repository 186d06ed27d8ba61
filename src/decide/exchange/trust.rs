//! A member's data is hostile until checked (DESIGN.md 8): addresses that would lead into other clusters' own machinery, and sizes that
//! would hurt whoever reads them.
//!
//! What is refused is refused as a whole, and never causes a deletion: the last good one stays.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::decide::{admit::cidr::Cidr, ids::PortName};

/// As many endpoints as an API server stores in a slice.
const ENDPOINTS: usize = 1000;
/// As many ports as an API server stores in a slice.
const PORTS: usize = 100;
/// As many addresses as an API server stores in an endpoint.
const ADDRESSES: usize = 100;
/// The longest name of a node or zone.
const LONGEST: usize = 253;

/// Why an object of a member is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks a source slice; where ranges are given its addresses must be in one of them.
pub(super) fn check(slice: &EndpointSlice, ranges: Option<&[Cidr]>) -> Result<(), Refused> {
    let refused = |why: String| Err(Refused(why));
    let ports = slice.ports.as_deref().unwrap_or_default();
    if slice.endpoints.len() > ENDPOINTS || ports.len() > PORTS {
        return refused(format!("it has {} endpoints and {} ports", slice.endpoints.len(), ports.len()));
    }
    let v6 = match slice.address_type.as_str() {
        "IPv4" => false,
        "IPv6" => true,
        other => return refused(format!("it has addresses of type {:?}", short(other))),
    };
    for port in ports {
        let name = port.name.as_deref().unwrap_or_default();
        if let Err(e) = name.parse::<PortName>() {
            return refused(e.to_string());
        }
        if port.port.is_some_and(|number| !(1..=65535).contains(&number)) {
            return refused(format!("it has port {:?}", port.port.unwrap_or_default()));
        }
    }
    for endpoint in &slice.endpoints {
        if endpoint.addresses.is_empty() || endpoint.addresses.len() > ADDRESSES {
            return refused(format!("it has an endpoint of {} addresses", endpoint.addresses.len()));
        }
        for text in &endpoint.addresses {
            let Ok(address) = text.parse::<IpAddr>() else {
                return refused(format!("{:?} is no address", short(text)));
            };
            if address.is_ipv6() != v6 {
                return refused(format!("{address} is not of type {}", slice.address_type));
            }
            if let Some(what) = special(address) {
                return refused(format!("{address} is {what}"));
            }
            if ranges.is_some_and(|ranges| !ranges.iter().any(|range| range.contains(address))) {
                return refused(format!("{address} is in none of the cluster's endpoint ranges"));
            }
        }
        let names = [&endpoint.hostname, &endpoint.node_name, &endpoint.zone];
        if let Some(name) = names.into_iter().flatten().find(|name| !is_name(name)) {
            return refused(format!("{:?} names no host, node or zone", short(name)));
        }
    }
    Ok(())
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

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort};

    use super::*;

    fn slice(family: &str, address: &str) -> EndpointSlice {
        EndpointSlice {
            address_type: family.to_owned(),
            endpoints: vec![Endpoint { addresses: vec![address.to_owned()], ..Endpoint::default() }],
            ..EndpointSlice::default()
        }
    }

    #[test]
    fn pods_addresses_are_believed() {
        for (family, address) in
            [("IPv4", "10.1.2.3"), ("IPv4", "100.64.0.9"), ("IPv6", "fd00::5"), ("IPv6", "2001:db8::1")]
        {
            assert_eq!(check(&slice(family, address), None), Ok(()));
        }
    }

    #[test]
    fn special_addresses_are_refused() {
        let table = [
            ("IPv4", "127.0.0.1"),
            ("IPv4", "127.9.9.9"),
            ("IPv4", "169.254.169.254"),
            ("IPv4", "0.0.0.0"),
            ("IPv4", "0.1.2.3"),
            ("IPv4", "224.0.0.1"),
            ("IPv4", "255.255.255.255"),
            ("IPv6", "::"),
            ("IPv6", "::1"),
            ("IPv6", "::ffff:127.0.0.1"),
            ("IPv6", "::ffff:10.0.0.1"),
            ("IPv6", "::10.0.0.1"),
            ("IPv6", "fe80::1"),
            ("IPv6", "ff02::1"),
        ];
        for (family, address) in table {
            let refused = check(&slice(family, address), None).unwrap_err();
            assert!(refused.0.starts_with(&address.parse::<IpAddr>().unwrap().to_string()), "{refused}");
        }
    }

    #[test]
    fn what_is_no_address_or_of_another_family_is_refused() {
        for (family, address) in [
            ("IPv4", "fd00::1"),
            ("IPv6", "10.0.0.1"),
            ("IPv4", "example.com"),
            ("FQDN", "example.com"),
            ("IPv4", "010.0.0.1"),
        ] {
            assert!(check(&slice(family, address), None).is_err(), "{family} {address}");
        }
    }

    #[test]
    fn addresses_outside_the_clusters_ranges_are_refused_where_it_has_any() {
        let ranges = crate::decide::admit::cidr::list("10.1.0.0/16").unwrap();
        assert_eq!(check(&slice("IPv4", "10.1.9.9"), Some(&ranges)), Ok(()));
        assert!(check(&slice("IPv4", "10.2.0.1"), Some(&ranges)).unwrap_err().0.contains("endpoint ranges"));
    }

    #[test]
    fn what_no_api_server_would_store_is_refused_in_few_words() {
        let good = slice("IPv4", "10.0.0.1");
        let many = EndpointSlice { endpoints: vec![good.endpoints[0].clone(); 10_000], ..good.clone() };
        let ports = EndpointSlice { ports: Some(vec![EndpointPort::default(); 101]), ..good.clone() };
        let mut huge = good.clone();
        huge.endpoints[0].zone = Some("z".repeat(5_000_000));
        let mut none = good.clone();
        none.endpoints[0].addresses.clear();
        let mut host = good.clone();
        host.endpoints[0].hostname = Some("a\nb".to_owned());
        let zero = EndpointPort { port: Some(0), ..EndpointPort::default() };
        let zero = EndpointSlice { ports: Some(vec![zero]), ..good };
        for slice in [many, ports, huge, none, host, zero] {
            assert!(check(&slice, None).unwrap_err().0.len() < 200);
        }
    }
}
