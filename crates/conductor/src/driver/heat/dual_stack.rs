//! Clusters whose nodes have addresses of both versions of IP.
//!
//! Nodes get theirs of IPv6 by stateful DHCPv6, so that it is the one that Neutron knows: by SLAAC the image makes its own (NetworkManager's, on
//! Fedora CoreOS, is no EUI-64; Ubuntu's may be a temporary one), Neutron drops what comes from there, and kubelet, which is told an address
//! that its machine does not have, does not register. That of IPv4 comes first everywhere, and the API has no other.

use provider_clients::Subnet;

use super::access::refused;
use super::given_network::GivenNetwork;
use super::parameters::choices::{self, Cidr};
use super::render::RenderError;
use crate::driver::Target;
use crate::outcome::Failure;
use crate::plan::Seen;

/// The label of such clusters, and the parameter of their stacks: a cluster that was made without stays without.
pub(super) const PARAMETER: &str = "ipv6_enabled";

/// The label that names the subnet of IPv6 of a network that is there, and the parameter that is its id.
pub(super) const SUBNET: &str = "fixed_subnet_v6";

/// How a subnet must hand out addresses.
const MODE: &str = "dhcpv6-stateful";

/// What a cluster with both has been given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DualStack {
    /// In a new cluster on a network that is there: its subnet of IPv6.
    pub given_subnet: Option<GivenSubnet>,
}

/// A subnet that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenSubnet {
    pub id: String,
    pub range: Cidr,
}

impl DualStack {
    /// As a stack says it that was made by a template of ours.
    pub fn seen(seen: &Seen) -> Option<Self> {
        seen.has_ipv6.then(Self::default)
    }
}

/// Whether a new cluster has both, and on which subnet of the network that it names.
///
/// # Errors
/// When that network has no subnet for it.
pub(super) fn of_new(target: &Target<'_>, given: Option<&GivenNetwork>) -> Result<Option<DualStack>, Failure> {
    let labels = target.cluster.labels();
    if choices::truth(&labels, PARAMETER).map_err(refused)? != Some(true) {
        return Ok(None);
    }
    let named = labels.get(SUBNET).map(str::trim).filter(|name| !name.is_empty());
    let Some(network) = given else {
        return match named {
            Some(_) if target.cluster.fixed_network.is_none() => {
                Err(refused(RenderError::new(SUBNET, "must not be given without fixed_network: it is one of its subnets")))
            }
            _ => Ok(Some(DualStack::default())),
        };
    };
    let given_subnet = chosen(&network.subnets, &network.subnet.range, named).map_err(refused)?;
    Ok(Some(DualStack { given_subnet: Some(given_subnet) }))
}

/// The subnet of IPv6 among those of a network, by what the cluster calls it where it does; `nodes` is the range of that of IPv4.
fn chosen(subnets: &[Subnet], nodes: &Cidr, named: Option<&str>) -> Result<GivenSubnet, RenderError> {
    let is_called = |subnet: &Subnet, name: &str| subnet.id == name || subnet.name == name;
    let of_ipv6 = subnets.iter().filter(|subnet| subnet.ip_version == Some(6));
    let all: Vec<&Subnet> = of_ipv6.filter(|subnet| named.is_none_or(|name| is_called(subnet, name))).collect();
    let [subnet] = all.as_slice() else {
        let rule = match (named, all.len()) {
            (Some(name), 0) => format!("the network has no IPv6 subnet called {name}"),
            (None, 0) => format!("the network has no IPv6 subnet, which {PARAMETER} needs"),
            (Some(name), count) => format!("the network has {count} IPv6 subnets called {name}: give an id"),
            (None, count) => format!("must say which of the {count} IPv6 subnets of the network the nodes are on"),
        };
        return Err(RenderError::new(SUBNET, rule));
    };
    if subnet.enable_dhcp != Some(true) || subnet.ipv6_address_mode.as_deref() != Some(MODE) {
        let rule = format!("subnet {} must hand out addresses by stateful DHCPv6 (enable_dhcp, ipv6_address_mode {MODE})", subnet.id);
        return Err(RenderError::new(SUBNET, rule));
    }
    let Some(range) = Cidr::parse_v6(&subnet.cidr) else {
        return Err(RenderError::new(SUBNET, format!("subnet {} has no range that can be read: {}", subnet.id, subnet.cidr)));
    };
    choices::told_after((SUBNET, &range), nodes)?;
    Ok(GivenSubnet { id: subnet.id.clone(), range })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(id: &str, name: &str, cidr: &str) -> Subnet {
        let is_v6 = cidr.contains(':');
        Subnet {
            id: id.into(),
            name: name.into(),
            cidr: cidr.into(),
            ip_version: Some(if is_v6 { 6 } else { 4 }),
            enable_dhcp: Some(true),
            ipv6_address_mode: is_v6.then(|| MODE.into()),
            ..Subnet::default()
        }
    }

    #[test]
    fn the_only_subnet_is_found_and_one_of_several_is_named() {
        let (four, one, two) = (subnet("4", "nodes", "10.0.0.0/24"), subnet("6a", "a", "fd00::/64"), subnet("6b", "b", "fd01::/64"));
        let nodes = Cidr::parse(&four.cidr).expect("a network");
        let of = |subnets: &[&Subnet], named| chosen(&subnets.iter().map(|s| (*s).clone()).collect::<Vec<_>>(), &nodes, named);
        let range = Cidr::parse_v6("fd00::/64").expect("a network");
        assert_eq!(of(&[&four, &one], None), Ok(GivenSubnet { id: "6a".into(), range }));
        for named in ["b", "6b"] {
            assert_eq!(of(&[&four, &one, &two], Some(named)).map(|subnet| subnet.id), Ok("6b".into()));
        }
        for (subnets, named, word) in [
            (&[&four][..], None, "no IPv6 subnet, which ipv6_enabled needs"),
            (&[&four, &one], Some("nodes"), "no IPv6 subnet called nodes"),
            (&[&four, &one, &two], None, "which of the 2"),
            (&[&four, &one, &one], Some("a"), "2 IPv6 subnets called a"),
        ] {
            let error = of(subnets, named).expect_err(word);
            assert!(error.field == "fixed_subnet_v6" && error.rule.contains(word), "{error}");
        }
    }

    #[test]
    fn a_subnet_that_nodes_cannot_use_is_refused_with_the_reason() {
        let nodes = Cidr::parse("203.0.113.0/24").expect("a network");
        let good = subnet("6", "a", "fd00::/64");
        let slaac = Subnet { ipv6_address_mode: Some("slaac".into()), ..good.clone() };
        let none = Subnet { ipv6_address_mode: None, ..good.clone() };
        let silent = Subnet { enable_dhcp: Some(false), ..good.clone() };
        let before = subnet("6", "a", "2001:db8::/64");
        assert!(chosen(&[good], &nodes, None).is_ok());
        for (bad, word) in [(slaac, "stateful"), (none, "stateful"), (silent, "stateful"), (before, "Neutron would tell")] {
            let error = chosen(&[bad], &nodes, None).expect_err(word);
            assert!(error.field == "fixed_subnet_v6" && error.rule.contains(word), "{error}");
        }
    }
}
