//! What a stack can be made of, in combinations: every choice that changes resources, with every other one. A real Heat looks at each of them on
//! the lab (`tests/lab/preview.py`), which has what they name.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::driver::heat::need;

/// A choice, and what it makes of a cluster.
struct Choice {
    name: &'static str,
    change: fn(&mut Wish),
}

/// A cluster that is asked for.
struct Wish {
    labels: Vec<(&'static str, &'static str)>,
    masters: u32,
    workers: u32,
    load_balancer: bool,
    floating: bool,
    given_network: bool,
    docker: Option<u32>,
    key: Option<&'static str>,
    affinity: &'static str,
    cloud: bool,
    ipv6: bool,
    pods: &'static str,
    api_name: Option<&'static str>,
}

/// The question whose answer may be that there is no load balancer, and that answer; then the questions that only make a difference with one.
const LOAD_BALANCER: usize = 0;
const NONE_AT_ALL: usize = 1;
const OF_LOAD_BALANCER: [usize; 4] = [3, 10, 11, 12];

/// The range of the nodes' subnet, of one that is made and of the lab's; and a list of who may reach the API.
const NODES: &str = "10.0.0.0/24";
const NODES_TWICE: &str = "10.0.0.0/24,10.0.0.0/24";

/// In the place of an answer, while there is none.
const OPEN: usize = usize::MAX;

/// Choices of which exactly one holds, for each question.
fn questions() -> Vec<Vec<Choice>> {
    let choice = |name, change| Choice { name, change };
    vec![
        vec![
            choice("one master with a load balancer", |_| {}),
            choice("one master alone", |w| w.load_balancer = false),
            choice("three masters", |w| w.masters = 3),
        ],
        vec![choice("no worker", |w| w.workers = 0), choice("two workers", |w| w.workers = 2)],
        vec![choice("no floating IPs", |_| {}), choice("floating IPs", |w| w.floating = true)],
        vec![
            choice("the load balancer's floating IP as the nodes'", |_| {}),
            choice("a floating IP of the load balancer", |w| w.labels.push(("master_lb_floating_ip_enabled", "true"))),
            choice("no floating IP of the load balancer", |w| w.labels.push(("master_lb_floating_ip_enabled", "false"))),
        ],
        vec![choice("a network of its own", |_| {}), choice("a given network", |w| w.given_network = true)],
        vec![
            choice("the flavor's disk", |_| {}),
            choice("a boot volume", |w| w.labels.push(("boot_volume_size", "10"))),
            choice("a boot volume of a type", |w| w.labels.extend([("boot_volume_size", "10"), ("boot_volume_type", "volume-type")])),
        ],
        vec![
            choice("no volume for containers", |_| {}),
            choice("a volume for containers", |w| w.docker = Some(5)),
            choice("a volume for containers of a type", |w| {
                w.docker = Some(5);
                w.labels.push(("docker_volume_type", "volume-type"));
            }),
        ],
        vec![
            choice("no volume for etcd", |_| {}),
            choice("a volume for etcd", |w| w.labels.push(("etcd_volume_size", "2"))),
            choice("a volume for etcd of a type", |w| w.labels.extend([("etcd_volume_size", "2"), ("etcd_volume_type", "volume-type")])),
        ],
        vec![choice("any zone", |_| {}), choice("a zone", |w| w.labels.push(("availability_zone", "nova")))],
        vec![choice("a key", |_| {}), choice("no key", |w| w.key = None)],
        vec![
            choice("amphora", |_| {}),
            choice("amphora, least connections", |w| w.labels.push(("octavia_lb_algorithm", "LEAST_CONNECTIONS"))),
            choice("ovn", |w| w.labels.push(("octavia_provider", "ovn"))),
        ],
        vec![choice("a health monitor", |_| {}), choice("no health monitor", |w| w.labels.push(("octavia_lb_healthcheck", "false")))],
        vec![
            choice("an API for all", |_| {}),
            choice("an API for some", |w| w.labels.push(("master_lb_allowed_cidrs", "192.0.2.0/24,198.51.100.7/32"))),
            choice("an API for the nodes' own subnet, named twice", |w| w.labels.push(("master_lb_allowed_cidrs", NODES_TWICE))),
        ],
        vec![
            choice("soft anti-affinity", |_| {}),
            choice("anti-affinity", |w| w.affinity = "anti-affinity"),
            choice("soft affinity", |w| w.affinity = "soft-affinity"),
            choice("affinity", |w| w.affinity = "affinity"),
        ],
        vec![choice("one network", |_| {}), choice("another network", |w| w.labels.push(("extra_network_names", "given-network")))],
        vec![choice("no cloud provider", |_| {}), choice("a cloud provider", |w| w.cloud = true)],
        vec![
            choice("flannel", |_| {}),
            choice("flannel without a tunnel", |w| w.labels.push(("flannel_backend", "host-gw"))),
            choice("calico", |w| w.pods = "calico"),
            choice("calico with a tunnel between subnets alone", |w| {
                w.pods = "calico";
                w.labels.push(("calico_ipv4pool_ipip", "CrossSubnet"));
            }),
            choice("cilium", |w| w.pods = "cilium"),
        ],
        vec![
            choice("IPv4 alone", |_| {}),
            choice("IPv6 beside IPv4", |w| w.ipv6 = true),
            choice("IPv6 from a subnet pool", |w| {
                w.ipv6 = true;
                w.labels.push(("fixed_subnetpool_v6", "subnet-pool"));
            }),
        ],
        vec![choice("no name of the API", |_| {}), choice("a name of the API", |w| w.api_name = Some("one.clusters.example.org."))],
    ]
}

/// Whether choices make no difference where there is no load balancer.
fn needs_load_balancer(tuple: &[(usize, usize)]) -> bool {
    tuple.iter().any(|(question, _)| OF_LOAD_BALANCER.contains(question)) && !tuple.iter().any(|(question, _)| *question == LOAD_BALANCER)
}

/// Whether a cluster has these choices, and they make their difference there.
fn shows(row: &[usize], tuple: &[(usize, usize)]) -> bool {
    tuple.iter().all(|&(question, answer)| row[question] == answer) && !(row[LOAD_BALANCER] == NONE_AT_ALL && needs_load_balancer(tuple))
}

/// So few clusters that any `strength` choices, of as many questions, are together in one of them. Greedy: each next one has as much that is
/// new as can be seen by answering one question after the other.
fn covering(sizes: &[usize], strength: usize) -> Vec<Vec<usize>> {
    let mut missing: BTreeSet<Vec<(usize, usize)>> = tuples(sizes, strength).into_iter().collect();
    let mut rows = Vec::new();
    while let Some(first) = missing.first().cloned() {
        let mut row = vec![OPEN; sizes.len()];
        first.iter().for_each(|&(question, answer)| row[question] = answer);
        for question in 0..sizes.len() {
            if row[question] == OPEN {
                let gain = |answer: usize| {
                    let mut longer = row.clone();
                    longer[question] = answer;
                    missing.iter().filter(|tuple| tuple.iter().any(|(q, _)| *q == question) && shows(&longer, tuple)).count()
                };
                // What the row is for needs a load balancer, or it would never come to its end.
                let can = |answer: &usize| !(question == LOAD_BALANCER && *answer == NONE_AT_ALL && needs_load_balancer(&first));
                row[question] =
                    (0..sizes[question]).filter(can).max_by_key(|&answer| (gain(answer), sizes[question] - answer)).expect("an answer");
            }
        }
        missing.retain(|tuple| !shows(&row, tuple));
        rows.push(row);
    }
    rows
}

/// All choices of `strength` questions, as (question, answer) in order.
fn tuples(sizes: &[usize], strength: usize) -> Vec<Vec<(usize, usize)>> {
    let mut all = vec![Vec::new()];
    for _ in 0..strength {
        let longer = |tuple: &Vec<(usize, usize)>| {
            let next = tuple.last().map_or(0, |(question, _)| question + 1);
            (next..sizes.len())
                .flat_map(|question| (0..sizes[question]).map(move |answer| (question, answer)))
                .map(|one| tuple.iter().copied().chain([one]).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The stacks of a cluster and of a further group of it; names that a cloud gives stand for what the lab has.
fn rendered(questions: &[Vec<Choice>], row: &[usize]) -> Vec<Value> {
    let mut wish = Wish {
        labels: Vec::new(),
        masters: 1,
        workers: 1,
        load_balancer: true,
        floating: false,
        given_network: false,
        docker: None,
        key: Some("key"),
        affinity: "soft-anti-affinity",
        cloud: false,
        ipv6: false,
        pods: "flannel",
        api_name: None,
    };
    let chosen: Vec<&Choice> = questions.iter().zip(row).map(|(choices, &answer)| &choices[answer]).collect();
    chosen.iter().for_each(|choice| (choice.change)(&mut wish));
    let labels = labels(&wish.labels);
    let dual_stack = DualStack { given_subnet: wish.given_network.then(dual_stack::given_in_lab) };
    let input = StackInput {
        masters: wish.masters,
        workers: wish.workers,
        master_lb_enabled: wish.load_balancer,
        floating_ip_enabled: wish.floating,
        fixed_network: wish.given_network.then_some("given-network"),
        fixed_subnet: wish.given_network.then_some("given-subnet"),
        fixed_range: Cidr::parse(NODES).filter(|_| wish.given_network),
        docker_volume_size: wish.docker,
        ssh_key_name: wish.key,
        nodes_affinity_policy: wish.affinity,
        cloud: if wish.cloud { cloud::given() } else { &ABSENT },
        dual_stack: wish.ipv6.then_some(&dual_stack),
        network_driver: wish.pods,
        api_name: wish.api_name,
        ..input(&labels)
    };
    let joint = Joint {
        api_address: "10.0.0.7".into(),
        network: "given-network".into(),
        subnet: "given-subnet".into(),
        subnet_v6: wish.ipv6.then(|| "given-subnet-v6".into()),
        security_groups: vec!["security-group".into()],
    };
    let group = render_group(&input, &joint, "0d1b2c3e-4f50-4617-8283-94a5b6c7d8e9").expect("the input is good");
    let name = chosen.iter().map(|choice| choice.name).collect::<Vec<_>>().join(", ");
    let stack = |what: &str, rendered: &Rendered| {
        let Rendered { template, files, parameters, .. } = rendered;
        let need = need::of(parameters);
        let need = json!({
            "servers": need.nodes.iter().map(|(count, _)| count).sum::<u64>(), "server_groups": need.server_groups,
            "volumes": need.volumes, "gigabytes": need.gigabytes, "networks": need.networks, "subnets": need.subnets,
            "routers": need.routers, "ports": need.ports, "floating_ips": need.floating_ips, "load_balancers": need.load_balancers,
            "security_groups": need.security_groups, "security_group_rules": need.security_group_rules,
        });
        json!({"name": format!("{what}: {name}"), "template": template, "files": files, "parameters": parameters, "need": need})
    };
    vec![stack("cluster", &done(&input)), stack("group", &group)]
}

#[test]
fn every_choice_meets_every_other_one() {
    let sizes: Vec<usize> = questions().iter().map(Vec::len).collect();
    let rows = covering(&sizes, 2);
    for tuple in tuples(&sizes, 2) {
        assert!(rows.iter().any(|row| shows(row, &tuple)), "{tuple:?}");
    }
    assert!(rows.len() <= 33, "{}", rows.len());
    // All of them can be rendered, and no two clusters are the same.
    let clusters: Vec<Value> = rows.iter().map(|row| rendered(&questions(), row).swap_remove(0)).collect();
    let all: BTreeSet<String> = clusters.iter().map(|stack| stack["parameters"].to_string()).collect();
    assert_eq!(all.len(), rows.len());
}

#[test]
#[ignore = "writes for tests/lab/preview.py: a line for each stack to MAGNUM_COMBINATIONS"]
fn combinations() {
    let variable = |name| std::env::var(name).ok();
    let strength = variable("MAGNUM_COMBINATIONS_STRENGTH").map_or(2, |text| text.parse().expect("a number"));
    let questions = questions();
    let sizes: Vec<usize> = questions.iter().map(Vec::len).collect();
    let rows = covering(&sizes, strength);
    let lines: Vec<String> = rows.iter().flat_map(|row| rendered(&questions, row)).map(|stack| format!("{stack}\n")).collect();
    std::fs::write(variable("MAGNUM_COMBINATIONS").expect("MAGNUM_COMBINATIONS"), lines.concat()).expect("written");
}
