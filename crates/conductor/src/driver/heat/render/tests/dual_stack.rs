//! Clusters with IPv6 beside IPv4: what Heat, kubeadm and the pod network are told.

use super::*;
use crate::driver::heat::dual_stack::GivenSubnet;

static MADE: DualStack = DualStack { given_subnet: None };
static GIVEN: OnceLock<DualStack> = OnceLock::new();

/// On a network that is made.
pub(super) fn made() -> &'static DualStack {
    &MADE
}

/// On one that is there.
pub(super) fn given() -> &'static DualStack {
    GIVEN.get_or_init(|| {
        let range = Cidr::parse_v6("2001:db8::/64").expect("a network");
        DualStack { given_subnet: Some(GivenSubnet { id: "subnet-v6-id".into(), range }) }
    })
}

/// On the network that the lab has.
pub(super) fn given_in_lab() -> GivenSubnet {
    GivenSubnet { id: "given-subnet-v6".into(), range: Cidr::parse_v6("fd00:1::/64").expect("a network") }
}

/// kubeadm's documents of the first master.
fn init(rendered: &Rendered) -> Vec<Value> {
    let text = content(user_data(rendered, "master"), "/etc/kubernetes-bootstrap/init.yaml");
    text.split("---\n").map(|document| serde_json::from_str(document).expect("JSON")).collect()
}

#[test]
fn kubeadm_gets_both_ranges_and_nodes_both_addresses() {
    let some = labels(&[("flannel_network_subnetlen", "25")]);
    let rendered = done(&StackInput { dual_stack: Some(made()), ..input(&some) });
    let documents = init(&rendered);
    let networking = &documents[1]["networking"];
    assert_eq!(networking["podSubnet"], "10.100.0.0/16,fd6d:6167:6e75:100::/56");
    assert_eq!(networking["serviceSubnet"], "10.254.0.0/16,fd6d:6167:6e75:200::/112");
    let manager = told(&documents[1]["controllerManager"]["extraArgs"]);
    let sizes: Vec<&String> = manager.iter().filter(|option| option.starts_with("node-cidr-mask-size")).collect();
    assert_eq!(sizes, ["node-cidr-mask-size-ipv4=25", "node-cidr-mask-size-ipv6=64"]);
    // The API has an address of IPv4 alone.
    assert_eq!(documents[0]["localAPIEndpoint"]["advertiseAddress"], "@NODE_ADDRESS@");
    let group = group(&StackInput { dual_stack: Some(made()), ..input(&some) });
    for (rendered, kind) in [(&rendered, "master"), (&rendered, "worker"), (&group, "worker")] {
        let join: Value = serde_json::from_str(&content(user_data(rendered, kind), "/etc/kubernetes-bootstrap/join.yaml")).expect("JSON");
        let kubelet = told(&join["nodeRegistration"]["kubeletExtraArgs"]);
        assert!(kubelet.contains(&"node-ip=@NODE_ADDRESS@,@NODE_ADDRESS_V6@".to_owned()), "{kubelet:?}");
        let sysctl = content(user_data(rendered, kind), "/etc/sysctl.d/99-kubernetes.conf");
        assert!(sysctl.contains("net.ipv6.conf.all.forwarding = 1\n"), "{sysctl}");
    }
    // Without it nothing of it is there, and no placeholder that an older stack does not know.
    let alone = done(&input(&some));
    for kind in ["master", "worker"] {
        for (path, text) in contents(user_data(&alone, kind)).iter().filter(|(path, _)| !path.ends_with(".sh")) {
            assert!(!text.contains("_V6") && !text.contains("ipv6"), "{path}: {text}");
        }
    }
    assert!(alone.parameters.keys().all(|name| !name.contains("v6")));
}

#[test]
fn a_stack_is_told_where_its_nodes_have_their_addresses_from() {
    let of = |pairs: &[(&str, &str)], dual_stack: &'static DualStack| {
        let some = labels(pairs);
        let network = dual_stack.given_subnet.as_ref().map(|_| "there");
        let rendered = done(&StackInput { dual_stack: Some(dual_stack), fixed_network: network, fixed_subnet: network, ..input(&some) });
        let text = |name: &str| rendered.parameters[name].as_str().expect("a text").to_owned();
        assert_eq!(rendered.parameters["ipv6_enabled"], true);
        ["fixed_subnet_v6", "fixed_subnet_cidr_v6", "fixed_subnetpool_v6"].map(text)
    };
    assert_eq!(of(&[], made()), ["", "fd6d:6167:6e75::/64", ""]);
    assert_eq!(of(&[("fixed_subnet_cidr_v6", "2001:db8::/64")], made()), ["", "2001:db8::/64", ""]);
    assert_eq!(of(&[("fixed_subnetpool_v6", "pool")], made()), ["", "", "pool"]);
    assert_eq!(of(&[("fixed_subnetpool_v6", "pool")], given()), ["subnet-v6-id", "", ""]);
    let none = labels(&[]);
    let group = group(&StackInput { dual_stack: Some(made()), ..input(&none) });
    assert_eq!((&group.parameters["ipv6_enabled"], &group.parameters["fixed_subnet_v6"]), (&true.into(), &"subnet-v6-id".into()));
    assert_eq!(group.parameters["pods_network_cidr_v6"], "fd6d:6167:6e75:100::/56");
}

#[test]
fn what_does_not_go_with_ipv6_is_refused_with_field_and_rule() {
    for (pairs, field, word) in [
        (&[("pod_cidr_v6", "fd00::/64")][..], "pod_cidr_v6", "from /48 to /60"),
        (&[("service_cluster_ip_range_v6", "fd00::/64")], "service_cluster_ip_range_v6", "from /108 to /124"),
        (&[("fixed_subnet_cidr_v6", "fe80::/64")], "fixed_subnet_cidr_v6", "of /64"),
        (&[("service_cluster_ip_range_v6", "fd6d:6167:6e75:100::/112")], "pod_cidr_v6", "overlaps the services' range"),
        (&[("fixed_subnet_cidr_v6", "fd6d:6167:6e75:1ff::/64")], "pod_cidr_v6", "overlaps the nodes' range"),
        (&[("fixed_subnet_cidr_v6", "fd6d:6167:6e75:200::/64")], "service_cluster_ip_range_v6", "overlaps the nodes' range"),
        (&[("fixed_subnetpool_v6", "pool"), ("fixed_subnet_cidr_v6", "fd00::/64")], "fixed_subnetpool_v6", "together"),
        (&[("kubecontroller_options", "--node-cidr-mask-size-ipv6=72")], "kubecontroller_options", "node-cidr-mask-size-ipv6"),
        (&[("fixed_subnet_cidr", "203.0.113.0/24"), ("fixed_subnet_cidr_v6", "2001:db8::/64")], "fixed_subnet_cidr_v6", "Neutron would"),
        (&[("fixed_subnet_cidr", "203.0.113.0/24"), ("fixed_subnetpool_v6", "pool")], "fixed_subnetpool_v6", "Neutron would"),
    ] {
        let some = labels(pairs);
        let error = render(&StackInput { dual_stack: Some(made()), ..input(&some) }).err().unwrap_or_else(|| panic!("{pairs:?}"));
        assert!(error.field == field && error.rule.contains(word), "{pairs:?}: {error}");
        // Labels of IPv6 are kept where there is none.
        let harmless = pairs.iter().all(|(name, _)| name.ends_with("_v6"));
        assert!(!harmless || render(&input(&some)).is_ok(), "{pairs:?}");
    }
    let some = labels(&[("service_cluster_ip_range_v6", "2001:db8::/112")]);
    let on_given = StackInput { fixed_network: Some("there"), fixed_subnet: Some("there"), dual_stack: Some(given()), ..input(&some) };
    let error = render(&on_given).err().expect("the subnet that is there has that range");
    assert!(error.field == "service_cluster_ip_range_v6" && error.rule.contains("overlaps the nodes' range"), "{error}");
    let none = labels(&[]);
    let there = StackInput { fixed_network: Some("there"), fixed_subnet: Some("there"), dual_stack: Some(made()), ..input(&none) };
    assert_eq!(render(&there).err().expect("not looked up").field, "ipv6_enabled");
    // Nodes of a cluster that is there are made without looking it up again.
    assert!(worker_user_data(&there).is_ok());
}

#[test]
fn load_balancers_are_on_the_subnet_of_their_services_own_version() {
    let none = labels(&[]);
    for (dual_stack, has_subnet) in [(None, true), (Some(made()), false)] {
        let rendered = done(&StackInput { dual_stack, cloud: cloud::given(), ..input(&none) });
        let secret = document(user_data(&rendered, "master"), "addons/cloud-config.json");
        let config = secret["stringData"]["cloud.conf"].as_str().expect("a text");
        assert_eq!(config.contains("subnet-id="), has_subnet, "{config}");
        assert!(config.contains("floating-network-id=\"public-id\""), "{config}");
    }
}

/// The functions of the script, with those of calico's that they call.
const DUAL_STACK: (&str, &str) =
    (concat!(include_str!("../../scripts/dual-stack.sh"), include_str!("../../scripts/calico.sh")), "wait_for_address_v6() {");

/// As the projects' manifests have them, with what is around left out.
const CALICO: &str = "\
  cni_network_config: |-
    {
          \"ipam\": {
              \"type\": \"calico-ipam\"
          },
    }
---
spec:
          env:
            - name: CALICO_IPV4POOL_VXLAN
              value: \"Never\"
            - name: CALICO_IPV6POOL_VXLAN
              value: \"Never\"
            - name: FELIX_IPV6SUPPORT
              value: \"false\"
            - name: FELIX_HEALTHENABLED
              value: \"true\"
";
const FLANNEL: &str = "  net-conf.json: |\n    {\n      \"Network\": \"10.20.0.0/16\",\n      \"EnableNFTables\": false,\n    }\n";

#[test]
fn manifests_of_pod_networks_get_both_and_the_settings_are_where_they_are_read() {
    let (is_good, text, said) = edited("calico", DUAL_STACK, CALICO, "add_ipv6_to_calico");
    assert!(is_good, "{said}");
    let documents: Vec<&str> = text.split("---\n").collect();
    let config = documents[0].split_once("|-\n").expect("a text").1;
    let ipam = config.split_once("\"ipam\": ").expect("ipam").1.split_once("},").expect("its end").0;
    let ipam: Value = serde_json::from_str(&format!("{ipam}}}")).expect("JSON");
    assert_eq!(ipam, serde_json::json!({"type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": "true"}));
    let environment: Vec<String> = yaml(documents[1])["spec"]["env"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| format!("{}={}", one["name"].as_str().expect("a name"), one["value"].as_str().expect("a text")))
        .collect();
    let wanted = [
        "CALICO_IPV4POOL_VXLAN=Never",
        "CALICO_IPV6POOL_VXLAN=Always",
        "IP6=autodetect",
        "CALICO_IPV6POOL_CIDR=fd00:1::/56",
        "CALICO_IPV6POOL_NAT_OUTGOING=true",
        "FELIX_IPV6SUPPORT=true",
        "FELIX_HEALTHENABLED=true",
    ];
    assert_eq!(environment, wanted);

    let (is_good, text, said) = edited("flannel", DUAL_STACK, FLANNEL, "add_ipv6_to_flannel");
    assert!(is_good, "{said}");
    assert!(
        text.contains("\"Network\": \"10.20.0.0/16\",\n      \"EnableIPv6\": true,\n      \"IPv6Network\": \"fd00:1::/56\",\n"),
        "{text}"
    );
}

#[test]
fn a_manifest_without_a_place_for_ipv6_fails_the_master() {
    for gone in ["\"type\": \"calico-ipam\"", "- name: FELIX_IPV6SUPPORT", "- name: CALICO_IPV6POOL_VXLAN"] {
        let (is_good, _, said) = edited("calico", DUAL_STACK, &CALICO.replace(gone, "- name: OTHER"), "add_ipv6_to_calico");
        assert!(!is_good && said.contains("the manifest of calico has no place for"), "{gone}: {said}");
    }
    let (is_good, _, said) = edited("flannel", DUAL_STACK, &FLANNEL.replace("10.20", "10.244"), "add_ipv6_to_flannel");
    assert!(!is_good && said.contains("the manifest of flannel has no place for"), "{said}");
}
