//! What Prometheus looks at: kubelets and their containers, API servers, machines, the state of objects, and all pods that ask for it.

use serde_json::{Value, json};

use super::{Wish, exporters};

/// Where its configuration is inside.
pub(super) const FOLDER: &str = "/etc/prometheus";
pub(super) const FILE: &str = "prometheus.yml";

/// Of the account that a pod runs as.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What it reads in the whole cluster: where nodes and pods are, and what kubelets and API servers measure. Not `nodes/proxy`, by which it
/// could do on every node whatever kubelet can.
pub(super) fn rules() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ])
}

/// What it reads in the namespace `default` beside: where the API servers are.
pub(super) fn rules_in_default() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ])
}

/// Its configuration; it is read as YAML, which JSON is.
pub(super) fn config(wish: &Wish) -> String {
    json!({
        "global": {"scrape_interval": format!("{}s", wish.interval)},
        "scrape_configs": [
            kubelet("kubelet", "/metrics"),
            kubelet("cadvisor", "/metrics/cadvisor"),
            api_servers(),
            machines(),
            // Its series tell of other pods: their names stay.
            {"job_name": exporters::STATE, "honor_labels": true,
             "static_configs": [{"targets": [format!("{}:{}", exporters::STATE, exporters::STATE_PORT)]}]},
            pods(),
        ],
    })
    .to_string()
}

/// Gives a target the value of these labels as another one.
fn relabel(sources: &[&str], target: &str) -> Value {
    json!({"source_labels": sources, "target_label": target})
}

fn name_of_node() -> Value {
    relabel(&["__meta_kubernetes_node_name"], "node")
}

/// Kubelets ask the API server whom they let in. They have certificates of their own making: the token, which reads what is measured and
/// where pods are, is shown to whoever answers at a node's address.
fn kubelet(job: &str, path: &str) -> Value {
    json!({
        "job_name": job,
        "scheme": "https",
        "metrics_path": path,
        "authorization": {"credentials_file": format!("{ACCOUNT}/token")},
        "tls_config": {"insecure_skip_verify": true},
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": [name_of_node()],
    })
}

/// Each of them by its own address: behind the service every look would find another one's counters.
fn api_servers() -> Value {
    let mut is_theirs = json!({"source_labels": ["__meta_kubernetes_service_name", "__meta_kubernetes_endpointslice_port_name"]});
    is_theirs["regex"] = json!("kubernetes;https");
    is_theirs["action"] = json!("keep");
    json!({
        "job_name": "apiserver",
        "scheme": "https",
        "authorization": {"credentials_file": format!("{ACCOUNT}/token")},
        "tls_config": {"ca_file": format!("{ACCOUNT}/ca.crt"), "server_name": "kubernetes.default.svc"},
        "kubernetes_sd_configs": [{"role": "endpointslice", "namespaces": {"names": ["default"]}}],
        "relabel_configs": [is_theirs],
    })
}

/// node-exporter, which is at every node's address.
fn machines() -> Value {
    let mut address = relabel(&["__address__"], "__address__");
    address["regex"] = json!("(.+):[0-9]+");
    address["replacement"] = json!(format!("$1:{}", exporters::MACHINE_PORT));
    json!({
        "job_name": exporters::MACHINE,
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": [address, name_of_node()],
    })
}

/// Pods with the annotation `prometheus.io/scrape`, at the port, path and by the scheme that others say, as users know them.
fn pods() -> Value {
    let annotation = |name: &str| format!("__meta_kubernetes_pod_annotation_prometheus_io_{name}");
    let said = |name: &str, regex: &str, target: &str| json!({"source_labels": [annotation(name)], "regex": regex, "target_label": target});
    json!({
        "job_name": "pods",
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [
            {"source_labels": [annotation("scrape")], "regex": "true", "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": "Pending|Succeeded|Failed", "action": "drop"},
            said("scheme", "(https?)", "__scheme__"),
            said("path", "(.+)", "__metrics_path__"),
            {"source_labels": ["__address__", annotation("port")], "regex": "(.+?)(?::[0-9]+)?;([0-9]+)", "replacement": "$1:$2",
             "target_label": "__address__"},
            relabel(&["__meta_kubernetes_namespace"], "namespace"),
            relabel(&["__meta_kubernetes_pod_name"], "pod"),
        ],
    })
}
