//! Where nodes download from, and what manifests are held to.

use super::*;

/// The settings of a master, and its list of add-ons.
fn told(pairs: &[(&str, &str)], network_driver: &str) -> (String, String) {
    let some = labels(pairs);
    let rendered = done(&StackInput { network_driver, ..input(&some) });
    let of = |file: &str| content(user_data(&rendered, "master"), &format!("/etc/kubernetes-bootstrap/{file}"));
    (of("node.env"), of("addons.list"))
}

fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[test]
fn manifests_are_held_to_the_sums_that_are_known() {
    let site = "https://github.com/flannel-io/flannel/releases/download/v0.28.8/kube-flannel.yml";
    for (driver, address) in
        [("flannel", site), ("calico", "https://raw.githubusercontent.com/projectcalico/calico/v3.32.2/manifests/calico.yaml")]
    {
        let (env, list) = told(&[], driver);
        assert!(env.contains(&format!("CNI_MANIFEST='{address}'\n")), "{env}");
        let sum = env.lines().find_map(|line| line.strip_prefix("CNI_SHA256='")?.strip_suffix('\''));
        assert!(sum.is_some_and(is_sum), "{env}");
        let metrics = list.lines().find(|line| line.starts_with("metrics-server ")).expect("an add-on");
        let (place, sum) = metrics.rsplit_once(" sha256=").expect("a sum");
        assert!(place.ends_with("/v0.9.0/components.yaml") && is_sum(sum), "{metrics}");
    }
}

#[test]
fn a_version_of_which_no_sum_is_known_is_held_to_none() {
    let (env, list) = told(&[("flannel_tag", "v0.27.2"), ("metrics_server_tag", "v0.8.0")], "flannel");
    // Older releases need not have the manifest.
    let address = "https://raw.githubusercontent.com/flannel-io/flannel/v0.27.2/Documentation/kube-flannel.yml";
    assert!(env.contains(&format!("CNI_MANIFEST='{address}'\n")) && !env.contains("CNI_SHA256"), "{env}");
    assert!(!list.contains("sha256="), "{list}");
    let (env, _) = told(&[("calico_tag", "v3.32.1")], "calico");
    assert!(!env.contains("CNI_SHA256"), "{env}");
    assert!(!told(&[], "cilium").0.contains("CNI_SHA256"));
}

#[test]
fn a_master_takes_the_sum_off_what_it_is_told_of_images() {
    let script = include_str!("../../scripts/master.sh");
    let function = &script[script.find("install_addons() {").expect("the function")..];
    let function = &function[..function.find("\n}\n").expect("its end") + 3];
    let image = "image: registry.k8s.io/sig-storage/csi-attacher";
    let whole = format!(
        "BASE=$(mktemp -d)\ntrap 'rm -rf \"$BASE\"' EXIT\nSTATE=$BASE\ncat > \"$BASE/addons.list\"\n\
         step() {{ :; }}\nwait_for_cloud_provider() {{ :; }}\napply() {{ cat \"$1\"; }}\n\
         fetch() {{ echo \"$1 is to be '$3'\"; echo '{image}:v4.0.0' > \"$2\"; }}\n\
         {function}install_addons"
    );
    let sum = "0123456789abcdef".repeat(4);
    let list =
        format!("a https://a\nb https://b sha256={sum}\nc https://c sha256={sum},csi-attacher=v4.9.0\nd https://d csi-attacher=v4.8.0\n");
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &whole]).env("IMAGE_PREFIX", "").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = bash.spawn().expect("bash runs");
    child.stdin.take().expect("a pipe").write_all(list.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let want = format!(
        "https://a is to be ''\n{image}:v4.0.0\nhttps://b is to be '{sum}'\n{image}:v4.0.0\n\
         https://c is to be '{sum}'\n{image}:v4.9.0\nhttps://d is to be ''\n{image}:v4.8.0\n"
    );
    assert_eq!((output.status.success(), String::from_utf8(output.stdout).expect("text")), (true, want));
}

#[test]
fn with_a_mirror_nothing_comes_from_elsewhere() {
    let some = labels(&[("ingress_controller", "nginx"), ("kube_dashboard_enabled", "true")]);
    let mirror = "http://mirror.example/k8s/";
    for network_driver in ["flannel", "calico", "cilium"] {
        let given = StackInput { network_driver, cloud: cloud::given(), volume_driver: Some("cinder"), ..input(&some) };
        let rendered = done(&StackInput { downloads: Some(mirror), ..given });
        let of = |kind: &str, file: &str| content(user_data(&rendered, kind), &format!("/etc/kubernetes-bootstrap/{file}"));
        for kind in ["master", "worker"] {
            let env = of(kind, "node.env");
            assert!(env.contains(&format!("DOWNLOADS='{mirror}'\n")) && !env.contains("https://"), "{env}");
        }
        let list = of("master", "addons.list");
        for line in list.lines() {
            let place = line.split(' ').nth(1).expect("a place");
            let host = place.strip_prefix(mirror).and_then(|rest| rest.split('/').next());
            assert!(place.starts_with("file://") || matches!(host, Some("github.com" | "raw.githubusercontent.com")), "{line}");
        }
        // A mirror is held to the same sums.
        assert!(list.contains("/metrics-server/releases/download/v0.9.0/components.yaml sha256="), "{list}");
        assert_eq!(of("master", "node.env").contains("CNI_SHA256="), network_driver != "cilium");
    }
    assert!(!told(&[], "flannel").0.contains("DOWNLOADS"));
}

#[test]
fn scripts_name_no_site_that_a_mirror_does_not_stand_for() {
    let scripts = [
        include_str!("../../scripts/install.sh"),
        include_str!("../../scripts/master.sh"),
        include_str!("../../scripts/cilium.sh"),
        include_str!("../../scripts/worker.sh"),
    ];
    let mut sites = Vec::new();
    for script in scripts {
        let pieces: Vec<&str> = script.split("https://").collect();
        for pair in pieces.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            // The cluster itself.
            if after.starts_with('$') || after.starts_with("127.0.0.1") {
                continue;
            }
            let site = after.strip_prefix('}').and_then(|rest| rest.split(['/', '\n']).next());
            assert!(before.ends_with("${DOWNLOADS:-") && site.is_some(), "{after:.40}");
            sites.extend(site);
        }
    }
    assert_eq!(sites, ["dl.k8s.io", "github.com", "github.com", "github.com", "github.com", "helm.cilium.io"]);
}
