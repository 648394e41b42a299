//! Keystone authentication: what the API server and its webhook are told.

use super::*;

fn paths(data: &str) -> Vec<String> {
    contents(data).into_iter().map(|(path, _)| path).filter(|path| path.contains("keystone")).collect()
}

/// The rules of the webhook, as users find them.
fn rules(data: &str) -> Value {
    let map = document(data, "addons/keystone-auth-policy.json");
    assert_eq!(map["metadata"]["name"], "k8s-keystone-auth-policy");
    serde_json::from_str(map["data"]["policies"].as_str().expect("a text")).expect("JSON")
}

#[test]
fn the_api_server_asks_the_webhook_on_its_own_machine() {
    let none = labels(&[]);
    let rendered = done(&StackInput { openstack_ca: "authority", ..input(&none) });
    let master = user_data(&rendered, "master");
    let server = api_server(master);
    let folder = "/etc/kubernetes-bootstrap";
    let args = told(&server["extraArgs"]);
    for arg in ["authentication-token-webhook-config-file=FOLDER/keystone-webhook.json", "authorization-config=FOLDER/authorizers.json"] {
        assert!(args.contains(&arg.replace("FOLDER", folder)), "{args:?}");
    }
    for (volume, name) in server["extraVolumes"].as_array().expect("a list").iter().zip(["keystone-webhook.json", "authorizers.json"]) {
        let path = Value::from(format!("{folder}/{name}"));
        assert_eq!((&volume["hostPath"], &volume["mountPath"]), (&path, &path));
    }
    assert_eq!(rendered.parameters["keystone_auth_enabled"], true);
    let webhook = document(master, "keystone-webhook.json");
    let cluster = &webhook["clusters"][0]["cluster"];
    // The certificate is the API server's own, which kubeadm writes that name into.
    assert_eq!((&cluster["server"], &cluster["tls-server-name"]), (&"https://127.0.0.1:8443/webhook".into(), &"kubernetes".into()));
    let items = document(master, "addons/keystone-auth.json")["items"].clone();
    // It watches all namespaces, and listens only once it may.
    assert_eq!((&items[1]["kind"], &items[2]["kind"]), (&"ClusterRole".into(), &"ClusterRoleBinding".into()));
    let set = &items[3];
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.k8s.io/provider-os/k8s-keystone-auth:v1.36.0");
    let args: Vec<&str> = container["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    for arg in [
        "--listen=127.0.0.1:8443",
        "--keystone-url=https://keystone.example:5000/v3",
        "--keystone-ca-file=/etc/kubernetes-bootstrap/cloud-ca.crt",
        "--policy-configmap-name=k8s-keystone-auth-policy",
    ] {
        assert!(args.contains(&arg), "{arg}: {args:?}");
    }
    // Whatever it is told of, it sees.
    let mounts: Vec<&str> = container["volumeMounts"].as_array().expect("a list").iter().filter_map(|m| m["mountPath"].as_str()).collect();
    let files = args.iter().filter_map(|arg| arg.split_once("-file=").map(|(_, path)| path));
    assert_eq!(files.filter(|path| mounts.contains(path)).count(), 3);
    assert_eq!(pod["volumes"].as_array().map(Vec::len), Some(mounts.len()));
    let list = content(master, "/etc/kubernetes-bootstrap/addons.list");
    let at = |name: &str| list.find(name).unwrap_or_else(|| panic!("{name}\n{list}"));
    assert!(at("keystone-auth-policy.json") < at("keystone-auth.json"));
    assert_eq!(paths(user_data(&rendered, "worker")), Vec::<String>::new());
}

/// Without a webhook `kubeadm init` must meet a plain refusal, and so must whoever is no user of Keystone.
#[test]
fn the_webhook_is_asked_about_users_of_keystone_alone() {
    for (tag, version) in [("v1.31.4", "v1beta1"), ("v1.32.0", "v1"), ("v1.36.5", "v1")] {
        let some = labels(&[("kube_tag", tag)]);
        let config = document(user_data(&done(&input(&some)), "master"), "authorizers.json");
        assert_eq!(config["apiVersion"], format!("apiserver.config.k8s.io/{version}"));
        let kinds: Vec<&str> = config["authorizers"].as_array().expect("a list").iter().filter_map(|one| one["type"].as_str()).collect();
        assert_eq!(kinds, ["Node", "RBAC", "Webhook"]);
        let webhook = &config["authorizers"][2]["webhook"];
        assert_eq!(webhook["failurePolicy"], "NoOpinion");
        assert!(webhook["matchConditions"][0]["expression"].as_str().expect("a text").contains("alpha.kubernetes.io/identity/roles"));
        assert_eq!(webhook["connectionInfo"]["kubeConfigFile"], "/etc/kubernetes-bootstrap/keystone-webhook.json");
    }
}

#[test]
fn who_may_do_what_is_the_operators_to_say_and_else_ours() {
    let none = labels(&[]);
    let ours = rules(user_data(&done(&input(&none)), "master"));
    let all = ours.as_array().expect("a list");
    let roles = |rule: &Value| match rule.get("users") {
        Some(users) => users["roles"].clone(),
        None => rule["match"][0]["values"].clone(),
    };
    assert_eq!(
        all.iter().map(roles).collect::<Vec<_>>(),
        [serde_json::json!(["k8s_admin"]), serde_json::json!(["k8s_developer"]), serde_json::json!(["k8s_developer", "k8s_viewer"]),]
    );
    // A rule without a project would let in whoever has the role anywhere.
    assert!(all.iter().all(|rule| rule.to_string().contains("[\"p1\"]")), "{ours}");
    // By this kind of rule a resource is all that is below it.
    let write = names(&all[1]["resource_permissions"]);
    assert_eq!(write.len(), 1);
    let write = write.first().expect("one");
    assert!(write.starts_with("!kube-system/['configmaps', "), "{write}");
    for word in ["secrets", "serviceaccounts", "role", "nodes", "*"] {
        assert!(!write.contains(word), "{word}");
    }
    let read = &all[2]["resource"];
    assert_eq!(read["verbs"], serde_json::json!(["get", "list", "watch"]));
    let read: Vec<&str> = read["resources"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(read.iter().filter(|name| name.contains('/')).collect::<Vec<_>>(), [&"pods/log"]);
    assert!(!read.contains(&"secrets") && !read.contains(&"*"));

    let policy = r#"[{"users":{"projects":["$PROJECT_ID"]},"resource_permissions":{"*/pods":["list"]}}]"#;
    let theirs = keystone(Some(policy));
    let theirs = rules(user_data(&done(&StackInput { keystone: Some(&theirs), ..input(&none) }), "master"));
    assert_eq!(theirs, serde_json::from_str::<Value>(&policy.replace("$PROJECT_ID", "p1")).expect("JSON"));
}

#[test]
fn new_masters_of_a_cluster_leave_its_policy_alone() {
    let none = labels(&[]);
    let known = Keystone { policy: None, ..keystone(None) };
    let (data, _) =
        first_boot(&StackInput { keystone: Some(&known), ..input(&none) }, crate::driver::PoolKind::Masters, None).expect("good");
    let list = content(&data, "/etc/kubernetes-bootstrap/addons.list");
    assert!(!list.contains("keystone-auth-policy.json") && list.contains("keystone-auth.json"), "{list}");
    assert!(paths(&data).iter().all(|path| !path.contains("policy")));
}

#[test]
fn a_cluster_without_it_knows_nothing_of_it() {
    let none = labels(&[]);
    let rendered = done(&StackInput { keystone: None, ..input(&none) });
    let master = user_data(&rendered, "master");
    assert_eq!(rendered.parameters["keystone_auth_enabled"], false);
    assert_eq!(paths(master), Vec::<String>::new());
    let server = api_server(master).to_string();
    assert!(!server.contains("keystone") && !server.contains("authoriz"), "{server}");
}

/// What the master's script makes of a map that is there already, or is not: what a stand-in for kubectl was called with.
#[test]
fn a_policy_is_made_once() {
    let script = include_str!("../../scripts/master.sh");
    let functions = &script[script.find("make_once() {").expect("the function")..];
    let functions = &functions[..functions.find("\nsecrets_at_rest\ninstall_node\n").expect("the end of functions")];
    for (is_there, want) in [(true, "get -f map\n"), (false, "get -f map\ncreate -f map\n")] {
        let kubectl = format!("kubectl() {{ echo \"$*\" >&2; [ \"$1\" = create ] || {is_there}; }}\n");
        // What looks for it says nothing itself.
        let whole = format!("{kubectl}{}make_once map", functions.replace("> /dev/null 2>&1 ||", "||"));
        let output = Command::new("bash").args(["-euc", &whole]).output().expect("bash runs");
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stderr).expect("text"), want);
    }
}

#[test]
fn the_operators_own_manifest_is_told_to_masters() {
    let none = labels(&[]);
    let rendered = done(&StackInput { post_install_manifest: Some("https://example.org/all.yaml"), ..input(&none) });
    let env = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/node.env");
    assert!(env.contains("POST_INSTALL_MANIFEST='https://example.org/all.yaml'\n"), "{env}");
}
