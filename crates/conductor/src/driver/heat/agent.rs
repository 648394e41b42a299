//! A program inside a cluster that asks something of the cloud by the cluster's own login: the cluster autoscaler, the auto healer, the Octavia
//! ingress controller.
//!
//! Each has a secret of its own with its configuration, because each has a form of its own; the authorities are read from the cloud provider's,
//! for user data has no room for them twice. All run on masters, where no worker that goes takes them along.

use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use super::access::Access;
use super::cloud_config::{CLOUD_CONFIG, FOLDER, NAMESPACE, digest, seen_inside};
use super::parameters::choices::Choices;
use super::proxies;
use super::stack_input::StackInput;

/// Where images of the project `cloud-provider-openstack` are.
pub(super) const PROVIDER_IMAGES: &str = "registry.k8s.io/provider-os/";

/// Such a program.
pub(super) struct Agent<'a> {
    pub name: &'static str,
    /// Where its image is, unless the cluster's images are all from one place.
    pub images: &'static str,
    pub tag: &'a str,
    pub command: Vec<String>,
    /// The file that it reads, below [`FOLDER`], and what is in it.
    pub config: (&'static str, String),
    /// What it needs of a master.
    pub resources: Value,
    pub copies: Copies,
    /// What it may do in the whole cluster, and in its own namespace.
    pub rules: Value,
    pub own_rules: Value,
}

/// How often it runs.
#[derive(Clone, Copy)]
pub(super) enum Copies {
    /// Once, on any master.
    One,
    /// On each master, by its network and resolver, so that it works while pods reach nothing; they agree who acts.
    EachMaster,
}

impl Agent<'_> {
    /// The documents for Kubernetes. Its pods hang on what they read, so that new credentials replace them.
    pub(super) fn documents(&self, input: &StackInput<'_>, choices: &Choices, access: &Access) -> String {
        let name = self.name;
        let secret = secret(name, self.config.0, &self.config.1);
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        let everywhere = json!({"name": name});
        let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]);
        let of = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let rbac = "rbac.authorization.k8s.io/v1";
        let items = json!([
            secret,
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {"apiVersion": rbac, "kind": "ClusterRole", "metadata": everywhere, "rules": self.rules},
            {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": everywhere, "roleRef": of("ClusterRole"), "subjects": subjects},
            {"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": self.own_rules},
            {"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata, "roleRef": of("Role"), "subjects": subjects},
            self.workload(input, choices, access),
        ]);
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }

    fn workload(&self, input: &StackInput<'_>, choices: &Choices, access: &Access) -> Value {
        let name = self.name;
        let images = if choices.image_prefix.is_empty() { self.images } else { &choices.image_prefix };
        let labels = json!({"app": name});
        let mut sources = vec![json!({"secret": {"name": secret_name(name)}})];
        if !access.ca.is_empty() {
            sources.push(json!({"secret": {"name": CLOUD_CONFIG, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}));
        }
        let (volumes, mounts) = seen_inside(input.distro, json!({"projected": {"sources": sources}}));
        let digest = digest(&format!("{}{}", self.config.1, access.ca));
        let mut container = json!({
            "name": name,
            "image": format!("{images}{name}:{}", self.tag),
            "command": self.command,
            "resources": {"requests": self.resources},
            "volumeMounts": mounts,
        });
        proxies::give(&mut container, input, choices);
        let mut pod = json!({
            "serviceAccountName": name,
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "securityContext": {"runAsUser": 1001},
            "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
            "containers": [container],
            "volumes": volumes,
        });
        let (kind, mut spec) = match self.copies {
            Copies::One => ("Deployment", json!({"replicas": 1})),
            Copies::EachMaster => {
                pod["hostNetwork"] = json!(true);
                pod["dnsPolicy"] = json!("Default");
                ("DaemonSet", json!({"updateStrategy": {"type": "RollingUpdate"}}))
            }
        };
        spec["selector"] = json!({"matchLabels": labels});
        spec["template"] =
            json!({"metadata": {"labels": labels, "annotations": {"magnum.openstack.org/cloud-config": digest}}, "spec": pod});
        let metadata = json!({"name": name, "namespace": NAMESPACE, "labels": labels});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    }
}

fn secret_name(agent: &str) -> String {
    format!("{agent}-cloud-config")
}

fn secret(agent: &str, file: &str, config: &str) -> Value {
    let metadata = json!({"name": secret_name(agent), "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {file: config}})
}

/// How to log in, as the agents of `cloud-provider-openstack` that are configured in YAML read it.
pub(super) fn login(access: &Access) -> Map<String, Value> {
    let mut login = Map::new();
    let mut say = |name: &str, value: &str| login.insert(name.into(), value.into());
    say("auth-url", &access.auth_url);
    say("user-id", &access.user_id);
    say("password", access.password.expose_secret());
    say("trust-id", &access.trust_id);
    if let Some(region) = &access.region {
        say("region", region);
    }
    if !access.ca.is_empty() {
        say("ca-file", &format!("{FOLDER}/ca.crt"));
    }
    if !access.verify {
        say("tls-insecure", "true");
    }
    login
}

/// What an agent may do whose copies agree by a lease of its name who acts.
pub(super) fn leads(name: &str) -> Vec<Value> {
    vec![
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}),
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [name], "verbs": ["get", "update"]}),
    ]
}
