//! What a complete stack's outputs tell.
//!
//! Outputs may be missing or null (upstream's older stacks, unresolved attributes): what is not there is left out, never an error.

use std::net::Ipv6Addr;

use serde_json::{Map, Value};

const API_PORT: u16 = 6443;

/// The output that tells where clients find the API.
pub(super) const API_ADDRESS: &str = "api_address";

/// The API of a cluster: `https://ADDRESS:PORT`.
pub(super) fn api(outputs: &Map<String, Value>) -> Option<String> {
    endpoint(outputs.get(API_ADDRESS)?.as_str()?.trim())
}

/// The text of an output; none where that is empty, or something else.
pub(super) fn text(outputs: &Map<String, Value>, name: &str) -> Option<String> {
    outputs.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The API of a cluster, from the output that names its host; none when that is anything but a host, with a port or without. The stack is the
/// user's to change, and conductors ask at this address.
fn endpoint(output: &str) -> Option<String> {
    let (place, default_port) = match output.strip_prefix("https://") {
        Some(rest) => (rest.strip_suffix('/').unwrap_or(rest), None),
        None => (output, Some(API_PORT)),
    };
    let (host, port) = match place.rsplit_once(':') {
        _ if place.parse::<Ipv6Addr>().is_ok() => (format!("[{place}]"), default_port),
        Some((host, port)) if !place.ends_with(']') => (host.to_owned(), Some(port.parse().ok()?)),
        _ => (place.to_owned(), default_port),
    };
    let is_v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_name =
        host.starts_with(|c: char| c.is_ascii_alphanumeric()) && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    (is_v6 || is_name).then(|| match port {
        Some(port) => format!("https://{host}:{port}"),
        None => format!("https://{host}"),
    })
}

/// The texts of a list; what is no text, or an empty one, is left out.
pub(super) fn list(value: Option<&Value>) -> Vec<String> {
    positions(value).into_iter().flatten().collect()
}

/// The same, each in its place.
pub(super) fn positions(value: Option<&Value>) -> Vec<Option<String>> {
    let entries = value.and_then(Value::as_array).into_iter().flatten();
    entries.map(|e| e.as_str().filter(|a| !a.is_empty()).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_address_of_the_api_is_a_host_and_nothing_else() {
        for (output, wanted) in [
            ("203.0.113.9", Some("https://203.0.113.9:6443")),
            (" api.example.org ", Some("https://api.example.org:6443")),
            ("fd00::9", Some("https://[fd00::9]:6443")),
            ("[fd00::9]", Some("https://[fd00::9]:6443")),
            ("[fd00::9]:7443", Some("https://[fd00::9]:7443")),
            ("api.example.org:7443", Some("https://api.example.org:7443")),
            ("https://203.0.113.9:6443", Some("https://203.0.113.9:6443")),
            ("https://api.example.org/", Some("https://api.example.org")),
            ("", None),
            ("https://", None),
            ("http://10.0.0.5:8500", None),
            ("http://10.0.0.5:8500/v1/kv/x?a=", None),
            ("https://10.0.0.5/v1/kv/x?a=", None),
            ("https://user@10.0.0.5", None),
            ("10.0.0.5:8500/v1", None),
            ("10.0.0.5#", None),
            ("10.0.0.5:port", None),
            ("[10.0.0.5]", None),
        ] {
            assert_eq!(endpoint(output.trim()).as_deref(), wanted, "{output}");
        }
    }

    #[test]
    fn missing_and_null_outputs_are_left_out() {
        let outputs = json!({"api_address": null, "kube_masters": ["", null, "203.0.113.1"], "kube_masters_private": "x"});
        let outputs = outputs.as_object().expect("a map");
        assert_eq!((api(outputs), api(&Map::new())), (None, None));
        assert_eq!(list(outputs.get("kube_masters")), ["203.0.113.1"]);
        assert_eq!(positions(outputs.get("kube_masters")), [None, None, Some("203.0.113.1".to_owned())]);
        assert_eq!((list(outputs.get("kube_masters_private")), list(None)), (vec![], vec![]));
    }
}
