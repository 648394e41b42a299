//! The pod network flannel: what its manifest is told.

use serde_json::json;

use super::*;

/// The script, and its only function.
const SCRIPT: (&str, &str) = (include_str!("../../scripts/flannel.sh"), "set_up_flannel() {");
const SET_UP: &str = "FLANNEL_BACKEND=host-gw set_up_flannel";

/// As the project's manifest has it, with what is around left out.
const MANIFEST: &str = "\
net-conf.json: |
  {
    \"Network\": \"10.244.0.0/16\",
    \"Backend\": {
      \"Type\": \"vxlan\"
    }
  }
spec:
  tolerations:
  - effect: NoSchedule
    operator: Exists
  volumes:
  - name: run
";

#[test]
fn the_manifest_gets_the_range_and_the_backend_and_bears_every_taint() {
    // The project's manifests have had the two in either order.
    let turned = MANIFEST.replace("- effect: NoSchedule\n    operator: Exists", "- operator: Exists\n    effect: NoSchedule");
    for manifest in [MANIFEST, &turned] {
        let (is_good, text, said) = edited("flannel", SCRIPT, manifest, SET_UP);
        assert!(is_good, "{said}");
        let all = yaml(&text);
        let config: Value = serde_json::from_str(all["net-conf.json"].as_str().expect("a text")).expect("JSON");
        assert_eq!(config, json!({"Network": "10.20.0.0/16", "Backend": {"Type": "host-gw"}}));
        assert_eq!(all["spec"], json!({"tolerations": [{"operator": "Exists"}], "volumes": [{"name": "run"}]}));
    }
}

#[test]
fn a_manifest_without_a_place_for_it_fails_the_master() {
    for (there, other) in [("10.244.0.0", "10.0.0.0"), ("vxlan", "wireguard"), ("Exists", "Equal")] {
        let (is_good, _, said) = edited("flannel", SCRIPT, &MANIFEST.replace(there, other), SET_UP);
        assert!(!is_good && said.contains("the manifest of flannel has no place for"), "{there}: {said}");
    }
}

#[test]
fn a_backend_that_cannot_work_is_refused_of_new_clusters_only() {
    let udp = labels(&[("flannel_backend", "udp")]);
    for network_driver in ["flannel", "calico"] {
        let input = StackInput { network_driver, ..input(&udp) };
        let error = render(&input).err().expect(network_driver);
        assert!(error.field == "flannel_backend" && error.rule == "must be one of vxlan, host-gw, not udp", "{error}");
        assert!(first_boot(&input, PoolKind::Masters, None).is_ok(), "{network_driver}");
    }
}

#[test]
fn masters_of_other_clusters_have_nothing_of_it() {
    let none = labels(&[]);
    for (network_driver, wanted) in [("calico", 0), ("flannel", 1), ("cilium", 0)] {
        let rendered = done(&StackInput { network_driver, ..input(&none) });
        let script = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.sh");
        assert_eq!(script.matches("set_up_flannel() {").count(), wanted, "{network_driver}");
        assert!(!script.contains("flannel.sh"), "{script}");
    }
}
