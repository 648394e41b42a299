//! Who serves a cluster's ingresses, where its labels ask for somebody.
//!
//! ingress-nginx comes from its project's manifests, which differ in how it is reached: behind a load balancer where the cluster can have one,
//! else on ports of the nodes. The Octavia ingress controller makes a load balancer for each ingress of the class `openstack`, known by the
//! cluster's uuid, by which it is found when the cluster is deleted.
//!
//! Sources: `deploy/static` of the project `ingress-nginx`; `docs/octavia-ingress-controller` and `pkg/ingress` of `cloud-provider-openstack`.

use model::json::Labels;
use serde_json::json;

use super::access::{Access, CloudProvider};
use super::agent::{Agent, Copies, PROVIDER_IMAGES, login};
use super::cloud_config::FOLDER;
use super::parameters::choices::{self, Choices};
use super::render::RenderError;
use super::stack_input::StackInput;

/// The label that says who.
pub(super) const LABEL: &str = "ingress_controller";
/// The label that says on which nodes the pods of nginx run.
pub(super) const ROLE: &str = "ingress_controller_role";
const NAME: &str = "octavia-ingress-controller";
const FILE: &str = "config.yaml";

/// Who serves ingresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ingress {
    Nginx,
    Octavia,
}

/// Whom the labels ask for.
///
/// # Errors
/// When that is nobody whom we have, or cannot work with the load balancers that the labels ask for.
pub(super) fn asked_for(labels: &Labels) -> Result<Option<Ingress>, RenderError> {
    match labels.get(LABEL).map_or("", str::trim) {
        "" => Ok(None),
        "nginx" => Ok(Some(Ingress::Nginx)),
        "octavia" if labels.get("octavia_provider").is_some_and(|provider| provider.trim() == choices::OVN.0) => {
            Err(RenderError::new(LABEL, "must not be octavia with the provider ovn of load balancers, which knows nothing of HTTP"))
        }
        "octavia" => Ok(Some(Ingress::Octavia)),
        other => Err(RenderError::new(LABEL, format!("must be nginx or octavia, not {other}"))),
    }
}

/// Which of its project's manifests of nginx fits.
pub(super) fn manifest_of_nginx(cloud: &CloudProvider) -> &'static str {
    match cloud {
        CloudProvider::Given(access) if access.has_load_balancers => "cloud",
        _ => "baremetal",
    }
}

/// The Octavia ingress controller, as documents for Kubernetes.
pub(super) fn documents(input: &StackInput<'_>, choices: &Choices, access: &Access, tag: &str) -> String {
    let look = ["get", "list", "watch"];
    let agent = Agent {
        name: NAME,
        images: PROVIDER_IMAGES,
        tag,
        command: vec![format!("/bin/{NAME}"), format!("--config={FOLDER}/{FILE}")],
        config: (FILE, config(input.cluster_uuid, choices, access)),
        resources: json!({"cpu": "50m", "memory": "100Mi"}),
        copies: Copies::One,
        rules: json!([
            {"apiGroups": [""], "resources": ["nodes", "services"], "verbs": look},
            {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": look},
            {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses/status"], "verbs": ["update", "patch"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
            // Those that ingresses name for TLS: their certificates go to Barbican.
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        ]),
        own_rules: json!([]),
    };
    agent.documents(input, choices, access)
}

/// Its configuration; it is read as YAML, which JSON is. The node fills in the subnet. Workers let everybody reach their node ports, so there are no
/// security groups for it to see to.
fn config(cluster: &str, choices: &Choices, access: &Access) -> String {
    let octavia = json!({
        "provider": choices.lb_provider,
        "subnet-id": "@SUBNET_ID@",
        "floating-network-id": access.floating_network,
        "manage-security-groups": false,
    });
    json!({"cluster-name": cluster, "openstack": login(access), "octavia": octavia}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_say_who_serves_ingresses() {
        let of = |pairs: &[(&str, &str)]| {
            asked_for(&Labels(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(LABEL, " ")]), Ok(None));
        assert_eq!(of(&[(LABEL, "nginx"), ("octavia_provider", "ovn")]), Ok(Some(Ingress::Nginx)));
        assert_eq!(of(&[(LABEL, "octavia")]), Ok(Some(Ingress::Octavia)));
        assert!(of(&[(LABEL, "traefik")]).is_err_and(|error| error.rule == "must be nginx or octavia, not traefik"));
        assert!(of(&[(LABEL, "octavia"), ("octavia_provider", "ovn")]).is_err_and(|error| error.rule.contains("ovn")));
    }
}
