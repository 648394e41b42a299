//! What masters are told of cilium, and what they tell its installer.

use super::*;

fn told(network_driver: &str, cluster_name: &str) -> String {
    let none = labels(&[]);
    let rendered = done(&StackInput { network_driver, cluster_name, ..input(&none) });
    content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.env")
}

#[test]
fn masters_are_told_a_name_that_the_chart_takes() {
    for (name, want) in [("Prod", "prod-7d1b2c3e4f50"), ("my.cluster", "my-cluster-7d1b2c3e4f50"), ("", "7d1b2c3e4f50")] {
        let told = told("cilium", name);
        assert!(told.contains(&format!("CILIUM_NAME='{want}'\n")), "{told}");
        assert!(told.contains("CILIUM_TAG='v1.20.2'\nCILIUM_CLI_VERSION='v0.19.7'\n"), "{told}");
    }
    assert!(!told("flannel", "Prod").contains("CILIUM"));
}

/// User data has little room.
#[test]
fn masters_of_other_clusters_are_not_told_how_it_is_installed() {
    let none = labels(&[]);
    for (network_driver, wanted) in [("cilium", 1), ("flannel", 0), ("calico", 0)] {
        let rendered = done(&StackInput { network_driver, ..input(&none) });
        let script = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.sh");
        assert_eq!(script.matches("install_cilium() {").count(), wanted, "{network_driver}");
        assert!(!script.contains("cilium.sh"), "{script}");
    }
}

/// Runs the function of the master's: what the installer is called with. `found` is the name in a cluster that has cilium; images come from below
/// `prefix`, and all else from a `mirror`, where they are given.
fn called(found: Option<&str>, prefix: &str, mirror: &str) -> String {
    let script = include_str!("../../scripts/cilium.sh");
    let function = &script[script.find("install_cilium() {").expect("the function")..];
    let function = &function[..function.find("\n}\n").expect("its end") + 3];
    let whole = format!(
        "fetch() {{ :; }}\ntar() {{ :; }}\nrepeatedly() {{ \"$@\"; }}\ncilium() {{ echo \"$@\"; }}\n\
         kubectl() {{\n  case \"$*\" in\n    *' delete secret '*) ;;\n    *' get secret '*) [ \"$HAS_CILIUM\" = false ] || echo secret/release ;;\n    *) printf %s \"$FOUND\" ;;\n  esac\n}}\n\
         {function}install_cilium"
    );
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &whole]).env("HAS_CILIUM", found.is_some().to_string()).env("FOUND", found.unwrap_or_default());
    bash.env("ARCH", "amd64").env("STATE", "/nowhere").env("PROGRAMS", "/nowhere").env("POD_CIDR", "10.20.0.0/16");
    bash.env("CILIUM_TAG", "v1.20.2").env("CILIUM_CLI_VERSION", "v0.19.7").env("CILIUM_NAME", "ours");
    bash.env("IMAGE_PREFIX", prefix).env("DOWNLOADS", mirror);
    let output = bash.output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_cluster_keeps_the_name_that_it_has_unless_the_chart_refuses_it() {
    let with = |verb: &str, name: &str| {
        format!("{verb} --repository https://helm.cilium.io --version v1.20.2 --set cluster.name={name} --set ipam.mode=cluster-pool ")
    };
    let called = |found: Option<&str>| called(found, "", "");
    let new = called(None);
    assert!(new.starts_with(&with("install", "ours")) && new.ends_with("={10.20.0.0/16}\n"), "{new}");
    for kept in ["one", "default", "a", "7d1b2c3e-4f50", "abcdefghijklmnopqrstuvwxyz-01234"] {
        let told = called(Some(kept));
        assert!(told.starts_with(&with("upgrade", kept)), "{told}");
    }
    for refused in ["", "Prod", "my.cluster", "-a", "a-", "abcdefghijklmnopqrstuvwxyz-012345"] {
        let told = called(Some(refused));
        assert!(told.starts_with(&with("upgrade", "ours")), "{refused}: {told}");
    }
}

/// The values of the chart that name its images, as its reference has them (`Documentation/helm-values.rst` of cilium).
#[test]
fn images_come_from_the_private_registry_and_the_chart_from_the_mirror() {
    let told = called(None, "registry.example/k8s/", "http://mirror.example/");
    assert!(told.starts_with("install --repository http://mirror.example/helm.cilium.io --version "), "{told}");
    let images = |place: &str, digest: bool| {
        let of = |value: &str, name: &str| format!(" --set {value}.repository={place}/{name} --set {value}.useDigest={digest}");
        format!("{}{}{}\n", of("image", "cilium"), of("operator.image", "operator"), of("envoy.image", "cilium-envoy"))
    };
    assert!(told.ends_with(&images("registry.example/k8s", false)), "{told}");
    assert!(called(Some("one"), "registry.example/k8s/", "").ends_with(&images("registry.example/k8s", false)));
    // Also from the projects' own places again.
    assert!(called(Some("one"), "", "").ends_with(&images("quay.io/cilium", true)));
    assert!(!called(None, "", "").contains("image"));
    let some = labels(&[("container_infra_prefix", "registry.example/k8s/")]);
    let rendered = done(&StackInput { network_driver: "cilium", ..input(&some) });
    let env = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.env");
    assert!(env.contains("IMAGE_PREFIX='registry.example/k8s/'\n") && env.contains("CILIUM_TAG='v1.20.2'\n"), "{env}");
}
