//! A dozen clusters as they are rendered, to be read in review: what Heat is given, and what differs between the nodes of one cluster and of
//! another. `INSTA_UPDATE=always cargo test -p conductor representative` writes them anew.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use model::nodegroup::Taint;
use serde::Deserialize;

use super::*;

/// The scripts are the same for every cluster, and stand in files of their own.
const SAME_FOR_ALL: [&str; 5] = ["node.sh", "succession.sh", "api-address.sh", "dual-stack.sh", "extra-networks.sh"];

/// Changes a cluster into another one.
pub(super) type Change = for<'a> fn(StackInput<'a>) -> StackInput<'a>;

pub(super) struct Case {
    pub name: &'static str,
    pub labels: &'static [(&'static str, &'static str)],
    pub change: Change,
}

pub(super) fn cases() -> Vec<Case> {
    let case = |name, labels, change| Case { name, labels, change };
    vec![
        case("smallest", &[], |i| StackInput { master_lb_enabled: false, ..i }),
        case("load_balancer", &[], |i| i),
        case("three_masters", &[("kube_tag", "v1.34.1")], |i| StackInput { masters: 3, workers: 10, floating_ip_enabled: true, ..i }),
        case("calico", &[("calico_ipv4pool", "10.20.0.0/16"), ("calico_tag", "v3.30.0")], |i| StackInput { network_driver: "calico", ..i }),
        case("cilium", &[("cilium_ipv4pool", "10.30.0.0/16"), ("npd_enabled", "false"), ("kube_dashboard_enabled", "true")], |i| {
            StackInput { network_driver: "cilium", ..i }
        }),
        case("dual_stack_calico", &[], |i| StackInput { network_driver: "calico", dual_stack: Some(dual_stack::made()), ..i }),
        case("dual_stack_cilium", &[("fixed_subnetpool_v6", "pool"), ("pod_cidr_v6", "2001:db8:7::/48")], |i| StackInput {
            network_driver: "cilium",
            cloud: cloud::given(),
            dual_stack: Some(dual_stack::made()),
            ..i
        }),
        case("dual_stack_flannel", &[("flannel_network_subnetlen", "25"), ("service_cluster_ip_range_v6", "fd00::/108")], |i| StackInput {
            fixed_network: Some("network-id"),
            fixed_subnet: Some("subnet-id"),
            fixed_range: Cidr::parse("192.0.2.0/24"),
            dual_stack: Some(dual_stack::given()),
            http_proxy: Some("http://proxy:3128"),
            ..i
        }),
        case("etcd_volume", &[("etcd_volume_size", "10"), ("etcd_volume_type", "fast"), ("metrics_server_enabled", "false")], |i| i),
        case("ubuntu", &[], |i| StackInput { distro: Distro::Ubuntu, ..i }),
        case("flatcar", &[], |i| StackInput { distro: Distro::Flatcar, master_lb_enabled: false, ..i }),
        case("volumes", &[("boot_volume_size", "20"), ("boot_volume_type", "fast"), ("docker_volume_type", "slow")], |i| StackInput {
            docker_volume_size: Some(50),
            ..i
        }),
        case("given_network", &[("availability_zone", "az1")], |i| StackInput {
            fixed_network: Some("network-id"),
            fixed_subnet: Some("subnet-id"),
            ..i
        }),
        case("extra_networks", &[("extra_network_names", "storage backup")], |i| StackInput { network_driver: "calico", ..i }),
        case("proxy", &[], |i| StackInput {
            http_proxy: Some("http://proxy:3128"),
            https_proxy: Some("http://proxy:3128"),
            no_proxy: Some(".example"),
            ..i
        }),
        case("private_registry", &[("container_infra_prefix", "registry.example/k8s/")], |i| StackInput {
            insecure_registry: Some("registry.example"),
            ..i
        }),
        case("allowed_cidrs", &[("master_lb_allowed_cidrs", "192.0.2.0/24,198.51.100.7/32")], |i| i),
        case("ovn", &[("octavia_provider", "ovn"), ("octavia_lb_healthcheck", "false")], |i| i),
        case("cloud_provider", &[("octavia_provider", "ovn"), ("csi_attacher_tag", "v4.9.0")], |i| StackInput {
            cloud: cloud::given(),
            volume_driver: Some("cinder"),
            ..i
        }),
        case("scaled", &[("auto_scaling_enabled", "true"), ("kube_tag", "v1.34.1")], |i| StackInput { cloud: cloud::given(), ..i }),
        case("healed", &[("auto_healing_enabled", "true"), ("ingress_controller", "nginx"), ("ingress_controller_role", "front")], |i| {
            StackInput { cloud: cloud::given(), api_name: Some("one.clusters.example.org."), floating_ip_enabled: true, ..i }
        }),
        case("monitored", &[("monitoring_enabled", "true"), ("monitoring_storage_class_name", "fast")], |i| StackInput {
            cloud: cloud::given(),
            volume_driver: Some("cinder"),
            ..i
        }),
        case("octavia_ingress", &[("ingress_controller", "octavia")], |i| StackInput { cloud: cloud::given(), ..i }),
        case(
            "options",
            &[
                ("admission_control_list", "NodeRestriction,PodNodeSelector"),
                ("flannel_network_subnetlen", "25"),
                ("kubeapi_options", "--profiling=false --event-ttl=2h"),
                ("kubecontroller_options", "--terminated-pod-gc-threshold 100"),
                ("kubelet_options", "--max-pods=50 --v=2"),
                ("kubescheduler_options", "--profiling=false"),
            ],
            |i| i,
        ),
        case("no_ssh", &[("fixed_subnet_cidr", "10.7.0.0/24"), ("service_cluster_ip_range", "10.64.0.0/16")], |i| StackInput {
            ssh_key_name: None,
            ..i
        }),
    ]
}

/// Parameters but for user data, then the files of user data that are not the same for all clusters.
fn shown(rendered: &Rendered) -> String {
    let mut text = String::new();
    for (name, value) in rendered.parameters.iter().filter(|(name, _)| !name.ends_with("user_data")) {
        writeln!(text, "{name} = {value}").expect("a text takes it");
    }
    for kind in ["master", "worker"] {
        let Some(data) = rendered.parameters.get(&format!("{kind}_user_data")) else { continue };
        for (path, content) in contents(data.as_str().expect("user data is text")) {
            if !SAME_FOR_ALL.iter().any(|name| path.ends_with(&format!("/{name}"))) {
                writeln!(text, "\n## {kind}: {path}\n{}", content.trim_end()).expect("a text takes it");
            }
        }
    }
    text
}

#[test]
fn a_dozen_clusters_are_rendered_as_recorded() {
    for case in cases() {
        let some = labels(case.labels);
        insta::assert_snapshot!(case.name, shown(&done(&(case.change)(input(&some)))));
    }
}

#[test]
fn a_group_is_rendered_as_recorded() {
    let some = labels(&[("availability_zone", "az2")]);
    let taints = vec![Taint { key: "gpu".into(), value: Some("yes".into()), effect: "NoSchedule".into() }];
    let nodes = Nodes { labels: labels(&[("example.org/kind", "a100")]), taints };
    let worker_group = WorkerGroup { name: "gpu", role: "gpu", nodes: &nodes };
    insta::assert_snapshot!("group", shown(&group(&StackInput { workers: 3, worker_group, ..input(&some) })));
}

/// A script with what it sources in place: as bash sees it, but for the two files of values.
fn whole(data: &str) -> String {
    let sourced = |line: &str| Some(content(data, line.strip_prefix(". ").filter(|path| path.ends_with(".sh"))?));
    let lines = content(data, "/etc/kubernetes-bootstrap/node.sh");
    lines.lines().map(|line| sourced(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

/// Runs a program on a text; what it says when it finds fault.
fn judged_by(program: &str, args: &[&str], text: &str) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error} (`cargo xtask test` installs it)"));
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_script_passes_shellcheck() {
    let none = labels(&[]);
    for (network_driver, kind) in [("flannel", "master"), ("flannel", "worker"), ("cilium", "master")] {
        let rendered = done(&StackInput { network_driver, ..input(&none) });
        // The files of values are made for each node (SC1091).
        let found = judged_by("shellcheck", &["--shell=bash", "--exclude=SC1091", "-"], &whole(user_data(&rendered, kind)));
        assert_eq!(found, None, "{network_driver} {kind}");
    }
    let alone = done(&StackInput { master_lb_enabled: false, ..input(&none) });
    for name in ["succession.sh", "api-address.sh"] {
        let script = content(user_data(&alone, "master"), &format!("/etc/kubernetes-bootstrap/{name}"));
        assert_eq!(judged_by("shellcheck", &["--shell=bash", "-"], &script), None, "{name}");
    }
    let both = done(&StackInput { dual_stack: Some(dual_stack::made()), ..input(&none) });
    let script = content(user_data(&both, "master"), "/etc/kubernetes-bootstrap/dual-stack.sh");
    // It reads what others set (SC2154), and they call its functions (SC2317, SC2329).
    let found = judged_by("shellcheck", &["--shell=bash", "--exclude=SC2154,SC2317,SC2329", "-"], &script);
    assert_eq!(found, None, "dual-stack.sh");
    let names = labels(&[("extra_network_names", "storage")]);
    let script = content(user_data(&done(&input(&names)), "master"), "/etc/kubernetes-bootstrap/extra-networks.sh");
    // What kubelet and not the shell is to expand (SC2016).
    let found = judged_by("shellcheck", &["--shell=bash", "--exclude=SC2016,SC2154,SC2317,SC2329", "-"], &script);
    assert_eq!(found, None, "extra-networks.sh");
    assert!(judged_by("shellcheck", &["--shell=bash", "-"], "echo $unquoted\n").is_some(), "it finds nothing at all");
}

#[test]
fn every_cloud_config_passes_cloud_inits_own_check() {
    let check = |text: &str| judged_by("cloud-init", &["schema", "--config-file", "/dev/stdin"], text);
    let mut seen = BTreeSet::new();
    for case in cases() {
        let some = labels(case.labels);
        let rendered = done(&StackInput { distro: Distro::Ubuntu, ..(case.change)(input(&some)) });
        for kind in ["master", "worker"] {
            let data = user_data(&rendered, kind);
            // Many workers are made of the same.
            if seen.insert(data.to_owned()) {
                assert_eq!(check(data), None, "{} {kind}", case.name);
            }
        }
    }
    assert!(check("#cloud-config\n{\"runcmd\": 7}\n").is_some(), "it finds nothing at all");
}

/// The parts of Ignition 3.3 that we use; a key that it does not have is an error.
mod ignition {
    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Config {
        pub ignition: Version,
        pub storage: Storage,
        pub systemd: Systemd,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Version {
        pub version: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Storage {
        pub files: Vec<File>,
        #[serde(default)]
        pub links: Vec<Link>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Link {
        pub path: String,
        #[serde(rename = "overwrite")]
        pub _overwrite: bool,
        pub target: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct File {
        pub path: String,
        pub mode: u32,
        #[serde(rename = "overwrite")]
        pub _overwrite: bool,
        pub contents: Contents,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Contents {
        pub compression: String,
        pub source: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Systemd {
        pub units: Vec<Unit>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Unit {
        pub name: String,
        #[serde(rename = "enabled")]
        pub _enabled: bool,
        pub contents: String,
    }
}

/// The parts of cloud-init's schema that we use; a key that it does not have is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloudConfig {
    write_files: Vec<WriteFile>,
    runcmd: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    path: String,
    owner: String,
    permissions: String,
    encoding: Option<String>,
    #[serde(rename = "content")]
    _content: String,
}

#[test]
fn first_boot_documents_have_the_keys_and_values_of_their_schemas() {
    let is_absolute = |path: &str| path.starts_with('/') && !path.contains("..") && !path.ends_with('/');
    for case in cases() {
        let some = labels(case.labels);
        for kind in ["master", "worker"] {
            for distro in [Distro::FedoraCoreos, Distro::Flatcar] {
                let rendered = done(&StackInput { distro, ..(case.change)(super::input(&some)) });
                let config: ignition::Config = serde_json::from_str(user_data(&rendered, kind)).expect("an Ignition document");
                assert_eq!(config.ignition.version, "3.3.0");
                let mut paths = BTreeSet::new();
                for file in &config.storage.files {
                    assert!(is_absolute(&file.path) && file.mode <= 0o7777 && paths.insert(&file.path), "{}", file.path);
                    assert_eq!(file.contents.compression, "gzip");
                    assert!(file.contents.source.starts_with("data:;base64,"));
                }
                for link in &config.storage.links {
                    assert!(is_absolute(&link.path) && is_absolute(&link.target) && paths.insert(&link.path), "{}", link.path);
                }
                // It cannot be written.
                assert!(paths.iter().all(|path| !path.starts_with("/usr/")), "{paths:?}");
                let mut names = BTreeSet::new();
                let is_unit = |name: &str| name.ends_with(".service") || name.ends_with(".timer");
                assert!(config.systemd.units.iter().all(|u| is_unit(&u.name) && names.insert(&u.name) && !u.contents.is_empty()));
            }

            let rendered = done(&StackInput { distro: Distro::Ubuntu, ..(case.change)(super::input(&some)) });
            let body = user_data(&rendered, kind).strip_prefix("#cloud-config\n").expect("the first line of a cloud-config");
            let config: CloudConfig = serde_json::from_str(body).expect("a cloud-config");
            for file in &config.write_files {
                assert!(is_absolute(&file.path) && file.owner == "root:root", "{}", file.path);
                assert!(u32::from_str_radix(&file.permissions, 8).is_ok_and(|mode| mode <= 0o7777), "{}", file.permissions);
                assert!(matches!(file.encoding.as_deref(), None | Some("gz+b64")), "{:?}", file.encoding);
            }
            assert!(config.runcmd.iter().all(|command| command.first().is_some_and(|program| program == "systemctl")));
        }
    }
}
