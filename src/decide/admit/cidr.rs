//! Ranges of addresses, as an annotation of a Cluster lists them.

use std::{fmt, net::IpAddr, str::FromStr};

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    first: IpAddr,
    length: u8,
}

/// Reads a list of ranges separated by commas; all that is wrong with it otherwise.
pub fn list(text: &str) -> Result<Vec<Cidr>, Vec<String>> {
    let (mut ranges, mut faults) = (Vec::new(), Vec::new());
    for part in text.split(',').map(str::trim) {
        match part.parse() {
            Ok(range) => ranges.push(range),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(ranges) } else { Err(faults) }
}

/// The fewest ranges that hold exactly the same addresses, in order: a cluster's nodes have a piece each of one range.
pub fn joined(ranges: impl IntoIterator<Item = Cidr>) -> Vec<Cidr> {
    let mut sorted: Vec<Cidr> = ranges.into_iter().collect();
    // A range comes before what it holds.
    sorted.sort_unstable();
    let mut joined: Vec<Cidr> = Vec::new();
    for mut range in sorted {
        if joined.last().is_some_and(|last| last.overlaps(range)) {
            continue;
        }
        // Two halves become one, and that may be a half again.
        while let Some(last) =
            joined.pop_if(|last| last.length == range.length && last.parent() == range.parent())
        {
            range = last.parent().unwrap_or(last);
        }
        joined.push(range);
    }
    joined
}

// === impl Cidr ===

impl Cidr {
    /// Whether an address is in the range. One of the other family never is.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && truncated(address, self.length) == self.first
    }

    /// Whether two ranges have an address in common. Then one of them holds the other.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// The range of twice the size around it; none around all there is.
    fn parent(self) -> Option<Self> {
        let length = self.length.checked_sub(1)?;
        Some(Self { first: truncated(self.first, length), length })
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(80).collect();
        let unreadable =
            || format!("{shown:?} is not a range of addresses, such as 10.0.0.0/16 or fd00::/48");
        let (address, length) = text.split_once('/').ok_or_else(unreadable)?;
        let address: IpAddr = address.parse().map_err(|_| unreadable())?;
        let digits =
            length.chars().all(|c| c.is_ascii_digit()) && !(length.len() > 1 && length.starts_with('0'));
        let length: u8 = length.parse().ok().filter(|_| digits).ok_or_else(unreadable)?;
        if length > if address.is_ipv4() { 32 } else { 128 } {
            return Err(unreadable());
        }
        if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(format!("{shown:?} is IPv4 in IPv6's clothes; write the IPv4 range"));
        }
        let range = Self { first: truncated(address, length), length };
        if range.first != address {
            return Err(format!("{shown:?} is an address and not a range; {range} is the range around it"));
        }
        Ok(range)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

/// The first address of the range of that length around an address.
fn truncated(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        for text in ["10.0.0.0/16", "0.0.0.0/0", "10.1.2.3/32", "fd00::/48", "::/0", "2001:db8::1/128"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
        assert_eq!(list(" 10.0.0.0/16 ,fd00::/48").unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_range_is_said_to_be_none() {
        let bad =
            ["", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/+8", "10.0.0.0/08", "10.0.0/8", "x/8"];
        for bad in bad.into_iter().chain(["10.0.0.1/16", "::ffff:10.0.0.0/120", "10.0.0.0/8/8", "10.0.0.0/"])
        {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        assert_eq!(
            "10.0.0.1/16".parse::<Cidr>(),
            Err("\"10.0.0.1/16\" is an address and not a range; 10.0.0.0/16 is the range around it"
                .to_owned())
        );
        assert_eq!(list("10.0.0.0/8,,x").unwrap_err().len(), 2);
    }

    #[test]
    fn a_range_holds_its_own_addresses_only() {
        let holds =
            |range: &str, address: &str| range.parse::<Cidr>().unwrap().contains(address.parse().unwrap());
        assert!(holds("10.0.0.0/16", "10.0.255.255"));
        assert!(!holds("10.0.0.0/16", "10.1.0.0"));
        assert!(holds("fd00::/48", "fd00:0:0:ffff::1"));
        assert!(!holds("fd00::/48", "fd00:0:1::1"));
        assert!(!holds("::/0", "10.0.0.1"));
        assert!(holds("0.0.0.0/0", "255.1.2.3"));
    }

    #[test]
    fn ranges_overlap_where_one_holds_the_other() {
        let overlap = |one: &str, two: &str| {
            let (one, two): (Cidr, Cidr) = (one.parse().unwrap(), two.parse().unwrap());
            assert_eq!(one.overlaps(two), two.overlaps(one));
            one.overlaps(two)
        };
        assert!(overlap("10.0.0.0/16", "10.0.4.0/24"));
        assert!(overlap("10.0.0.0/16", "10.0.0.0/16"));
        assert!(!overlap("10.0.0.0/24", "10.0.1.0/24"));
        assert!(!overlap("0.0.0.0/0", "::/0"));
    }

    #[test]
    fn pieces_of_a_range_are_joined() {
        let joined = |text: &str| {
            let ranges: Vec<_> = joined(list(text).unwrap()).iter().map(ToString::to_string).collect();
            ranges.join(",")
        };
        assert_eq!(joined("10.244.1.0/24,10.244.0.0/24,10.244.3.0/24,10.244.2.0/24"), "10.244.0.0/22");
        assert_eq!(joined("10.244.1.0/24,10.244.2.0/24"), "10.244.1.0/24,10.244.2.0/24");
        assert_eq!(joined("10.0.0.0/8,10.244.2.0/24,10.0.0.0/8,fd00::/48"), "10.0.0.0/8,fd00::/48");
        assert_eq!(joined("0.0.0.0/1,128.0.0.0/1"), "0.0.0.0/0");
    }

    proptest::proptest! {
        #[test]
        fn joining_ranges_changes_no_address(
            pieces in proptest::collection::vec((0_u32..64, 26_u8..=32), 0..12), asked in 0_u32..64,
        ) {
            let range = |(bits, length): (u32, u8)| Cidr { first: truncated(IpAddr::V4(bits.into()), length), length };
            let before: Vec<_> = pieces.into_iter().map(range).collect();
            let after = joined(before.clone());
            let asked = IpAddr::V4(asked.into());
            let holds = |ranges: &[Cidr]| ranges.iter().filter(|range| range.contains(asked)).count();
            proptest::prop_assert_eq!(holds(&before) > 0, holds(&after) == 1);
            proptest::prop_assert!(after.is_sorted() && after.len() <= before.len());
            proptest::prop_assert_eq!(joined(after.clone()), after);
        }
    }
}
