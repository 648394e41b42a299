//! Ignition 3.3, for Fedora CoreOS, and Flatcar from release 3185.0.0 on (flatcar.org/docs/latest/provisioning/ignition/specification).

use serde_json::{Value, json};

use super::{File, Link, NodeConfig, Unit, packed};

/// The configuration as JSON text.
pub(crate) fn render(config: &NodeConfig) -> String {
    let files: Vec<Value> = config.files.iter().map(file).collect();
    let units: Vec<Value> = config.units.iter().map(unit).collect();
    let mut storage = json!({"files": files});
    if !config.links.is_empty() {
        storage["links"] = config.links.iter().map(link).collect();
    }
    json!({"ignition": {"version": "3.3.0"}, "storage": storage, "systemd": {"units": units}}).to_string()
}

fn file(file: &File) -> Value {
    let source = format!("data:;base64,{}", packed(&file.content));
    json!({"path": file.path, "mode": file.mode, "overwrite": true, "contents": {"compression": "gzip", "source": source}})
}

/// An image may have one of this name.
fn link(link: &Link) -> Value {
    json!({"path": link.path, "target": link.target, "overwrite": true})
}

fn unit(unit: &Unit) -> Value {
    json!({"name": unit.name, "enabled": unit.enabled, "contents": unit.content})
}
