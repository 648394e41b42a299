//! What the OpenStack cloud provider runs with inside a cluster: its configuration as a secret, and the cloud controller manager.
//!
//! Documents that hold what is the cluster's own are written here; the roles of each version come from the project's manifests (`addons.rs`).
//! Names of options, secret and files are those of the project `cloud-provider-openstack`, so that its other manifests find them.

use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::access::Access;
use super::parameters::choices::Choices;
use super::proxies;
use super::stack_input::{Distro, StackInput};

/// Where the secret is seen inside its pods.
pub(super) const FOLDER: &str = "/etc/config";

/// The secret of the cloud provider.
pub(super) const CLOUD_CONFIG: &str = "cloud-config";
/// The configuration in it.
pub(super) const FILE: &str = "cloud.conf";

pub(super) const NAMESPACE: &str = "kube-system";
const CONTROLLER: &str = "openstack-cloud-controller-manager";

/// The secret, as a document for Kubernetes. Two words are filled in on the node: `@SUBNET_ID@`, because Heat makes the subnet, and `@CLOUD_CA@`
/// from the file that every node has, because user data has no room for the authorities twice.
pub(super) fn secret(choices: &Choices, access: &Access) -> String {
    let config = global(access) + &section("LoadBalancer", load_balancers(choices, access));
    let metadata = json!({"name": CLOUD_CONFIG, "namespace": NAMESPACE});
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {FILE: config}});
    if !access.ca.is_empty() {
        secret["data"] = json!({"ca.crt": "@CLOUD_CA@"});
        // What hangs on this document hangs on them too.
        secret["metadata"]["annotations"] = json!({"magnum.openstack.org/authorities": digest(&access.ca)});
    }
    secret.to_string()
}

/// How to log in, as the configuration file says it.
pub(super) fn global(access: &Access) -> String {
    let mut global = vec![
        ("auth-url", access.auth_url.clone()),
        ("user-id", access.user_id.clone()),
        ("password", access.password.expose_secret().to_owned()),
        ("trust-id", access.trust_id.clone()),
    ];
    global.extend(access.region.clone().map(|region| ("region", region)));
    if !access.ca.is_empty() {
        global.push(("ca-file", format!("{FOLDER}/ca.crt")));
    }
    if !access.verify {
        global.push(("tls-insecure", "true".into()));
    }
    section("Global", global)
}

fn load_balancers(choices: &Choices, access: &Access) -> Vec<(&'static str, String)> {
    let mut balancers = vec![("enabled", access.has_load_balancers.to_string())];
    if access.has_load_balancers {
        // With both versions of IP a load balancer is on the subnet of its service's first one, which the cloud provider finds by the nodes'
        // addresses, unless it is told of one subnet for all.
        balancers.extend(choices.ipv6.is_none().then(|| ("subnet-id", "@SUBNET_ID@".into())));
        balancers.extend([
            ("floating-network-id", access.floating_network.clone()),
            ("lb-provider", choices.lb_provider.clone()),
            ("lb-method", choices.lb_algorithm.clone()),
            ("create-monitor", choices.lb_healthcheck.to_string()),
            ("monitor-delay", "1m".into()),
            ("monitor-timeout", "30s".into()),
            ("monitor-max-retries", "3".into()),
        ]);
    }
    balancers
}

fn section(name: &str, values: Vec<(&str, String)>) -> String {
    let lines = values.into_iter().map(|(key, value)| format!("{key}={}\n", quoted(&value)));
    format!("[{name}]\n{}", lines.collect::<String>())
}

/// A value as git's kind of configuration file takes it.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The cloud controller manager on every master.
///
/// It needs neither the pod network nor the cluster's DNS: what runs there waits for the nodes which it initialises. Its pods hang on the
/// secret's content, so that new credentials replace them.
pub(super) fn controller(input: &StackInput<'_>, choices: &Choices, tag: &str, secret: &str) -> String {
    let registry = if choices.image_prefix.is_empty() { "registry.k8s.io/provider-os/" } else { &choices.image_prefix };
    let labels = json!({"k8s-app": CONTROLLER});
    let flag = |name: &str, value: &str| format!("--{name}={value}");
    let args = [
        format!("/bin/{CONTROLLER}"),
        flag("v", "1"),
        // The uuid is what load balancers are known by when the cluster is deleted.
        flag("cluster-name", input.cluster_uuid),
        flag("cloud-config", &format!("{FOLDER}/{FILE}")),
        flag("cloud-provider", "openstack"),
        flag("use-service-account-credentials", "false"),
        flag("bind-address", "127.0.0.1"),
    ];
    let (volumes, mounts) = seen_inside(input.distro, json!({"secret": {"secretName": CLOUD_CONFIG}}));
    let mut container = json!({
        "name": CONTROLLER,
        "image": format!("{registry}{CONTROLLER}:{tag}"),
        "args": args,
        "resources": {"requests": {"cpu": "200m"}},
        "volumeMounts": mounts,
    });
    proxies::give(&mut container, input, choices);
    let template = json!({
        "metadata": {"labels": labels, "annotations": {"magnum.openstack.org/cloud-config": digest(secret)}},
        "spec": {
            "serviceAccountName": "cloud-controller-manager",
            "hostNetwork": true,
            "dnsPolicy": "Default",
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "securityContext": {"runAsUser": 1001},
            "tolerations": [
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            ],
            "containers": [container],
            "volumes": volumes,
        },
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "cloud-controller-manager", "namespace": NAMESPACE}});
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": CONTROLLER, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "updateStrategy": {"type": "RollingUpdate"}, "template": template}});
    json!({"apiVersion": "v1", "kind": "List", "items": [account, set]}).to_string()
}

/// What a pod that speaks with the cloud sees of its node, and its configuration (what is said of that volume beside its name): volumes, and
/// where they are inside.
pub(super) fn seen_inside(distro: Distro, mut config: Value) -> (Vec<Value>, Vec<Value>) {
    let (mut volumes, mut mounts) = trusted_by_node(distro);
    config["name"] = json!("config");
    volumes.push(config);
    mounts.push(json!({"name": "config", "mountPath": FOLDER, "readOnly": true}));
    (volumes, mounts)
}

/// Whom the node trusts, as volumes of a pod, and where they are inside. The first is made of links: on Fedora CoreOS into the second, on Flatcar
/// into a folder (github.com/kubernetes/cloud-provider-openstack/issues/1923) that others need not have, and not all could be given.
pub(super) fn trusted_by_node(distro: Distro) -> (Vec<Value>, Vec<Value>) {
    let of_flatcar = (distro == Distro::Flatcar).then_some(("shared-authorities", "/usr/share/ca-certificates"));
    let trusted = || [("certificates", "/etc/ssl/certs"), ("authorities", "/etc/pki")].into_iter().chain(of_flatcar);
    let host = |(name, path)| json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}});
    let inside = |(name, path)| json!({"name": name, "mountPath": path, "readOnly": true});
    (trusted().map(host).collect(), trusted().map(inside).collect())
}

/// SHA-256 in hex.
pub(super) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_the_file_takes_them() {
        assert_eq!(quoted(r#"a"b\c;d #e"#), r#""a\"b\\c;d #e""#);
    }
}
