//! The network that a cluster names, as Neutron knows it.
//!
//! Rows keep what the user gave, names or ids. Heat is given ids: it takes up a subnet that is there (`external_id`) by nothing else, and by
//! now a name may be that of two.

use provider_clients::{Network, Subnet};
use serde_json::Value;

use super::access::refused;
use super::dual_stack::{self, DualStack, GivenSubnet};
use super::gone;
use super::parameters::choices::Cidr;
use super::render::RenderError;
use crate::driver::Target;
use crate::outcome::Failure;
use crate::plan::Seen;

/// The attributes of a cluster that name it, and the parameters of its stacks.
const NETWORK: &str = "fixed_network";
const SUBNET: &str = "fixed_subnet";

/// A network that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenNetwork {
    pub id: String,
    /// Of IPv4, the one that nodes are on.
    pub subnet: GivenSubnet,
    /// All that it has.
    pub subnets: Vec<Subnet>,
}

impl GivenNetwork {
    /// Looks it up, by names or ids.
    async fn find(target: &Target<'_>, network: &str, subnet: &str) -> Result<Self, Failure> {
        let neutron = target.session.neutron();
        let id = only(&neutron.find_networks(network, None).await?, network).map_err(refused)?;
        let subnets = neutron.subnets_of(&id).await?;
        let subnet = chosen(&subnets, subnet).map_err(refused)?;
        Ok(Self { id, subnet, subnets })
    }

    /// Its subnet of IPv6 that has this id.
    fn subnet_v6(&self, id: &str) -> Option<GivenSubnet> {
        let subnet = self.subnets.iter().find(|subnet| subnet.id == id)?;
        Some(GivenSubnet { id: subnet.id.clone(), range: Cidr::parse_v6(&subnet.cidr)? })
    }
}

/// That of a new cluster, where it names one.
///
/// # Errors
/// When there is not exactly one of that name with one such subnet, and whatever Neutron says.
pub(super) async fn of_new(target: &Target<'_>) -> Result<Option<GivenNetwork>, Failure> {
    let cluster = target.cluster;
    match cluster.fixed_network.as_deref().zip(cluster.fixed_subnet.as_deref()) {
        Some((network, subnet)) => GivenNetwork::find(target, network, subnet).await.map(Some),
        // One without the other is refused with all else that cannot be rendered.
        None => Ok(None),
    }
}

/// That of a cluster that is there, and what it has of IPv6, by what its stack was made of. Nodes behind a proxy alone are told of the
/// network: for others nobody is asked.
///
/// # Errors
/// As [`of_new`]: a stack of an earlier release may have been made of names.
pub(super) async fn of_more(target: &Target<'_>, seen: &Seen) -> Result<(Option<GivenNetwork>, Option<DualStack>), Failure> {
    let (template, dual_stack) = (target.template, DualStack::seen(seen));
    let has_proxy = [&template.http_proxy, &template.https_proxy].into_iter().flatten().any(|proxy| !proxy.is_empty());
    if !has_proxy || target.cluster.fixed_network.is_none() {
        return Ok((None, dual_stack));
    }
    let heat = target.session.heat();
    let stack = heat.stack(&seen.stack_name, &seen.stack_id).await?.ok_or_else(|| gone(seen))?;
    let text = |name: &str| stack.parameters.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some((network, subnet)) = text(NETWORK).zip(text(SUBNET)) else { return Ok((None, dual_stack)) };
    let given = GivenNetwork::find(target, network, subnet).await?;
    let given_subnet = text(dual_stack::SUBNET).and_then(|id| given.subnet_v6(id));
    Ok((Some(given), dual_stack.map(|_| DualStack { given_subnet })))
}

/// The id of the only network of those that were found by a name.
fn only(found: &[Network], name: &str) -> Result<String, RenderError> {
    match found {
        [network] => Ok(network.id.clone()),
        [] => Err(RenderError::new(NETWORK, format!("there is no network {name}"))),
        several => Err(RenderError::new(NETWORK, format!("{} networks are called {name}: give an id", several.len()))),
    }
}

/// The subnet of IPv4 that is called so, among those of a network.
fn chosen(subnets: &[Subnet], name: &str) -> Result<GivenSubnet, RenderError> {
    let is_called = |subnet: &&Subnet| subnet.ip_version == Some(4) && (subnet.id == name || subnet.name == name);
    let found: Vec<&Subnet> = subnets.iter().filter(is_called).collect();
    let rule = match found.as_slice() {
        [subnet] => match Cidr::parse(&subnet.cidr) {
            Some(range) => return Ok(GivenSubnet { id: subnet.id.clone(), range }),
            None => format!("subnet {} has no range that can be read: {}", subnet.id, subnet.cidr),
        },
        [] => format!("the network has no IPv4 subnet called {name}"),
        several => format!("the network has {} IPv4 subnets called {name}: give an id", several.len()),
    };
    Err(RenderError::new(SUBNET, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(id: &str, name: &str, cidr: &str) -> Subnet {
        let ip_version = Some(if cidr.contains(':') { 6 } else { 4 });
        Subnet { id: id.into(), name: name.into(), cidr: cidr.into(), ip_version, ..Subnet::default() }
    }

    #[test]
    fn names_and_ids_lead_to_the_same_and_what_they_do_not_lead_to_is_named() {
        let network = |id: &str| Network { id: id.into(), name: "theirs".into(), ..Network::default() };
        let (one, two) = (network("n1"), network("n2"));
        assert_eq!(only(std::slice::from_ref(&one), "theirs"), Ok("n1".into()));
        for (found, word) in [(vec![], "no network theirs"), (vec![one, two], "2 networks are called theirs: give an id")] {
            let error = only(&found, "theirs").expect_err(word);
            assert!(error.field == "fixed_network" && error.rule.contains(word), "{error}");
        }

        let all = [subnet("s1", "nodes", "192.0.2.0/24"), subnet("s6", "nodes", "fd00::/64"), subnet("s2", "others", "198.51.100.0/24")];
        let range = Cidr::parse("192.0.2.0/24").expect("a network");
        for name in ["nodes", "s1"] {
            assert_eq!(chosen(&all, name), Ok(GivenSubnet { id: "s1".into(), range }), "{name}");
        }
        let twins = [subnet("s1", "nodes", "192.0.2.0/24"), subnet("s2", "nodes", "198.51.100.0/24")];
        let unread = [subnet("s1", "nodes", "")];
        for (subnets, name, word) in [
            (&all[..], "elsewhere", "no IPv4 subnet called elsewhere"),
            (&all, "s6", "no IPv4 subnet called s6"),
            (&twins, "nodes", "2 IPv4 subnets called nodes: give an id"),
            (&unread, "nodes", "no range that can be read"),
        ] {
            let error = chosen(subnets, name).expect_err(word);
            assert!(error.field == "fixed_subnet" && error.rule.contains(word), "{error}");
        }
    }
}
