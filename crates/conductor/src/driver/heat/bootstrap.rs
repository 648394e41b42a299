//! What a node is made of: one model of files and units, rendered for the image's own first-boot program.
//!
//! File contents are the same for all nodes of a kind and travel compressed. What differs between nodes (name, addresses, where to signal) is
//! filled in by Heat, and stands only in the unit's text: a place-holder inside compressed content would never be found.

mod api_server;
mod cloud_init;
mod common;
mod ignition;
mod kubeadm;
pub(crate) mod master;
mod order;
mod registration;
mod token;
pub(crate) mod worker;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::render::RenderError;
use super::stack_input::Distro;

pub(super) use common::{BASE, path};

/// Nova's limit of user data, after encoding.
const USER_DATA_LIMIT: usize = 65_535;

/// In the place of the ends of lines in a document that has several: JSON and PEM have no such character.
const LINE_END: &str = "\u{1f}";

/// What Heat fills in may be longer than its place-holder: addresses, an endpoint, a token.
const ROOM_FOR_VALUES: usize = 2_048;

/// A node's first boot. Holds secrets: no `Debug`.
#[derive(Default)]
pub(crate) struct NodeConfig {
    pub files: Vec<File>,
    /// Only images that Ignition sets up have any.
    pub links: Vec<Link>,
    pub units: Vec<Unit>,
}

/// A file, owned by root.
pub(crate) struct File {
    pub path: String,
    pub mode: u32,
    pub content: String,
}

/// A symbolic link.
pub(crate) struct Link {
    pub path: &'static str,
    pub target: &'static str,
}

/// A systemd unit.
pub(crate) struct Unit {
    pub name: &'static str,
    pub content: String,
    pub enabled: bool,
}

impl NodeConfig {
    fn file(&mut self, path: impl Into<String>, mode: u32, content: impl Into<String>) {
        self.files.push(File { path: path.into(), mode, content: content.into() });
    }

    /// A script of ours, by the name of its file. Its comments stay here: user data has little room.
    fn script(&mut self, name: &str, text: &str) {
        let is_comment =
            |line: &str| line.strip_prefix('#').is_some_and(|rest| !rest.starts_with('!') && !rest.starts_with(" shellcheck "));
        let lines = text.lines().filter(|line| !is_comment(line.trim_start()));
        self.file(format!("{}/{name}", common::BASE), 0o600, lines.flat_map(|line| [line, "\n"]).collect::<String>());
    }

    /// Documents of ours, each by its place below our folder, in one line: in one file they take half the room. `scripts/master.sh` takes it
    /// apart.
    fn documents(&mut self, all: &[(String, String)]) {
        let lines = all.iter().map(|(name, text)| format!("{name} {}\n", text.trim_end().replace('\n', LINE_END)));
        self.file(format!("{}/documents", common::BASE), 0o600, lines.collect::<String>());
    }

    fn unit(&mut self, name: &'static str, enabled: bool, content: impl Into<String>) {
        self.units.push(Unit { name, content: content.into(), enabled });
    }
}

/// The user data of a kind of node, checked against Nova's limit.
pub(crate) fn user_data(distro: Distro, config: &NodeConfig, kind: &str) -> Result<String, RenderError> {
    let text = match distro {
        Distro::FedoraCoreos | Distro::Flatcar => ignition::render(config),
        Distro::Ubuntu => cloud_init::render(config),
    };
    let encoded = (text.len() + ROOM_FOR_VALUES).div_ceil(3) * 4;
    if encoded > USER_DATA_LIMIT {
        let rule = format!("the user data of a {kind} would be {encoded} bytes encoded; Nova takes {USER_DATA_LIMIT}");
        return Err(RenderError::new("user_data", rule));
    }
    Ok(text)
}

/// Content as first-boot programs take it: gzip (without a time stamp, so that the same input gives the same text), then base64.
fn packed(content: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let bytes = gzip.write_all(content.as_bytes()).and_then(|()| gzip.finish()).expect("writing to memory does not fail");
    STANDARD.encode(bytes)
}
