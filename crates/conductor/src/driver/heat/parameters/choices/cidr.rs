//! An IPv4 network.

use std::fmt;
use std::net::Ipv4Addr;

/// Base address and prefix length; no host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    base: u32,
    prefix: u8,
}

impl Cidr {
    /// Reads `ADDRESS/LENGTH`; none when it is not a network (host bits included).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let base = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let prefix: u8 = prefix.parse().ok().filter(|p| *p <= 32)?;
        (base & !mask(prefix) == 0).then_some(Self { base, prefix })
    }

    /// Bits of the prefix.
    pub(crate) fn length(&self) -> u8 {
        self.prefix
    }

    /// Whether any address is in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let common = mask(self.prefix.min(other.prefix));
        self.base & common == other.base & common
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::Cidr;

    #[test]
    fn networks_are_read_and_compared() {
        let read = |t: &str| Cidr::parse(t).expect("a network");
        for bad in ["", "10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "fd00::/8", "10.0.0/24", "a/b"] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        assert_eq!(read("0.0.0.0/0").to_string(), "0.0.0.0/0");
        assert!(read("0.0.0.0/0").overlaps(&read("10.1.2.3/32")));
        assert!(read("10.100.0.0/16").overlaps(&read("10.100.7.0/24")));
        assert!(!read("10.100.0.0/16").overlaps(&read("10.101.0.0/16")));
    }
}
