//! Users log in to Kubernetes with a token of Keystone: the API server asks a webhook on its own machine who holds a token, and, where
//! Kubernetes' own roles do not allow a request, whether the user's roles in Keystone do.
//!
//! `openstack coe cluster config --use-keystone` writes the client's side of it. Names of the config map and of the roles are upstream's, so
//! that what users and operators wrote for it holds.
//!
//! Sources: `docs/keystone-auth` and `pkg/identity/keystone` of the project `cloud-provider-openstack`; `heat-driver` of upstream for names.

use model::json::Labels;
use serde_json::{Value, json};

use super::cloud_config::{NAMESPACE, digest, trusted_by_node};
use super::parameters::choices::{self, Choices};
use super::render::RenderError;
use super::stack_input::StackInput;

/// The label of clusters whose users log in so.
pub(super) const LABEL: &str = "keystone_auth_enabled";

/// Who may do what, where the operator says nothing. Secrets are nobody's but the administrators': a list of all namespaces would show what
/// programs of the cluster log in to the cloud with.
const DEFAULT_POLICY: &str = include_str!("keystone_policy.json");

/// What an operator's policy may say in place of the cluster's project.
const PROJECT: &str = "$PROJECT_ID";

const NAME: &str = "k8s-keystone-auth";
/// The configuration that users change to say who may do what.
const POLICY: &str = "k8s-keystone-auth-policy";
const ADDRESS: &str = "127.0.0.1:8443";
/// How the API server reaches the webhook, on a master. Beside its own certificate, which names it `kubernetes`.
pub(super) const WEBHOOK: &str = "/etc/kubernetes-bootstrap/keystone-webhook.json";
const PKI: &str = "/etc/kubernetes/pki";
/// Who signed Keystone's certificate, on a master and inside the pod.
const CLOUD_CA: &str = "/etc/kubernetes-bootstrap/cloud-ca.crt";

/// Options of the API server that are the webhook's.
const CONFIG_FILES: [&str; 2] = ["authentication-token-webhook-config-file", "authorization-webhook-config-file"];

/// Whether a cluster has it: unless its label says otherwise, as upstream. The webhook checks Keystone's certificate always.
///
/// # Errors
/// When the label is neither true nor false, or says what cannot be.
pub(super) fn is_wanted(labels: &Labels, verify: bool) -> Result<bool, RenderError> {
    match (choices::truth(labels, LABEL)?, verify) {
        (Some(true), false) => Err(RenderError::new(
            LABEL,
            "must not be true where certificates of the cloud are not checked ([drivers] verify_ca): the webhook checks them always",
        )),
        (wanted, verify) => Ok(wanted.unwrap_or(true) && verify),
    }
}

/// Refuses options of the user's own for the API server that say the same thing.
pub(super) fn check(choices: &Choices) -> Result<(), RenderError> {
    let given = choices.api_server_options.iter().find(|option| CONFIG_FILES.contains(&option.name.as_str()));
    match given.filter(|_| choices.keystone_auth) {
        Some(option) => {
            let rule = format!("must not hold --{}, which the cluster sets itself unless {LABEL} is false", option.name);
            Err(RenderError::new("kubeapi_options", rule))
        }
        None => Ok(()),
    }
}

/// Options of the API server. Kubernetes' own roles come first: the webhook is asked only about what they do not allow.
pub(super) fn api_server() -> impl Iterator<Item = (&'static str, &'static str)> {
    CONFIG_FILES.map(|name| (name, WEBHOOK)).into_iter().chain([("authorization-mode", "Node,RBAC,Webhook")])
}

/// What kubeadm lets the API server see of its machine beside its own folders.
pub(super) fn api_server_volume() -> Value {
    json!({"name": "keystone-webhook", "hostPath": WEBHOOK, "mountPath": WEBHOOK, "readOnly": true, "pathType": "File"})
}

/// How the API server reaches the webhook, as a kubeconfig.
pub(super) fn webhook() -> String {
    let cluster = json!({
        "server": format!("https://{ADDRESS}/webhook"),
        "certificate-authority": format!("{PKI}/ca.crt"),
        "tls-server-name": "kubernetes",
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "webhook", "cluster": cluster}],
        "users": [{"name": "webhook"}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "webhook"}}],
        "current-context": "webhook",
    });
    format!("{config:#}\n")
}

/// What users may change, apart from the rest: it is made once, and what they wrote stays.
pub(super) fn policy(input: &StackInput<'_>) -> String {
    let policies = input.keystone_policy.unwrap_or(DEFAULT_POLICY).replace(PROJECT, input.project_id);
    let metadata = json!({"name": POLICY, "namespace": NAMESPACE});
    format!("{:#}\n", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policies": policies}}))
}

/// The webhook on every master, as documents for Kubernetes.
///
/// # Errors
/// When nobody has looked up where Keystone is.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices, tag: &str) -> Result<String, RenderError> {
    let url = input.keystone_url.ok_or_else(|| RenderError::new(LABEL, "where Keystone is was not looked up"))?;
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    let rbac = "rbac.authorization.k8s.io";
    let api = format!("{rbac}/v1");
    let role = json!({"apiGroup": rbac, "kind": "Role", "name": NAME});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let items = json!([
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules},
        {"apiVersion": api, "kind": "RoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects},
        daemon_set(input, choices, tag, url),
    ]);
    Ok(format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": items})))
}

fn daemon_set(input: &StackInput<'_>, choices: &Choices, tag: &str, url: &str) -> Value {
    let registry = if choices.image_prefix.is_empty() { "registry.k8s.io/provider-os/" } else { &choices.image_prefix };
    let labels = json!({"k8s-app": NAME});
    let mut files = vec![("certificate", format!("{PKI}/apiserver.crt")), ("key", format!("{PKI}/apiserver.key"))];
    let (mut volumes, mut mounts) = trusted_by_node();
    let mut args = vec![
        format!("/bin/{NAME}"),
        format!("--listen={ADDRESS}"),
        format!("--tls-cert-file={}", files[0].1),
        format!("--tls-private-key-file={}", files[1].1),
        format!("--policy-configmap-name={POLICY}"),
        format!("--keystone-url={url}"),
    ];
    if !input.openstack_ca.is_empty() {
        args.push(format!("--keystone-ca-file={CLOUD_CA}"));
        files.push(("cloud-ca", CLOUD_CA.to_owned()));
    }
    volumes.extend(files.iter().map(|(name, path)| json!({"name": name, "hostPath": {"path": path, "type": "File"}})));
    mounts.extend(files.iter().map(|(name, path)| json!({"name": name, "mountPath": path, "readOnly": true})));
    let template = json!({
        // It reads its files when it starts.
        "metadata": {"labels": labels, "annotations": {"magnum.openstack.org/authorities": digest(input.openstack_ca)}},
        "spec": {
            "serviceAccountName": NAME,
            // Where the API server reaches it, however the pod network is.
            "hostNetwork": true,
            "dnsPolicy": "Default",
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            // The key is root's.
            "securityContext": {"runAsUser": 0},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": NAME,
                "image": format!("{registry}{NAME}:{tag}"),
                "args": args,
                "resources": {"requests": {"cpu": "50m"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "updateStrategy": {"type": "RollingUpdate"}, "template": template},
    })
}
