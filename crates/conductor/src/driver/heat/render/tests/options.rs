//! Options of Kubernetes' programs, and the autoscaler.

use super::*;

const LIST: &str = "/etc/kubernetes-bootstrap/addons.list";

fn init(data: &str) -> Vec<Value> {
    let text = content(data, "/etc/kubernetes-bootstrap/init.yaml");
    text.split("---\n").map(|document| serde_json::from_str(document).expect("JSON")).collect()
}

fn refused(pairs: &[(&str, &str)], change: representative::Change) -> String {
    let some = labels(pairs);
    render(&change(input(&some))).err().expect("it is refused").to_string()
}

#[test]
fn options_reach_the_programs_they_are_for() {
    let some = labels(&[
        ("admission_control_list", "ServiceAccount, NodeRestriction"),
        ("flannel_network_subnetlen", "26"),
        ("kubeapi_options", "--profiling=false --v 4"),
        ("kubecontroller_options", "--profiling=false"),
        ("kubescheduler_options", "--v=3"),
        ("kubelet_options", "--max-pods=50"),
    ]);
    let rendered = done(&StackInput { keystone: None, ..input(&some) });
    let (master, worker) = (user_data(&rendered, "master"), user_data(&rendered, "worker"));
    let documents = init(master);
    let cluster = &documents[1];
    let api = told(&cluster["apiServer"]["extraArgs"]);
    assert_eq!(api[0], "enable-admission-plugins=NodeRestriction,ServiceAccount");
    assert_eq!(api[api.len() - 2..], ["profiling=false", "v=4"]);
    let manager = told(&cluster["controllerManager"]["extraArgs"]);
    assert_eq!(manager[2..], ["node-cidr-mask-size-ipv4=26", "profiling=false"]);
    assert_eq!(told(&cluster["scheduler"]["extraArgs"]), ["v=3"]);
    let join = |data| serde_json::from_str::<Value>(&content(data, "/etc/kubernetes-bootstrap/join.yaml")).expect("JSON");
    for node in [&documents[0], &join(master), &join(worker)] {
        let kubelet = told(&node["nodeRegistration"]["kubeletExtraArgs"]);
        assert_eq!(kubelet.last().map(String::as_str), Some("max-pods=50"));
    }
    // A group that comes later has them too.
    let grouped = group(&input(&some));
    assert!(told(&join(user_data(&grouped, "worker"))["nodeRegistration"]["kubeletExtraArgs"]).contains(&"max-pods=50".to_owned()));
}

#[test]
fn a_cluster_without_options_is_told_none() {
    let some = labels(&[("kubeapi_options", " "), ("admission_control_list", "")]);
    let cluster = &init(user_data(&done(&StackInput { keystone: None, ..input(&some) }), "master"))[1];
    assert!(cluster.get("scheduler").is_none(), "{cluster:#}");
    assert!(told(&cluster["apiServer"]["extraArgs"]).iter().all(|arg| arg.starts_with("audit-") || arg.starts_with("encryption-")));
    assert_eq!(told(&cluster["controllerManager"]["extraArgs"]).len(), 2);
}

#[test]
fn options_that_would_break_a_cluster_are_refused_by_name() {
    for (name, value, rule) in [
        ("kubelet_options", "--node-labels=a=b", "must not hold --node-labels"),
        ("kubecontroller_options", "--cluster-signing-cert-file=/x", "must not hold --cluster-signing-cert-file"),
        ("kubeapi_options", "--service-cluster-ip-range=10.0.0.0/8", "must not hold --service-cluster-ip-range"),
        ("kubeapi_options", "--enable-admission-plugins=PodNodeSelector", "must not hold --enable-admission-plugins"),
        ("kubescheduler_options", "config=x", "must be options"),
        ("kubescheduler_options", "--kubeconfig=/x", "must not hold --kubeconfig"),
        ("admission_control_list", "Priority PodNodeSelector", "must be some of"),
        ("admission_control_list", "PodSecurityPolicy", "PodSecurityPolicy is none"),
        ("flannel_network_subnetlen", "16", "must be from 17 to 30 with pods in a network of length 16, not 16"),
        ("flannel_network_subnetlen", "31", "must be from 17 to 30"),
    ] {
        let error = refused(&[(name, value)], |i| i);
        assert!(error.starts_with(&format!("{name}: ")) && error.contains(rule), "{error}");
    }
    let error = refused(
        &[("flannel_network_subnetlen", "27"), ("flannel_network_cidr", "10.0.0.0/8"), ("fixed_subnet_cidr", "192.168.0.0/24")],
        |i| i,
    );
    assert!(error.contains("must be from 9 to 24"), "{error}");
    // Another pod network divides its range itself.
    let some = labels(&[("flannel_network_subnetlen", "31")]);
    let cluster = &init(user_data(&done(&StackInput { network_driver: "calico", ..input(&some) }), "master"))[1];
    assert_eq!(told(&cluster["controllerManager"]["extraArgs"]).len(), 2);
}

#[test]
fn the_autoscaler_finds_its_groups_and_logs_in_as_the_clusters_user() {
    let some = labels(&[("auto_scaling_enabled", "true"), ("kube_tag", "v1.34.1")]);
    let rendered = done(&StackInput { cloud: cloud::given(), ..input(&some) });
    let data = user_data(&rendered, "master");
    let list = content(data, LIST);
    assert!(list.contains("cluster-autoscaler file:///etc/kubernetes-bootstrap/addons/cluster-autoscaler.json\n"), "{list}");
    let text = content(data, "/etc/kubernetes-bootstrap/addons/cluster-autoscaler.json");
    let documents: Value = serde_json::from_str(&text).expect("JSON");
    let item = |kind: &str| {
        let items = documents["items"].as_array().expect("a list");
        items.iter().find(|item| item["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    };
    assert_eq!(names(&item("Secret")["stringData"]), BTreeSet::from(["cloud.conf".to_owned()]));
    let config = item("Secret")["stringData"]["cloud.conf"].as_str().expect("a text");
    // Its reader refuses what it does not know.
    assert!(config.starts_with("[Global]\n") && config.matches('[').count() == 1, "{config}");
    for line in ["user-id=\"trustee\"", "trust-id=\"trust\"", "ca-file=\"/etc/config/ca.crt\""] {
        assert!(config.lines().any(|found| found == line), "{line}\n{config}");
    }
    let pod = &item("Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0");
    let command: Vec<&str> = container["command"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    for word in ["--cluster-name=7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9", "--node-group-auto-discovery=magnum:role=worker,autoscaling"] {
        assert!(command.contains(&word), "{command:?}");
    }
    let volumes = pod["volumes"].as_array().expect("a list");
    let sources = &volumes.iter().find(|volume| volume["name"] == "config").expect("its configuration")["projected"]["sources"];
    assert_eq!(sources[0]["secret"]["name"], item("Secret")["metadata"]["name"]);
    assert_eq!(sources[1]["secret"], serde_json::json!({"name": "cloud-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}));
    assert_eq!(pod["serviceAccountName"], item("ServiceAccount")["metadata"]["name"]);
    assert!(!contents(user_data(&rendered, "worker")).iter().any(|(_, content)| content.contains("autoscaler")));
    // From a registry of one's own.
    let some =
        labels(&[("auto_scaling_enabled", "true"), ("container_infra_prefix", "registry.example/k8s/"), ("autoscaler_tag", "v1.33.9")]);
    let rendered = done(&StackInput { cloud: cloud::given(), ..input(&some) });
    let text = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/addons/cluster-autoscaler.json");
    assert!(text.contains("\"registry.example/k8s/cluster-autoscaler:v1.33.9\""));
}

/// Stacks from before, and those that upstream made, have the label and no cloud provider: what comes to them later must not fail for it.
#[test]
fn where_no_login_is_there_is_no_autoscaler() {
    let some = labels(&[("auto_scaling_enabled", "true")]);
    let list = content(user_data(&done(&input(&some)), "master"), LIST);
    assert!(!list.contains("autoscaler"), "{list}");
    group(&input(&some));
    // Nor where it could not check whom it speaks with.
    let list = content(user_data(&done(&StackInput { cloud: cloud::given(), verify_ca: false, ..input(&some) }), "master"), LIST);
    assert!(!list.contains("autoscaler"), "{list}");
    for (word, rule) in [("perhaps", "true or false"), ("", "")] {
        let some = labels(&[("auto_scaling_enabled", word)]);
        let said = render(&StackInput { cloud: cloud::given(), ..input(&some) }).err().map(|error| error.rule).unwrap_or_default();
        assert!(said.contains(rule) && said.is_empty() == rule.is_empty(), "{said}");
    }
}

#[test]
fn what_a_node_runs_containers_with_follows_the_version_of_kubernetes_unless_labels_say_otherwise() {
    let env = |pairs: &[(&str, &str)]| {
        let some = labels(pairs);
        content(user_data(&done(&input(&some)), "worker"), "/etc/kubernetes-bootstrap/node.env")
    };
    let given = env(&[("containerd_version", "v2.2.0"), ("runc_version", "v1.4.0"), ("cni_plugins_version", "1.8.0")]);
    for line in ["CONTAINERD_VERSION='2.2.0'\n", "RUNC_VERSION='1.4.0'\n", "CNI_VERSION='1.8.0'\n"] {
        assert!(given.contains(line), "{line}{given}");
    }
    for (kube_tag, lines) in [
        ("v1.33.5", ["CONTAINERD_VERSION='2.1.9'\n", "RUNC_VERSION='1.3.6'\n", "CNI_VERSION='1.7.1'\n"]),
        ("v1.36.5", ["CONTAINERD_VERSION='2.3.5'\n", "RUNC_VERSION='1.4.3'\n", "CNI_VERSION='1.9.1'\n"]),
    ] {
        let usual = env(&[("kube_tag", kube_tag)]);
        for line in lines {
            assert!(usual.contains(line), "{line}{usual}");
        }
    }
    assert!(refused(&[("runc_version", "1.3; reboot")], |i| i).starts_with("runc_version: "));
}
