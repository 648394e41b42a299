mod agents;
mod api_name;
mod api_server;
mod calico;
mod cilium;
mod cloud;
mod combinations;
mod consoles;
mod downloads;
mod dual_stack;
mod extra_networks;
mod flannel;
mod given_network;
mod keystone;
mod kubeadm;
mod measure;
mod monitoring;
mod options;
mod proxies;
mod renewal;
mod representative;
mod restarts;
mod scripts;
mod security_groups;
mod succession;
mod system;
mod times;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::json::Labels;
use model::nodegroup::Nodes;
use serde_json::Value;

use super::*;
use crate::driver::heat::access::{Access, CA_LIMIT, CloudProvider};
use crate::driver::heat::dual_stack::DualStack;
use crate::driver::heat::keystone_auth::{self, Keystone};
use crate::driver::heat::parameters::SECRETS;
use crate::driver::heat::parameters::choices::Cidr;
use crate::driver::heat::stack_input::{Distro, KnownAuthority, Pki, WorkerGroup};
use crate::driver::heat::templates::SHIPPED_TEMPLATES;

static NONE: OnceLock<Nodes> = OnceLock::new();
static KEYSTONE: OnceLock<Keystone> = OnceLock::new();
static ABSENT: CloudProvider = CloudProvider::Absent;

const DISTROS: [Distro; 3] = [Distro::FedoraCoreos, Distro::Flatcar, Distro::Ubuntu];

const CA_KEY: &str = "-----BEGIN PRIVATE KEY-----\nkubernetes-authority\n-----END PRIVATE KEY-----";

fn input(labels: &Labels) -> StackInput<'_> {
    StackInput {
        cluster_uuid: "7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9",
        cluster_name: "one",
        project_id: "p1",
        distro: Distro::FedoraCoreos,
        ssh_key_name: Some("key"),
        external_network: "public",
        fixed_network: None,
        fixed_subnet: None,
        fixed_range: None,
        dns_nameservers: vec!["8.8.8.8".into()],
        master_image: "image",
        worker_image: "image",
        master_flavor: "m1.small",
        worker_flavor: "m1.small",
        masters: 1,
        workers: 1,
        worker_group: WorkerGroup { name: "default-worker", role: "worker", nodes: NONE.get_or_init(Nodes::default) },
        master_lb_enabled: true,
        floating_ip_enabled: false,
        docker_volume_size: None,
        http_proxy: None,
        https_proxy: None,
        no_proxy: None,
        insecure_registry: None,
        network_driver: "flannel",
        tls_disabled: false,
        cloud: &ABSENT,
        keystone: Some(KEYSTONE.get_or_init(|| keystone(None))),
        has_secrets_key: true,
        // As of a new cluster.
        has_monitoring: monitoring_is_asked_for(labels),
        dual_stack: None,
        api_name: None,
        post_install_manifest: None,
        downloads: None,
        volume_driver: None,
        labels,
        nodes_affinity_policy: "soft-anti-affinity",
        templates: &SHIPPED_TEMPLATES,
        openstack_ca: "",
        verify_ca: true,
        timeout_minutes: 60,
        token_seconds: None,
        kubernetes: Pki {
            ca_cert: "ca-cert",
            ca_key: CA_KEY,
            etcd_ca_cert: "etcd-cert",
            etcd_ca_key: "etcd-authority",
            front_proxy_ca_cert: "front-cert",
            front_proxy_ca_key: "front-authority",
            sa_key_pem: "account-key",
            sa_pub_pem: "account-public",
            authorities: vec![KnownAuthority { key: CA_KEY, public_key_hash: "00ff" }],
        },
    }
}

fn monitoring_is_asked_for(labels: &Labels) -> bool {
    matches!(crate::driver::heat::monitoring::asked_for(labels), Ok(Some(_)))
}

/// Of a new cluster, by the operator's policy or ours.
fn keystone(policy: Option<&str>) -> Keystone {
    Keystone { url: "https://keystone.example:5000/v3".into(), policy: Some(keystone_auth::policy_of(policy, "p1")) }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}

fn done(input: &StackInput<'_>) -> Rendered {
    render(input).expect("the input is good")
}

fn user_data<'a>(rendered: &'a Rendered, kind: &str) -> &'a str {
    rendered.parameters[&format!("{kind}_user_data")].as_str().expect("user data is text")
}

fn unpacked(text: &str) -> String {
    let bytes = STANDARD.decode(text).expect("base64");
    let mut content = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut content).expect("gzip of text");
    content
}

/// Every file, link and unit of the user data, by path; documents by where they are taken to.
fn contents(data: &str) -> Vec<(String, String)> {
    let apart = |(path, text): (String, String)| -> Vec<(String, String)> {
        match path.strip_suffix("/documents") {
            Some(folder) => {
                let lines = text.lines().map(|line| line.split_once(' ').expect("a name and a document"));
                lines.map(|(name, text)| (format!("{folder}/{name}"), text.replace('\u{1f}', "\n"))).collect()
            }
            None => vec![(path, text)],
        }
    };
    written(data).into_iter().flat_map(apart).collect()
}

/// The same, as the first boot writes them.
fn written(data: &str) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    if let Some(body) = data.strip_prefix("#cloud-config\n") {
        let config: Value = serde_json::from_str(body).expect("the body is JSON");
        let files = config["write_files"].as_array().expect("a list");
        let content = |f: &Value| if f["encoding"] == "gz+b64" { unpacked(&text(&f["content"])) } else { text(&f["content"]) };
        return files.iter().map(|f| (text(&f["path"]), content(f))).collect();
    }
    let config: Value = serde_json::from_str(data).expect("Ignition is JSON");
    assert_eq!(config["ignition"]["version"], "3.3.0");
    let files = config["storage"]["files"].as_array().expect("a list").iter().map(|f| {
        let source = text(&f["contents"]["source"]);
        (text(&f["path"]), unpacked(source.strip_prefix("data:;base64,").expect("a data URL")))
    });
    let units = config["systemd"]["units"].as_array().expect("a list");
    let units = units.iter().map(|u| (format!("/etc/systemd/system/{}", text(&u["name"])), text(&u["contents"])));
    let links = config["storage"]["links"].as_array().into_iter().flatten();
    let links = links.map(|link| (text(&link["path"]), format!("-> {}", text(&link["target"]))));
    files.chain(links).chain(units).collect()
}

fn content(data: &str, path: &str) -> String {
    contents(data).into_iter().find(|(p, _)| p == path).unwrap_or_else(|| panic!("no {path}")).1
}

/// A document of ours, by its place below our folder.
fn document(data: &str, name: &str) -> Value {
    serde_json::from_str(&content(data, &format!("/etc/kubernetes-bootstrap/{name}"))).expect("JSON")
}

/// What kubeadm is told of the API server.
fn api_server(master: &str) -> Value {
    let text = content(master, "/etc/kubernetes-bootstrap/init.yaml");
    let cluster = text.split("---\n").nth(1).expect("a cluster's configuration");
    serde_json::from_str::<Value>(cluster).expect("JSON")["apiServer"].clone()
}

/// Options of kubeadm's configuration, as `name=value`.
fn told(arguments: &Value) -> Vec<String> {
    let word = |argument: &Value, key: &str| argument[key].as_str().expect("a text").to_owned();
    arguments.as_array().into_iter().flatten().map(|one| format!("{}={}", word(one, "name"), word(one, "value"))).collect()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a template is YAML")
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("a map").keys().cloned().collect()
}

/// Parameters that a template reads.
fn read_parameters(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let name = map.get("get_param").and_then(|argument| argument.as_str().or_else(|| argument.get(0)?.as_str()));
            found.extend(name.map(str::to_owned));
            map.values().for_each(|v| read_parameters(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| read_parameters(v, found)),
        _ => {}
    }
}

/// Parameters given, declared, read and handed on agree, in the template and in what it nests.
fn check_parameters(rendered: &Rendered, groups: &[(&str, &str)]) {
    let top = yaml(&rendered.template);
    let declared = names(&top["parameters"]);
    let given: BTreeSet<String> = rendered.parameters.keys().cloned().collect();
    for name in declared.difference(&given) {
        assert!(top["parameters"][name].get("default").is_some(), "{name} is neither given nor has a default");
    }
    assert_eq!(given.difference(&declared).collect::<Vec<_>>(), Vec::<&String>::new());
    for (group, file) in groups {
        let definition = &top["resources"][group]["properties"]["resource_def"];
        assert_eq!(definition["type"], *file);
        assert_eq!(names(&definition["properties"]), names(&yaml(&rendered.files[*file])["parameters"]), "{file}");
    }
    for (name, text) in rendered.files.iter().chain([(&"top".to_owned(), &rendered.template)]) {
        let template = yaml(text);
        let mut read = BTreeSet::new();
        read_parameters(&template, &mut read);
        read.remove("OS::stack_name");
        let mut unread: Vec<String> = names(&template["parameters"]).difference(&read).cloned().collect();
        // Said for whoever looks at the stack.
        let said = ["nodegroup_uuid", "cloud_provider_enabled", "keystone_auth_enabled", "secrets_encrypted", "monitoring_enabled"];
        unread.retain(|p| !said.contains(&p.as_str()));
        assert_eq!(unread, Vec::<String>::new(), "{name}");
        assert_eq!(read.difference(&names(&template["parameters"])).count(), 0, "{name}");
    }
}

#[test]
fn every_parameter_is_declared_read_and_given_or_has_a_default() {
    let none = labels(&[]);
    for dual_stack in [None, Some(dual_stack::made())] {
        let input = StackInput { dual_stack, ..input(&none) };
        check_parameters(&done(&input), &[("kube_masters", "kubemaster.yaml"), ("kube_minions", "kubeminion.yaml")]);
        check_parameters(&group(&input), &[("kube_minions", "kubeminion.yaml")]);
    }
}

fn group(input: &StackInput<'_>) -> Rendered {
    let joint = Joint {
        api_address: "10.0.0.7".into(),
        network: "network-id".into(),
        subnet: "subnet-id".into(),
        subnet_v6: input.dual_stack.map(|_| "subnet-v6-id".into()),
        security_groups: vec!["node".into(), "worker".into()],
    };
    render_group(input, &joint, "0d1b2c3e-4f50-4617-8283-94a5b6c7d8e9").expect("the input is good")
}

#[test]
fn a_group_joins_what_the_clusters_stack_tells_and_its_nodes_what_the_cluster_runs() {
    let some = labels(&[("kube_tag", "v1.34.1")]);
    let nodes = Nodes { labels: labels(&[("example.org/kind", "a100")]), taints: Vec::new() };
    let worker_group = WorkerGroup { name: "gpu", role: "gpu", nodes: &nodes };
    let rendered = group(&StackInput { workers: 3, worker_group, ..input(&some) });
    assert_eq!(rendered.parameters["number_of_minions"], 3);
    assert_eq!(rendered.parameters["fixed_network"], "network-id");
    assert_eq!(rendered.parameters["security_groups"], serde_json::json!(["node", "worker"]));
    let cluster = done(&input(&some));
    let join = |r: &Rendered| -> Value {
        serde_json::from_str(&content(user_data(r, "worker"), "/etc/kubernetes-bootstrap/join.yaml")).expect("JSON")
    };
    assert_eq!(join(&rendered)["discovery"], join(&cluster)["discovery"]);
    let labels = join(&rendered)["nodeRegistration"]["kubeletExtraArgs"][1]["value"].to_string();
    assert!(labels.contains("nodegroup=gpu,magnum.openstack.org/generation=@GENERATION@,example.org/kind=a100"), "{labels}");
    // Outputs that groups need are there.
    let outputs = names(&yaml(&cluster.template)["outputs"]);
    for name in ["api_private_address", "network", "subnet", "subnet_v6", "worker_security_groups"] {
        assert!(outputs.contains(name), "{name}");
    }
    assert_eq!(yaml(&rendered.template)["parameters"]["worker_user_data"]["hidden"], true);
    let resources = names(&yaml(&rendered.template)["resources"]);
    assert!(resources.contains("kube_minions") && !resources.contains("network"), "{resources:?}");
}

#[test]
fn secrets_are_hidden_parameters() {
    let none = labels(&[]);
    let rendered = done(&input(&none));
    let top = yaml(&rendered.template);
    for name in ["master_user_data", "worker_user_data", "secrets_key"] {
        assert_eq!(top["parameters"][name]["hidden"], true);
    }
    assert_eq!(yaml(&rendered.files["kubemaster.yaml"])["parameters"]["secrets_key"]["hidden"], true);
    // What is hidden there is hidden in errors too.
    for template in [&SHIPPED_TEMPLATES.cluster, &SHIPPED_TEMPLATES.group] {
        let declared = yaml(template)["parameters"].as_object().expect("parameters").clone();
        let mut hidden = declared.iter().filter(|(_, schema)| schema["hidden"] == true).map(|(name, _)| name.as_str());
        assert!(hidden.all(|name| SECRETS.contains(&name)));
    }
    for file in rendered.files.values() {
        assert_eq!(yaml(file)["parameters"]["user_data"]["hidden"], true);
    }
}

#[test]
fn every_place_holder_is_filled_by_the_template_and_the_other_way_round() {
    let none = labels(&[]);
    let all = DISTROS.into_iter().flat_map(|distro| [(distro, None), (distro, Some(dual_stack::made()))]);
    for (distro, dual_stack) in all {
        let rendered = done(&StackInput { distro, dual_stack, ..input(&none) });
        for (kind, file, server) in [("master", "kubemaster.yaml", "kube-master"), ("worker", "kubeminion.yaml", "kube-minion")] {
            let data = user_data(&rendered, kind);
            let mut found: BTreeSet<String> =
                data.split("=__").skip(1).map(|rest| format!("__{}__", rest.split("__").next().expect("split gives one"))).collect();
            let template = yaml(&rendered.files[file]);
            let params = &template["resources"][server]["properties"]["user_data"]["str_replace"]["params"];
            // Its place alone is in every template.
            assert!(dual_stack.is_none() || found.contains("__NODE_ADDRESS_V6__"));
            found.insert("__NODE_ADDRESS_V6__".into());
            assert_eq!(found, names(params), "{kind}");
            for (path, content) in contents(data) {
                assert!(path.ends_with("kubernetes-bootstrap.service") || !content.contains("=__"), "{path}");
            }
        }
    }
}

#[test]
fn a_worker_holds_no_key_and_a_master_all_of_them() {
    let none = labels(&[]);
    for distro in DISTROS {
        let rendered = done(&StackInput { distro, ..input(&none) });
        let all = |kind| contents(user_data(&rendered, kind)).into_iter().map(|(_, c)| c).collect::<String>();
        let (master, worker) = (all("master"), all("worker"));
        for secret in ["kubernetes-authority", "etcd-authority", "front-authority", "account-key"] {
            assert!(master.contains(secret), "{secret}");
            assert!(!worker.contains(secret), "{secret}");
        }
        assert!(worker.contains("sha256:00ff"));
    }
}

#[test]
fn scripts_are_valid_bash_and_use_only_known_node_values() {
    let none = labels(&[]);
    let both = [None, Some(dual_stack::made())].map(|dual_stack| done(&StackInput { dual_stack, ..input(&none) }));
    for (rendered, kind) in both.iter().flat_map(|rendered| [(rendered, "master"), (rendered, "worker")]) {
        let data = user_data(rendered, kind);
        let unit = content(data, "/etc/systemd/system/kubernetes-bootstrap.service");
        for (path, script) in contents(data).into_iter().filter(|(p, _)| p.ends_with(".sh")) {
            let status = Command::new("bash").args(["-n", "-c", &script]).status().expect("bash runs");
            assert!(status.success(), "{path}");
            for name in script.split("$(node_value ").skip(1).map(|rest| rest.split(')').next().expect("split gives one")) {
                assert!(unit.contains(&format!("\n{name}=__{name}__\n")), "{path} reads {name}");
            }
        }
    }
}

#[test]
fn kubeadm_gets_the_cluster_that_was_asked_for() {
    let calico =
        labels(&[("kube_tag", "1.34.1"), ("calico_ipv4pool", "10.20.0.0/16"), ("container_infra_prefix", "registry.example/k8s/")]);
    let rendered = done(&StackInput { network_driver: "calico", ..input(&calico) });
    assert_eq!(rendered.kube_version, "v1.34.1");
    assert_eq!(rendered.parameters["pods_network_cidr"], "10.20.0.0/16");
    let init = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/init.yaml");
    let documents: Vec<Value> = init.split("---\n").map(|d| serde_json::from_str(d).expect("JSON")).collect();
    let kinds: Vec<&str> = documents.iter().filter_map(|d| d["kind"].as_str()).collect();
    assert_eq!(kinds, ["InitConfiguration", "ClusterConfiguration", "KubeletConfiguration"]);
    assert_eq!(documents[1]["kubernetesVersion"], "v1.34.1");
    assert_eq!(documents[1]["networking"]["podSubnet"], "10.20.0.0/16");
    assert_eq!(documents[1]["imageRepository"], "registry.example/k8s");
    let token = |d: &Value| d.pointer("/discovery/bootstrapToken/token").cloned();
    for (kind, control_plane) in [("master", true), ("worker", false)] {
        let join: Value = serde_json::from_str(&content(user_data(&rendered, kind), "/etc/kubernetes-bootstrap/join.yaml")).expect("JSON");
        assert_eq!(token(&join), documents[0].pointer("/bootstrapTokens/0/token").cloned());
        assert_eq!(join.get("controlPlane").is_some(), control_plane, "{kind}");
    }
    let containerd = content(user_data(&rendered, "worker"), "/etc/containerd/config.toml");
    assert!(containerd.contains("sandbox_image = \"registry.example/k8s/pause:3.10.1\""), "{containerd}");
}

#[test]
fn proxies_reach_the_nodes_and_the_cluster_itself_is_reached_directly() {
    let none = labels(&[]);
    let rendered = done(&StackInput { http_proxy: Some("http://proxy:3128"), no_proxy: Some(".example"), ..input(&none) });
    let env = content(user_data(&rendered, "worker"), "/etc/kubernetes-bootstrap/proxy.env");
    assert!(env.contains("http_proxy='http://proxy:3128'\n"), "{env}");
    assert!(
        env.contains(
            "NO_PROXY='.example,127.0.0.1,localhost,169.254.169.254,.svc,.cluster.local,10.100.0.0/16,10.254.0.0/16,10.0.0.0/24'\n"
        ),
        "{env}"
    );
}

#[test]
fn nodes_on_a_network_that_is_there_reach_each_other_directly() {
    let none = labels(&[]);
    let both = "10.254.0.0/16,192.0.2.0/24,fd6d:6167:6e75:100::/56,fd6d:6167:6e75:200::/112,2001:db8::/64'\n";
    for (dual_stack, want) in [(None, "10.254.0.0/16,192.0.2.0/24'\n"), (Some(dual_stack::given()), both)] {
        let input = StackInput {
            fixed_network: Some("network-id"),
            fixed_subnet: Some("subnet-id"),
            fixed_range: Cidr::parse("192.0.2.0/24"),
            dual_stack,
            https_proxy: Some("http://proxy:3128"),
            ..input(&none)
        };
        let (cluster, group) = (done(&input), group(&input));
        for (rendered, kind) in [(&cluster, "master"), (&cluster, "worker"), (&group, "worker")] {
            let env = content(user_data(rendered, kind), "/etc/kubernetes-bootstrap/proxy.env");
            assert!(env.contains(want), "{kind}: {env}");
        }
    }
}

#[test]
fn rendering_twice_gives_the_same() {
    let none = labels(&[]);
    assert_eq!(done(&input(&none)).parameters, done(&input(&none)).parameters);
}

#[test]
fn user_data_stays_far_below_novas_limit_and_more_is_refused() {
    let none = labels(&[]);
    // Keys as large as they come: RSA 4096 does not compress.
    let pem = |n: u64| STANDARD.encode((0..2400u64).map(|i| ((i * i * (n + 7) * 2_654_435_761) >> 13) as u8).collect::<Vec<u8>>());
    let (a, b, c, d) = (pem(1), pem(2), pem(3), pem(4));
    let keys = |input: &mut StackInput<'_>| -> usize {
        let rendered = done(input);
        user_data(&rendered, "master").len().div_ceil(3) * 4
    };
    let mut large = input(&none);
    (large.kubernetes.ca_key, large.kubernetes.etcd_ca_key) = (&a, &b);
    (large.kubernetes.front_proxy_ca_key, large.kubernetes.sa_key_pem) = (&c, &d);
    let size = keys(&mut large);
    assert!(size < 50_000, "{size}");
    let watched = labels(&[("monitoring_enabled", "true")]);
    (large.labels, large.has_monitoring) = (&watched, true);
    let size = keys(&mut large);
    assert!(size < 54_000, "{size}");
    // With all that logs in to the cloud, whose services are trusted as the image trusts them.
    let all = [("monitoring_enabled", "true"), ("auto_scaling_enabled", "true"), ("auto_healing_enabled", "true")];
    let watched = labels(&[&all[..], &[("ingress_controller", "octavia")]].concat());
    (large.labels, large.cloud) = (&watched, cloud::given());
    let size = keys(&mut large);
    assert!(size < 60_000, "{size}");
    large.labels = &none;
    // With as many authorities as the cloud provider may be given.
    let authorities: String = (5..9u64).map(pem).collect::<String>().chars().take(CA_LIMIT).collect();
    assert_eq!(authorities.len(), CA_LIMIT);
    let cloud = cloud::given_with(&authorities);
    (large.cloud, large.openstack_ca) = (&cloud, &authorities);
    let size = keys(&mut large);
    assert!(size < 63_000, "{size}");
    // The autoscaler reads the same authorities.
    let scaled = labels(&[("auto_scaling_enabled", "true")]);
    large.labels = &scaled;
    let size = keys(&mut large);
    assert!(size < 62_000, "{size}");
    // As do the others that log in.
    let everything = labels(&[("auto_scaling_enabled", "true"), ("auto_healing_enabled", "true"), ("ingress_controller", "octavia")]);
    large.labels = &everything;
    let size = keys(&mut large);
    assert!(size < 63_500, "{size}");
    // A policy of the size that an operator may give: many groups of users, each with its own resources.
    let rule = |n: usize| {
        let all = ["pods", "services", "configmaps", "deployments", "ingresses", "jobs", "secrets", "events", "endpoints", "replicasets"];
        let some: Vec<&str> = all.iter().enumerate().filter(|(i, _)| (n * 37 + 11) >> i & 1 == 1).map(|(_, name)| *name).collect();
        let key = format!("team-{n}/['{}']", some.join("', '"));
        serde_json::json!({"users": {"roles": [format!("k8s_team_{n}")], "projects": ["$PROJECT_ID"]}, "resource_permissions": {key: ["*"]}})
    };
    let mut policy = (0..50).map(rule).collect::<Vec<_>>();
    while Value::from(policy.clone()).to_string().len() > 6 * 1024 {
        policy.pop();
    }
    let policy = Value::from(policy).to_string();
    assert!(policy.len() > 5_900, "{}", policy.len());
    let theirs = keystone(Some(&policy));
    let size = keys(&mut StackInput { keystone: Some(&theirs), ..large });
    assert!(size < 62_700, "{size}");
    let noise: String = (0..20u64).map(pem).collect();
    let huge = StackInput { kubernetes: Pki { ca_cert: &noise, ..input(&none).kubernetes }, ..input(&none) };
    let error = render(&huge).err().expect("too large");
    assert_eq!(error.field, "user_data");
    assert!(error.rule.contains("65535"), "{error}");
}

#[test]
fn what_cannot_be_made_is_refused_with_field_and_rule() {
    for (name, value) in [
        ("kube_tag", "v1.28.9-rancher1"),
        ("calico_ipv4pool", "10.0.0.0"),
        ("service_cluster_ip_range", "10.254.0.1/16"),
        ("fixed_subnet_cidr", "nonsense"),
        ("container_infra_prefix", "registry.example/k8s"),
        ("container_infra_prefix", "x\";reboot/"),
        ("calico_tag", "v3'; reboot"),
        ("containerd_tarball_sha256", "abc"),
        ("containerd_tarball_url", "ftp://x"),
        ("boot_volume_size", "ten"),
        ("octavia_lb_healthcheck", "maybe"),
        ("octavia_lb_algorithm", "RANDOM"),
        ("master_lb_floating_ip_enabled", "si"),
        ("master_lb_allowed_cidrs", "192.0.2.0/24, x"),
    ] {
        let bad = labels(&[(name, value)]);
        let error = render(&StackInput { network_driver: "calico", ..input(&bad) }).err().unwrap_or_else(|| panic!("{name}={value}"));
        assert_eq!(error.field, name);
        assert!(error.to_string().starts_with(&format!("{name}: ")));
    }
    let none = labels(&[]);
    let refused = |input: StackInput<'_>| render(&input).err().expect("refused").field;
    assert_eq!(refused(StackInput { tls_disabled: true, ..input(&none) }), "tls_disabled");
    assert_eq!(refused(StackInput { masters: 0, ..input(&none) }), "master_count");
    assert_eq!(refused(StackInput { masters: 3, master_lb_enabled: false, ..input(&none) }), "master_lb_enabled");
    assert_eq!(refused(StackInput { fixed_network: Some("n"), ..input(&none) }), "fixed_subnet");
    assert_eq!(refused(StackInput { network_driver: "weave", ..input(&none) }), "network_driver");
    assert_eq!(refused(StackInput { http_proxy: Some("http://a b"), ..input(&none) }), "http_proxy");
    assert_eq!(refused(StackInput { insecure_registry: Some("a/../b"), ..input(&none) }), "insecure_registry");
    assert_eq!(refused(StackInput { nodes_affinity_policy: "near", ..input(&none) }), "nodes_affinity_policy");
    let ovn = labels(&[("octavia_provider", "ovn"), ("octavia_lb_algorithm", "ROUND_ROBIN")]);
    assert_eq!(refused(input(&ovn)), "octavia_lb_algorithm");
    let overlap = labels(&[("fixed_subnet_cidr", "10.100.8.0/24")]);
    assert_eq!(refused(input(&overlap)), "flannel_network_cidr");
}

#[test]
fn what_a_stack_takes_is_counted_alike_before_and_after_its_nodes_first_boot_is_rendered() {
    use crate::driver::heat::need;
    for pairs in [&[][..], &[("boot_volume_size", "20"), ("etcd_volume_size", "5"), ("master_lb_allowed_cidrs", "192.0.2.0/24")]] {
        let labels = labels(pairs);
        let input = StackInput { floating_ip_enabled: true, workers: 3, ..input(&labels) };
        let before = without_first_boot(&input).expect("the input is good");
        let after = done(&input).parameters;
        assert_eq!(need::of(&before), need::of(&after));
        let names = |parameters: &Map<String, Value>| parameters.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&before), names(&after));
        assert!(before["master_user_data"] == "" && after["master_user_data"] != "", "keys are in the first boot alone");
    }
    // What cannot be made is refused in the same words.
    let bad = labels(&[("kube_tag", "v1.2.3")]);
    let refused = |error: Option<RenderError>| error.map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(refused(without_first_boot(&input(&bad)).err()), refused(render(&input(&bad)).err()));
    assert!(without_first_boot(&input(&bad)).is_err());
}

/// Runs a function of a script, whose functions begin with the named one, over a manifest: whether it ends well, what it makes of it, and what it
/// says.
fn edited(driver: &str, (script, first): (&str, &str), manifest: &str, command: &str) -> (bool, String, String) {
    let common = include_str!("../scripts/common.sh");
    let shared = &common[common.find("must_hold() {").expect("what they share")..common.find("\nNODE_NAME=").expect("its end")];
    let functions = &script[script.find(first).expect("the functions")..];
    let whole =
        format!("file=$(mktemp)\ntrap 'rm -f \"$file\"' EXIT\ncat > \"$file\"\n{shared}\n{functions}\n{command} \"$file\"\ncat \"$file\"");
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &whole]).env("NETWORK_DRIVER", driver).env("POD_CIDR", "10.20.0.0/16");
    bash.env("POD_CIDR_V6", "fd00:1::/56").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = bash.spawn().expect("bash runs");
    child.stdin.take().expect("a pipe").write_all(manifest.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}
