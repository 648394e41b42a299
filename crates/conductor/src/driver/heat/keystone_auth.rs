//! Users log in to Kubernetes with a token of Keystone: the API server asks a webhook on its own machine who holds a token, and, where
//! Kubernetes' own roles do not allow a request, whether the user's roles in Keystone do.
//!
//! `openstack coe cluster config --use-keystone` writes the client's side of it. Names of the config map and of the roles are upstream's, so
//! that what users and operators wrote for it holds.
//!
//! Sources: `docs/keystone-auth` and `pkg/identity/keystone` of the project `cloud-provider-openstack`; `heat-driver` of upstream for names.

use model::kubernetes::Version;
use serde_json::{Value, json};

use super::bootstrap::path;
use super::cloud_config::{NAMESPACE, digest, trusted_by_node};
use super::parameters::choices::Choices;
use super::proxies;
use super::render::RenderError;
use super::stack_input::StackInput;

/// The label of clusters whose users log in so, and the parameter of their stacks: a cluster that was made without stays without.
pub(super) const PARAMETER: &str = "keystone_auth_enabled";

/// Who may do what, where the operator says nothing. A developer may run any pod, which is as much as being its node's administrator unless
/// the cluster's own admission forbids it.
const DEFAULT_POLICY: &str = include_str!("keystone_policy.json");

/// What an operator's policy may say in place of the cluster's project.
const PROJECT: &str = "$PROJECT_ID";

const NAME: &str = "k8s-keystone-auth";
/// The configuration that users change to say who may do what.
const POLICY: &str = "k8s-keystone-auth-policy";
const ADDRESS: &str = "127.0.0.1:8443";
/// How the API server reaches the webhook, below our folder on a master.
const WEBHOOK: &str = "keystone-webhook.json";
/// Whom the API server asks what a user may do, there too.
const AUTHORIZERS: &str = "authorizers.json";
const PKI: &str = "/etc/kubernetes/pki";

/// What masters are told of Keystone, for their users to log in with it.
pub(crate) struct Keystone {
    /// Its public address with `/v3`.
    pub url: String,
    /// Who may do what, in a new cluster; from then on its users say it.
    pub policy: Option<String>,
}

/// The policy of a new cluster: the operator's, or ours.
pub(super) fn policy_of(operators: Option<&str>, project: &str) -> String {
    operators.unwrap_or(DEFAULT_POLICY).replace(PROJECT, project)
}

/// Options of the API server. kubeadm names no authorizers of its own beside such a file.
pub(super) fn api_server() -> impl Iterator<Item = (&'static str, String)> {
    [("authentication-token-webhook-config-file", WEBHOOK), ("authorization-config", AUTHORIZERS)]
        .map(|(name, file)| (name, path(file)))
        .into_iter()
}

/// What the API server reads, by the names of the files.
pub(super) fn files(choices: &Choices) -> impl Iterator<Item = (&'static str, String)> {
    [(WEBHOOK, webhook()), (AUTHORIZERS, authorizers(choices))].into_iter()
}

/// The same files, by the names of volumes.
pub(super) fn api_server_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    [("keystone-webhook", WEBHOOK), ("authorizers", AUTHORIZERS)].into_iter()
}

/// Whom the API server asks what a user may do: Kubernetes' own roles, and about users of Keystone the webhook. About nobody else: kubeadm
/// waits for a plain refusal before there is a webhook, and where it does not run nobody but Keystone's users is to notice.
fn authorizers(choices: &Choices) -> String {
    // The only one that 1.31 knows; Kubernetes 1.32 has the other.
    let version = if Version::parse(&choices.kube_version).is_some_and(|version| version.minor < 32) { "v1beta1" } else { "v1" };
    let webhook = json!({
        "timeout": "10s",
        "authorizedTTL": "30s",
        "unauthorizedTTL": "30s",
        "subjectAccessReviewVersion": "v1beta1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": path(WEBHOOK)},
        "matchConditions": [{"expression": "has(request.extra) && 'alpha.kubernetes.io/identity/roles' in request.extra"}],
    });
    let config = json!({
        "apiVersion": format!("apiserver.config.k8s.io/{version}"),
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Node", "name": "node"},
            {"type": "RBAC", "name": "rbac"},
            {"type": "Webhook", "name": "keystone", "webhook": webhook},
        ],
    });
    config.to_string()
}

/// How the API server reaches the webhook, as a kubeconfig.
fn webhook() -> String {
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
    config.to_string()
}

/// What users may change, apart from the rest: it is made once, and what they wrote stays.
fn policy_map(policies: &str) -> String {
    let metadata = json!({"name": POLICY, "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policies": policies}}).to_string()
}

/// The policy, where the cluster is new.
pub(super) fn policy(input: &StackInput<'_>) -> Option<String> {
    input.keystone?.policy.as_deref().map(policy_map)
}

/// The webhook on every master, as documents for Kubernetes.
///
/// # Errors
/// When the cluster has none.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices, tag: &str) -> Result<String, RenderError> {
    let keystone = input.keystone.ok_or_else(|| RenderError::new(PARAMETER, "where Keystone is was not looked up"))?;
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    let everywhere = json!({"name": NAME});
    let rbac = "rbac.authorization.k8s.io";
    let api = format!("{rbac}/v1");
    let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": NAME});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]);
    // It watches those of all namespaces, and listens only once it may.
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let items = json!([
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": api, "kind": "ClusterRole", "metadata": everywhere, "rules": rules},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": everywhere, "roleRef": role, "subjects": subjects},
        daemon_set(input, choices, tag, &keystone.url),
    ]);
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

fn daemon_set(input: &StackInput<'_>, choices: &Choices, tag: &str, url: &str) -> Value {
    let registry = if choices.image_prefix.is_empty() { "registry.k8s.io/provider-os/" } else { &choices.image_prefix };
    let labels = json!({"k8s-app": NAME});
    let mut files = vec![("certificate", format!("{PKI}/apiserver.crt")), ("key", format!("{PKI}/apiserver.key"))];
    let (mut volumes, mut mounts) = trusted_by_node(input.distro);
    let mut args = vec![
        format!("/bin/{NAME}"),
        format!("--listen={ADDRESS}"),
        format!("--tls-cert-file={}", files[0].1),
        format!("--tls-private-key-file={}", files[1].1),
        format!("--policy-configmap-name={POLICY}"),
        format!("--keystone-url={url}"),
    ];
    if !input.openstack_ca.is_empty() {
        let ca = path("cloud-ca.crt");
        args.push(format!("--keystone-ca-file={ca}"));
        files.push(("cloud-ca", ca));
    }
    volumes.extend(files.iter().map(|(name, path)| json!({"name": name, "hostPath": {"path": path, "type": "File"}})));
    mounts.extend(files.iter().map(|(name, path)| json!({"name": name, "mountPath": path, "readOnly": true})));
    let mut container = json!({
        "name": NAME,
        "image": format!("{registry}{NAME}:{tag}"),
        "args": args,
        "resources": {"requests": {"cpu": "50m"}},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
        "volumeMounts": mounts,
    });
    proxies::give(&mut container, input, choices);
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
            "containers": [container],
            "volumes": volumes,
        },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "updateStrategy": {"type": "RollingUpdate"}, "template": template},
    })
}
