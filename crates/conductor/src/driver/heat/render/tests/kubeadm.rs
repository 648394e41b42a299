//! Every configuration of kubeadm against its published types: kubeadm refuses a document with a field that it does not know, or of another
//! kind, when the first node of a cluster is minutes into its life.
//!
//! Sources: `cmd/kubeadm/app/apis/kubeadm/v1beta4/types.go` and `cmd/kubeadm/app/apis/bootstraptoken/v1/types.go` of Kubernetes 1.31 to 1.36,
//! `staging/src/k8s.io/kubelet/config/v1beta1/types.go`, of which only the fields that are used stand here, and core/v1 for taints.

use super::*;

/// What a field holds.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Number,
    Flag,
    Texts,
    /// A duration such as `24h0m0s`.
    Duration,
    One(&'static Type),
    Many(&'static Type),
}

/// A type: its fields, and those that must be there.
struct Type {
    name: &'static str,
    fields: &'static [(&'static str, Is)],
    required: &'static [&'static str],
}

const HEAD: [(&str, Is); 2] = [("apiVersion", Is::Text), ("kind", Is::Text)];

macro_rules! types {
    ($($constant:ident $name:literal [$($required:literal),*] {$($field:literal: $is:expr),* $(,)?})*) => {
        $(static $constant: Type = Type { name: $name, fields: &[$(($field, $is)),*], required: &[$($required),*] };)*
    };
}

types! {
    INIT "InitConfiguration" [] {
        "bootstrapTokens": Is::Many(&BOOTSTRAP_TOKEN), "dryRun": Is::Flag, "nodeRegistration": Is::One(&NODE_REGISTRATION),
        "localAPIEndpoint": Is::One(&API_ENDPOINT), "certificateKey": Is::Text, "skipPhases": Is::Texts,
    }
    CLUSTER "ClusterConfiguration" [] {
        "etcd": Is::One(&ETCD), "networking": Is::One(&NETWORKING), "kubernetesVersion": Is::Text, "controlPlaneEndpoint": Is::Text,
        "apiServer": Is::One(&API_SERVER), "controllerManager": Is::One(&COMPONENT), "scheduler": Is::One(&COMPONENT),
        "certificatesDir": Is::Text, "imageRepository": Is::Text, "clusterName": Is::Text,
        "certificateValidityPeriod": Is::Duration, "caCertificateValidityPeriod": Is::Duration,
    }
    JOIN "JoinConfiguration" ["discovery"] {
        "dryRun": Is::Flag, "nodeRegistration": Is::One(&NODE_REGISTRATION), "caCertPath": Is::Text, "discovery": Is::One(&DISCOVERY),
        "controlPlane": Is::One(&JOIN_CONTROL_PLANE), "skipPhases": Is::Texts,
    }
    KUBELET "KubeletConfiguration" [] {"cgroupDriver": Is::Text, "rotateCertificates": Is::Flag, "volumePluginDir": Is::Text}
    BOOTSTRAP_TOKEN "BootstrapToken" ["token"] {
        "token": Is::Text, "description": Is::Text, "ttl": Is::Duration, "usages": Is::Texts, "groups": Is::Texts,
    }
    NODE_REGISTRATION "NodeRegistrationOptions" [] {
        "name": Is::Text, "criSocket": Is::Text, "taints": Is::Many(&TAINT), "kubeletExtraArgs": Is::Many(&ARG),
        "ignorePreflightErrors": Is::Texts, "imagePullPolicy": Is::Text,
    }
    TAINT "Taint" ["key", "effect"] {"key": Is::Text, "value": Is::Text, "effect": Is::Text}
    ARG "Arg" ["name", "value"] {"name": Is::Text, "value": Is::Text}
    API_ENDPOINT "APIEndpoint" [] {"advertiseAddress": Is::Text, "bindPort": Is::Number}
    ETCD "Etcd" [] {"local": Is::One(&LOCAL_ETCD)}
    LOCAL_ETCD "LocalEtcd" ["dataDir"] {
        "dataDir": Is::Text, "imageRepository": Is::Text, "imageTag": Is::Text, "extraArgs": Is::Many(&ARG), "serverCertSANs": Is::Texts,
        "peerCertSANs": Is::Texts,
    }
    NETWORKING "Networking" [] {"serviceSubnet": Is::Text, "podSubnet": Is::Text, "dnsDomain": Is::Text}
    API_SERVER "APIServer" [] {"extraArgs": Is::Many(&ARG), "extraVolumes": Is::Many(&MOUNT), "certSANs": Is::Texts}
    COMPONENT "ControlPlaneComponent" [] {"extraArgs": Is::Many(&ARG), "extraVolumes": Is::Many(&MOUNT)}
    MOUNT "HostPathMount" ["name", "hostPath", "mountPath"] {
        "name": Is::Text, "hostPath": Is::Text, "mountPath": Is::Text, "readOnly": Is::Flag, "pathType": Is::Text,
    }
    DISCOVERY "Discovery" [] {"bootstrapToken": Is::One(&TOKEN_DISCOVERY), "tlsBootstrapToken": Is::Text}
    TOKEN_DISCOVERY "BootstrapTokenDiscovery" ["token"] {
        "token": Is::Text, "apiServerEndpoint": Is::Text, "caCertHashes": Is::Texts, "unsafeSkipCAVerification": Is::Flag,
    }
    JOIN_CONTROL_PLANE "JoinControlPlane" [] {"localAPIEndpoint": Is::One(&API_ENDPOINT), "certificateKey": Is::Text}
}

/// The types of documents, with their API.
static DOCUMENTS: [(&str, &Type); 4] = [
    ("kubeadm.k8s.io/v1beta4", &INIT),
    ("kubeadm.k8s.io/v1beta4", &CLUSTER),
    ("kubeadm.k8s.io/v1beta4", &JOIN),
    ("kubelet.config.k8s.io/v1beta1", &KUBELET),
];

/// What is wrong with a document; nothing when it is of a type that there is.
fn faults(document: &Value) -> Vec<String> {
    let kind = document["kind"].as_str().unwrap_or_default();
    match DOCUMENTS.iter().find(|(api, of)| document["apiVersion"] == *api && of.name == kind) {
        Some((_, of)) => faults_of(document, of, &HEAD, kind),
        None => vec![format!("{} {kind} is no type of kubeadm's", document["apiVersion"])],
    }
}

fn faults_of(value: &Value, of: &Type, head: &[(&str, Is)], path: &str) -> Vec<String> {
    let Some(map) = value.as_object() else { return vec![format!("{path} must be an object")] };
    let missing = of.required.iter().filter(|name| !map.contains_key(**name)).map(|name| format!("{path}.{name} is missing"));
    let mut found: Vec<String> = missing.collect();
    for (name, value) in map {
        let path = format!("{path}.{name}");
        match of.fields.iter().chain(head).find(|(known, _)| known == name) {
            None => found.push(format!("{path}: {} has no such field", of.name)),
            Some((_, is)) => found.extend(is.faults(value, &path)),
        }
    }
    found
}

impl Is {
    fn faults(self, value: &Value, path: &str) -> Vec<String> {
        let must = |fits: bool, what: &str| if fits { Vec::new() } else { vec![format!("{path} must be {what}")] };
        match self {
            Self::Text => must(value.is_string(), "text"),
            Self::Number => must(value.is_i64() || value.is_u64(), "a whole number"),
            Self::Flag => must(value.is_boolean(), "true or false"),
            Self::Texts => must(value.as_array().is_some_and(|list| list.iter().all(Value::is_string)), "a list of texts"),
            Self::Duration => {
                let is_one = |text: &str| text.ends_with(['s', 'm', 'h']) && text.starts_with(|c: char| c.is_ascii_digit());
                must(value.as_str().is_some_and(is_one), "a duration")
            }
            Self::One(of) => faults_of(value, of, &[], path),
            Self::Many(of) => match value.as_array() {
                Some(list) => list.iter().enumerate().flat_map(|(i, one)| faults_of(one, of, &[], &format!("{path}[{i}]"))).collect(),
                None => must(false, "a list"),
            },
        }
    }
}

/// The documents of a node's configuration.
fn documents(data: &str, file: &str) -> Vec<Value> {
    let text = content(data, &format!("/etc/kubernetes-bootstrap/{file}"));
    text.split("---\n").map(|document| serde_json::from_str(document).expect("JSON")).collect()
}

#[test]
fn every_configuration_of_kubeadm_is_of_its_published_types() {
    for boot in representative::first_boots(&DISTROS) {
        let mut all = documents(&boot.data, "join.yaml");
        if boot.is_master {
            let init = documents(&boot.data, "init.yaml");
            let kinds: Vec<&str> = init.iter().filter_map(|document| document["kind"].as_str()).collect();
            assert_eq!(kinds, ["InitConfiguration", "ClusterConfiguration", "KubeletConfiguration"], "{}", boot.name);
            all.extend(init);
        }
        for document in &all {
            assert_eq!(faults(document), Vec::<String>::new(), "{}", boot.name);
        }
    }
    // A taint without a value.
    let taints = vec![model::nodegroup::Taint { key: "gpu".into(), value: None, effect: "NoSchedule".into() }];
    let nodes = Nodes { labels: labels(&[]), taints };
    let none = labels(&[]);
    let rendered = group(&StackInput { worker_group: WorkerGroup { name: "gpu", role: "gpu", nodes: &nodes }, ..input(&none) });
    assert_eq!(faults(&documents(user_data(&rendered, "worker"), "join.yaml")[0]), Vec::<String>::new());
}

#[test]
fn what_kubeadm_would_refuse_is_found() {
    let none = labels(&[]);
    let rendered = done(&input(&none));
    let good = documents(user_data(&rendered, "worker"), "join.yaml").remove(0);
    let bad = |pointer: &str, name: &str, value: Value| {
        let mut document = good.clone();
        document.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object").insert(name.to_owned(), value);
        faults(&document)
    };
    assert_eq!(bad("/nodeRegistration", "name", 7.into()), ["JoinConfiguration.nodeRegistration.name must be text"]);
    assert_eq!(
        bad("/nodeRegistration", "kubeletExtraArg", Value::Null),
        ["JoinConfiguration.nodeRegistration.kubeletExtraArg: NodeRegistrationOptions has no such field"]
    );
    // As in v1beta3.
    assert_eq!(
        bad("/nodeRegistration", "kubeletExtraArgs", serde_json::json!({"node-ip": "10.0.0.5"})),
        ["JoinConfiguration.nodeRegistration.kubeletExtraArgs must be a list"]
    );
    assert_eq!(bad("", "apiVersion", "kubeadm.k8s.io/v1beta3".into()).len(), 1);
    let mut without = good.clone();
    without.as_object_mut().expect("an object").remove("discovery");
    assert_eq!(faults(&without), ["JoinConfiguration.discovery is missing"]);
}
