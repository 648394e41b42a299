//! The auto healer, and who serves ingresses.

use std::io::Write as _;
use std::process::Stdio;

use super::*;

const LIST: &str = "/etc/kubernetes-bootstrap/addons.list";

/// The documents of an agent that masters of such a cluster get; none when they get none.
fn documents(pairs: &[(&str, &str)], change: fn(StackInput<'_>) -> StackInput<'_>, name: &str) -> Option<Value> {
    let some = labels(pairs);
    let rendered = done(&change(input(&some)));
    let path = format!("/etc/kubernetes-bootstrap/addons/{name}.json");
    let told = |kind| contents(user_data(&rendered, kind)).into_iter().find(|(found, _)| *found == path);
    assert!(told("worker").is_none(), "a worker is told of {name}");
    let is_listed = content(user_data(&rendered, "master"), LIST).contains(&format!("{name} file://{path}\n"));
    let found = told("master").map(|(_, text)| serde_json::from_str(&text).expect("JSON"));
    assert_eq!(is_listed, found.is_some(), "{name}");
    found
}

fn item<'a>(documents: &'a Value, kind: &str) -> &'a Value {
    let items = documents["items"].as_array().expect("a list");
    items.iter().find(|item| item["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// The configuration that an agent's secret holds.
fn config(documents: &Value) -> Value {
    serde_json::from_str(item(documents, "Secret")["stringData"]["config.yaml"].as_str().expect("a text")).expect("JSON")
}

fn with_cloud(input: StackInput<'_>) -> StackInput<'_> {
    StackInput { cloud: cloud::given(), ..input }
}

#[test]
fn the_auto_healer_repairs_workers_alone_and_logs_in_as_the_clusters_user() {
    let asked = [("auto_healing_enabled", "true"), ("kube_tag", "v1.34.1")];
    let healer = documents(&asked, with_cloud, "magnum-auto-healer").expect("a healer");
    let config = config(&healer);
    assert_eq!(config["cluster-name"], "7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9");
    assert_eq!((&config["master-monitor-enabled"], &config["worker-monitor-enabled"]), (&false.into(), &true.into()));
    assert!(config["healthcheck"].get("master").is_none(), "{config}");
    let login = serde_json::json!({
        "auth-url": "https://keystone.example:5000/v3", "user-id": "trustee", "password": "trustee-password", "trust-id": "trust",
        "region": "RegionOne", "ca-file": "/etc/config/ca.crt",
    });
    assert_eq!(config["openstack"], login);
    let pod = &item(&healer, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "registry.k8s.io/provider-os/magnum-auto-healer:v1.34.1");
    assert_eq!(pod["containers"][0]["command"][1], "--config=/etc/config/config.yaml");
    let volumes = pod["volumes"].as_array().expect("a list");
    let sources = &volumes.iter().find(|volume| volume["name"] == "config").expect("its configuration")["projected"]["sources"];
    assert_eq!(sources[0]["secret"]["name"], item(&healer, "Secret")["metadata"]["name"]);
    assert_eq!(sources[1]["secret"]["name"], "cloud-config");
    // It needs no more than this of the cluster: nothing of pods, nothing of secrets.
    for rule in item(&healer, "ClusterRole")["rules"].as_array().expect("a list") {
        assert!(["nodes", "events"].iter().any(|name| rule["resources"] == serde_json::json!([name])), "{rule}");
    }
}

#[test]
fn what_asks_the_cloud_reaches_it_through_the_proxies() {
    let some = labels(&[("auto_healing_enabled", "true"), ("auto_scaling_enabled", "true"), ("ingress_controller", "octavia")]);
    let with = |https_proxy| StackInput { cloud: cloud::given(), volume_driver: Some("cinder"), https_proxy, ..input(&some) };
    let direct = "127.0.0.1,localhost,169.254.169.254,.svc,.cluster.local,10.100.0.0/16,10.254.0.0/16,10.0.0.0/24";
    let wanted = serde_json::json!([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "NO_PROXY", "value": direct}]);
    for (proxy, wanted) in [(Some("http://proxy:3128"), wanted), (Some(""), Value::Null), (None, Value::Null)] {
        let rendered = done(&with(proxy));
        let master = user_data(&rendered, "master");
        for name in [
            "openstack-cloud-controller-manager",
            "keystone-auth",
            "cluster-autoscaler",
            "magnum-auto-healer",
            "octavia-ingress-controller",
        ] {
            let file = if name == "openstack-cloud-controller-manager" { "cloud-controller-manager" } else { name };
            let documents: Value =
                serde_json::from_str(&content(master, &format!("/etc/kubernetes-bootstrap/addons/{file}.json"))).expect("JSON");
            let pods = documents["items"].as_array().expect("a list").iter().filter(|item| item["spec"]["template"].is_object());
            let told: Vec<&Value> = pods.map(|item| &item["spec"]["template"]["spec"]["containers"][0]["env"]).collect();
            assert_eq!(told, [&wanted], "{name}");
        }
        // Others' documents are given it once they are there; what is not said any more goes.
        let said = content(master, "/etc/kubernetes-bootstrap/proxy.env");
        let words = format!("POD_PROXIES='HTTP_PROXY- HTTPS_PROXY=http://proxy:3128 NO_PROXY={direct}'\n");
        assert_eq!(said.contains(&words), wanted.is_array(), "{said}");
        assert_eq!(said.contains("POD_PROXIES="), wanted.is_array(), "{said}");
    }
}

/// Clusters that are there may have any words in these labels, and no login: what comes to them later must not fail for it.
#[test]
fn where_they_are_not_asked_for_or_cannot_log_in_there_are_none() {
    let (none, odd, draino): (&[_], &[_], &[_]) = (
        &[("auto_healing_enabled", "")],
        &[("auto_healing_enabled", "perhaps")],
        &[("auto_healing_enabled", "true"), ("auto_healing_controller", "draino")],
    );
    for pairs in [none, odd, draino] {
        assert_eq!(documents(pairs, with_cloud, "magnum-auto-healer"), None, "{pairs:?}");
    }
    for word in ["", "traefik", "nginx"] {
        assert_eq!(documents(&[("ingress_controller", word)], with_cloud, "octavia-ingress-controller"), None, "{word}");
    }
    assert_eq!(documents(&[("auto_healing_enabled", "true")], |input| input, "magnum-auto-healer"), None);
    assert_eq!(documents(&[("ingress_controller", "octavia")], |input| input, "octavia-ingress-controller"), None);
}

#[test]
fn the_octavia_ingress_controller_makes_balancers_that_bear_the_clusters_uuid() {
    let asked = [("ingress_controller", "octavia"), ("container_infra_prefix", "registry.example/k8s/")];
    let ingress = documents(&asked, with_cloud, "octavia-ingress-controller").expect("a controller");
    let config = config(&ingress);
    assert_eq!(config["cluster-name"], "7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9");
    let octavia = serde_json::json!({
        "provider": "amphora", "subnet-id": "@SUBNET_ID@", "floating-network-id": "public-id", "manage-security-groups": false,
    });
    assert_eq!(config["octavia"], octavia);
    assert_eq!(config["openstack"]["user-id"], "trustee");
    let container = &item(&ingress, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/k8s/octavia-ingress-controller:v1.36.0");
}

#[test]
fn nginx_is_behind_a_balancer_where_the_cluster_can_have_one() {
    let line = |pairs: &[(&str, &str)], cloud: &CloudProvider| {
        let some = labels(pairs);
        let list = content(user_data(&done(&StackInput { cloud, ..input(&some) }), "master"), LIST);
        list.lines().find(|line| line.starts_with("ingress-nginx ")).map(str::to_owned)
    };
    let site = "https://raw.githubusercontent.com/kubernetes/ingress-nginx";
    let manifest = |tag, how| Some(format!("ingress-nginx {site}/controller-{tag}/deploy/static/provider/{how}/deploy.yaml"));
    let asked = [("ingress_controller", "nginx")];
    assert_eq!(line(&asked, cloud::given()), manifest("v1.15.1", "cloud"));
    assert_eq!(line(&asked, &ABSENT), manifest("v1.15.1", "baremetal"));
    let tagged = [("ingress_controller", "nginx"), ("nginx_ingress_controller_tag", "v1.14.5")];
    assert_eq!(line(&tagged, &cloud::without_load_balancers()), manifest("v1.14.5", "baremetal"));
    assert_eq!(line(&[], cloud::given()), None);
}

#[test]
fn the_role_of_nodes_is_one_that_kubernetes_takes() {
    let long = "a".repeat(64);
    let all = [("ingress", true), ("a.b_c-1", true), ("-a", false), ("a b", false), ("a'", false), (long.as_str(), false)];
    for (role, is_good) in all {
        let some = labels(&[("ingress_controller", "nginx"), ("ingress_controller_role", role)]);
        match render(&input(&some)) {
            Ok(rendered) => {
                let env = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.env");
                assert!(is_good && env.contains(&format!("INGRESS_ROLE='{role}'\n")), "{role}: {env}");
            }
            Err(error) => assert!(!is_good && error.field == "ingress_controller_role", "{role}: {error}"),
        }
    }
}

/// Runs the function of the master's script over a manifest: whether it ends well, what it makes of it, and what it says to Kubernetes.
fn prepared(manifest: &str, role: &str) -> (bool, String) {
    let script = include_str!("../../scripts/master.sh");
    let function = &script[script.find("make_room_for_ingress() {").expect("the function")..];
    let function = &function[..function.find("\n}\n").expect("its end") + 3];
    let whole = format!(
        "STATE=$(mktemp -d)\ntrap 'rm -rf \"$STATE\"' EXIT\nrepeatedly() {{ echo \"$@\"; }}\ncat > \"$STATE/addon.yaml\"\n{function}\
         make_room_for_ingress\ncat \"$STATE/addon.yaml\""
    );
    let mut bash = Command::new("bash");
    bash.args(["-euc", &whole]).env("INGRESS_ROLE", role).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = bash.spawn().expect("bash runs");
    child.stdin.take().expect("a pipe").write_all(manifest.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn pods_of_nginx_are_for_the_role_or_the_master_fails() {
    let manifest = "    spec:\n      nodeSelector:\n        kubernetes.io/os: linux\n      serviceAccountName: ingress-nginx\n";
    let (good, text) = prepared(manifest, "front");
    assert!(good && text.contains("        kubernetes.io/os: linux\n        role: \"front\"\n      serviceAccountName"), "{text}");
    // Jobs cannot be changed.
    assert!(text.starts_with("kubectl --request-timeout 60s -n ingress-nginx delete job ingress-nginx-admission-create "), "{text}");
    let (good, text) = prepared(manifest, "");
    assert!(good && text.ends_with(manifest), "{text}");
    assert!(!prepared("spec: {}\n", "front").0);
}
