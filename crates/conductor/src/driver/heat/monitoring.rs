//! Monitoring inside a cluster, where its label asks for it: Prometheus with a volume, kube-state-metrics, and node-exporter on every node.
//!
//! Upstream installs the chart of kube-prometheus-stack, with an operator, Grafana and alerts. This is what all of that stands on: what the
//! cluster measures is kept, and whoever wants more adds it. Labels are upstream's where it has them.
//!
//! Prometheus and kube-state-metrics have a namespace that takes no pod with rights on its node. node-exporter needs such rights, and is in
//! `kube-system` with all others of its kind.
//!
//! Sources: `documentation/examples/prometheus-kubernetes.yml` and `discovery/kubernetes` of the project `prometheus`; `examples/standard`
//! of `kube-state-metrics`; `manifests` of `kube-prometheus` for what containers may do.

mod exporters;
mod scrape;

use model::json::Labels;
use serde_json::{Value, json};

pub(super) use self::exporters::{kube_state_metrics, node_exporter};
use super::cloud_config::digest;
use super::parameters::choices::{self, Choices};
use super::render::RenderError;

/// The label that asks for it in a new cluster, and the parameter of its stack. A cluster that was made without stays without, though it may
/// have upstream's label from before anybody read it: what it has no volume for would wait in it for ever.
pub(super) const PARAMETER: &str = "monitoring_enabled";
/// The label of the class of Prometheus' volume.
const STORAGE_CLASS: &str = "monitoring_storage_class_name";
/// The label of Prometheus' version. Upstream's monitoring of old has it too, with a version that knows none of these options.
const TAG: &str = "prometheus_tag";
/// The least version that is configured as here.
const OLDEST_MAJOR: u32 = 3;

/// Nobody else's: charts that users install are at home in `monitoring`, with pods that this one would not take.
const NAMESPACE: &str = "magnum-monitoring";
const NAME: &str = "prometheus";
const PORT: u16 = 9090;
const RBAC: &str = "rbac.authorization.k8s.io";
/// Where images of the project `prometheus` are.
const PROMETHEUS_IMAGES: &str = "quay.io/prometheus/";
/// Who is nobody in its images, and in those of kube-state-metrics.
const NOBODY: u32 = 65_534;

/// How often is looked. Prometheus takes for gone what it has not seen for five minutes.
const INTERVAL: Number = Number { label: "monitoring_interval_seconds", default: 30, least: 5, most: 120 };
/// For how many days what was seen is kept.
const DAYS: Number = Number { label: "monitoring_retention_days", default: 14, least: 1, most: 3_650 };
/// The size of the volume, in GiB. What holds without the label stays for ever: Kubernetes takes no other claim for a set that is there, and a
/// master that replaces another one applies all of this again.
const SIZE: Number = Number { label: "monitoring_retention_size", default: 14, least: 1, most: 16_384 };

/// A label that holds a number.
struct Number {
    label: &'static str,
    /// What holds without it.
    default: u32,
    least: u32,
    most: u32,
}

impl Number {
    fn read(&self, labels: &Labels) -> Result<u32, RenderError> {
        let Some(text) = labels.get(self.label).map(str::trim).filter(|text| !text.is_empty()) else { return Ok(self.default) };
        let number = text.parse::<u32>().ok().filter(|number| (self.least..=self.most).contains(number));
        number
            .ok_or_else(|| RenderError::new(self.label, format!("must be a whole number from {} to {}, not {text}", self.least, self.most)))
    }
}

/// How a cluster is watched.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    interval: u32,
    days: u32,
    size: u32,
    /// None: the class that the cluster's users have made the default one.
    storage_class: Option<String>,
}

/// What the labels ask for.
///
/// # Errors
/// When that cannot be made.
pub(super) fn asked_for(labels: &Labels) -> Result<Option<Wish>, RenderError> {
    if choices::truth(labels, PARAMETER)? != Some(true) {
        return Ok(None);
    }
    if let Some(tag) = labels.get(TAG).map(str::trim).filter(|tag| is_too_old(tag)) {
        return Err(RenderError::new(TAG, format!("must be v{OLDEST_MAJOR}.0.0 or newer, not {tag}")));
    }
    let storage_class = labels.get(STORAGE_CLASS).map(str::trim).filter(|name| !name.is_empty());
    if storage_class.is_some_and(|name| !is_name(name)) {
        return Err(RenderError::new(STORAGE_CLASS, "must be a name of Kubernetes: small letters, digits, and - . between them"));
    }
    Ok(Some(Wish {
        interval: INTERVAL.read(labels)?,
        days: DAYS.read(labels)?,
        size: SIZE.read(labels)?,
        storage_class: storage_class.map(str::to_owned),
    }))
}

/// Whether a class of volumes can be called so.
fn is_name(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    text.len() <= 253 && text.chars().all(fits) && is_end(text.chars().next()) && is_end(text.chars().next_back())
}

/// Prometheus, as documents for Kubernetes, and before it the namespace.
///
/// # Errors
/// When the labels do not ask for it, or for what cannot be made.
pub(super) fn prometheus(labels: &Labels, choices: &Choices, tag: &str) -> Result<String, RenderError> {
    let wish = asked_for(labels)?.ok_or_else(|| RenderError::new(PARAMETER, "is not true, and there is nothing to write"))?;
    let restricted = json!({"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}});
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    let config = scrape::config(&wish);
    let mut items = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": restricted})];
    items.extend(account(NAME, &scrape::rules()));
    // There the API servers are found; services of other namespaces are none of its business.
    let in_default = json!({"name": role_name(NAME), "namespace": "default"});
    items.push(json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": in_default, "rules": scrape::rules_in_default()}));
    items.push(binding("RoleBinding", &in_default, "Role", NAME));
    items.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {(scrape::FILE): config}}));
    items.push(service(NAME, PORT));
    items.push(server(&wish, choices, tag, &digest(&config)));
    Ok(list(items))
}

/// Whether a version is known to be of another time; one that is no number is the user's own.
fn is_too_old(tag: &str) -> bool {
    let major = tag.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| major < OLDEST_MAJOR)
}

/// The server. It hangs on what it reads. Of its volume the last part is left: it writes anew what it keeps before it removes the old.
fn server(wish: &Wish, choices: &Choices, tag: &str, config: &str) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": PORT}, "timeoutSeconds": 5});
    let container = json!({
        "name": NAME,
        "image": image(choices, PROMETHEUS_IMAGES, NAME, tag),
        "args": [
            format!("--config.file={}/{}", scrape::FOLDER, scrape::FILE),
            "--storage.tsdb.path=/prometheus",
            format!("--storage.tsdb.retention.time={}d", wish.days),
            // To Prometheus, a MB is a MiB.
            format!("--storage.tsdb.retention.size={}MB", u64::from(wish.size) * 1024 * 85 / 100),
        ],
        "resources": {"requests": {"cpu": "200m", "memory": "512Mi"}},
        "livenessProbe": probe("/-/healthy"),
        "readinessProbe": probe("/-/ready"),
        "securityContext": confined(),
        "volumeMounts": [
            {"name": "config", "mountPath": scrape::FOLDER, "readOnly": true},
            {"name": "data", "mountPath": "/prometheus"},
        ],
    });
    let mut security = nobody();
    // The volume is its own.
    security["fsGroup"] = json!(NOBODY);
    let pod = json!({
        "serviceAccountName": NAME,
        "securityContext": security,
        "terminationGracePeriodSeconds": 120,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    });
    let mut claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": format!("{}Gi", wish.size)}}});
    if let Some(class) = &wish.storage_class {
        claim["storageClassName"] = json!(class);
    }
    // It is watched as all pods that ask for it.
    let annotations = json!({
        "magnum.openstack.org/config": config, "prometheus.io/scrape": "true", "prometheus.io/port": PORT.to_string(),
    });
    let mut set = workload("StatefulSet", NAMESPACE, NAME, pod);
    set["spec"]["serviceName"] = json!(NAME);
    // Otherwise a pod that never became ready would not be replaced by one that can.
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set["spec"]["template"]["metadata"]["annotations"] = annotations;
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
    set
}

/// An image, from where the cluster's images are all from, if there is such a place.
fn image(choices: &Choices, project: &str, name: &str, tag: &str) -> String {
    let images = if choices.image_prefix.is_empty() { project } else { &choices.image_prefix };
    format!("{images}{name}:{tag}")
}

/// What a pod may do to its node: nothing.
fn nobody() -> Value {
    json!({"runAsNonRoot": true, "runAsUser": NOBODY, "seccompProfile": {"type": "RuntimeDefault"}})
}

/// The same of a container.
fn confined() -> Value {
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
}

/// A workload that makes such pods.
fn workload(kind: &str, namespace: &str, name: &str, pod: Value) -> Value {
    let labels = json!({"app": name});
    let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// A name inside the cluster for the pods of a workload.
fn service(name: &str, port: u16) -> Value {
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": name}, "ports": [{"port": port}]}})
}

/// An account, and what it may do in the whole cluster.
fn account(name: &str, rules: &Value) -> [Value; 3] {
    let everywhere = json!({"name": role_name(name)});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": everywhere, "rules": rules}),
        binding("ClusterRoleBinding", &everywhere, "ClusterRole", name),
    ]
}

/// What gives an account the role of its name.
fn binding(kind: &str, metadata: &Value, role: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": role_name(name)},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    })
}

/// Roles have no namespace, or that of others: the name says whose they are.
fn role_name(name: &str) -> String {
    format!("{NAMESPACE}-{name}")
}

/// Documents in one.
fn list(items: Vec<Value>) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[cfg(test)]
mod tests;
