//! A network of either version of IP.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Base address and prefix length; no host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// As a whole number.
    base: u128,
    prefix: u8,
    /// Of an address.
    bits: u8,
}

impl Cidr {
    /// Every global unicast address that IPv6 has.
    pub(crate) const GLOBAL_V6: Self = Self { base: 0x2000 << 112, prefix: 3, bits: 128 };

    /// Reads `ADDRESS/LENGTH` of IPv4; none when it is not a network (host bits included).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::of_either(text).filter(|network| network.bits == 32)
    }

    /// The same of IPv6.
    pub(crate) fn parse_v6(text: &str) -> Option<Self> {
        Self::of_either(text).filter(|network| network.bits == 128)
    }

    fn of_either(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (base, bits) = match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => (u32::from(address).into(), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let prefix: u8 = prefix.parse().ok().filter(|p| *p <= bits)?;
        let network = Self { base, prefix, bits };
        (network.hosts(prefix) == 0).then_some(network)
    }

    /// Bits of the prefix.
    pub(crate) fn length(&self) -> u8 {
        self.prefix
    }

    /// Whether any address is in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let common = self.prefix.min(other.prefix);
        self.bits == other.bits && self.base - self.hosts(common) == other.base - other.hosts(common)
    }

    /// Whether Neutron tells an address of this network of IPv4 before any of that one of IPv6, where a port has both: it sorts them as texts.
    pub(crate) fn is_told_before(&self, other: &Self) -> bool {
        let first = self.base >> 24;
        let last = (self.base | low_bits(self.bits - self.prefix)) >> 24;
        let theirs = format!("{:x}:", other.base >> 112);
        (first..=last).all(|octet| format!("{octet}.") < theirs)
    }

    /// The bits of the base behind a prefix.
    fn hosts(&self, prefix: u8) -> u128 {
        self.base & low_bits(self.bits - prefix)
    }
}

fn low_bits(count: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(count)).unwrap_or(0)
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.base) {
            Ok(base) if self.bits == 32 => write!(f, "{}/{}", Ipv4Addr::from(base), self.prefix),
            _ => write!(f, "{}/{}", Ipv6Addr::from(self.base), self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cidr;

    fn read(text: &str) -> Cidr {
        Cidr::parse(text).or_else(|| Cidr::parse_v6(text)).expect("a network")
    }

    #[test]
    fn networks_are_read_and_compared() {
        for bad in ["", "10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "fd00::/8", "10.0.0/24", "a/b"] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        for bad in ["", "fd00::", "fd00::1/64", "fd00::/129", "10.0.0.0/8", "fd00:/64"] {
            assert_eq!(Cidr::parse_v6(bad), None, "{bad}");
        }
        assert_eq!(read("0.0.0.0/0").to_string(), "0.0.0.0/0");
        assert_eq!(read("fd00:0:0::/48").to_string(), "fd00::/48");
        assert_eq!(read("::/0").to_string(), "::/0");
        for (one, other, want) in [
            ("0.0.0.0/0", "10.1.2.3/32", true),
            ("10.100.0.0/16", "10.100.7.0/24", true),
            ("10.100.0.0/16", "10.101.0.0/16", false),
            ("fd00::/48", "fd00:0:0:7::/64", true),
            ("fd00::/64", "fd00:0:0:1::/64", false),
            ("::/0", "fd00::1/128", true),
            ("0.0.0.0/0", "::/0", false),
        ] {
            assert_eq!(read(one).overlaps(&read(other)), want, "{one} {other}");
            assert_eq!(read(other).overlaps(&read(one)), want, "{other} {one}");
        }
    }

    #[test]
    fn an_address_of_ipv4_is_told_first_where_its_text_is_less() {
        for (one, other, want) in [
            ("10.0.0.0/24", "fd00::/64", true),
            ("203.0.113.0/24", "fd00::/64", true),
            ("192.168.0.0/16", "2001:db8::/64", true),
            ("200.0.0.0/24", "2001:db8::/64", true),
            ("201.0.0.0/24", "2001:db8::/64", false),
            ("203.0.113.0/24", "2001:db8::/64", false),
            ("203.0.113.0/24", "2a00::/64", true),
            ("0.0.0.0/0", "2001:db8::/64", false),
            ("198.51.100.0/24", "2000::/3", true),
            ("203.0.113.0/24", "2000::/3", false),
        ] {
            assert_eq!(read(one).is_told_before(&read(other)), want, "{one} {other}");
        }
        assert_eq!(Cidr::GLOBAL_V6, read("2000::/3"));
    }
}
