//! cloud-init, for Ubuntu. The body is JSON, which is YAML without surprises.

use serde_json::{Value, json};

use super::{NodeConfig, packed};

/// The user data, with the first line that cloud-init asks for.
pub(crate) fn render(config: &NodeConfig) -> String {
    debug_assert!(config.links.is_empty(), "cloud-init writes no links");
    let files = config.files.iter().map(|f| {
        json!({"path": f.path, "owner": "root:root", "permissions": format!("{:04o}", f.mode), "encoding": "gz+b64",
               "content": packed(&f.content)})
    });
    let units = config.units.iter().map(
        |u| json!({"path": format!("/etc/systemd/system/{}", u.name), "owner": "root:root", "permissions": "0644", "content": u.content}),
    );
    let written: Vec<Value> = files.chain(units).collect();
    // Not waited for: the units take minutes, and cloud-init has its own end to reach.
    let started = config.units.iter().filter(|u| u.enabled).map(|u| json!(["systemctl", "enable", "--now", "--no-block", u.name]));
    let commands: Vec<Value> = std::iter::once(json!(["systemctl", "daemon-reload"])).chain(started).collect();
    format!("#cloud-config\n{}\n", json!({"write_files": written, "runcmd": commands}))
}
