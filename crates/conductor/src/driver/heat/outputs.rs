//! What a complete stack's outputs tell.
//!
//! Outputs may be missing or null (upstream's older stacks, unresolved attributes): what is not there is left out, never an error.

use serde_json::{Map, Value};

const API_PORT: u16 = 6443;

/// Addresses of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// `https://ADDRESS:PORT`.
    pub api_address: Option<String>,
    pub master_addresses: Vec<String>,
    pub worker_addresses: Vec<String>,
}

/// Reads the outputs; nodes are listed by their floating addresses where they have them, else by those on the cluster's network.
pub(crate) fn facts(outputs: &Map<String, Value>, floating_ip_enabled: bool) -> Facts {
    let nodes = |public: &str, private: &str| {
        let public = if floating_ip_enabled { list(outputs.get(public)) } else { Vec::new() };
        if public.is_empty() { list(outputs.get(private)) } else { public }
    };
    Facts {
        api_address: outputs.get("api_address").and_then(Value::as_str).map(str::trim).filter(|a| !a.is_empty()).map(endpoint),
        master_addresses: nodes("kube_masters", "kube_masters_private"),
        worker_addresses: nodes("kube_minions", "kube_minions_private"),
    }
}

fn endpoint(address: &str) -> String {
    match address {
        url if url.contains("://") => url.to_owned(),
        v6 if v6.contains(':') && !v6.starts_with('[') => format!("https://[{v6}]:{API_PORT}"),
        bare => format!("https://{bare}:{API_PORT}"),
    }
}

/// The texts of a list; what is no text is left out.
pub(crate) fn list(value: Option<&Value>) -> Vec<String> {
    positions(value).into_iter().flatten().collect()
}

/// The texts of a list, each in its place.
pub(crate) fn positions(value: Option<&Value>) -> Vec<Option<String>> {
    let entries = value.and_then(Value::as_array).into_iter().flatten();
    entries.map(|e| e.as_str().filter(|a| !a.is_empty()).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(outputs: Value, floating: bool) -> Facts {
        facts(outputs.as_object().expect("the test gives an object"), floating)
    }

    #[test]
    fn floating_addresses_are_preferred_where_nodes_have_them() {
        let outputs = json!({"api_address": "203.0.113.9", "kube_masters": ["203.0.113.1"], "kube_masters_private": ["10.0.0.4"],
            "kube_minions": ["", null], "kube_minions_private": ["10.0.0.5", "10.0.0.6"]});
        let public = read(outputs.clone(), true);
        assert_eq!(public.api_address.as_deref(), Some("https://203.0.113.9:6443"));
        assert_eq!(public.master_addresses, ["203.0.113.1"]);
        assert_eq!(public.worker_addresses, ["10.0.0.5", "10.0.0.6"]);
        assert_eq!(read(outputs, false).master_addresses, ["10.0.0.4"]);
    }

    #[test]
    fn missing_and_null_outputs_are_left_out() {
        assert_eq!(read(json!({}), true), Facts::default());
        assert_eq!(read(json!({"api_address": null, "kube_masters": null, "kube_minions_private": "x"}), false), Facts::default());
    }
}
