//! The ranges of addresses that a cluster's labels name, and how many nodes they hold.

use model::json::Labels;

use super::ipv6::pods as pods_v6;
use super::{
    CALICO, CILIUM, Cidr, FLANNEL, FLANNEL_NODE_PODS, MASK_SIZES, NODE_PODS_LENGTH, PODS_CIDR, SERVICES, SERVICES_CIDR, SUBNET_CIDR, cidr,
    options, pod_network, ruled,
};
use crate::driver::heat::render::RenderError;

/// The label of the range of a subnet that is made.
const SUBNET: &str = "fixed_subnet_cidr";
/// Prefix length of the pods of one node, as the controller manager and Cilium have it where nothing is said.
const NODE_PODS: u8 = 24;
/// The bits by which it may be longer than that of all pods at most (kubeadm: `PodSubnetNodeMaskMaxDiff`).
const MOST_PARTS: u8 = 16;
/// Prefix length of all pods at most: kubeadm wants so many addresses (`MinimumAddressesInPodSubnet`, 14).
const PODS_LENGTH: u8 = 28;
/// Prefix lengths of the services' range: kubeadm wants ten addresses at least, and 20 bits of them at most (`MinimumAddressesInServiceSubnet`,
/// `MaximumBitsForServiceSubnet`).
const SERVICES_LENGTHS: [u8; 2] = [12, 28];
/// Addresses of a subnet that are no node's: its own, the broadcasts', the router's, the API's or its load balancer's, and Neutron's for DHCP or
/// metadata.
const OF_NO_NODE: u64 = 5;
/// Nodes for which there is room beside those that there are: one that replaces another comes before that goes.
const NEWCOMERS: u64 = 1;

/// Ranges of IPv4, each with its label.
pub(crate) struct Ranges {
    pub(super) pods: (&'static str, Cidr),
    pub(super) services: (&'static str, Cidr),
    /// Of the subnet that is made; meaningless with an existing one.
    pub(super) subnet: (&'static str, Cidr),
    /// Of pods, where there is IPv6.
    pods_v6: Option<(&'static str, Cidr)>,
    has_network: bool,
    /// Prefix length of the pods of one node, as the controller manager divides them.
    node_pods: u8,
    /// The same as the pod network divides them, where each node has such a part of its own and is none without.
    part: Option<u8>,
}

impl Ranges {
    /// Of a cluster with this network driver and these labels; `has_network`: on a network that it names, `has_ipv6`: beside IPv4.
    pub(crate) fn read(network_driver: &str, labels: &Labels, has_network: bool, has_ipv6: bool) -> Result<Self, RenderError> {
        let node_pods = node_pods(network_driver, labels)?;
        let (pods, part) = match network_driver {
            FLANNEL => ("flannel_network_cidr", Some(node_pods)),
            // It divides its range into smaller parts, of which a node takes as many as it needs.
            CALICO => ("calico_ipv4pool", None),
            CILIUM => ("cilium_ipv4pool", Some(NODE_PODS)),
            other => return Err(pod_network::unknown_network_driver(other)),
        };
        Ok(Self {
            pods: (pods, cidr(labels, pods, PODS_CIDR)?),
            services: (SERVICES, cidr(labels, SERVICES, SERVICES_CIDR)?),
            subnet: (SUBNET, cidr(labels, SUBNET, SUBNET_CIDR)?),
            pods_v6: if has_ipv6 { Some(pods_v6(labels)?) } else { None },
            has_network,
            node_pods,
            part,
        })
    }

    /// The range of the subnet that is made, if one is.
    pub(super) fn made(&self) -> Option<Cidr> {
        (!self.has_network).then_some(self.subnet.1)
    }

    /// No address is in two of them, nor in the nodes' range.
    pub(super) fn apart(&self, nodes: Option<&Cidr>) -> Result<(), RenderError> {
        apart((self.pods.0, &self.pods.1), (self.services.0, &self.services.1), nodes)
    }

    /// That the ranges of pods and services are as kubeadm takes them, which looks on the first master and not before.
    pub(super) fn check(&self) -> Result<(), RenderError> {
        let length = |(name, range): (&str, Cidr), least: u8, most: u8| match (least..=most).contains(&range.length()) {
            true => Ok(()),
            false => Err(RenderError::new(name, format!("must be a network from /{least} to /{most}, not {range}"))),
        };
        let [least, most] = SERVICES_LENGTHS;
        length(self.services, least, most)?;
        length(self.pods, self.node_pods.saturating_sub(MOST_PARTS), self.node_pods.min(PODS_LENGTH))
    }

    /// That there are addresses for so many nodes and for their pods.
    ///
    /// # Errors
    /// The label of the range that is too small, and how many it holds.
    pub(crate) fn hold(&self, nodes: u64) -> Result<(), RenderError> {
        let least = |all: u64, (name, range): (&str, Cidr), what: &str| {
            let held = all.saturating_sub(NEWCOMERS);
            match nodes <= held {
                true => Ok(()),
                false => Err(RenderError::new(name, format!("{range} has room for {what}{held} nodes, and there would be {nodes}"))),
            }
        };
        let parts = |length: u8, range: Cidr| 1u64 << length.saturating_sub(range.length()).min(32);
        if let Some(length) = self.part {
            least(parts(length, self.pods.1), self.pods, "the pods of ")?;
            if let Some(pods) = self.pods_v6 {
                least(parts(NODE_PODS_LENGTH, pods.1), pods, "the pods of ")?;
            }
        }
        match self.made() {
            Some(range) => least((1u64 << (32 - range.length())).saturating_sub(OF_NO_NODE), (SUBNET, range), ""),
            None => Ok(()),
        }
    }
}

/// Ranges of pods and services, each with its label, and that of the nodes where it is known: no address may be in two of them.
pub(super) fn apart(pods: (&str, &Cidr), services: (&str, &Cidr), nodes: Option<&Cidr>) -> Result<(), RenderError> {
    let overlap = |(field, one): (&str, &Cidr), other: &Cidr, what: &str| match one.overlaps(other) {
        true => Err(RenderError::new(field, format!("{one} overlaps {what} {other}"))),
        false => Ok(()),
    };
    overlap(pods, services.1, "the services' range")?;
    if let Some(nodes) = nodes {
        overlap(pods, nodes, "the nodes' range")?;
        overlap(services, nodes, "the nodes' range")?;
    }
    Ok(())
}

/// What an option says last is what the controller manager does, and what kubeadm looks at.
fn node_pods(network_driver: &str, labels: &Labels) -> Result<u8, RenderError> {
    let own = if network_driver == FLANNEL { ruled(labels, FLANNEL_NODE_PODS)? } else { None };
    let said = options(labels, "kubecontroller_options")?.into_iter().rfind(|option| option.name == MASK_SIZES[0]);
    let length = said.and_then(|option| option.value.parse().ok()).or(own.and_then(|(value, _)| value.parse().ok()));
    Ok(length.filter(|length| *length <= 32).unwrap_or(NODE_PODS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ranges(driver: &str, labels: serde_json::Value, has_network: bool) -> Ranges {
        let labels: Labels = serde_json::from_value(labels).expect("labels");
        Ranges::read(driver, &labels, has_network, false).expect("ranges")
    }

    fn refused(outcome: Result<(), RenderError>) -> Option<String> {
        outcome.err().map(|error| error.field)
    }

    #[test]
    fn ranges_are_as_kubeadm_takes_them() {
        for (driver, name, value, fits) in [
            ("calico", "calico_ipv4pool", "10.20.0.0/24", true),
            ("calico", "calico_ipv4pool", "10.20.0.0/25", false),
            ("calico", "calico_ipv4pool", "10.0.0.0/8", true),
            ("calico", "calico_ipv4pool", "10.0.0.0/7", false),
            ("cilium", "cilium_ipv4pool", "10.20.0.0/25", false),
            ("flannel", "service_cluster_ip_range", "100.64.0.0/10", false),
            ("flannel", "service_cluster_ip_range", "100.64.0.0/12", true),
            ("flannel", "service_cluster_ip_range", "10.254.0.0/28", true),
            ("flannel", "service_cluster_ip_range", "10.254.0.0/29", false),
        ] {
            let found = refused(ranges(driver, json!({name: value}), false).check());
            assert_eq!(found.as_deref(), (!fits).then_some(name), "{driver} {value}");
        }
        // The length of a node's part may be another one.
        let of = |labels| ranges("flannel", labels, false);
        assert_eq!(refused(of(json!({"flannel_network_cidr": "10.20.0.0/25", "flannel_network_subnetlen": "28"})).check()), None);
        assert_eq!(refused(of(json!({})).check()), None);
        assert_eq!(
            refused(of(json!({"flannel_network_cidr": "10.20.0.0/29", "flannel_network_subnetlen": "30"})).check()).as_deref(),
            Some("flannel_network_cidr")
        );
        let option = json!({"calico_ipv4pool": "10.20.0.0/25", "kubecontroller_options": "--node-cidr-mask-size-ipv4=26"});
        assert_eq!(refused(ranges("calico", option, false).check()), None);
    }

    #[test]
    fn there_are_addresses_for_nodes_and_their_pods() {
        let wide = "10.8.0.0/16";
        for (driver, labels, has_network, held, short) in [
            // A subnet of /24, whoever divides the pods' range.
            ("calico", json!({}), false, 250, "fixed_subnet_cidr"),
            ("flannel", json!({}), false, 250, "fixed_subnet_cidr"),
            ("flannel", json!({"fixed_subnet_cidr": wide}), false, 255, "flannel_network_cidr"),
            ("cilium", json!({}), true, 255, "cilium_ipv4pool"),
            ("flannel", json!({"flannel_network_cidr": "10.20.0.0/24"}), true, 0, "flannel_network_cidr"),
            (
                "flannel",
                json!({"flannel_network_cidr": "10.20.0.0/24", "flannel_network_subnetlen": "26"}),
                true,
                3,
                "flannel_network_cidr",
            ),
            ("calico", json!({"fixed_subnet_cidr": "10.0.0.0/29"}), false, 2, "fixed_subnet_cidr"),
            ("calico", json!({"fixed_subnet_cidr": "10.0.0.0/31"}), false, 0, "fixed_subnet_cidr"),
        ] {
            let ranges = ranges(driver, labels, has_network);
            assert_eq!(refused(ranges.hold(held)), None, "{driver} {held}");
            assert_eq!(refused(ranges.hold(held + 1)).as_deref(), Some(short), "{driver} {held}");
        }
        let both = Ranges::read("flannel", &Labels::default(), true, true).expect("ranges");
        assert_eq!((refused(both.hold(255)), refused(both.hold(256)).as_deref()), (None, Some("flannel_network_cidr")));
        let narrow = serde_json::from_value(json!({"pod_cidr_v6": "fd6d:6167:6e75:100::/60"})).expect("labels");
        let both = Ranges::read("cilium", &narrow, true, true).expect("ranges");
        assert_eq!((refused(both.hold(15)), refused(both.hold(16)).as_deref()), (None, Some("pod_cidr_v6")));
        let text = ranges("flannel", json!({}), true).hold(300).expect_err("too many").to_string();
        assert!(text.contains("10.100.0.0/16 has room for the pods of 255 nodes, and there would be 300"), "{text}");
        assert_eq!(refused(ranges("calico", json!({}), true).hold(100_000)), None);
    }
}
