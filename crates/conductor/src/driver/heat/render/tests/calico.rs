//! Which packets of pods travel in packets of their nodes, with calico: what masters are told, and what its manifest is.

use model::driver::DriverName;
use model::labels::Kind;
use serde_json::json;

use super::restarts::ran;
use super::*;

const LABEL: &str = "calico_ipv4pool_ipip";

/// What masters are told by, if they are.
fn told(network_driver: &str, pairs: &[(&str, &str)]) -> Option<String> {
    let some = labels(pairs);
    let rendered = done(&StackInput { network_driver, ..input(&some) });
    let settings = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.env");
    settings.lines().find_map(|line| line.strip_prefix("CALICO_IPIP=")).map(str::to_owned)
}

#[test]
fn masters_are_told_the_mode_that_the_label_says() {
    for (value, mode) in [("Always", "'Always'"), ("CrossSubnet", "'CrossSubnet'"), (" Never ", "'Never'"), ("Off", "'Never'")] {
        assert_eq!(told("calico", &[(LABEL, value)]).as_deref(), Some(mode), "{value}");
    }
    // The manifest says it where nobody does.
    assert_eq!((told("calico", &[]), told("calico", &[(LABEL, "")])), (None, None));
    assert_eq!(told("flannel", &[(LABEL, "Never")]), None);
    // As it says it for a cluster that was made when nothing read the label.
    assert_eq!(told("calico", &[(LABEL, "sometimes")]), None);
    // Every word that a new cluster may have is read.
    let label = DriverName::K8sFedoraCoreosV1.label(LABEL).expect("a label");
    let Kind::OneOf(words) = label.kind else { panic!("{label:?}") };
    assert!(words.len() == 4 && words.iter().all(|word| told("calico", &[(LABEL, *word)]).is_some()), "{words:?}");
}

/// The script, and its first function.
const SCRIPT: (&str, &str) = (include_str!("../../scripts/calico.sh"), "set_ipip() {");

/// As the project's manifest has it, with what is around left out.
const MANIFEST: &str = "\
          env:
            # Enable IPIP
            - name: CALICO_IPV4POOL_IPIP
              value: \"Always\"
            # Enable or Disable VXLAN on the default IP pool.
            - name: CALICO_IPV4POOL_VXLAN
              value: \"Never\"
";

#[test]
fn the_manifest_gets_the_mode_and_one_without_a_place_for_it_fails_the_master() {
    for mode in ["Always", "CrossSubnet", "Never"] {
        let (is_good, text, said) = edited("calico", SCRIPT, MANIFEST, &format!("CALICO_IPIP={mode} set_ipip"));
        assert!(is_good, "{said}");
        let wanted = [("CALICO_IPV4POOL_IPIP", mode), ("CALICO_IPV4POOL_VXLAN", "Never")];
        assert_eq!(yaml(&text)["env"], wanted.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Value>());
    }
    let (is_good, _, said) = edited("calico", SCRIPT, &MANIFEST.replace("POOL_IPIP", "POOL"), "CALICO_IPIP=Never set_ipip");
    assert!(!is_good && said.contains("the manifest of calico has no place for CALICO_IPV4POOL_IPIP=Never"), "{said}");
}

#[test]
fn masters_of_other_clusters_have_nothing_of_it() {
    let none = labels(&[]);
    for (network_driver, wanted) in [("calico", 1), ("flannel", 0), ("cilium", 0)] {
        let rendered = done(&StackInput { network_driver, ..input(&none) });
        let script = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.sh");
        assert_eq!(script.matches("set_ipip() {").count(), wanted, "{network_driver}");
        assert!(!script.contains("calico.sh"), "{script}");
    }
    let master = include_str!("../../scripts/master.sh");
    let stubs = "NETWORK_DRIVER=calico CNI_MANIFEST=address IMAGE_PREFIX=\nfetch() { tell fetch \"$1\"; }\napply() { tell apply \"$1\"; }\n\
                 set_ipip() { tell ipip \"$1\"; }\n";
    for (told, wanted) in [
        ("", &["fetch address", "apply ./cni.yaml"][..]),
        ("CALICO_IPIP=Never\n", &["fetch address", "ipip ./cni.yaml", "apply ./cni.yaml"]),
    ] {
        let (is_good, calls, _) = ran(&[], &[(master, "install_network")], &format!("{stubs}{told}install_network"));
        assert!(is_good, "{calls:?}");
        assert_eq!(calls, wanted);
    }
}
