//! The cluster autoscaler inside a cluster: it resizes worker groups through this service, and looks at their stacks in Heat.
//!
//! It finds its groups by role and takes those that have a largest size (`max_node_count` of the nodegroup), so that users decide with
//! `openstack coe nodegroup update` which groups it resizes, and between what. Its project's own example names one group on its command line.
//!
//! Sources: `cluster-autoscaler/cloudprovider/magnum` of the project, and the roles of its chart.

use serde_json::{Value, json};

use super::access::Access;
use super::agent::{Agent, Copies, leads};
use super::cloud_config::{FILE, FOLDER, global};
use super::parameters::choices::Choices;
use super::stack_input::StackInput;

const NAME: &str = "cluster-autoscaler";
/// Roles of the groups that are its own, where they have a largest size.
const ROLES: &str = "worker,autoscaling";

/// The documents for Kubernetes.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices, access: &Access, tag: &str) -> String {
    let command = vec![
        format!("/{NAME}"),
        "--cloud-provider=magnum".into(),
        format!("--cluster-name={}", input.cluster_uuid),
        format!("--cloud-config={FOLDER}/{FILE}"),
        format!("--node-group-auto-discovery=magnum:role={ROLES}"),
        "--v=2".into(),
        "--stderrthreshold=info".into(),
    ];
    let agent = Agent {
        name: NAME,
        images: "registry.k8s.io/autoscaling/",
        tag,
        command,
        // The cloud provider's reader refuses sections that it does not know, and this one those of the cloud provider.
        config: (FILE, global(access)),
        resources: json!({"cpu": "100m", "memory": "300Mi"}),
        copies: Copies::One,
        rules: rules(),
        own_rules: own_rules(),
    };
    agent.documents(input, choices, access)
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
    let mut rules = leads(NAME);
    rules.push(json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]}));
    rules.push(json!({"apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander"],
        "verbs": ["get", "update", "delete"]}));
    rules.into()
}
