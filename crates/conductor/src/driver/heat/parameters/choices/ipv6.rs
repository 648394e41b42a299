//! What labels ask for in a cluster that has both versions of IP.

use model::json::Labels;

use super::ranges::apart;
use super::{Cidr, ruled};
use crate::driver::heat::render::RenderError;
use crate::driver::heat::stack_input::StackInput;

const SUBNET_CIDR: &str = "fd6d:6167:6e75::/64";
const PODS_CIDR: &str = "fd6d:6167:6e75:100::/56";
const SERVICES_CIDR: &str = "fd6d:6167:6e75:200::/112";

const SUBNET: &str = "fixed_subnet_cidr_v6";
const POOL: &str = "fixed_subnetpool_v6";
const PODS: &str = "pod_cidr_v6";
const SERVICES: &str = "service_cluster_ip_range_v6";

/// What the controller manager calls the prefix lengths of a node's pods, one for each version of IP.
pub(crate) const MASK_SIZES: [&str; 2] = ["node-cidr-mask-size-ipv4", "node-cidr-mask-size-ipv6"];

/// Prefix length of the pods of one node, whatever the pod network.
pub(crate) const NODE_PODS_LENGTH: u8 = 64;

/// Ranges of IPv6.
#[derive(Clone, Debug)]
pub(crate) struct Ipv6 {
    pub pods_cidr: Cidr,
    pub services_cidr: Cidr,
    pub subnet: Subnet,
}

/// Where nodes have their addresses from.
#[derive(Clone, Debug)]
pub(crate) enum Subnet {
    /// A subnet of this range, which is made.
    Made(Cidr),
    /// The same, of a range from a pool: its name or id.
    FromPool(String),
    /// A subnet of the network that the cluster names.
    Given,
}

impl Ipv6 {
    /// Reads and checks everything; none where the cluster has IPv4 alone. `nodes`: of the subnet of IPv4 that is made, if it is.
    pub(super) fn read(input: &StackInput<'_>, nodes: &Cidr) -> Result<Option<Self>, RenderError> {
        if input.dual_stack.is_none() {
            return Ok(None);
        }
        let options = input.labels.get("kubecontroller_options").unwrap_or_default();
        if let Some(name) = MASK_SIZES.iter().find(|name| options.contains(*name)) {
            return Err(RenderError::new("kubecontroller_options", format!("must not hold {name} where ipv6_enabled is true")));
        }
        let ranges =
            Self { pods_cidr: pods(input.labels)?.1, services_cidr: cidr(input.labels, SERVICES, SERVICES_CIDR)?, subnet: subnet(input)? };
        ranges.apart(input)?;
        let addresses = match &ranges.subnet {
            Subnet::Given => return Ok(Some(ranges)),
            Subnet::Made(made) => (SUBNET, made),
            Subnet::FromPool(_) => (POOL, &Cidr::GLOBAL_V6),
        };
        told_after(addresses, nodes)?;
        Ok(Some(ranges))
    }

    /// The range of the nodes' subnet, where it is known.
    pub(crate) fn nodes(&self, input: &StackInput<'_>) -> Option<Cidr> {
        match &self.subnet {
            Subnet::Made(range) => Some(*range),
            Subnet::FromPool(_) => None,
            Subnet::Given => input.dual_stack.and_then(|dual_stack| dual_stack.given_subnet.as_ref()).map(|subnet| subnet.range),
        }
    }

    fn apart(&self, input: &StackInput<'_>) -> Result<(), RenderError> {
        apart((PODS, &self.pods_cidr), (SERVICES, &self.services_cidr), self.nodes(input).as_ref())
    }
}

/// Templates take the first address of a port for that of IPv4.
pub(crate) fn told_after((field, nodes_v6): (&str, &Cidr), nodes: &Cidr) -> Result<(), RenderError> {
    match nodes.is_told_before(nodes_v6) {
        true => Ok(()),
        false => {
            let rule = format!("Neutron would tell addresses of {nodes_v6} before those of {nodes}, which sort after them as texts");
            Err(RenderError::new(field, rule))
        }
    }
}

fn subnet(input: &StackInput<'_>) -> Result<Subnet, RenderError> {
    if input.fixed_network.is_some() {
        return Ok(Subnet::Given);
    }
    let (pool, range) = (ruled(input.labels, POOL)?, ruled(input.labels, SUBNET)?);
    match (pool, range) {
        (Some(_), Some(_)) => Err(RenderError::new(POOL, format!("must not be given together with {SUBNET}"))),
        (Some((pool, _)), None) => Ok(Subnet::FromPool(pool.to_owned())),
        (None, _) => Ok(Subnet::Made(cidr(input.labels, SUBNET, SUBNET_CIDR)?)),
    }
}

/// The range of pods, with its label.
pub(super) fn pods(labels: &Labels) -> Result<(&'static str, Cidr), RenderError> {
    Ok((PODS, cidr(labels, PODS, PODS_CIDR)?))
}

fn cidr(labels: &Labels, name: &str, default: &str) -> Result<Cidr, RenderError> {
    let value = ruled(labels, name)?.map_or(default, |(value, _)| value);
    Cidr::parse_v6(value).ok_or_else(|| RenderError::new(name, format!("must be an IPv6 network such as {default}, not {value}")))
}

#[cfg(test)]
mod tests {
    use model::driver::DriverName;

    use super::*;

    #[test]
    fn users_are_told_the_defaults_that_hold() {
        for (name, default) in [(SUBNET, SUBNET_CIDR), (PODS, PODS_CIDR), (SERVICES, SERVICES_CIDR)] {
            assert_eq!(DriverName::K8sFedoraCoreosV1.label(name).and_then(|label| label.default), Some(default), "{name}");
        }
    }
}
