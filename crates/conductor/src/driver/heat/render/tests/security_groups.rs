//! Who reaches what on nodes, by the rules of the security groups.

use serde_json::json;

use super::*;
use crate::driver::heat::need;

/// The functions of a template that security groups are written with.
struct Functions<'a> {
    template: &'a Value,
    parameters: &'a Map<String, Value>,
}

impl Functions<'_> {
    /// Those whose conditions hold.
    fn resources(&self) -> Vec<(&String, &Value)> {
        let all = self.template["resources"].as_object().expect("a map").iter();
        all.filter(|(_, resource)| resource.get("condition").is_none_or(|one| self.holds(one))).collect()
    }

    fn holds(&self, condition: &Value) -> bool {
        if let Some(name) = condition.as_str() {
            return self.holds(&self.template["conditions"][name]);
        }
        let (function, argument) = only(condition).expect("a condition is a name or a function");
        let all = || argument.as_array().expect("conditions").iter();
        match function {
            "equals" => self.value(&argument[0]) == self.value(&argument[1]),
            "not" => !self.holds(argument),
            "and" => all().all(|one| self.holds(one)),
            "or" => all().any(|one| self.holds(one)),
            _ => panic!("{function} is no function of conditions"),
        }
    }

    /// What a resource is called stands for its id.
    fn value(&self, value: &Value) -> Value {
        if let Value::Array(items) = value {
            return items.iter().map(|item| self.value(item)).collect();
        }
        match only(value) {
            Some(("get_param", name)) => {
                let name = name.as_str().expect("the name of a parameter");
                self.parameters.get(name).unwrap_or_else(|| &self.template["parameters"][name]["default"]).clone()
            }
            Some(("get_resource", name)) => name.clone(),
            Some(("if", parts)) => self.value(if self.holds(&parts[0]) { &parts[1] } else { &parts[2] }),
            Some(("list_concat", lists)) => self.list(lists).iter().flat_map(|list| list.as_array().expect("a list").clone()).collect(),
            Some(("repeat", argument)) => {
                let (mark, list) = only(&argument["for_each"]).expect("one list");
                let filled = |item: &Value| argument["template"].to_string().replace(mark, item.as_str().expect("a text"));
                self.list(list).iter().map(|item| serde_json::from_str::<Value>(&filled(item)).expect("JSON")).collect()
            }
            _ => match value {
                Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), self.value(value))).collect::<Map<_, _>>().into(),
                plain => plain.clone(),
            },
        }
    }

    fn list(&self, value: &Value) -> Vec<Value> {
        self.value(value).as_array().expect("a list").clone()
    }
}

/// The one entry of a map that has no other.
fn only(value: &Value) -> Option<(&str, &Value)> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    map.iter().next().map(|(name, value)| (name.as_str(), value))
}

const NODES: &str = "secgroup_kube_node";
const MASTERS: &str = "secgroup_kube_master";
const WORKERS: &str = "secgroup_kube_minion";
const SSH: &str = "secgroup_kube_ssh";

/// The rules of the groups that there are, by their names, and how many rules are resources of their own.
fn groups(rendered: &Rendered) -> (Vec<(String, Vec<Value>)>, usize) {
    let template = yaml(&rendered.template);
    let functions = Functions { template: &template, parameters: &rendered.parameters };
    let there = functions.resources();
    let groups = there.iter().filter(|(_, resource)| resource["type"] == "OS::Neutron::SecurityGroup");
    let rules = groups.map(|(name, group)| ((*name).clone(), functions.list(&group["properties"]["rules"]))).collect();
    (rules, there.iter().filter(|(_, resource)| resource["type"] == "OS::Neutron::SecurityGroupRule").count())
}

/// The resources that a stack has itself, by name, each with its type.
pub(super) fn resources(rendered: &Rendered) -> Vec<(String, String)> {
    let template = yaml(&rendered.template);
    let functions = Functions { template: &template, parameters: &rendered.parameters };
    let shown = |(name, resource): (&String, &Value)| (name.clone(), resource["type"].as_str().expect("a type").to_owned());
    functions.resources().into_iter().map(shown).collect()
}

/// Whom a rule lets in, and to what.
fn told(group: &str, rule: &Value) -> String {
    let text = |key: &str| rule[key].as_str();
    let from = match (text("remote_mode"), text("remote_ip_prefix")) {
        (Some("remote_group_id"), None) => match text("remote_group_id").unwrap_or(group) {
            NODES => "nodes",
            MASTERS => "masters",
            other => panic!("nobody is in {other} alone"),
        },
        (None, Some(range)) => range,
        (None, None) => "anybody",
        other => panic!("{other:?}"),
    };
    let ports = match (rule["port_range_min"].as_u64(), rule["port_range_max"].as_u64()) {
        (Some(first), Some(last)) if first == last => format!(" {first}"),
        (Some(first), Some(last)) => format!(" {first}-{last}"),
        (None, None) => String::new(),
        other => panic!("{other:?}"),
    };
    let version = if text("ethertype") == Some("IPv6") { "IPv6 " } else { "" };
    format!("{from} {version}{}{ports}", text("protocol").unwrap_or("all"))
}

/// What the rules of these groups say.
fn of_groups(rendered: &Rendered, names: &[&str]) -> BTreeSet<String> {
    let (groups, _) = groups(rendered);
    let of = |name: &&str| groups.iter().find(|(group, _)| group == name).unwrap_or_else(|| panic!("no {name}")).1.clone();
    let mut all = BTreeSet::new();
    for name in names {
        for rule in of(name) {
            let told = told(name, &rule);
            assert!(all.insert(told.clone()), "twice: {told}");
        }
    }
    all
}

/// A pod network, as it is asked for.
struct PodNetwork {
    driver: &'static str,
    label: (&'static str, &'static str),
    /// What nodes let each other in for, by IPv4 and beside it by IPv6.
    own: (&'static [&'static str], &'static [&'static str]),
    /// Whether packets of pods travel as they are, by IPv4 and by IPv6.
    is_routed: (bool, bool),
}

const CALICO: PodNetwork = PodNetwork {
    driver: "calico",
    label: ("calico_ipv4pool_ipip", "Always"),
    own: (&["nodes 4", "nodes tcp 179"], &["nodes IPv6 udp 4789", "nodes IPv6 tcp 179"]),
    is_routed: (false, false),
};
const FLANNEL: PodNetwork = PodNetwork {
    driver: "flannel",
    label: ("flannel_backend", "vxlan"),
    own: (&["nodes udp 8472"], &["nodes IPv6 udp 8472"]),
    is_routed: (false, false),
};
const POD_NETWORKS: [PodNetwork; 6] = [
    CALICO,
    PodNetwork { label: ("calico_ipv4pool_ipip", "Off"), is_routed: (true, false), ..CALICO },
    PodNetwork { label: ("calico_ipv4pool_ipip", "CrossSubnet"), is_routed: (true, false), ..CALICO },
    PodNetwork {
        driver: "cilium",
        label: ("cilium_ipv4pool", "10.100.0.0/16"),
        own: (&["nodes udp 8472", "nodes tcp 4240", "nodes tcp 4244"], &["nodes IPv6 tcp 4240"]),
        is_routed: (false, false),
    },
    FLANNEL,
    PodNetwork { label: ("flannel_backend", "host-gw"), own: (&[], &[]), is_routed: (true, true), ..FLANNEL },
];

const OF_NODES: [&str; 5] = ["nodes icmp", "nodes tcp 10250", "nodes tcp 9100", "nodes tcp 30000-32767", "nodes udp 30000-32767"];
const OF_NODES_V6: [&str; 3] = ["nodes IPv6 ipv6-icmp", "nodes IPv6 tcp 30000-32767", "nodes IPv6 udp 30000-32767"];
const OF_MASTERS: [&str; 3] = ["anybody tcp 6443", "nodes tcp 6443", "masters all"];
/// What masters let in where pods' packets are routed as they are.
const ROUTED: [&str; 7] = [
    "10.100.0.0/16 icmp",
    "10.100.0.0/16 udp",
    "10.100.0.0/16 tcp 23-2378",
    "10.100.0.0/16 tcp 2381-65535",
    "nodes udp",
    "nodes tcp 23-2378",
    "nodes tcp 2381-65535",
];
const ROUTED_V6: [&str; 7] = [
    "fd6d:6167:6e75:100::/56 IPv6 ipv6-icmp",
    "fd6d:6167:6e75:100::/56 IPv6 udp",
    "fd6d:6167:6e75:100::/56 IPv6 tcp 23-2378",
    "fd6d:6167:6e75:100::/56 IPv6 tcp 2381-65535",
    "nodes IPv6 udp",
    "nodes IPv6 tcp 23-2378",
    "nodes IPv6 tcp 2381-65535",
];
const OF_WORKERS: [&str; 3] = ["anybody tcp 30000-32767", "anybody udp 30000-32767", "nodes all"];
const OF_WORKERS_V6: [&str; 3] = ["anybody IPv6 tcp 30000-32767", "anybody IPv6 udp 30000-32767", "nodes IPv6 all"];

fn texts(lists: &[&[&str]]) -> BTreeSet<String> {
    lists.concat().into_iter().map(str::to_owned).collect()
}

/// These where something holds.
fn only_if(holds: bool, rules: &'static [&'static str]) -> &'static [&'static str] {
    if holds { rules } else { &[] }
}

/// A cluster of this pod network.
fn cluster(network: &PodNetwork, has_ipv6: bool, pairs: &[(&str, &str)], change: fn(&mut StackInput<'_>)) -> Rendered {
    let some = labels(&[&[network.label][..], pairs].concat());
    let mut input = StackInput { network_driver: network.driver, dual_stack: has_ipv6.then(dual_stack::made), ..input(&some) };
    change(&mut input);
    done(&input)
}

/// What the rules of these groups say in a cluster of this pod network, by IPv4 alone and with IPv6 beside it.
fn with_and_without_ipv6(network: &PodNetwork, names: &[&str]) -> (BTreeSet<String>, BTreeSet<String>) {
    let of = |has_ipv6| of_groups(&cluster(network, has_ipv6, &[], |_| {}), names);
    (of(false), of(true))
}

/// Whether a rule lets somebody in to this port of TCP.
fn lets_in(rule: &str, port: u64) -> bool {
    let ports = rule.rsplit(' ').next().expect("a word");
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) => rule.contains(" tcp ") && (first..=last).contains(&port),
        _ => ports == "tcp" || ports == "all",
    }
}

#[test]
fn masters_let_in_what_nodes_and_the_pod_network_need_and_nobody_else_to_etcd() {
    for network in &POD_NETWORKS {
        let PodNetwork { driver, label, own, is_routed, .. } = network;
        let what = format!("{driver} {label:?}");
        let (alone, all) = with_and_without_ipv6(network, &[NODES, MASTERS]);
        assert_eq!(alone, texts(&[&OF_NODES, &OF_MASTERS, own.0, only_if(is_routed.0, &ROUTED)]), "{what}");
        assert_eq!(&all - &alone, texts(&[&OF_NODES_V6, own.1, only_if(is_routed.1, &ROUTED_V6)]), "{what}");
        assert!(all.is_superset(&alone), "{what}");
        // ssh has a group of its own, and etcd is the masters' alone.
        for port in [22, 2379, 2380] {
            let open: Vec<&String> = all.iter().filter(|rule| lets_in(rule, port)).collect();
            assert_eq!(open, ["masters all"], "{what}: {port}");
        }
        for (rule, port) in [("nodes tcp 10250", 10250), ("nodes tcp 6443", 6443)] {
            assert!(all.contains(rule) && lets_in(rule, port), "{what}: {rule}");
        }
    }
}

#[test]
fn workers_let_in_nodes_to_everything_and_others_to_node_ports_alone() {
    for network in &POD_NETWORKS {
        let what = format!("{} {:?}", network.driver, network.label);
        let (alone, both) = with_and_without_ipv6(network, &[WORKERS]);
        let pods = only_if(network.is_routed.0, &["10.100.0.0/16 all"]);
        assert_eq!(alone, texts(&[&OF_WORKERS, pods]), "{what}");
        let pods_v6 = only_if(network.is_routed.1, &["fd6d:6167:6e75:100::/56 IPv6 all"]);
        assert_eq!(both, texts(&[&OF_WORKERS, &OF_WORKERS_V6, pods, pods_v6]), "{what}");
    }
}

#[test]
fn ssh_is_open_where_there_is_a_key_and_the_api_to_those_who_are_named() {
    let sources = [("master_lb_allowed_cidrs", "192.0.2.0/24,198.51.100.7/32")];
    let rendered = cluster(&FLANNEL, true, &sources, |_| {});
    assert_eq!(of_groups(&rendered, &[SSH]), texts(&[&["anybody tcp 22"]]));
    let of_api = ["192.0.2.0/24 tcp 6443", "198.51.100.7/32 tcp 6443", "10.0.0.0/24 tcp 6443", "nodes tcp 6443", "masters all"];
    assert_eq!(of_groups(&rendered, &[MASTERS]), texts(&[&of_api]));
    let closed = cluster(&FLANNEL, true, &[], |input| input.ssh_key_name = None);
    assert_eq!(groups(&closed).0.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [NODES, MASTERS, WORKERS]);
}

/// Neutron refuses a rule, and Octavia a source, that is there already.
#[test]
fn whoever_is_named_twice_is_told_once_and_the_nodes_own_subnet_always() {
    let on_given: fn(&mut StackInput<'_>) = |input| {
        input.fixed_network = Some("there");
        input.fixed_subnet = Some("there");
        input.fixed_range = Cidr::parse("192.0.2.0/24");
    };
    for (given, change, wanted) in [
        ("198.51.100.0/24, 10.0.0.0/24,198.51.100.0/24", (|_| {}) as fn(&mut StackInput<'_>), &["198.51.100.0/24", "10.0.0.0/24"][..]),
        ("198.51.100.0/24,10.0.0.0/24", on_given, &["198.51.100.0/24", "10.0.0.0/24", "192.0.2.0/24"]),
        ("192.0.2.0/24", on_given, &["192.0.2.0/24"]),
        ("", on_given, &[]),
    ] {
        let rendered = cluster(&FLANNEL, false, &[("master_lb_allowed_cidrs", given)], change);
        assert_eq!(rendered.parameters["master_lb_allowed_cidrs"], json!(wanted), "{given}");
    }
}

#[test]
fn all_nodes_of_the_cluster_are_in_the_group_of_nodes() {
    let none = labels(&[]);
    let template = yaml(&done(&input(&none)).template);
    let of = |nodes: &str| template["resources"][nodes]["properties"]["resource_def"]["properties"]["security_groups"].clone();
    let joined = &template["outputs"]["worker_security_groups"]["value"];
    for (groups, role) in [(&of("kube_masters"), MASTERS), (&of("kube_minions"), WORKERS), (joined, WORKERS)] {
        assert_eq!(groups["list_concat"][0], json!([{"get_resource": NODES}, {"get_resource": role}]));
    }
}

#[test]
fn as_many_rules_are_counted_as_there_are() {
    let on_given: fn(&mut StackInput<'_>) = |input| {
        input.fixed_network = Some("there");
        input.fixed_subnet = Some("there");
        input.fixed_range = Cidr::parse("192.0.2.0/24");
        input.dual_stack = input.dual_stack.map(|_| dual_stack::given());
    };
    let changes: [fn(&mut StackInput<'_>); 3] = [|_| {}, |input| input.ssh_key_name = None, on_given];
    let sources = [("master_lb_allowed_cidrs", "192.0.2.0/24,198.51.100.7/32")];
    for network in &POD_NETWORKS {
        for (has_ipv6, pairs) in [(false, &[][..]), (false, &sources[..]), (true, &[]), (true, &sources[..])] {
            for change in changes {
                let rendered = cluster(network, has_ipv6, pairs, change);
                let need = need::of(&rendered.parameters);
                let (groups, alone) = groups(&rendered);
                // A group has two before it is given any.
                let rules = alone + groups.iter().map(|(_, rules)| 2 + rules.len()).sum::<usize>();
                let what = format!("{} {:?} {has_ipv6} {pairs:?}", network.driver, network.label);
                assert_eq!((need.security_groups, need.security_group_rules), (groups.len() as u64, rules as u64), "{what}");
            }
        }
    }
}
