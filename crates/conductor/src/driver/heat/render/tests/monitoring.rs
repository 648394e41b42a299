//! Monitoring: what a cluster is told that is to be watched, and what is allowed to those who watch it.

use super::*;

/// In the order in which they are applied.
const NAMES: [&str; 3] = ["prometheus", "kube-state-metrics", "node-exporter"];
/// What stands in no namespace, or is one.
const EVERYWHERE: [&str; 3] = ["Namespace", "ClusterRole", "ClusterRoleBinding"];

/// The add-ons that masters of such a cluster apply, by name, with where each is.
fn listed(rendered: &Rendered) -> Vec<(String, String)> {
    let list = content(user_data(rendered, "master"), "/etc/kubernetes-bootstrap/addons.list");
    let apart = |line: &str| line.split_once(' ').map(|(name, place)| (name.to_owned(), place.to_owned())).expect("a name and a place");
    list.lines().map(apart).filter(|(name, _)| NAMES.contains(&name.as_str())).collect()
}

/// The documents of a cluster with these labels beside the one that asks for them.
fn items(pairs: &[(&str, &str)]) -> Vec<Value> {
    let some = labels(&[&[("monitoring_enabled", "true")][..], pairs].concat());
    let rendered = done(&input(&some));
    let of =
        |name: &str| document(user_data(&rendered, "master"), &format!("addons/{name}.json"))["items"].as_array().expect("a list").clone();
    NAMES.into_iter().flat_map(of).collect()
}

fn item<'a>(items: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |item: &&Value| item["kind"] == kind && item["metadata"]["name"] == name;
    items.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

/// The workloads, each with its pods' specification.
fn pods(items: &[Value]) -> Vec<(&Value, &Value)> {
    let all = items.iter().filter(|item| item["spec"]["template"].is_object());
    all.map(|item| (item, &item["spec"]["template"]["spec"])).collect()
}

/// The configuration of Prometheus.
fn config(items: &[Value]) -> Value {
    yaml(item(items, "ConfigMap", "prometheus")["data"]["prometheus.yml"].as_str().expect("a text"))
}

fn job<'a>(config: &'a Value, name: &str) -> &'a Value {
    let jobs = config["scrape_configs"].as_array().expect("a list");
    jobs.iter().find(|job| job["job_name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn masters_are_told_of_it_where_it_is_asked_for_and_workers_never() {
    let cases: [(&[(&str, &str)], bool); 6] = [
        (&[], false),
        (&[("monitoring_enabled", "false")], false),
        (&[("prometheus_monitoring", "true")], false),
        // Of a cluster that was made before these words were read: what comes to it later does not fail for them.
        (&[("monitoring_enabled", "perhaps")], false),
        (&[("monitoring_enabled", "true"), ("monitoring_retention_size", "much")], false),
        (&[("monitoring_enabled", "true")], true),
    ];
    for (pairs, is_there) in cases {
        let some = labels(pairs);
        for distro in DISTROS {
            let rendered = done(&StackInput { distro, ..input(&some) });
            let of = |name: &str| (name.to_owned(), format!("file:///etc/kubernetes-bootstrap/addons/{name}.json"));
            let wanted: Vec<_> = NAMES.into_iter().filter(|_| is_there).map(of).collect();
            assert_eq!(listed(&rendered), wanted, "{pairs:?}");
            assert_eq!(rendered.parameters["monitoring_enabled"], is_there, "{pairs:?}");
            for (kind, has) in [("master", is_there), ("worker", false)] {
                let found = contents(user_data(&rendered, kind)).into_iter().any(|(path, _)| path.ends_with("/addons/prometheus.json"));
                assert_eq!(found, has, "{kind} {pairs:?}");
            }
        }
    }
}

#[test]
fn a_cluster_is_watched_as_its_stack_says_and_not_since_somebody_reads_its_label() {
    let some = labels(&[("monitoring_enabled", "true")]);
    for (has_monitoring, count) in [(false, 0), (true, NAMES.len())] {
        let rendered = done(&StackInput { has_monitoring, ..input(&some) });
        assert_eq!(rendered.parameters["monitoring_enabled"], has_monitoring);
        assert_eq!(listed(&rendered).len(), count);
    }
    // Words of a template that the cluster was brought to, which a new one may not have.
    for bad in [&[("monitoring_enabled", "true"), ("prometheus_tag", "v1.8.2")][..], &[]] {
        let some = labels(bad);
        let rendered = done(&StackInput { has_monitoring: true, ..input(&some) });
        assert_eq!(rendered.parameters["monitoring_enabled"], true);
        assert_eq!(listed(&rendered).len(), 0, "{bad:?}");
    }
}

#[test]
fn its_manifests_are_yaml_and_say_the_same_as_json() {
    let some = labels(&[("monitoring_enabled", "true")]);
    let rendered = done(&input(&some));
    for name in NAMES {
        let text = content(user_data(&rendered, "master"), &format!("/etc/kubernetes-bootstrap/addons/{name}.json"));
        assert_eq!(yaml(&text), serde_json::from_str::<Value>(&text).expect("JSON"), "{name}");
        // The node fills in such words, and unpacks a line for each document.
        assert!(!text.contains("@SUBNET_ID@") && !text.contains("@CLOUD_CA@") && !text.contains('\n'), "{name}");
    }
    let items = items(&[]);
    let text = item(&items, "ConfigMap", "prometheus")["data"]["prometheus.yml"].as_str().expect("a text");
    assert_eq!(yaml(text), serde_json::from_str::<Value>(text).expect("JSON"));
}

#[test]
fn every_object_is_in_a_namespace_of_its_own_kind_and_what_is_in_none_says_whose_it_is() {
    let items = items(&[]);
    assert_eq!(items[0]["kind"], "Namespace", "it is there before what is in it");
    assert_eq!(items[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let mut seen = BTreeSet::new();
    for item in &items {
        let (kind, metadata) = (item["kind"].as_str().expect("a kind"), &item["metadata"]);
        assert!(seen.insert((kind, metadata["namespace"].to_string(), metadata["name"].to_string())), "twice: {item}");
        let name = metadata["name"].as_str().expect("a name");
        match metadata["namespace"].as_str() {
            None => assert!(EVERYWHERE.contains(&kind) && name.starts_with("magnum-monitoring"), "{item}"),
            Some("magnum-monitoring") => {}
            // With all others that look at their node.
            Some("kube-system") => assert_eq!((kind, name), ("DaemonSet", "node-exporter")),
            // Where the API servers are.
            Some("default") => assert!(["Role", "RoleBinding"].contains(&kind) && name.starts_with("magnum-monitoring-"), "{item}"),
            Some(other) => panic!("{other}: {item}"),
        }
    }
}

#[test]
fn who_watches_reads_only_and_no_secrets() {
    let items = items(&[]);
    let mut rules = 0;
    for item in &items {
        for rule in item["rules"].as_array().into_iter().flatten() {
            rules += 1;
            assert!(texts(&rule["verbs"]).iter().all(|verb| ["get", "list", "watch"].contains(verb)), "{rule}");
            for part in ["apiGroups", "resources", "nonResourceURLs"].into_iter().filter(|part| rule[*part].is_array()) {
                for name in texts(&rule[part]) {
                    assert!(!name.contains('*') && !["secrets", "configmaps", "nodes/proxy", "pods/exec"].contains(&name), "{rule}");
                }
            }
        }
        if let Some(name) = item["roleRef"]["name"].as_str() {
            // A role of ours, not one of Kubernetes' own.
            let roles: Vec<_> =
                items.iter().filter(|other| other["kind"] == item["roleRef"]["kind"] && other["rules"].is_array()).collect();
            assert!(name != "cluster-admin" && roles.iter().any(|role| role["metadata"]["name"] == name), "{item}");
            for subject in item["subjects"].as_array().expect("a list") {
                assert_eq!((&subject["kind"], &subject["namespace"]), (&"ServiceAccount".into(), &"magnum-monitoring".into()), "{item}");
            }
        }
    }
    assert!(rules > 5, "{rules}");
    // It tells of what it may read, and of nothing else.
    let role = item(&items, "ClusterRole", "magnum-monitoring-kube-state-metrics");
    let read: BTreeSet<&str> = role["rules"].as_array().expect("a list").iter().flat_map(|rule| texts(&rule["resources"])).collect();
    let pod = &item(&items, "Deployment", "kube-state-metrics")["spec"]["template"]["spec"];
    let told =
        texts(&pod["containers"][0]["args"]).into_iter().find_map(|argument| argument.strip_prefix("--resources=")).expect("objects");
    assert_eq!(told.split(',').collect::<BTreeSet<_>>(), read);
}

#[test]
fn containers_are_nobody_and_the_namespace_takes_them() {
    let items = items(&[]);
    let pods = pods(&items);
    assert_eq!(pods.len(), 3);
    for (workload, pod) in pods {
        let name = &workload["metadata"]["name"];
        assert_eq!(workload["spec"]["selector"]["matchLabels"], workload["spec"]["template"]["metadata"]["labels"], "{name}");
        let security = &pod["securityContext"];
        assert_eq!((&security["runAsNonRoot"], &security["seccompProfile"]["type"]), (&true.into(), &"RuntimeDefault".into()), "{name}");
        for container in pod["containers"].as_array().expect("a list") {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]), "{name}");
            assert!(security.get("privileged").is_none() && container["resources"]["requests"].is_object(), "{name}");
        }
        let sees_node = pod["hostNetwork"] == true || pod["hostPID"] == true || pod["volumes"].to_string().contains("hostPath");
        assert_eq!(sees_node, workload["metadata"]["namespace"] == "kube-system", "{name}");
    }
    // Who sees the node says nothing to Kubernetes, and writes nothing there.
    let pod = &item(&items, "DaemonSet", "node-exporter")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("a list");
    assert!(mounts.len() == 2 && mounts.iter().all(|mount| mount["readOnly"] == true), "{mounts:?}");
}

#[test]
fn images_come_through_the_prefix_at_the_version_that_fits() {
    let images = |pairs: &[(&str, &str)]| -> Vec<String> {
        let items = items(pairs);
        let containers = |(_, pod): (&Value, &Value)| pod["containers"].as_array().expect("a list").clone();
        pods(&items).into_iter().flat_map(containers).map(|one| one["image"].as_str().expect("a text").to_owned()).collect()
    };
    let own =
        ["quay.io/prometheus/prometheus:", "registry.k8s.io/kube-state-metrics/kube-state-metrics:", "quay.io/prometheus/node-exporter:"];
    for (image, begin) in images(&[]).iter().zip(own) {
        assert!(image.strip_prefix(begin).is_some_and(|tag| tag.starts_with('v')), "{image}");
    }
    let given = [
        ("container_infra_prefix", "registry.example/k8s/"),
        ("prometheus_tag", "v3.1.0"),
        ("kube_state_metrics_tag", "v2.15.0"),
        ("node_exporter_tag", "v1.9.1"),
    ];
    let wanted = ["prometheus:v3.1.0", "kube-state-metrics:v2.15.0", "node-exporter:v1.9.1"];
    assert_eq!(images(&given), wanted.map(|image| format!("registry.example/k8s/{image}")));
    let state = |kube| images(&[("kube_tag", kube)])[1].rsplit(':').next().map(str::to_owned).expect("a version");
    let versions = ["v1.31.9", "v1.33.5", "v1.35.0", "v1.36.5"].map(state);
    assert_eq!(versions.iter().collect::<BTreeSet<_>>().len(), versions.len(), "{versions:?}");
}

#[test]
fn prometheus_keeps_what_the_labels_say_on_a_volume() {
    let of = |pairs: &[(&str, &str)]| {
        let items = items(pairs);
        let set = &item(&items, "StatefulSet", "prometheus")["spec"];
        let arguments = texts(&set["template"]["spec"]["containers"][0]["args"]).join(" ");
        (set["volumeClaimTemplates"][0]["spec"].clone(), arguments, config(&items)["global"]["scrape_interval"].clone())
    };
    let (claim, arguments, interval) = of(&[]);
    let plain = serde_json::json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "14Gi"}}});
    assert_eq!((claim, interval), (plain, "30s".into()));
    assert!(arguments.contains("retention.time=14d") && arguments.contains("retention.size=12185MB"), "{arguments}");
    let (claim, arguments, interval) = of(&[
        ("monitoring_interval_seconds", "60"),
        ("monitoring_retention_days", "90"),
        ("monitoring_retention_size", "100"),
        ("monitoring_storage_class_name", "fast"),
    ]);
    assert_eq!((&claim["storageClassName"], &claim["resources"]["requests"]["storage"]), (&"fast".into(), &"100Gi".into()));
    assert_eq!(interval, "60s");
    assert!(arguments.contains("retention.time=90d") && arguments.contains("retention.size=87040MB"), "{arguments}");
}

#[test]
fn a_change_of_what_prometheus_reads_replaces_its_pod() {
    let sum = |pairs: &[(&str, &str)]| {
        let items = items(pairs);
        item(&items, "StatefulSet", "prometheus")["spec"]["template"]["metadata"]["annotations"]["magnum.openstack.org/config"].clone()
    };
    assert_eq!(sum(&[]), sum(&[("monitoring_retention_size", "20")]));
    assert_ne!(sum(&[]), sum(&[("monitoring_interval_seconds", "31")]));
}

#[test]
fn prometheus_looks_at_all_of_the_cluster_and_shows_its_token_to_nobody_by_plain_http() {
    let items = items(&[]);
    let config = config(&items);
    let jobs = config["scrape_configs"].as_array().expect("a list");
    let found: Vec<&str> = jobs.iter().map(|job| job["job_name"].as_str().expect("a name")).collect();
    assert_eq!(found, ["kubelet", "cadvisor", "apiserver", "node-exporter", "kube-state-metrics", "pods"]);
    for job in jobs {
        let has_token = job["authorization"].is_object();
        assert_eq!(has_token, job["scheme"] == "https", "{job}");
    }
    assert_eq!(job(&config, "cadvisor")["metrics_path"], "/metrics/cadvisor");
    assert!(job(&config, "apiserver")["tls_config"].get("insecure_skip_verify").is_none());
    // Where it looks for others is where they are.
    let listens = |kind, name| item(&items, kind, name)["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(listens("DaemonSet", "node-exporter").contains("--web.listen-address=$(HOST_IP):9100"));
    assert_eq!(job(&config, "node-exporter")["relabel_configs"][0]["replacement"], "$1:9100");
    assert!(listens("Deployment", "kube-state-metrics").contains("--port=8080"));
    assert_eq!(job(&config, "kube-state-metrics")["static_configs"][0]["targets"], serde_json::json!(["kube-state-metrics:8080"]));
    assert_eq!(item(&items, "Service", "kube-state-metrics")["spec"]["ports"], serde_json::json!([{"port": 8080}]));
    // What it finds by asking Kubernetes, it may ask for.
    let may = |kind: &str| item(&items, kind, "magnum-monitoring-prometheus")["rules"].to_string();
    assert!(
        may("ClusterRole").contains(r#"["nodes","pods"]"#) && may("Role").contains("endpointslices") && may("Role").contains("services")
    );
    // It is among the pods that ask for it.
    let annotations = &item(&items, "StatefulSet", "prometheus")["spec"]["template"]["metadata"]["annotations"];
    assert_eq!((&annotations["prometheus.io/scrape"], &annotations["prometheus.io/port"]), (&"true".into(), &"9090".into()));
}
