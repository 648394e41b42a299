//! Rules that hold for new and for changed groups (N-06 to N-15).

use model::json::{Labels, python_json};
use model::kubernetes::check_label;
use model::nodegroup::{MASTER, Nodes, Taint};
use serde_json::Value;

use crate::error::ApiError;
use crate::view::schema;

/// Labels in Kubernetes' own namespaces that the nodes' agents may set.
const OWN_KEYS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The bounds of a group, and its size within them (N-06 to N-08).
pub fn bounds(name: &str, node_count: i32, min: i32, max: Option<i32>) -> Result<(), ApiError> {
    let bad = |which: &str, rule: String| Err(ApiError::Conflict(format!("{which} for {name} is invalid ({rule}).")));
    if let Some(max) = max.filter(|max| *max != 0) {
        if min > max {
            return bad("min_node_count", format!("min_node_count ({min}) should be less or equal to max_node_count ({max})"));
        }
        if node_count > max {
            return bad("max_node_count", format!("node_count ({node_count}) should be less or equal to max_node_count ({max})"));
        }
    }
    if min > node_count {
        return bad("min_node_count", format!("min_node_count ({min}) should be less or equal to node_count ({node_count})"));
    }
    Ok(())
}

/// Node labels and taints of a group (N-09, N-10, N-13 to N-15); types were checked before.
pub fn nodes(role: &str, labels: Option<&Value>, taints: Option<&Value>) -> Result<Nodes, ApiError> {
    let labels = match labels.filter(|v| !v.is_null()) {
        Some(value) => schema::labels("node_labels", value)?,
        None => Labels::default(),
    };
    let taints: Vec<Taint> = taints.and_then(Value::as_array).into_iter().flatten().map(taint).collect::<Result<_, _>>()?;
    if role == MASTER && !(labels.0.is_empty() && taints.is_empty()) {
        return Err(ApiError::Conflict("node_labels and node_taints are not possible for a group of the role master.".into()));
    }
    if let Some(key) = labels.0.keys().find(|key| !may_be_set(key)) {
        return Err(ApiError::Conflict(format!("node_labels[{key}] is in a namespace that Kubernetes keeps for itself.")));
    }
    let odd = |field: &str, rule: String| ApiError::Conflict(format!("{field} is invalid: {rule}"));
    for (key, value) in &labels.0 {
        check_label(key, value).map_err(|rule| odd("node_labels", rule))?;
    }
    for taint in &taints {
        check_label(&taint.key, taint.value.as_deref().unwrap_or_default()).map_err(|rule| odd("node_taints", rule))?;
    }
    let nodes = Nodes { labels, taints };
    schema::stored("node_taints", python_json(&nodes.taints).len())?;
    Ok(nodes)
}

/// Whether a node may give itself this label: the kubelet refuses to start with others.
fn may_be_set(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let is_kept = ["kubernetes.io", "k8s.io"].iter().any(|own| prefix == *own || prefix.ends_with(&format!(".{own}")));
    !is_kept || matches!(prefix, "kubelet.kubernetes.io" | "node.kubernetes.io") || OWN_KEYS.contains(&key)
}

fn taint(value: &Value) -> Result<Taint, ApiError> {
    let bad = |rule: String| ApiError::Conflict(format!("node_taints is invalid: {rule}."));
    let map = value.as_object().ok_or_else(|| bad("each taint is an object of strings".into()))?;
    if let Some(key) = map.keys().find(|key| !["key", "value", "effect"].contains(&key.as_str())) {
        return Err(bad(format!("a taint has key, value and effect, not {key}")));
    }
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let key = text("key").filter(|key| !key.is_empty()).ok_or_else(|| bad("a taint needs a key".into()))?;
    let effect = text("effect").filter(|effect| EFFECTS.contains(effect));
    let effect = effect.ok_or_else(|| bad(format!("the effect of taint {key} must be one of {}", EFFECTS.join(", "))))?;
    Ok(Taint { key: key.into(), value: text("value").map(str::to_owned), effect: effect.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_and_bounds_fit_together() {
        for (count, min, max, fits) in [
            (5, 1, Some(2), false),
            (1, 3, Some(2), false),
            (1, 2, None, false),
            (2, 1, Some(2), true),
            (9, 1, Some(0), true),
            (0, 0, None, true),
        ] {
            assert_eq!(bounds("ng", count, min, max).is_ok(), fits, "{count} {min} {max:?}");
        }
        let told = bounds("ngx", 5, 1, Some(2)).expect_err("refused").to_string();
        assert_eq!(told, "max_node_count for ngx is invalid (node_count (5) should be less or equal to max_node_count (2)).");
    }

    #[test]
    fn labels_of_kubernetes_itself_are_refused_but_for_those_that_nodes_may_set() {
        for (key, fits) in [
            ("team", true),
            ("example.com/team", true),
            ("kubernetes.io/os", true),
            ("node.kubernetes.io/anything", true),
            ("kubelet.kubernetes.io/x", true),
            ("kubernetes.io/role", false),
            ("node-role.kubernetes.io/worker", false),
            ("foo.k8s.io/x", false),
            ("k8s.io/x", false),
            ("mykubernetes.io/x", true),
        ] {
            assert_eq!(nodes("worker", Some(&json!({key: "v"})), None).is_ok(), fits, "{key}");
        }
        assert!(nodes("master", Some(&json!({"a": "b"})), None).is_err());
        assert!(nodes("master", Some(&json!({})), Some(&json!([]))).is_ok());
    }

    #[test]
    fn what_kubelet_would_not_start_with_is_refused() {
        for (key, value) in [("team", "a b"), ("x", "y,other=z"), ("a b", "c"), ("team", &"v".repeat(64)), ("A.example/x", "b")] {
            let of_label = nodes("worker", Some(&json!({key: value})), None).expect_err(key).to_string();
            assert!(of_label.starts_with("node_labels is invalid"), "{of_label}");
            let taint = json!([{"key": key, "value": value, "effect": "NoExecute"}]);
            let of_taint = nodes("worker", None, Some(&taint)).expect_err(key).to_string();
            assert!(of_taint.starts_with("node_taints is invalid"), "{of_taint}");
        }
        assert!(nodes("worker", Some(&json!({"example.org/kind": "a100", "empty": ""})), None).is_ok());
    }

    #[test]
    fn as_many_taints_are_taken_as_can_be_stored() {
        let many = |count: usize, value: &str| {
            let taints: Vec<Value> =
                (0..count).map(|at| json!({"key": format!("k{at}"), "value": value, "effect": "NoSchedule"})).collect();
            nodes("worker", None, Some(&taints.into()))
        };
        assert!(many(500, &"v".repeat(60)).is_ok());
        let told = many(800, &"v".repeat(60)).expect_err("refused").to_string();
        assert!(told.contains("node_taints") && told.contains("65535 can be stored"), "{told}");
    }

    #[test]
    fn taints_have_a_key_and_a_known_effect() {
        let one = |taint: Value| nodes("worker", None, Some(&json!([taint]))).map(|n| n.taints);
        let taken = one(json!({"key": "gpu", "effect": "NoSchedule"})).expect("taken");
        assert_eq!(taken, [Taint { key: "gpu".into(), value: None, effect: "NoSchedule".into() }]);
        for bad in [
            json!({"effect": "NoSchedule"}),
            json!({"key": "", "effect": "NoSchedule"}),
            json!({"key": "a"}),
            json!({"key": "a", "effect": "no"}),
            json!({"key": "a", "effect": "NoExecute", "why": "x"}),
        ] {
            assert!(matches!(one(bad.clone()), Err(ApiError::Conflict(_))), "{bad}");
        }
    }
}
