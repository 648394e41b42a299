//! What the API server of a master is told beside the user's own options, the files that it reads, and what it sees of its machine.
//!
//! Sources: Kubernetes' documentation of auditing and of the encryption of confidential data at rest; kubeadm's `ArgumentsToCommand`, which sorts
//! options by their values where a name is given twice, so that none is.

use serde_json::{Value, json};

use super::common::path;
use super::kubeadm::{argument, arguments};
use crate::driver::heat::keystone_auth;
use crate::driver::heat::parameters::choices::{Choices, audit};
use crate::driver::heat::stack_input::StackInput;

/// Which requests are written down, and how much of them.
const AUDIT_POLICY: &str = "audit-policy.json";
/// So much is kept at most: days, files beside the one that is written, MiB of each.
const AUDIT_LIMITS: [(&str, &str); 3] = [("audit-log-maxage", "30"), ("audit-log-maxbackup", "4"), ("audit-log-maxsize", "100")];

/// How secrets are kept in etcd, in a cluster that has a key for it. Written by `scripts/master.sh`: the key is the cluster's, not the
/// generation's, and comes from Heat.
const SECRETS_AT_REST: &str = "secrets-at-rest.json";

/// Options.
pub(super) fn options(input: &StackInput<'_>, choices: &Choices) -> Vec<Value> {
    let plugins = choices.admission_plugins.as_ref().map(|plugins| ("enable-admission-plugins", plugins.clone()));
    let webhook = input.keystone.map(|_| keystone_auth::api_server()).into_iter().flatten();
    let log = (audit::OPTION, audit::file());
    let limits = AUDIT_LIMITS.map(|(name, value)| (name, value.to_owned())).into_iter().chain([log]);
    let ours = limits.filter(|(name, _)| choices.api_server_options.iter().all(|given| given.name != *name));
    let policy = ("audit-policy-file", path(AUDIT_POLICY));
    let secrets = input.has_secrets_key.then(|| ("encryption-provider-config", path(SECRETS_AT_REST)));
    let all = plugins.into_iter().chain(webhook).chain(ours).chain([policy]).chain(secrets).map(|(name, value)| argument(name, &value));
    all.chain(arguments(&choices.api_server_options)).collect()
}

/// What kubeadm lets it see of its machine beside its own folders.
pub(super) fn volumes(input: &StackInput<'_>, choices: &Choices) -> Vec<Value> {
    let webhook = input.keystone.map(|_| keystone_auth::api_server_files()).into_iter().flatten();
    let secrets = input.has_secrets_key.then_some(("secrets-at-rest", SECRETS_AT_REST));
    let files = webhook.chain([("audit-policy", AUDIT_POLICY)]).chain(secrets);
    let file = |(name, file): (&str, &str)| json!({"name": name, "hostPath": path(file), "mountPath": path(file), "readOnly": true, "pathType": "File"});
    let folder = |folder| json!({"name": "audit-log", "hostPath": folder, "mountPath": folder, "pathType": "DirectoryOrCreate"});
    files.map(file).chain(audit::folder(&choices.api_server_options).map(folder)).collect()
}

/// What it reads, by the names of the files.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices) -> Vec<(String, String)> {
    let webhook = input.keystone.map(|_| keystone_auth::files(choices)).into_iter().flatten();
    webhook.chain([(AUDIT_POLICY, audit_policy())]).map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Who asked for what and when, of everything that changes the cluster, reads its secrets or gets into its pods; what changes rights with its
/// text, nothing else with its text: it may be a secret. What the control plane reads is left out, and what nodes and programs of
/// `kube-system` read beside that.
fn audit_policy() -> String {
    let reads = ["get", "list", "watch"];
    let parts = ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"];
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]},
            {"level": "None", "resources": [
                {"group": "", "resources": ["events"]},
                {"group": "events.k8s.io", "resources": ["events"]},
                {"group": "coordination.k8s.io", "resources": ["leases"]},
            ]},
            {"level": "None", "users": parts, "verbs": reads},
            // Over a web socket, getting into a pod is a get.
            {"level": "Metadata", "resources": [
                {"group": "", "resources": [
                    "secrets", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy",
                ]},
            ]},
            {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"], "verbs": reads},
            {"level": "Request", "verbs": ["create", "update", "patch", "delete", "deletecollection"], "resources": [{"group": "rbac.authorization.k8s.io"}]},
            {"level": "Metadata"},
        ],
    });
    policy.to_string()
}
