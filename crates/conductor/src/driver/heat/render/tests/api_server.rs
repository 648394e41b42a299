//! What the API server writes down, and how it keeps secrets.

use super::*;

const FOLDER: &str = "/etc/kubernetes-bootstrap";

fn given(some: &Labels) -> Value {
    api_server(user_data(&done(&input(some)), "master"))
}

#[test]
fn whatever_file_it_is_told_of_it_sees() {
    let none = labels(&[]);
    let master = done(&input(&none));
    let master = user_data(&master, "master");
    let server = api_server(master);
    let volumes = server["extraVolumes"].as_array().expect("a list");
    let mounted = |path: &str| {
        let volume = volumes.iter().find(|volume| volume["mountPath"] == path).unwrap_or_else(|| panic!("{path}: {volumes:?}"));
        assert_eq!(volume["hostPath"], volume["mountPath"]);
        volume
    };
    let args = told(&server["extraArgs"]);
    let files: Vec<&str> =
        args.iter().filter_map(|arg| arg.split_once('=')).map(|(_, value)| value).filter(|v| v.starts_with(FOLDER)).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!((&mounted(file)["pathType"], &mounted(file)["readOnly"]), (&"File".into(), &true.into()));
        // The node makes this one.
        if file != format!("{FOLDER}/secrets-at-rest.json") {
            content(master, file);
        }
    }
    let log = args.iter().find_map(|arg| arg.strip_prefix("audit-log-path=")).expect("a path");
    let folder = mounted(log.rsplit_once('/').expect("a folder").0);
    assert_eq!((&folder["pathType"], folder.get("readOnly")), (&"DirectoryOrCreate".into(), None));
    let worker = user_data(&done(&input(&none)), "worker").to_owned();
    assert!(!contents(&worker).iter().any(|(_, text)| text.contains("audit") || text.contains("SECRETS_KEY")));
}

/// kubeadm takes the greater text of an option that is given twice.
#[test]
fn users_say_how_much_is_written_down_and_nothing_is_said_twice() {
    let some = labels(&[("kubeapi_options", "--audit-log-maxsize=9 --audit-log-path=- --audit-log-truncate-enabled=true")]);
    let args = told(&given(&some)["extraArgs"]);
    for arg in ["audit-log-maxsize=9", "audit-log-path=-", "audit-log-truncate-enabled=true", "audit-log-maxage=30"] {
        assert!(args.iter().any(|one| one == arg), "{arg}: {args:?}");
    }
    let names: BTreeSet<&str> = args.iter().map(|arg| arg.split_once('=').expect("a value").0).collect();
    assert_eq!(names.len(), args.len(), "{args:?}");
    for name in ["audit-policy-file", "encryption-provider-config", "authentication-token-webhook-config-file"] {
        let some = labels(&[("kubeapi_options", &format!("--{name}=/x"))]);
        let error = render(&input(&some)).err().expect("refused");
        assert!(error.field == "kubeapi_options" && error.rule.contains(name), "{error}");
    }
}

/// The rules as the API server goes through them: the first that fits says how much is written down.
fn level(rules: &[Value], who: (&str, &[&str]), verb: &str, (group, resource): (&str, &str)) -> String {
    let has = |rule: &Value, key: &str, any: &[&str]| {
        rule.get(key).is_none_or(|list| list.as_array().expect("a list").iter().any(|one| any.contains(&one.as_str().expect("a text"))))
    };
    let of = |rule: &Value| {
        rule.get("resources").is_none_or(|list| {
            list.as_array().expect("a list").iter().any(|one| one["group"] == group && has(one, "resources", &[resource]))
        })
    };
    let fits = |rule: &&Value| {
        rule.get("nonResourceURLs").is_none()
            && has(rule, "users", &[who.0])
            && has(rule, "userGroups", who.1)
            && has(rule, "verbs", &[verb])
            && of(rule)
    };
    rules.iter().find(fits).map_or("None", |rule| rule["level"].as_str().expect("a level")).to_owned()
}

#[test]
fn changes_and_whoever_reads_secrets_are_written_down_and_no_secret_is() {
    let none = labels(&[]);
    let policy = document(user_data(&done(&input(&none)), "master"), "audit-policy.json");
    assert_eq!((&policy["apiVersion"], &policy["kind"]), (&"audit.k8s.io/v1".into(), &"Policy".into()));
    let rules = policy["rules"].as_array().expect("a list");
    for rule in rules {
        // The API server refuses a policy with both in a rule, and does not start.
        assert!(rule.get("resources").is_none() || rule.get("nonResourceURLs").is_none());
        let known = ["level", "nonResourceURLs", "resources", "userGroups", "users", "verbs"];
        assert!(names(rule).iter().all(|key| known.contains(&key.as_str())), "{rule}");
    }
    let (alice, kubelet) = (("alice", &["system:authenticated"][..]), ("system:node:one", &["system:nodes", "system:authenticated"][..]));
    let manager = ("system:kube-controller-manager", &["system:authenticated"][..]);
    for (who, verb, what, want) in [
        (alice, "get", ("", "secrets"), "Metadata"),
        (alice, "list", ("", "pods"), "Metadata"),
        (alice, "create", ("", "pods"), "Metadata"),
        (alice, "create", ("", "secrets"), "Metadata"),
        (alice, "create", ("rbac.authorization.k8s.io", "clusterrolebindings"), "Request"),
        (alice, "list", ("rbac.authorization.k8s.io", "clusterroles"), "Metadata"),
        (kubelet, "get", ("", "configmaps"), "None"),
        (kubelet, "create", ("", "pods"), "Metadata"),
        (kubelet, "patch", ("coordination.k8s.io", "leases"), "None"),
        (manager, "watch", ("", "secrets"), "None"),
        (manager, "delete", ("", "pods"), "Metadata"),
        (manager, "create", ("", "events"), "None"),
    ] {
        assert_eq!(level(rules, who, verb, what), want, "{} {verb} {what:?}", who.0);
    }
    let verbose = ["Request", "RequestResponse"];
    let with_text = rules.iter().filter(|rule| verbose.contains(&rule["level"].as_str().expect("a level")));
    assert!(with_text.into_iter().all(|rule| rule["resources"] == serde_json::json!([{"group": "rbac.authorization.k8s.io"}])));
}

/// The master's script on a unit with and without a key, started again as after a power cut.
#[test]
fn masters_keep_the_clusters_key_and_a_cluster_without_one_stays_legible() {
    let script = include_str!("../../scripts/master.sh");
    let function = &script[script.find("secrets_at_rest() {").expect("the function")..];
    let function = &function[..function.find("\n}\n").expect("its end") + 3];
    let common = include_str!("../../scripts/common.sh");
    let value = &common[common.find("node_value() {").expect("the function")..];
    let value = &value[..value.find("\n}\n").expect("its end") + 3];
    let identity = serde_json::json!({"identity": {}});
    let sealed = serde_json::json!({"secretbox": {"keys": [{"name": "cluster", "secret": "c2VjcmV0"}]}});
    for (key, want) in [("c2VjcmV0", vec![sealed, identity.clone()]), ("", vec![identity])] {
        let folder = tempfile::tempdir().expect("a folder");
        let (unit, file) = (folder.path().join("unit"), folder.path().join("secrets-at-rest.json"));
        std::fs::write(&unit, format!("[X-Node]\nSECRETS_KEY={key}\nSIGNAL_TOKEN=t\n")).expect("a unit");
        let whole = format!("{value}{function}secrets_at_rest\n");
        for _ in 0..2 {
            let mut bash = Command::new("bash");
            bash.args(["-euc", &whole]).env("BASE", folder.path()).env("UNIT", &unit);
            assert!(bash.status().expect("bash runs").success());
            let config: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("JSON");
            let resources = &config["resources"][0];
            assert_eq!((&config["kind"], &resources["resources"][0]), (&"EncryptionConfiguration".into(), &"secrets".into()));
            assert_eq!(resources["providers"], Value::from(want.clone()));
            assert_eq!(std::fs::read_to_string(&unit).expect("a unit"), "[X-Node]\nSECRETS_KEY=\nSIGNAL_TOKEN=t\n");
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).expect("a file").permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
