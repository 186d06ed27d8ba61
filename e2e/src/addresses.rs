//! Which addresses a bed and its clusters use.
//!
//! Service ranges differ between the clusters of a bed and are the same in every bed: they are virtual. Pod networks and
//! node addresses of beds with nodes differ between beds too, since the machine itself routes to them:
//! bed *b* has `10.(128+b).0.0/16` and `fd00:7b:b::/48`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// How many beds with nodes fit on one machine.
pub const BEDS: u8 = 64;
/// How many members a bed may have; the hub is 0, the host cluster comes after them.
pub const MEMBERS: usize = 60;

/// The address families of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// IPv4 only.
    V4,
    /// IPv4 first, and IPv6.
    Dual,
    /// IPv6 only.
    V6,
}

/// The addresses of one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Its families.
    pub families: Families,
    cluster: u8,
    bed: Option<u8>,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The first address.
    pub base: IpAddr,
    /// The length of the prefix.
    pub prefix: u8,
}

// === impl Families ===

impl Families {
    /// Whether IPv4 is among them.
    pub fn v4(self) -> bool {
        self != Self::V6
    }

    /// Whether IPv6 is among them.
    pub fn v6(self) -> bool {
        self != Self::V4
    }

    fn pick<T>(self, v4: T, v6: T) -> Vec<T> {
        match self {
            Self::V4 => vec![v4],
            Self::Dual => vec![v4, v6],
            Self::V6 => vec![v6],
        }
    }
}

// === impl Addresses ===

impl Addresses {
    /// The addresses of a cluster by its number; with the number of its bed if it has nodes.
    pub fn new(families: Families, cluster: u8, bed: Option<u8>) -> Self {
        Self { families, cluster, bed }
    }

    /// Where the API server listens. Loopback, or the machine's own end of the bed's network.
    pub fn api(&self) -> IpAddr {
        match (self.bed, self.families) {
            (None, Families::V6) => Ipv6Addr::LOCALHOST.into(),
            (None, _) => Ipv4Addr::LOCALHOST.into(),
            (Some(bed), Families::V6) => machine_v6(bed),
            (Some(bed), _) => machine_v4(bed),
        }
    }

    /// The Service ranges, primary first.
    pub fn services(&self) -> Vec<Cidr> {
        let v4 = Cidr { base: Ipv4Addr::new(10, 64 + self.cluster, 0, 0).into(), prefix: 16 };
        let v6 = Cidr {
            base: Ipv6Addr::new(0xfd00, 0x40, self.cluster.into(), 0, 0, 0, 0, 0).into(),
            prefix: 112,
        };
        self.families.pick(v4, v6)
    }

    /// The pod networks, primary first.
    pub fn pods(&self) -> Vec<Cidr> {
        let bed = self.bed.unwrap_or_default();
        let v4 = Cidr { base: Ipv4Addr::new(10, 128 + bed, self.cluster, 0).into(), prefix: 24 };
        let base = Ipv6Addr::new(0xfd00, 0x7b, bed.into(), self.cluster.into(), 0, 0, 0, 0);
        self.families.pick(v4, Cidr { base: base.into(), prefix: 64 })
    }

    /// The addresses of the node on the bed's network.
    pub fn node(&self) -> Vec<IpAddr> {
        let bed = self.bed.unwrap_or_default();
        let v4 = Ipv4Addr::new(10, 128 + bed, 255, 10 + self.cluster).into();
        let v6 = Ipv6Addr::new(0xfd00, 0x7b, bed.into(), 0xff, 0, 0, 0, 10 + u16::from(self.cluster)).into();
        self.families.pick(v4, v6)
    }

    /// The cluster's DNS server: the tenth Service address, as is the custom.
    pub fn dns(&self) -> IpAddr {
        self.services()[0].nth(10)
    }
}

/// The machine's own IPv4 address on the network of a bed.
pub fn machine_v4(bed: u8) -> IpAddr {
    Ipv4Addr::new(10, 128 + bed, 255, 1).into()
}

/// The machine's own IPv6 address on the network of a bed.
pub fn machine_v6(bed: u8) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0x7b, bed.into(), 0xff, 0, 0, 0, 1).into()
}

// === impl Cidr ===

impl Cidr {
    /// The *n*th address of the range.
    pub fn nth(self, n: u8) -> IpAddr {
        match self.base {
            IpAddr::V4(base) => Ipv4Addr::from(u32::from(base) + u32::from(n)).into(),
            IpAddr::V6(base) => Ipv6Addr::from(u128::from(base) + u128::from(n)).into(),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// Ranges or addresses as Kubernetes' flags take them.
pub fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_clusters_of_one_machine_share_a_pod_network_or_a_node_address() {
        let mut seen = BTreeSet::new();
        for bed in 0..BEDS {
            for cluster in 0..=u8::try_from(MEMBERS).unwrap() + 1 {
                let addresses = Addresses::new(Families::Dual, cluster, Some(bed));
                for taken in addresses
                    .pods()
                    .iter()
                    .map(ToString::to_string)
                    .chain(addresses.node().iter().map(ToString::to_string))
                {
                    assert!(seen.insert(taken.clone()), "{taken} is given out twice");
                }
            }
        }
    }

    #[test]
    fn an_ipv6_only_cluster_has_no_ipv4_address_at_all() {
        let addresses = Addresses::new(Families::V6, 3, Some(2));
        assert!(addresses.api().is_ipv6() && addresses.dns().is_ipv6());
        assert!(addresses.node().iter().all(IpAddr::is_ipv6));
        assert_eq!(list(&addresses.services()), "fd00:40:3::/112");
        assert_eq!(list(&addresses.pods()), "fd00:7b:2:3::/64");
    }
}
