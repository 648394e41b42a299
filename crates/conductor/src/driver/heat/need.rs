//! What a stack of ours takes of the project's quotas, from its parameters: what `templates/*.yaml` make of them. A real Heat's opinion of that
//! is asked by `tests/lab/preview.py`.

use serde_json::{Map, Value};

use super::access::is_on;
use super::dual_stack;
use super::parameters::EXTRA_NETWORKS;
use super::parameters::choices::{CALICO, CILIUM, FLANNEL};
use super::workers;
use crate::room::Need;

/// Rules that every new security group has before there are any of ours: out, for both versions of IP.
const RULES_OF_A_GROUP: u64 = 2;

/// Of the groups for nodes, masters and workers, whatever the pod network; beside those of masters for who may reach the API.
const RULES: u64 = 5 + 2 + 3;

/// Beside them where there is IPv6: of the groups for nodes and workers.
const RULES_V6: u64 = 3 + 3;

/// Volumes of every node, by the parameters of their sizes.
const SIZES: [&str; 2] = ["boot_volume_size", "docker_volume_size"];

fn is_made(size: u64) -> u64 {
    u64::from(size > 0)
}

/// The parameters of a stack, as they were given or as Heat shows them.
struct Parameters<'a>(&'a Map<String, Value>);

impl Parameters<'_> {
    fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(workers::count).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        is_on(self.0.get(name))
    }

    /// Whether a template of ours is meant: upstream's parameters have other meanings, but for those of workers.
    fn is_ours(&self) -> bool {
        self.0.contains_key(workers::USER_DATA)
    }
}

/// Rules that a pod network needs beside those of every cluster, and those beside them where there is IPv6.
fn of_pod_network(given: &Parameters<'_>) -> (u64, u64) {
    // Where packets of pods are routed: to masters, and to workers.
    const ROUTED: u64 = 7 + 1;
    match (given.text("network_driver"), given.text("calico_ipv4pool_ipip"), given.text("flannel_backend")) {
        (CALICO, "Always", _) => (2, 2),
        (CALICO, ..) => (2 + ROUTED, 2),
        (CILIUM, ..) => (3, 1),
        (FLANNEL, _, "vxlan") => (1, 1),
        (FLANNEL, _, "host-gw") => (ROUTED, ROUTED),
        _ => (0, 0),
    }
}

/// What so many more workers of a stack take, which then has so many of them.
pub(super) fn of_workers(parameters: &Map<String, Value>, more: u64, then: u64) -> Need {
    let given = Parameters(parameters);
    let nodes = vec![(more, given.text("minion_flavor").to_owned())];
    if !given.is_ours() {
        return Need { nodes, ..Need::default() };
    }
    let sizes = SIZES.map(|name| given.number(name));
    let extra = parameters.get(EXTRA_NETWORKS).map_or(0, |value| workers::list(value).len()) as u64;
    Need {
        nodes,
        server_group_members: then,
        volumes: more * sizes.map(is_made).iter().sum::<u64>(),
        gigabytes: more * sizes.iter().sum::<u64>(),
        ports: more * (1 + extra),
        floating_ips: if given.flag("floating_ip_enabled") { more } else { 0 },
        ..Need::default()
    }
}

/// What so many more masters of a stack of ours take, which then has so many of them.
pub(super) fn of_masters(parameters: &Map<String, Value>, more: u64, then: u64) -> Need {
    let given = Parameters(parameters);
    let sizes = SIZES.map(|name| given.number(name)).into_iter().chain([given.number("etcd_volume_size")]);
    let (volumes, gigabytes) = sizes.fold((0, 0), |(volumes, gigabytes), size| (volumes + is_made(size), gigabytes + size));
    // Without a load balancer the API's floating IP is none of the masters'.
    let has_address = given.flag("floating_ip_enabled") && given.flag("master_lb_enabled");
    Need {
        nodes: vec![(more, given.text("master_flavor").to_owned())],
        server_group_members: then,
        volumes: more * volumes,
        gigabytes: more * gigabytes,
        ports: more,
        floating_ips: if has_address { more } else { 0 },
        ..Need::default()
    }
}

/// What a new stack takes; nothing is known of one by upstream's templates.
pub(super) fn of(parameters: &Map<String, Value>) -> Need {
    let given = Parameters(parameters);
    if !given.is_ours() {
        return Need::default();
    }
    let (masters, workers) = (given.number("number_of_masters"), given.number(workers::COUNT));
    let mut need = of_workers(parameters, workers, workers);
    need.server_groups = 1;
    if masters == 0 {
        return need;
    }
    let own = of_masters(parameters, masters, masters);
    need.nodes.extend(own.nodes);
    need.volumes += own.volumes;
    need.gigabytes += own.gigabytes;
    need.server_group_members = workers.max(masters);
    let has_balancer = given.flag("master_lb_enabled");
    let is_network_made = u64::from(given.text("fixed_network").is_empty());
    let has_ssh = !given.text("ssh_key_name").is_empty();
    need.server_groups += 1;
    need.networks = is_network_made;
    let has_ipv6 = u64::from(given.flag(dual_stack::PARAMETER));
    need.subnets = is_network_made * (1 + has_ipv6);
    need.routers = is_network_made;
    // The API's own, or its load balancer's; the router's on each subnet that is made; and Neutron's own on a network that is made, for DHCP or
    // for metadata, which counts for the project whose network it is.
    need.ports += own.ports + 1 + need.subnets + is_network_made;
    need.load_balancers = u64::from(has_balancer);
    let has_api_address = given.flag(if has_balancer { "master_lb_floating_ip_enabled" } else { "floating_ip_enabled" });
    need.floating_ips += own.floating_ips + u64::from(has_api_address);
    // Anybody, or those who are named.
    let of_masters = (parameters.get("master_lb_allowed_cidrs").map_or(0, |value| workers::list(value).len()) as u64).max(1);
    need.security_groups = 3 + u64::from(has_ssh);
    let (of_pods, of_pods_v6) = of_pod_network(&given);
    let rules = RULES + of_pods + has_ipv6 * (RULES_V6 + of_pods_v6) + u64::from(has_ssh) + of_masters;
    need.security_group_rules = rules + RULES_OF_A_GROUP * need.security_groups;
    need
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameters(changes: &Value) -> Map<String, Value> {
        let mut all = json!({
            "number_of_masters": 3, "number_of_minions": 2, "master_flavor": "m", "minion_flavor": "w", "ssh_key_name": "key", "fixed_network": "",
            "floating_ip_enabled": true, "master_lb_enabled": true, "master_lb_floating_ip_enabled": true, "master_lb_allowed_cidrs": [],
            "boot_volume_size": 20, "docker_volume_size": 0, "etcd_volume_size": 5, "worker_user_data": "",
            "network_driver": "flannel", "calico_ipv4pool_ipip": "Always", "flannel_backend": "vxlan",
        });
        let all = all.as_object_mut().expect("an object");
        all.extend(changes.as_object().expect("an object").clone());
        all.clone()
    }

    #[test]
    fn a_cluster_is_counted_whole() {
        let need = of(&parameters(&json!({})));
        assert_eq!(
            need,
            Need {
                nodes: vec![(2, "w".into()), (3, "m".into())],
                server_groups: 2,
                server_group_members: 3,
                volumes: 8,
                gigabytes: 115,
                networks: 1,
                subnets: 1,
                routers: 1,
                ports: 8,
                floating_ips: 6,
                security_groups: 4,
                security_group_rules: 21,
                load_balancers: 1,
            }
        );
        // IPv6 beside it: a subnet, the router's port there, and rules.
        let both = of(&parameters(&json!({"ipv6_enabled": true})));
        assert_eq!((both.subnets, both.ports, both.security_group_rules), (2, 9, 28));
        assert_eq!(Need { subnets: 1, ports: 8, security_group_rules: 21, ..both }, need);
        // What pods' packets need that are routed.
        let routed = of(&parameters(&json!({"ipv6_enabled": true, "flannel_backend": "host-gw"})));
        assert_eq!(routed.security_group_rules, 42);
        // One master alone on a network that is there, open to two networks and its own, without ssh.
        let alone = json!({"number_of_masters": 1, "number_of_minions": 0, "master_lb_enabled": false, "fixed_network": "theirs", "ssh_key_name": "",
            "master_lb_allowed_cidrs": ["192.0.2.0/24", "198.51.100.0/24", "10.0.0.0/24"], "boot_volume_size": 0, "etcd_volume_size": 0});
        let need = of(&parameters(&alone));
        assert_eq!((need.ports, need.floating_ips, need.load_balancers, need.networks), (2, 1, 0, 0));
        assert_eq!((need.security_groups, need.security_group_rules, need.volumes), (3, 20, 0));
        let mut both = alone.clone();
        both["ipv6_enabled"] = "True".into();
        let both = of(&parameters(&both));
        assert_eq!((both.subnets, both.ports, both.security_group_rules), (0, 2, 27));
    }

    #[test]
    fn workers_are_counted_from_what_heat_shows_and_of_upstreams_stacks_their_servers_alone() {
        let shown = json!({"docker_volume_size": "10", "floating_ip_enabled": "True"});
        let need = of_workers(&parameters(&shown), 2, 5);
        let want = Need {
            nodes: vec![(2, "w".into())],
            server_group_members: 5,
            volumes: 4,
            gigabytes: 60,
            ports: 2,
            floating_ips: 2,
            ..Need::default()
        };
        assert_eq!(need, want);
        let mut upstreams = parameters(&shown);
        upstreams.remove("worker_user_data");
        assert_eq!(of_workers(&upstreams, 2, 5), Need { nodes: vec![(2, "w".into())], ..Need::default() });
        assert_eq!(of(&upstreams), Need::default());
    }

    #[test]
    fn masters_that_come_before_others_go_are_counted_alone() {
        let want = Need {
            nodes: vec![(1, "m".into())],
            server_group_members: 4,
            volumes: 2,
            gigabytes: 25,
            ports: 1,
            floating_ips: 1,
            ..Need::default()
        };
        assert_eq!(of_masters(&parameters(&json!({})), 1, 4), want);
        // Without a load balancer the API's address stays, and the master has none.
        assert_eq!(of_masters(&parameters(&json!({"master_lb_enabled": "False"})), 1, 2).floating_ips, 0);
    }
}
