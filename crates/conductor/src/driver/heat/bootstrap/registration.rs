//! How a node tells Kubernetes what it is: labels and taints.
//!
//! The labels `magnum.openstack.org/role` and `magnum.openstack.org/nodegroup` are upstream's; autoscaler and auto-healer select by them.
//! `magnum.openstack.org/generation` is ours, for whoever looks. All of these are kubelet's word, and so that of whoever is root on the node: what
//! depends on which group or generation a node is of must not be decided by them (`order.rs`). Masters of earlier releases did.

use model::kubernetes;
use model::labels::options::Argument;
use serde_json::{Value, json};

use super::kubeadm::arguments;
use crate::driver::heat::access::CloudProvider;
use crate::driver::heat::parameters::choices::Choices;
use crate::driver::heat::render::RenderError;
use crate::driver::heat::stack_input::WorkerGroup;

const SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// What a node registers with.
pub(super) struct Registration {
    pub is_master: bool,
    labels: Vec<(String, String)>,
    taints: Vec<Value>,
    /// The cloud provider says which machine it is, and until then no pod comes that does not tolerate it.
    waits_for_cloud: bool,
}

impl Registration {
    /// Of the control plane; kubeadm adds its own taint.
    pub fn of_masters(cloud: &CloudProvider) -> Self {
        Self { is_master: true, labels: ours("master", "default-master"), taints: Vec::new(), waits_for_cloud: cloud.is_there() }
    }

    /// Of the workers of a group.
    ///
    /// # Errors
    /// When a label or taint is none that Kubernetes takes: kubelet would not start with it.
    pub fn of_workers(group: &WorkerGroup<'_>, cloud: &CloudProvider) -> Result<Self, RenderError> {
        let mut labels = ours(group.role, group.name);
        for (key, value) in &group.nodes.labels.0 {
            check("node_labels", key, value)?;
            labels.push((key.clone(), value.clone()));
        }
        let mut taints = Vec::new();
        for taint in &group.nodes.taints {
            let value = taint.value.as_deref().unwrap_or_default();
            check("node_taints", &taint.key, value)?;
            taints.push(json!({"key": taint.key, "value": value, "effect": taint.effect}));
        }
        Ok(Self { is_master: false, labels, taints, waits_for_cloud: cloud.is_there() })
    }

    /// kubeadm's `nodeRegistration`, with the users' own options of kubelet.
    pub fn document(&self, choices: &Choices) -> Value {
        self.with(&choices.kubelet_options, choices.ipv6.is_some())
    }

    fn with(&self, further: &[Argument], has_ipv6: bool) -> Value {
        let addresses = if has_ipv6 { "@NODE_ADDRESS@,@NODE_ADDRESS_V6@" } else { "@NODE_ADDRESS@" };
        let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        let mut document = json!({
            "name": "@NODE_NAME@",
            "criSocket": SOCKET,
            // Small flavors are the user's choice; conntrack comes with the image of kube-proxy.
            "ignorePreflightErrors": ["NumCPU", "Mem", "FileExisting-conntrack"],
            "kubeletExtraArgs": [
                {"name": "node-ip", "value": addresses},
                {"name": "node-labels", "value": labels},
            ],
        });
        if let Some(all) = document["kubeletExtraArgs"].as_array_mut() {
            if self.waits_for_cloud {
                all.push(json!({"name": "cloud-provider", "value": "external"}));
            }
            all.extend(arguments(further));
        }
        if !self.taints.is_empty() {
            document["taints"] = self.taints.clone().into();
        }
        document
    }
}

fn ours(role: &str, group: &str) -> Vec<(String, String)> {
    // Which replacement of all nodes of its group it came with is Heat's to say.
    [("role", as_value(role)), ("nodegroup", as_value(group)), ("generation", "@GENERATION@".to_owned())]
        .map(|(name, value)| (format!("magnum.openstack.org/{name}"), value))
        .into()
}

/// A name as the value of a label: what has no place there is left out.
fn as_value(name: &str) -> String {
    let kept: String = name.chars().filter(|c| kubernetes::is_inner(*c)).take(kubernetes::LABEL_PART).collect();
    kept.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn check(field: &str, key: &str, value: &str) -> Result<(), RenderError> {
    kubernetes::check_label(key, value).map_err(|rule| RenderError::new(field, rule))
}

#[cfg(test)]
mod tests {
    use model::json::Labels;
    use model::nodegroup::{Nodes, Taint};

    use super::*;

    fn of(name: &str, labels: &[(&str, &str)], taints: &[(&str, Option<&str>)]) -> Result<Value, RenderError> {
        let nodes = Nodes {
            labels: Labels(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            taints: taints
                .iter()
                .map(|(key, value)| Taint { key: (*key).into(), value: value.map(Into::into), effect: "NoSchedule".into() })
                .collect(),
        };
        Ok(Registration::of_workers(&WorkerGroup { name, role: "worker", nodes: &nodes }, &CloudProvider::Absent)?.with(&[], false))
    }

    #[test]
    fn a_group_registers_with_its_labels_and_taints() {
        let document = of("gpu nodes", &[("example.org/kind", "a100"), ("empty", "")], &[("gpu", Some("yes")), ("alone", None)]).unwrap();
        let labels = document["kubeletExtraArgs"][1]["value"].as_str().unwrap();
        assert_eq!(
            labels,
            "magnum.openstack.org/role=worker,magnum.openstack.org/nodegroup=gpunodes,magnum.openstack.org/generation=@GENERATION@,example.org/kind=a100,empty="
        );
        assert_eq!(document["taints"][0], json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}));
        assert_eq!(document["taints"][1]["value"], "");
        assert!(of("x", &[], &[]).unwrap().get("taints").is_none());
    }

    #[test]
    fn what_kubelet_would_not_start_with_is_refused_by_name() {
        for (key, value) in [("a,b", "c"), ("", "c"), ("a", "b c"), ("-a", "b"), ("A.example/x", "b"), ("a", "'"), ("a/b/c", "d")] {
            let error = of("x", &[(key, value)], &[]).expect_err(key);
            assert_eq!(error.field, "node_labels");
        }
        assert_eq!(of("x", &[], &[("a b", None)]).expect_err("a taint").field, "node_taints");
    }
}
