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

impl Case {
    /// The cluster with nodes of this system; the labels are the case's own.
    fn on<'a>(&self, distro: Distro, labels: &'a Labels) -> StackInput<'a> {
        StackInput { distro, ..(self.change)(input(labels)) }
    }
}

/// What a kind of node of a representative cluster boots with.
pub(super) struct FirstBoot {
    /// Whose it is, to be told where it has a fault.
    pub name: String,
    pub distro: Distro,
    pub is_master: bool,
    pub data: String,
}

/// Those of all representative clusters on these systems: of masters, of workers, and of the workers of a nodegroup that comes later.
pub(super) fn first_boots(distros: &[Distro]) -> Vec<FirstBoot> {
    let mut all = Vec::new();
    for case in cases() {
        let some = labels(case.labels);
        for &distro in distros {
            let cluster = done(&case.on(distro, &some));
            let later = group(&StackInput { worker_group: further_group(), ..case.on(distro, &some) });
            for (whose, rendered, kind) in [("master", &cluster, "master"), ("worker", &cluster, "worker"), ("group", &later, "worker")] {
                let name = format!("{}-{distro:?}-{whose}", case.name);
                all.push(FirstBoot { name, distro, is_master: kind == "master", data: user_data(rendered, kind).to_owned() });
            }
        }
    }
    all
}

/// A group that comes later, whose nodes have a label and a taint.
fn further_group() -> WorkerGroup<'static> {
    static NODES: OnceLock<Nodes> = OnceLock::new();
    let taint = || Taint { key: "gpu".into(), value: Some("yes".into()), effect: "NoSchedule".into() };
    let made = || Nodes { labels: labels(&[("example.org/kind", "a100")]), taints: vec![taint()] };
    WorkerGroup { name: "gpu", role: "gpu", nodes: NODES.get_or_init(made) }
}

pub(super) fn cases() -> Vec<Case> {
    let case = |name, labels, change| Case { name, labels, change };
    vec![
        case("smallest", &[], |i| StackInput { master_lb_enabled: false, ..i }),
        case("load_balancer", &[], |i| i),
        case("three_masters", &[("kube_tag", "v1.34.1")], |i| StackInput { masters: 3, workers: 10, floating_ip_enabled: true, ..i }),
        case("calico", &[("calico_ipv4pool", "10.20.0.0/16"), ("calico_ipv4pool_ipip", "CrossSubnet"), ("calico_tag", "v3.30.0")], |i| {
            StackInput { network_driver: "calico", ..i }
        }),
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

/// The stack's own resources, parameters but for user data, then the files of user data that are not the same for all clusters.
fn shown(rendered: &Rendered) -> String {
    let mut text = String::new();
    for (name, kind) in security_groups::resources(rendered) {
        writeln!(text, "{name}: {kind}").expect("a text takes it");
    }
    text.push('\n');
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
    insta::assert_snapshot!("group", shown(&group(&StackInput { workers: 3, worker_group: further_group(), ..input(&some) })));
}

/// Runs a program on a text; whether it found no fault, and all that it said.
fn judged_by(program: &str, args: &[&str], text: &str) -> (bool, String) {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error} (`cargo xtask test` installs it)"));
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// What Ignition does not know is a warning to it.
#[test]
fn every_ignition_document_passes_ignitions_own_check() {
    let check = |text: &str| judged_by("ignition-validate", &["-"], text);
    for boot in first_boots(&[Distro::FedoraCoreos, Distro::Flatcar]) {
        assert_eq!(check(&boot.data), (true, String::new()), "{}", boot.name);
    }
    let with = |file: &str| check(&format!(r#"{{"ignition": {{"version": "3.3.0"}}, "storage": {{"files": [{{{file}}}]}}}}"#));
    let (is_good, told) = with(r#""path": "relative""#);
    assert!(!is_good && told.contains("path not absolute"), "{told}");
    let (_, told) = with(r#""path": "/a", "mood": 420"#);
    assert!(told.contains("Unused key mood"), "{told}");
}

#[test]
fn every_cloud_config_passes_cloud_inits_own_check() {
    let check = |text: &str| judged_by("cloud-init", &["schema", "--config-file", "/dev/stdin"], text);
    let mut seen = BTreeSet::new();
    for boot in first_boots(&[Distro::Ubuntu]) {
        if seen.insert(seen_by_a_schema(&boot.data)) {
            let (is_good, told) = check(&boot.data);
            assert!(is_good, "{}: {told}", boot.name);
        }
    }
    assert!(!check("#cloud-config\n{\"runcmd\": 7}\n").0, "it finds nothing at all");
}

/// A cloud-config without what is packed in it: of that a schema only asks that it is a text, and looking takes cloud-init half a second each time.
fn seen_by_a_schema(data: &str) -> String {
    let body = data.strip_prefix("#cloud-config\n").expect("the first line of a cloud-config");
    let mut config: Value = serde_json::from_str(body).expect("the body is JSON");
    for file in config["write_files"].as_array_mut().expect("a list") {
        if file["encoding"] == "gz+b64" {
            assert!(file["content"].is_string());
            file["content"] = Value::from("packed");
        }
    }
    config.to_string()
}

/// The parts of Ignition 3.3 that we use, to be looked at; whether they are its parts is for Ignition to say (above).
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

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains("..") && !path.ends_with('/')
}

fn check_ignition(name: &str, data: &str) {
    let config: ignition::Config = serde_json::from_str(data).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(config.ignition.version, "3.3.0", "{name}");
    let mut paths = BTreeSet::new();
    for file in &config.storage.files {
        assert!(is_absolute(&file.path) && file.mode <= 0o7777 && paths.insert(&file.path), "{name}: {}", file.path);
        assert_eq!(file.contents.compression, "gzip", "{name}: {}", file.path);
        assert!(file.contents.source.starts_with("data:;base64,"), "{name}: {}", file.path);
    }
    for link in &config.storage.links {
        assert!(is_absolute(&link.path) && is_absolute(&link.target) && paths.insert(&link.path), "{name}: {}", link.path);
    }
    // It cannot be written.
    assert!(paths.iter().all(|path| !path.starts_with("/usr/")), "{name}: {paths:?}");
    let mut names = BTreeSet::new();
    for unit in &config.systemd.units {
        let is_unit = unit.name.ends_with(".service") || unit.name.ends_with(".timer");
        assert!(is_unit && names.insert(&unit.name) && !unit.contents.is_empty(), "{name}: {}", unit.name);
    }
}

fn check_cloud_config(name: &str, data: &str) {
    let body = data.strip_prefix("#cloud-config\n").expect("the first line of a cloud-config");
    let config: CloudConfig = serde_json::from_str(body).unwrap_or_else(|error| panic!("{name}: {error}"));
    for file in &config.write_files {
        assert!(is_absolute(&file.path) && file.owner == "root:root", "{name}: {}", file.path);
        assert!(u32::from_str_radix(&file.permissions, 8).is_ok_and(|mode| mode <= 0o7777), "{name}: {}", file.permissions);
        assert!(matches!(file.encoding.as_deref(), None | Some("gz+b64")), "{name}: {:?}", file.encoding);
    }
    assert!(config.runcmd.iter().all(|command| command.first().is_some_and(|program| program == "systemctl")), "{name}");
}

#[test]
fn first_boot_documents_have_the_keys_and_values_of_their_schemas() {
    for FirstBoot { name, distro, data, .. } in first_boots(&DISTROS) {
        match distro {
            Distro::FedoraCoreos | Distro::Flatcar => check_ignition(&name, &data),
            Distro::Ubuntu => check_cloud_config(&name, &data),
        }
    }
}
