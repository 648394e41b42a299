//! Workers with ports on more networks than the cluster's.

use serde_json::json;

use super::*;

/// The functions of the script.
const SCRIPT: (&str, &str) = (include_str!("../../scripts/extra-networks.sh"), "keep_calico_inside() {");

/// As the projects' manifests have them, with what is around left out.
const CALICO: &str = "\
          env:
            - name: IP
              value: \"autodetect\"
            - name: FELIX_IPV6SUPPORT
              value: \"false\"
";
const FLANNEL: &str = "container:
        args:
        - --ip-masq
        - --kube-subnet-mgr
        env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
";

#[test]
fn pod_networks_stay_on_the_network_of_the_cluster() {
    let (is_good, text, said) = edited("calico", SCRIPT, CALICO, "keep_calico_inside");
    assert!(is_good, "{said}");
    let environment = [("IP", "autodetect"), ("IP_AUTODETECTION_METHOD", "kubernetes-internal-ip"), ("FELIX_IPV6SUPPORT", "false")];
    let environment: Vec<Value> = environment.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    assert_eq!(yaml(&text), json!({"env": environment}));
    let (is_good, text, said) = edited("flannel", SCRIPT, FLANNEL, "keep_flannel_inside");
    assert!(is_good, "{said}");
    let from = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let wanted = json!({
        "args": ["--ip-masq", "--kube-subnet-mgr", "--iface=$(NODE_IP)"],
        "env": [{"name": "NODE_IP", "valueFrom": from("status.hostIP")}, {"name": "POD_NAME", "valueFrom": from("metadata.name")}],
    });
    assert_eq!(yaml(&text), json!({"container": wanted}));
}

#[test]
fn a_manifest_without_a_place_for_it_fails_the_master() {
    for (driver, manifest, command) in [
        ("calico", CALICO.replace("FELIX_IPV6SUPPORT", "OTHER"), "keep_calico_inside"),
        ("flannel", FLANNEL.replace("--kube-subnet-mgr", "--other"), "keep_flannel_inside"),
        ("flannel", FLANNEL.replace("POD_NAME", "OTHER"), "keep_flannel_inside"),
    ] {
        let (is_good, _, said) = edited(driver, SCRIPT, &manifest, command);
        assert!(!is_good && said.contains(&format!("the manifest of {driver} has no place for")), "{said}");
    }
}

#[test]
fn names_are_separated_by_blanks_and_reach_every_group() {
    let names = labels(&[("extra_network_names", " storage  backup ")]);
    let of_cluster = done(&input(&names)).parameters;
    let of_group = group(&input(&names)).parameters;
    assert_eq!([&of_cluster["extra_networks"], &of_group["extra_networks"]], [&json!(["storage", "backup"]); 2]);
    let none = labels(&[]);
    assert!(!done(&input(&none)).parameters.contains_key("extra_networks"), "stacks of templates that do not know it would be refused");
    let commas = labels(&[("extra_network_names", "storage,backup")]);
    let refused = render(&input(&commas)).err().expect("it is refused").to_string();
    assert!(refused.contains("extra_network_names") && refused.contains("blanks"), "{refused}");
}
