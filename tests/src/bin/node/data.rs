//! A server's user data, as Heat hands it to Nova: the place-holders of the driver's document are filled in.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::nodes::unpacked;

/// The version of containerd that clusters of this program ask for; the stand-in says that it is this one.
pub const CONTAINERD: &str = "2.0.5";

/// What a server is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// With cloud-init.
    Ubuntu,
    /// With Ignition.
    FedoraCoreos,
    /// With Ignition.
    Flatcar,
}

/// A first boot.
pub struct UserData {
    pub image: Image,
    /// As the image's program finds it.
    pub text: String,
    /// What it writes.
    pub files: Vec<File>,
    /// The links that it makes, and where they lead.
    pub links: Vec<(String, String)>,
}

/// A file that is to be written.
pub struct File {
    pub path: String,
    /// Four octal digits.
    pub permissions: String,
    pub content: String,
}

impl UserData {
    /// A driver's document, filled with these values; places without one with nothing.
    pub fn of(document: &str, values: &[(&str, &str)]) -> Result<Self> {
        let mut parts = document.split("=__");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (place, rest) = part.split_once("__").context("a place ends")?;
            let value = values.iter().find(|(name, _)| *name == place).map_or("", |(_, value)| value);
            text.extend(["=", value, rest]);
        }
        let (image, files, links) = match text.strip_prefix("#cloud-config\n") {
            Some(body) => (Image::Ubuntu, written(&serde_json::from_str(body)?)?, Vec::new()),
            None => {
                let config: Value = serde_json::from_str(&text)?;
                let files = ignited(&config)?;
                // Its own settings, which nothing else reads.
                let is_flatcar = files.iter().any(|file| file.path.starts_with("/etc/flatcar/"));
                (if is_flatcar { Image::Flatcar } else { Image::FedoraCoreos }, files, linked(&config)?)
            }
        };
        for file in &files {
            ensure!(!file.content.contains("=__"), "{} has a place that nobody fills", file.path);
        }
        Ok(Self { image, text, files, links })
    }

    /// All that is written.
    pub fn content(&self) -> String {
        self.files.iter().map(|file| file.content.as_str()).collect()
    }
}

/// Files of a cloud-config; units are among them.
fn written(config: &Value) -> Result<Vec<File>> {
    let file = |file: &Value| {
        let text = |name: &str| text(file, name);
        let content = if file["encoding"] == "gz+b64" { unpacked(&text("content")?)? } else { text("content")? };
        Ok(File { path: text("path")?, permissions: text("permissions")?, content })
    };
    config["write_files"].as_array().context("files")?.iter().map(file).collect()
}

/// Files and units of an Ignition configuration.
fn ignited(config: &Value) -> Result<Vec<File>> {
    let file = |file: &Value| {
        let source = text(&file["contents"], "source")?;
        let content = unpacked(source.strip_prefix("data:;base64,").context("base64")?)?;
        Ok(File { path: text(file, "path")?, permissions: format!("{:04o}", file["mode"].as_u64().context("a mode")?), content })
    };
    let unit = |unit: &Value| {
        let path = format!("/etc/systemd/system/{}", text(unit, "name")?);
        Ok(File { path, permissions: "0644".to_owned(), content: text(unit, "contents")? })
    };
    let files = config["storage"]["files"].as_array().context("files")?.iter().map(file);
    files.chain(config["systemd"]["units"].as_array().context("units")?.iter().map(unit)).collect()
}

/// Links of an Ignition configuration.
fn linked(config: &Value) -> Result<Vec<(String, String)>> {
    let links = config["storage"]["links"].as_array().into_iter().flatten();
    links.map(|link| Ok((text(link, "path")?, text(link, "target")?))).collect()
}

fn text(value: &Value, name: &str) -> Result<String> {
    value[name].as_str().map(str::to_owned).with_context(|| format!("no {name} in {value}"))
}
