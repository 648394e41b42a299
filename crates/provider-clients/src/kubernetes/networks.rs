//! Networks where no connection may lead, and names resolved with them in mind.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// What is said of a connection that was not made: whatever is there, and whether anything is.
pub(super) const DENIED: &str = "a rule of the operator forbids its address ([kubernetes] health_denied_networks)";

/// What is said of a name without an address, in the place of the resolver's words: these go to tenants, who are told nothing of where this
/// service asks for names, nor of what is wrong there.
const UNRESOLVED: &str = "its name cannot be resolved";

/// A list of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

impl Networks {
    /// Reads a list that is separated by commas: `10.0.0.0/8`, `fd00::/8`, or an address for itself alone. None: something in it is neither.
    pub fn read(list: &str) -> Option<Self> {
        let list = list.trim().trim_end_matches(',');
        if list.is_empty() {
            return Some(Self::default());
        }
        list.split(',').map(|text| Network::read(text.trim())).collect::<Option<_>>().map(Self)
    }

    /// Whether the address is in one of them. An IPv4 address is the same in IPv6 clothes (`::ffff:127.0.0.1`), and an IPv6 address by which a
    /// translator or a tunnel leads to an IPv4 address (`64:ff9b::127.0.0.1`) is in the networks of both.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let has = |address: IpAddr| self.0.iter().any(|network| network.contains(address));
        has(address)
            || match address {
                IpAddr::V4(_) => false,
                IpAddr::V6(address) => behind(address).into_iter().any(|address| has(address.into())),
            }
    }
}

/// The IPv4 addresses that an IPv6 address may lead to; of most there are none.
///
/// Which are meant: IPv4-compatible ones (`::/96`, RFC 4291), IPv4-translated ones (`::ffff:0:0:0/96`, RFC 2765), NAT64 (`64:ff9b::/96`, RFC
/// 6052; `64:ff9b:1::/48`, RFC 8215), 6to4 (`2002::/16`, RFC 3056). IPv4-mapped ones are IPv4 already ([`IpAddr::to_canonical`]). A NAT64 prefix
/// of a cloud's own cannot be known here: an operator who has one adds it to the list.
fn behind(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    const COMPATIBLE: u128 = 0;
    const TRANSLATED: u128 = 0xffff_0000;
    const NAT64: u128 = 0x0064_ff9b << 64;
    const LOCAL_NAT64: u128 = 0x0064_ff9b_0001;
    const SIX_TO_FOUR: u128 = 0x2002;
    // "This network" is no destination (RFC 6890): `::` and `::1` are addresses of their own.
    let is_somewhere = |address: &Ipv4Addr| address.octets()[0] != 0;
    let bits = address.to_bits();
    let last = four(bits);
    match (bits >> 32, bits >> 80, bits >> 112) {
        (COMPATIBLE, ..) => Some(last).into_iter().filter(is_somewhere).collect(),
        (TRANSLATED | NAT64, ..) => vec![last],
        // Its operator chooses how long his prefix is (48, 56, 64 or 96 bits), and with it where the IPv4 address stands: behind the prefix, but
        // around the eighth byte, and what follows is ignored. It counts as each of them: better one look too few than one too many.
        (_, LOCAL_NAT64, _) => {
            let without_eighth = ((bits >> 64) << 56) | (bits & ((1 << 56) - 1));
            let after = |prefix: u32| four(without_eighth >> (120 - 32 - prefix));
            [last, after(48), after(56), after(64)].into_iter().filter(is_somewhere).collect()
        }
        (.., SIX_TO_FOUR) => vec![four(bits >> 80)],
        _ => Vec::new(),
    }
}

/// The IPv4 address in the last 32 bits.
fn four(bits: u128) -> Ipv4Addr {
    let [.., a, b, c, d] = bits.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// Bits of it that count.
    prefix: u32,
}

impl Network {
    fn read(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let written: IpAddr = address.parse().ok()?;
        let longest: u32 = if written.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok()).filter(|prefix| *prefix <= longest)?;
        let address = written.to_canonical();
        let clothes = if address.is_ipv4() { longest - 32 } else { 0 };
        Some(Self { address, prefix: prefix.checked_sub(clothes)? })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let differs = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4() && differs.checked_shr(128 - self.prefix).unwrap_or(0) == 0
    }
}

/// The address from the left.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Resolves names as the machine does, to addresses that are in none of these networks. What is connected to is what was looked at here,
/// however often a name changes its mind. A name that has no address is told in words of ours; the resolver's go to the log.
pub(crate) struct Permitted(pub(crate) Networks);

impl Resolve for Permitted {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(permitted(name, self.0.clone()))
    }
}

async fn permitted(name: Name, denied: Networks) -> Result<Addrs, Box<dyn Error + Send + Sync>> {
    let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(|error| {
        tracing::debug!(name = name.as_str(), %error, "failed to resolve a name");
        UNRESOLVED
    })?;
    let mut found: Vec<SocketAddr> = found.collect();
    if found.is_empty() {
        return Err(UNRESOLVED.into());
    }
    found.retain(|place| !denied.contain(place.ip()));
    if found.is_empty() { Err(DENIED.into()) } else { Ok(Box::new(found.into_iter())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(list: &str) -> Networks {
        Networks::read(list).unwrap_or_else(|| panic!("{list}"))
    }

    #[test]
    fn an_address_is_in_a_network_by_its_first_bits() {
        for (list, inside, outside) in [
            ("127.0.0.0/8", vec!["127.0.0.1", "127.255.0.9", "::ffff:127.0.0.1"], vec!["126.255.255.255", "128.0.0.0", "::1", "7f00::1"]),
            ("169.254.0.0/16,", vec!["169.254.169.254", "::ffff:a9fe:a9fe"], vec!["169.253.0.1", "169.255.0.1"]),
            ("fe80::/10", vec!["fe80::1", "febf::1"], vec!["fec0::1", "fe00::1", "254.128.0.1"]),
            ("::/128", vec!["::"], vec!["::1", "0.0.0.0"]),
            ("10.0.0.7", vec!["10.0.0.7"], vec!["10.0.0.6", "10.0.0.8"]),
            ("10.1.2.3/8", vec!["10.0.0.0", "10.255.255.255"], vec!["11.0.0.0"]),
            ("::ffff:10.0.0.0/104", vec!["10.255.0.1", "::ffff:10.0.0.1", "::a00:1"], vec!["11.0.0.1", "::b00:1"]),
            ("0.0.0.0/0", vec!["1.2.3.4", "::ffff:1.2.3.4"], vec!["2001:db8::1"]),
            ("::/0", vec!["2001:db8::1", "::"], vec!["1.2.3.4", "::ffff:1.2.3.4"]),
            (" 10.0.0.0/8 , fd00::/8", vec!["10.9.9.9", "fd12::1"], vec!["fc00::1", "192.0.2.1"]),
            ("", vec![], vec!["127.0.0.1", "::1", "0.0.0.0"]),
        ] {
            let networks = networks(list);
            for (addresses, is_inside) in [(inside, true), (outside, false)] {
                for address in addresses {
                    assert_eq!(networks.contain(address.parse().expect(address)), is_inside, "{address} in {list}");
                }
            }
        }
    }

    /// The places of the address by the table of RFC 6052, 2.2; what stands in the eighth byte and behind the address does not count.
    #[test]
    fn an_ipv6_address_that_leads_to_an_ipv4_address_is_where_that_one_is() {
        let local = networks("127.0.0.0/8, 169.254.0.0/16, 0.0.0.0/8, ::1, ::");
        for denied in [
            "::127.0.0.1",
            "::169.254.169.254",
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::0.0.0.0",
            // Prefixes of 96, 48, 56 and 64 bits.
            "64:ff9b:1::127.0.0.1",
            "64:ff9b:1:abcd:0:ef01:127.0.0.1",
            "64:ff9b:1:7f00:0:100::",
            "64:ff9b:1:7f00:ff00:100:1:2",
            "64:ff9b:1:ab7f:0:1::",
            "64:ff9b:1:abcd:7f:0:100:0",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:7f00:1::",
            "2002:a9fe:a9fe:1::1",
        ] {
            assert!(local.contain(denied.parse().expect(denied)), "{denied}");
        }
        for allowed in [
            "::8.8.8.8",
            "::0.0.0.2",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:0:1::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:1:808:8:800::",
            "64:ff9b:1:abcd:8:808:800:0",
            "64:ff9b:2::127.0.0.1",
            "64:ff9c::127.0.0.1",
            "2002:808:808::7f00:1",
            "2003:7f00:1::",
            "2001:db8::127.0.0.1",
            "fd00::127.0.0.1",
        ] {
            assert!(!local.contain(allowed.parse().expect(allowed)), "{allowed}");
        }
        // It is in the networks of its own too.
        assert!(networks("64:ff9b::/96").contain("64:ff9b::8.8.8.8".parse().expect("an address")));
    }

    #[test]
    fn what_is_no_network_is_none() {
        for list in [
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/255.0.0.0",
            "10.0.0/8",
            "/8",
            "localhost",
            "10.0.0.0/8,,::1",
            "10.0.0.0/8 ::1",
            "[::1]/128",
            "::ffff:0.0.0.0/95",
        ] {
            assert_eq!(Networks::read(list), None, "{list}");
        }
    }

    #[tokio::test]
    async fn a_name_is_resolved_to_what_is_not_denied() {
        let places = async |denied: &str| {
            let found = Permitted(networks(denied)).resolve("localhost".parse().expect("a name")).await;
            found.map(|places| places.count()).map_err(|error| error.to_string())
        };
        assert!(places("192.0.2.0/24").await.is_ok_and(|count| count > 0));
        assert_eq!(places("127.0.0.0/8, ::1").await, Err(DENIED.to_owned()));
    }

    #[tokio::test]
    async fn of_a_name_without_an_address_nothing_is_told_but_that() {
        // A label of 64 letters: no resolver asks anybody about it.
        let name = format!("{}.example", "a".repeat(64));
        let found = Permitted(Networks::default()).resolve(name.parse().expect("a name")).await;
        assert_eq!(found.map(|places| places.count()).map_err(|error| error.to_string()), Err(UNRESOLVED.to_owned()));
    }
}
