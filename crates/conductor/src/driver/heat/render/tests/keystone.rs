//! Keystone authentication: what the API server and its webhook are told.

use super::*;

fn init(data: &str) -> Value {
    let text = content(data, "/etc/kubernetes-bootstrap/init.yaml");
    let cluster = text.split("---\n").nth(1).expect("a cluster's configuration");
    serde_json::from_str::<Value>(cluster).expect("JSON")["apiServer"].clone()
}

fn paths(data: &str) -> Vec<String> {
    contents(data).into_iter().map(|(path, _)| path).filter(|path| path.contains("keystone")).collect()
}

fn document(data: &str, name: &str) -> Value {
    serde_json::from_str(&content(data, &format!("/etc/kubernetes-bootstrap/{name}"))).expect("JSON")
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
    let server = init(master);
    let file = "/etc/kubernetes-bootstrap/keystone-webhook.json";
    let told = told(&server["extraArgs"]);
    for option in [
        format!("authentication-token-webhook-config-file={file}"),
        format!("authorization-webhook-config-file={file}"),
        "authorization-mode=Node,RBAC,Webhook".to_owned(),
    ] {
        assert!(told.contains(&option), "{option}: {told:?}");
    }
    assert_eq!((&server["extraVolumes"][0]["hostPath"], &server["extraVolumes"][0]["mountPath"]), (&file.into(), &file.into()));
    let webhook = document(master, "keystone-webhook.json");
    let cluster = &webhook["clusters"][0]["cluster"];
    // The certificate is the API server's own, which kubeadm writes that name into.
    assert_eq!((&cluster["server"], &cluster["tls-server-name"]), (&"https://127.0.0.1:8443/webhook".into(), &"kubernetes".into()));
    let set = document(master, "addons/keystone-auth.json")["items"][3].clone();
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.k8s.io/provider-os/k8s-keystone-auth:v1.33.0");
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

#[test]
fn who_may_do_what_is_the_operators_to_say_and_else_ours() {
    let none = labels(&[]);
    let ours = rules(user_data(&done(&input(&none)), "master"));
    let text = ours.to_string();
    assert!(!text.contains('$') && text.contains("\"p1\""), "{text}");
    let of = |role: &str| -> Vec<Value> {
        let holds = |rule: &&Value| rule["users"]["roles"][0] == role || rule["match"][0]["values"].to_string().contains(role);
        ours.as_array().expect("a list").iter().filter(holds).cloned().collect()
    };
    assert_eq!(of("k8s_admin")[0]["resource_permissions"]["*/*"][0], "*");
    for role in ["k8s_developer", "k8s_viewer"] {
        let own = Value::from(of(role)).to_string();
        assert!(own.contains("deployments"), "{own}");
        for word in ["secrets", "clusterrole", "\"*/*\"", "serviceaccounts/token", "pods/exec"] {
            assert!(!own.contains(word), "{role}: {word}");
        }
    }
    // A rule without a project would let in whoever has the role anywhere.
    for rule in ours.as_array().expect("a list") {
        assert!(rule.to_string().contains("\"p1\""), "{rule}");
    }
    let policy = r#"[{"users":{"projects":["$PROJECT_ID"]},"resource_permissions":{"*/pods":["list"]}}]"#;
    let theirs = rules(user_data(&done(&StackInput { keystone_policy: Some(policy), ..input(&none) }), "master"));
    assert_eq!(theirs, serde_json::from_str::<Value>(&policy.replace("$PROJECT_ID", "p1")).expect("JSON"));
}

#[test]
fn it_is_left_out_by_its_label_and_where_certificates_are_not_checked() {
    let off = labels(&[("keystone_auth_enabled", "false"), ("kubeapi_options", "--authentication-token-webhook-config-file=/etc/own")]);
    let none = labels(&[]);
    for (input, own) in [(input(&off), 1), (StackInput { verify_ca: false, ..input(&none) }, 0)] {
        let rendered = done(&input);
        let master = user_data(&rendered, "master");
        assert_eq!(paths(master), Vec::<String>::new());
        assert_eq!(told(&init(master)["extraArgs"]).len(), own);
        assert!(init(master).get("extraVolumes").is_none());
    }
    let on = labels(&[("keystone_auth_enabled", "true")]);
    let error = render(&StackInput { verify_ca: false, ..input(&on) }).err().expect("refused");
    assert_eq!(error.field, "keystone_auth_enabled");
    let own = labels(&[("kubeapi_options", "--v=2 --authorization-webhook-config-file=/etc/own")]);
    let error = render(&input(&own)).err().expect("refused");
    assert_eq!(error.field, "kubeapi_options");
    assert!(error.rule.contains("--authorization-webhook-config-file"), "{error}");
}

#[test]
fn the_operators_own_manifest_comes_last() {
    let none = labels(&[]);
    let address = "https://example.org/all.yaml";
    let rendered = done(&StackInput { post_install_manifest: Some(address), ..input(&none) });
    let list = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/addons.list");
    assert_eq!(list.lines().last(), Some("post-install https://example.org/all.yaml"));
}
