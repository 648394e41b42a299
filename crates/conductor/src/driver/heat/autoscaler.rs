//! The cluster autoscaler inside a cluster: it resizes worker groups through this service, and looks at their stacks in Heat.
//!
//! It finds its groups by role and takes those that have a largest size (`max_node_count` of the nodegroup), so that users decide with
//! `openstack coe nodegroup update` which groups it resizes, and between what. Its project's own example names one group on its command line.
//!
//! Sources: `cluster-autoscaler/cloudprovider/magnum` of the project, and the roles of its chart.

use serde_json::{Value, json};

use super::access::Access;
use super::cloud_config::{CLOUD_CONFIG, FILE, FOLDER, NAMESPACE, digest, global, secret_of, seen_inside};
use super::parameters::choices::Choices;
use super::stack_input::StackInput;

const NAME: &str = "cluster-autoscaler";
/// Apart from the cloud provider's: its reader refuses sections that it does not know. The authorities are read from the cloud provider's, for
/// user data has no room for them twice.
const SECRET: &str = "cluster-autoscaler-cloud-config";
/// Roles of the groups that are its own, where they have a largest size.
const ROLES: &str = "worker,autoscaling";

/// The documents for Kubernetes. Its pod hangs on what it reads, so that new credentials replace it.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices, access: &Access, tag: &str) -> String {
    let secret = secret_of(SECRET, &global(access));
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    let everywhere = json!({"name": NAME});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]);
    let of = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
    let rbac = "rbac.authorization.k8s.io/v1";
    let items = json!([
        secret,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": everywhere, "rules": rules()},
        {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": everywhere, "roleRef": of("ClusterRole"), "subjects": subjects},
        {"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": own_rules()},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata, "roleRef": of("Role"), "subjects": subjects},
        deployment(input, choices, access, tag),
    ]);
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn deployment(input: &StackInput<'_>, choices: &Choices, access: &Access, tag: &str) -> Value {
    let registry = if choices.image_prefix.is_empty() { "registry.k8s.io/autoscaling/" } else { &choices.image_prefix };
    let labels = json!({"app": NAME});
    let mut sources = vec![json!({"secret": {"name": SECRET}})];
    if !access.ca.is_empty() {
        sources.push(json!({"secret": {"name": CLOUD_CONFIG, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}));
    }
    let (volumes, mounts) = seen_inside(json!({"projected": {"sources": sources}}));
    let digest = digest(&format!("{}{}", global(access), access.ca));
    let command = [
        format!("/{NAME}"),
        "--cloud-provider=magnum".into(),
        format!("--cluster-name={}", input.cluster_uuid),
        format!("--cloud-config={FOLDER}/{FILE}"),
        format!("--node-group-auto-discovery=magnum:role={ROLES}"),
        "--v=2".into(),
        "--stderrthreshold=info".into(),
    ];
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"magnum.openstack.org/cloud-config": digest}},
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    // On a master: a worker that it runs on could never be taken away.
                    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
                    "securityContext": {"runAsUser": 1001},
                    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
                    "containers": [{
                        "name": NAME,
                        "image": format!("{registry}{NAME}:{tag}"),
                        "command": command,
                        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
                        "volumeMounts": mounts,
                    }],
                    "volumes": volumes,
                },
            },
        },
    })
}

/// What it reads and does in the whole cluster: it looks at what waits for room, and empties the nodes that it takes away.
fn rules() -> Value {
    let look = ["get", "list", "watch"];
    json!([
        {"apiGroups": [""], "resources": ["events", "endpoints"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "update", "delete"]},
        {"apiGroups": [""],
         "resources": ["namespaces", "pods", "services", "replicationcontrollers", "persistentvolumeclaims", "persistentvolumes"],
         "verbs": look},
        {"apiGroups": ["apps"], "resources": ["daemonsets", "replicasets", "statefulsets"], "verbs": look},
        {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": look},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": look},
        {"apiGroups": ["storage.k8s.io"],
         "resources": ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
         "verbs": look},
        {"apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses", "resourceclaims", "resourceslices"], "verbs": look},
    ])
}

/// What it keeps for itself: which copy of it leads, and its state.
fn own_rules() -> Value {
    json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"],
         "resourceNames": ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander"],
         "verbs": ["get", "update", "delete"]},
    ])
}
