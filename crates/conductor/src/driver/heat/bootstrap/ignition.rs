//! Ignition 3.3, for Fedora CoreOS.

use serde_json::{Value, json};

use super::{File, NodeConfig, Unit, packed};

/// The configuration as JSON text.
pub(crate) fn render(config: &NodeConfig) -> String {
    let files: Vec<Value> = config.files.iter().map(file).collect();
    let units: Vec<Value> = config.units.iter().map(unit).collect();
    json!({"ignition": {"version": "3.3.0"}, "storage": {"files": files}, "systemd": {"units": units}}).to_string()
}

fn file(file: &File) -> Value {
    let source = format!("data:;base64,{}", packed(&file.content));
    json!({"path": file.path, "mode": file.mode, "overwrite": true, "contents": {"compression": "gzip", "source": source}})
}

fn unit(unit: &Unit) -> Value {
    json!({"name": unit.name, "enabled": unit.enabled, "contents": unit.content})
}
