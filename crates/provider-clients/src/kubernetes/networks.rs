//! Networks where no connection may lead, and names resolved with them in mind.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// What is said of a connection that was not made: whatever is there, and whether anything is.
pub(super) const DENIED: &str = "a rule of the operator forbids its address ([kubernetes] health_denied_networks)";

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

    /// Whether the address is in one of them. An IPv4 address is the same in IPv6 clothes (`::ffff:127.0.0.1`).
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
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
/// however often a name changes its mind.
pub(super) struct Permitted(pub Networks);

impl Resolve for Permitted {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(permitted(name, self.0.clone()))
    }
}

async fn permitted(name: Name, denied: Networks) -> Result<Addrs, Box<dyn Error + Send + Sync>> {
    let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
    let found: Vec<SocketAddr> = found.filter(|place| !denied.contain(place.ip())).collect();
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
            ("::ffff:10.0.0.0/104", vec!["10.255.0.1", "::ffff:10.0.0.1"], vec!["11.0.0.1", "::a00:1"]),
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
}
