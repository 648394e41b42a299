//! What tells Prometheus of the state of objects, and of machines.

use serde_json::{Value, json};

use super::{NAMESPACE, PROMETHEUS_IMAGES, account, confined, image, list, nobody, service, workload};
use crate::driver::heat::cloud_config;
use crate::driver::heat::parameters::choices::Choices;

/// Who tells of objects.
pub(super) const STATE: &str = "kube-state-metrics";
pub(super) const STATE_PORT: u16 = 8080;
/// Where it tells of itself.
const STATE_OWN_PORT: u16 = 8081;
const STATE_IMAGES: &str = "registry.k8s.io/kube-state-metrics/";
/// Who tells of machines.
pub(super) const MACHINE: &str = "node-exporter";
pub(super) const MACHINE_PORT: u16 = 9100;

/// The objects whose state is told, by group. Neither secrets nor config maps, which it would have to read whole.
const OBJECTS: [(&str, &[&str]); 7] = [
    (
        "",
        &[
            "limitranges",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "replicationcontrollers",
            "resourcequotas",
            "services",
        ],
    ),
    ("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("networking.k8s.io", &["ingresses"]),
    ("policy", &["poddisruptionbudgets"]),
    ("storage.k8s.io", &["storageclasses", "volumeattachments"]),
];

/// kube-state-metrics, as documents for Kubernetes.
pub(in crate::driver::heat) fn kube_state_metrics(choices: &Choices, tag: &str) -> String {
    let rule = |(group, objects): &(&str, &[&str])| json!({"apiGroups": [group], "resources": objects, "verbs": ["list", "watch"]});
    let rules: Value = OBJECTS.iter().map(rule).collect();
    let objects = OBJECTS.iter().flat_map(|(_, objects)| objects.iter().copied()).collect::<Vec<_>>().join(",");
    let probe = |path: &str, port: u16| json!({"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5});
    let container = json!({
        "name": STATE,
        "image": image(choices, STATE_IMAGES, STATE, tag),
        "args": [format!("--port={STATE_PORT}"), format!("--telemetry-port={STATE_OWN_PORT}"), format!("--resources={objects}")],
        "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}},
        "livenessProbe": probe("/livez", STATE_PORT),
        "readinessProbe": probe("/readyz", STATE_OWN_PORT),
        "securityContext": confined(),
    });
    let pod = json!({"serviceAccountName": STATE, "securityContext": nobody(), "containers": [container]});
    let mut items: Vec<Value> = account(STATE, &rules).into();
    items.push(service(STATE, STATE_PORT));
    items.push(workload("Deployment", NAMESPACE, STATE, pod));
    list(items)
}

/// node-exporter on every node, masters too, as documents for Kubernetes. It asks Kubernetes nothing, and answers at the address of the
/// node alone: a worker may be on networks of others as well.
pub(in crate::driver::heat) fn node_exporter(choices: &Choices, tag: &str) -> String {
    let of_pods = "^(cali|lxc|veth).*$";
    let container = json!({
        "name": MACHINE,
        "image": image(choices, PROMETHEUS_IMAGES, MACHINE, tag),
        "args": [
            format!("--web.listen-address=$(HOST_IP):{MACHINE_PORT}"),
            "--path.sysfs=/host/sys",
            "--path.rootfs=/host/root",
            "--collector.filesystem.mount-points-exclude=^/(dev|proc|sys|run/containerd/.+|var/lib/(containerd|kubelet)/.+)($|/)",
            format!("--collector.netclass.ignored-devices={of_pods}"),
            format!("--collector.netdev.device-exclude={of_pods}"),
        ],
        "env": [{"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}],
        // Two of them on a node, ours and a user's own: the later one waits and says why.
        "ports": [{"containerPort": MACHINE_PORT, "hostPort": MACHINE_PORT}],
        "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}},
        "securityContext": confined(),
        "volumeMounts": [
            {"name": "sys", "mountPath": "/host/sys", "mountPropagation": "HostToContainer", "readOnly": true},
            {"name": "root", "mountPath": "/host/root", "mountPropagation": "HostToContainer", "readOnly": true},
        ],
    });
    let pod = json!({
        "automountServiceAccountToken": false,
        "hostNetwork": true,
        "hostPID": true,
        "securityContext": nobody(),
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "sys", "hostPath": {"path": "/sys"}}, {"name": "root", "hostPath": {"path": "/"}}],
    });
    list(vec![workload("DaemonSet", cloud_config::NAMESPACE, MACHINE, pod)])
}
