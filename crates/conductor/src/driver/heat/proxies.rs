//! The proxies by which nodes, and those programs in a cluster that ask the cloud, reach what is outside.

use serde_json::{Value, json};

use super::parameters::choices::Choices;
use super::stack_input::StackInput;

/// The variables of the environment and their values, of which a proxy's may be empty; none without any proxy. Whatever is inside the cluster is reached
/// directly. Nodes are: the API server has this from kubeadm, and asks every kubelet for logs.
pub(super) fn variables(input: &StackInput<'_>, choices: &Choices) -> Vec<(&'static str, String)> {
    let given = |v: Option<&str>| v.unwrap_or_default().to_owned();
    let (http, https) = (given(input.http_proxy), given(input.https_proxy));
    if http.is_empty() && https.is_empty() {
        return Vec::new();
    }
    let mut direct: Vec<String> = Some(given(input.no_proxy)).into_iter().filter(|v| !v.is_empty()).collect();
    // Nova's metadata service, of the node's own link, among them.
    direct.extend(["127.0.0.1", "localhost", "169.254.169.254", ".svc", ".cluster.local"].map(str::to_owned));
    direct.extend([choices.pods_cidr.to_string(), choices.services_cidr.to_string()]);
    direct.extend(choices.nodes(input).map(|nodes| nodes.to_string()));
    if let Some(ipv6) = &choices.ipv6 {
        direct.extend([ipv6.pods_cidr.to_string(), ipv6.services_cidr.to_string()]);
        direct.extend(ipv6.nodes(input).map(|nodes| nodes.to_string()));
    }
    vec![("HTTP_PROXY", http), ("HTTPS_PROXY", https), ("NO_PROXY", direct.join(","))]
}

/// Gives a container the variables, where there are any.
pub(super) fn give(container: &mut Value, input: &StackInput<'_>, choices: &Choices) {
    let said = variables(input, choices).into_iter().filter(|(_, value)| !value.is_empty());
    let all: Vec<Value> = said.map(|(name, value)| json!({"name": name, "value": value})).collect();
    if !all.is_empty() {
        container["env"] = all.into();
    }
}

/// The same as words for `kubectl set env`, which takes away what there is none of; empty without any proxy.
pub(super) fn words(input: &StackInput<'_>, choices: &Choices) -> String {
    let word = |(name, value): (&str, String)| if value.is_empty() { format!("{name}-") } else { format!("{name}={value}") };
    variables(input, choices).into_iter().map(word).collect::<Vec<_>>().join(" ")
}
