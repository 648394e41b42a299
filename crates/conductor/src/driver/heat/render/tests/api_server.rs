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

#[test]
fn what_users_have_written_down_elsewhere_is_kept_by_the_master_too() {
    let folders = |path: &str| -> Vec<String> {
        let some = labels(&[("kubeapi_options", &format!("--audit-log-path={path}"))]);
        let server = given(&some);
        let volumes = server["extraVolumes"].as_array().expect("a list").iter().filter(|volume| volume["name"] == "audit-log");
        volumes.map(|volume| volume["mountPath"].as_str().expect("a path").to_owned()).collect()
    };
    assert_eq!(folders("/var/log/kube-audit/audit.log"), ["/var/log/kube-audit"]);
    assert_eq!(folders("/var/log/audit.log"), ["/var/log"]);
    assert!(folders("-").is_empty() && folders("").is_empty());
    for path in [
        "/etc/kubernetes/pki/audit.log",
        "audit.log",
        "/var/logs/audit.log",
        "/var/log/../tmp/audit.log",
        "/var/log//audit.log",
        "/var/log/x/",
    ] {
        let some = labels(&[("kubeapi_options", &format!("--audit-log-path={path}"))]);
        let error = render(&input(&some)).err().unwrap_or_else(|| panic!("{path}"));
        assert!(error.field == "kubeapi_options" && error.rule.contains("below /var/log") && error.rule.contains(path), "{error}");
        // Of a cluster that is there.
        assert!(first_boot(&input(&some), PoolKind::Masters, None).is_ok(), "{path}");
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
    let program = ("system:serviceaccount:kube-system:csi", &["system:serviceaccounts:kube-system", "system:authenticated"][..]);
    let manager = ("system:kube-controller-manager", &["system:authenticated"][..]);
    for (who, verb, what, want) in [
        (alice, "get", ("", "secrets"), "Metadata"),
        (alice, "list", ("", "pods"), "Metadata"),
        (alice, "create", ("", "pods"), "Metadata"),
        (alice, "create", ("", "secrets"), "Metadata"),
        (alice, "create", ("rbac.authorization.k8s.io", "clusterrolebindings"), "Request"),
        (alice, "list", ("rbac.authorization.k8s.io", "clusterroles"), "Metadata"),
        (alice, "get", ("", "pods/exec"), "Metadata"),
        (kubelet, "get", ("", "configmaps"), "None"),
        (kubelet, "get", ("", "secrets"), "Metadata"),
        (program, "list", ("", "secrets"), "Metadata"),
        (program, "list", ("", "pods"), "None"),
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

#[test]
fn a_cluster_without_a_key_is_told_nothing_of_it() {
    let none = labels(&[]);
    let given = StackInput { has_secrets_key: false, ..input(&none) };
    let (data, _) = first_boot(&given, crate::driver::PoolKind::Masters, None).expect("good");
    let server = api_server(&data).to_string();
    assert!(!server.contains("encryption-provider-config") && !server.contains("secrets-at-rest"), "{server}");
    // The template of a stack that was made before there was one fills no such place.
    assert!(!content(&data, "/etc/systemd/system/kubernetes-bootstrap.service").contains("SECRETS_KEY"));
    assert!(
        content(user_data(&done(&input(&none)), "master"), "/etc/systemd/system/kubernetes-bootstrap.service").contains("SECRETS_KEY=")
    );
}

/// The master's script on a unit with a key, started again as after a power cut; and on units that have none, or had one.
#[test]
fn masters_keep_the_clusters_key() {
    let function = |script: &'static str, name: &str| {
        let from = &script[script.find(&format!("{name}() {{")).expect("the function")..];
        &from[..from.find("\n}\n").expect("its end") + 3]
    };
    let whole = [
        function(include_str!("../../scripts/common.sh"), "node_value"),
        function(include_str!("../../scripts/master.sh"), "secrets_at_rest"),
        "secrets_at_rest\n",
    ]
    .concat();
    let folder = tempfile::tempdir().expect("a folder");
    let (unit, file) = (folder.path().join("unit"), folder.path().join("secrets-at-rest.json"));
    let run = |text: &str| {
        std::fs::write(&unit, text).expect("a unit");
        let status = Command::new("bash").args(["-euc", &whole]).env("BASE", folder.path()).env("UNIT", &unit).status();
        let left = std::fs::read_to_string(&unit).expect("a unit");
        (status.expect("bash runs").success(), left, std::fs::read_to_string(&file).ok())
    };
    let (given, kept) = ("[X-Node]\nSECRETS_KEY=c2VjcmV0\nSIGNAL_TOKEN=t\n", "[X-Node]\nSECRETS_KEY=\nSIGNAL_TOKEN=t\n");
    let without = "[X-Node]\nSIGNAL_TOKEN=t\n";
    assert_eq!(run(without), (true, without.into(), None));
    // Neither there nor kept: secrets would be written for everybody to read.
    assert_eq!(run(kept), (false, kept.into(), None));
    let (is_done, left, first) = run(given);
    assert!(is_done && left == kept, "{left}");
    let config: Value = serde_json::from_str(first.as_deref().expect("a file")).expect("JSON");
    assert_eq!(config["kind"], "EncryptionConfiguration");
    let key = serde_json::json!({"secretbox": {"keys": [{"name": "cluster", "secret": "c2VjcmV0"}]}});
    let resources = serde_json::json!([{"resources": ["secrets"], "providers": [key, {"identity": {}}]}]);
    assert_eq!(config["resources"], resources);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(kept), (true, kept.into(), first));
}
