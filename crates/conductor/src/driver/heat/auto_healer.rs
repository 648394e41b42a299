//! The auto healer inside a cluster: it looks at the cluster's nodes, restarts the server of a worker that stays unready, has this service put
//! another one in its place where that does not help (a resize to the size that the group has, which names it), and reports the health of the
//! cluster.
//!
//! Masters are not its business. It would have Heat make them anew behind this service's back: the former master stays in etcd, and the only
//! master of a cluster would begin a new, empty one. They are replaced by an upgrade or a rotation of credentials, which see the former ones off.
//!
//! Sources: `docs/magnum-auto-healer` and `pkg/autohealing` of the project `cloud-provider-openstack`.

use model::json::Labels;
use serde_json::{Value, json};

use super::access::Access;
use super::agent::{Agent, Copies, PROVIDER_IMAGES, leads, login};
use super::cloud_config::FOLDER;
use super::parameters::choices::{self, Choices};
use super::render::RenderError;
use super::stack_input::StackInput;

/// The label of clusters whose workers are repaired. The healer reads it too, from this service.
pub(super) const LABEL: &str = "auto_healing_enabled";
/// The label that says who repairs them.
const CONTROLLER: &str = "auto_healing_controller";
const NAME: &str = "magnum-auto-healer";
const FILE: &str = "config.yaml";

/// The words for true that it knows; this service knows more.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "True", "TRUE"];

/// How often it looks, and reports: more often than the conductors would look themselves.
const INTERVAL: &str = "30s";
/// How long a node that was made is left alone.
const AFTER_BIRTH: &str = "10m";
/// How long a node is unready before its server is restarted: Kubernetes has given its pods to others by then.
const UNREADY: &str = "5m";
/// How long a restart may take before the node is replaced.
const AFTER_RESTART: &str = "5m";

/// Whether the labels ask for it.
///
/// # Errors
/// When they ask for what is not there, or in words that the healer does not know.
pub(super) fn is_asked_for(labels: &Labels) -> Result<bool, RenderError> {
    if choices::truth(labels, LABEL)? != Some(true) {
        return Ok(false);
    }
    if !labels.get(LABEL).is_some_and(|word| TRUE.contains(&word)) {
        return Err(RenderError::new(
            LABEL,
            "must be true or false in these words: the auto healer reads the label too, and knows no others",
        ));
    }
    match labels.get(CONTROLLER).map_or("", str::trim) {
        "" | NAME => Ok(true),
        other => Err(RenderError::new(CONTROLLER, format!("must be {NAME} where {LABEL} is true: {other} is not there"))),
    }
}

/// The documents for Kubernetes.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices, access: &Access, tag: &str) -> String {
    let agent = Agent {
        name: NAME,
        images: PROVIDER_IMAGES,
        tag,
        command: vec![format!("/bin/{NAME}"), format!("--config={FOLDER}/{FILE}"), "--v=2".into()],
        config: (FILE, config(input.cluster_uuid, access)),
        resources: json!({"cpu": "20m", "memory": "50Mi"}),
        copies: Copies::EachMaster,
        rules: json!([
            // It takes nodes off duty and back, notes on them since when they are unready, and removes those that it has replaced.
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "update", "delete"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ]),
        own_rules: leads(NAME).into(),
    };
    agent.documents(input, choices, access)
}

/// Its configuration; it is read as YAML, which JSON is.
fn config(cluster: &str, access: &Access) -> String {
    let ready = json!({"type": "NodeCondition", "params": {"unhealthy-duration": UNREADY, "types": ["Ready"], "ok-values": ["True"]}});
    let config: Value = json!({
        "cluster-name": cluster,
        "monitor-interval": INTERVAL,
        "check-delay-after-add": AFTER_BIRTH,
        "rebuild-delay-after-reboot": AFTER_RESTART,
        "leader-elect": true,
        "master-monitor-enabled": false,
        "worker-monitor-enabled": true,
        "healthcheck": {"worker": [ready]},
        "openstack": login(access),
    });
    config.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_where_it_is_asked_for_and_nobody_else_is() {
        let of = |enabled: &str, controller: &str| {
            let labels = [(LABEL, enabled), (CONTROLLER, controller)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            is_asked_for(&Labels(labels.into_iter().filter(|(_, value)| !value.is_empty()).collect()))
        };
        for (enabled, controller, want) in [
            ("", "", false),
            ("false", "draino", false),
            ("no", "", false),
            ("true", "", true),
            ("True", "magnum-auto-healer", true),
            ("1", "magnum-auto-healer", true),
        ] {
            assert_eq!(of(enabled, controller), Ok(want), "{enabled} {controller}");
        }
        for (enabled, controller, field, word) in [
            ("true", "draino", CONTROLLER, "draino is not there"),
            ("yes", "", LABEL, "in these words"),
            ("perhaps", "", LABEL, "must be true or false"),
        ] {
            let error = of(enabled, controller).expect_err(enabled);
            assert!(error.field == field && error.rule.contains(word), "{error}");
        }
    }
}
