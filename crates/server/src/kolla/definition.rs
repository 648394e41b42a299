//! `config.json`: what the container runs, and what is installed before.

use std::fs;

use serde::Deserialize;

use super::{CONFIG, Doing, Places, Trouble, variable};

/// A definition that has been checked. Keys that are not known are overlooked: newer releases of kolla-ansible may write more.
#[derive(Debug, Deserialize)]
pub struct Definition {
    /// The command line of the service; words are separated by blanks, nothing is quoted.
    pub(super) command: String,
    #[serde(default)]
    pub(super) config_files: Vec<Entry>,
    #[serde(default)]
    pub(super) directories: Vec<Directory>,
    #[serde(default)]
    pub(super) permissions: Vec<Permission>,
}

/// A file or folder to install.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Entry {
    /// May be a pattern of a shell.
    pub source: String,
    /// With a slash at its end: the folder into which it goes under its own name.
    pub dest: String,
    pub owner: Option<String>,
    pub perm: Option<Mode>,
    /// The source need not be there.
    #[serde(default)]
    pub optional: bool,
    /// Owner and mode are the source's.
    #[serde(default)]
    pub preserve_properties: bool,
    /// What is in the folder already stays.
    #[serde(default)]
    pub merge: bool,
    /// Regular expressions; what one finds in its path in the container is not installed.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
}

/// A folder to make.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Directory {
    pub path: String,
    pub owner: Option<String>,
    #[serde(alias = "mode")]
    pub perm: Option<Mode>,
}

/// Owner and mode of what is there.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Permission {
    /// May be a pattern of a shell.
    pub path: String,
    pub owner: Option<String>,
    pub perm: Option<Mode>,
    /// Also all that is in a folder.
    #[serde(default)]
    pub recurse: bool,
    /// Regular expressions; what one finds in its path is left as it is.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
}

/// A mode in octal digits: `0600`, `600`, `0o600`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Mode(pub u32);

impl TryFrom<String> for Mode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(&text);
        u32::from_str_radix(digits, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777 && !digits.starts_with('+'))
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no mode in octal digits"))
    }
}

impl Mode {
    /// The mode of a folder: who may read it may also walk through it.
    pub fn of_folder(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }
}

/// What is left out.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Exclude(regex::Regex);

impl TryFrom<String> for Exclude {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        regex::Regex::new(&text).map(Self).map_err(|error| error.to_string())
    }
}

impl Exclude {
    /// Whether it is found anywhere in the path.
    pub fn finds(&self, path: &std::path::Path) -> bool {
        self.0.is_match(&path.to_string_lossy())
    }
}

impl Definition {
    /// The one that this container has been given: `KOLLA_CONFIG` (the text), or the file `KOLLA_CONFIG_FILE`, or the mounted one. A caller
    /// who is lent root's rights cannot choose.
    pub(super) fn current(places: &Places, lent: bool) -> Result<Self, Trouble> {
        let given = ["KOLLA_CONFIG", "KOLLA_CONFIG_FILE"].map(|name| variable(name).filter(|value| !value.is_empty()));
        match given {
            [None, None] => Self::read(places, CONFIG),
            _ if lent => Err(Trouble::Wrong(format!(
                "KOLLA_CONFIG and KOLLA_CONFIG_FILE are for containers that run as root; as another user only {CONFIG} is read"
            ))),
            [Some(text), _] => Self::parse(&text, "KOLLA_CONFIG"),
            [None, Some(file)] => Self::read(places, &file),
        }
    }

    fn read(places: &Places, file: &str) -> Result<Self, Trouble> {
        let text = match fs::read_to_string(places.at(file)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Trouble::Wrong(format!("{file} does not exist"))),
            other => other.doing(|| format!("read {file}"))?,
        };
        Self::parse(&text, file)
    }

    /// Reads and checks a definition.
    ///
    /// # Errors
    /// When it is no JSON, lacks a key or holds a value that breaks its rule; `origin` is named.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Trouble> {
        let wrong = |rule: String| Trouble::Wrong(format!("{origin}: {rule}"));
        let read: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if read.command.split_whitespace().next().is_none() {
            return Err(wrong("command is empty".to_owned()));
        }
        for entry in &read.config_files {
            if !entry.preserve_properties && (entry.owner.is_none() || entry.perm.is_none()) {
                return Err(wrong(format!("config_files: {} needs owner and perm, or preserve_properties", entry.dest)));
            }
            absolute(&entry.source, "source").and_then(|()| absolute(&entry.dest, "dest")).map_err(wrong)?;
        }
        let paths = read.permissions.iter().map(|p| &p.path).chain(read.directories.iter().map(|d| &d.path));
        paths.map(|path| absolute(path, "path")).collect::<Result<Vec<()>, _>>().map_err(wrong)?;
        if let Some(permission) = read.permissions.iter().find(|permission| permission.owner.is_none()) {
            return Err(wrong(format!("permissions: {} needs an owner", permission.path)));
        }
        Ok(read)
    }
}

fn absolute(path: &str, key: &str) -> Result<(), String> {
    let up = path.split('/').any(|part| part == "..");
    if path.starts_with('/') && !up { Ok(()) } else { Err(format!("{key} {path:?} must be absolute and without ..")) }
}
