//! Where option texts come from: files, then the environment over them. The only place that opens configuration files.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::{Cli, ini};

/// The place an option text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a file.
    File { path: PathBuf, line: usize },
    /// An environment variable.
    Environment(String),
    /// The default built into the program.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// All texts found for one key, and where the last one stood.
pub(super) struct Found {
    pub texts: Vec<String>,
    pub place: Place,
}

/// One file's assignments.
struct Layer {
    path: PathBuf,
    values: HashMap<(String, String), (Vec<String>, usize)>,
}

/// All files that apply, the last one the strongest, and the environment.
#[derive(Default)]
pub(super) struct Sources {
    layers: Vec<Layer>,
    environment: HashMap<String, String>,
}

impl Sources {
    /// Reads the files the command line names, or those oslo.config would look for.
    pub(super) fn load(cli: &Cli, program: &str, home: Option<&Path>) -> Result<Self, ConfigError> {
        let mut sources = Self::default();
        if cli.config_file.is_empty() {
            for path in default_paths(program, home, "conf") {
                sources.add_file(&path)?;
            }
        }
        if cli.config_dir.is_empty() {
            for path in default_paths(program, home, "conf.d") {
                sources.add_directory(&path)?;
            }
        }
        for path in &cli.config_file {
            sources.add_file(&expand_home(path, home))?;
        }
        for path in &cli.config_dir {
            sources.add_directory(&expand_home(path, home))?;
        }
        Ok(sources)
    }

    /// Takes the variables named `OS_<SECTION>__<OPTION>`; they are stronger than every file.
    pub(super) fn with_environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment = variables.into_iter().filter(|(name, _)| name.starts_with("OS_") && name.contains("__")).collect();
        self
    }

    /// Adds the text of a file as the strongest file.
    pub(super) fn add_text(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let assignments =
            ini::parse(text).map_err(|error| ConfigError::Syntax { path: path.to_owned(), line: error.line, rule: error.rule })?;
        let mut values: HashMap<_, (Vec<String>, usize)> = HashMap::new();
        for assignment in assignments {
            let (texts, line) = values.entry((assignment.section, assignment.key)).or_default();
            texts.push(assignment.value);
            *line = assignment.line;
        }
        self.layers.push(Layer { path: path.to_owned(), values });
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        self.add_text(path, &text)
    }

    fn add_directory(&mut self, path: &Path) -> Result<(), ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        let mut files = std::fs::read_dir(path)
            .map_err(read)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(read)?;
        // As a shell's `*.conf`: hidden files are not meant.
        files.retain(|file| {
            file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(".conf") && !name.starts_with('.'))
        });
        files.sort();
        for file in files {
            self.add_file(&file)?;
        }
        Ok(())
    }

    /// The texts of the first of the names that is set; `multi` adds those of all files.
    pub(super) fn find(&self, names: &[(&str, &str)], multi: bool) -> Option<Found> {
        for (section, key) in names {
            let variable = format!("OS_{section}__{key}").to_uppercase();
            if let Some(text) = self.environment.get(&variable) {
                return Some(Found { texts: vec![text.clone()], place: Place::Environment(variable) });
            }
        }
        let mut found: Option<Found> = None;
        for layer in self.layers.iter().rev() {
            for (section, key) in names {
                let Some((texts, line)) = layer.values.get(&((*section).to_owned(), (*key).to_owned())) else {
                    continue;
                };
                let found =
                    found.get_or_insert_with(|| Found { texts: Vec::new(), place: Place::File { path: layer.path.clone(), line: *line } });
                found.texts.splice(0..0, texts.iter().cloned());
                if !multi {
                    break;
                }
            }
            if found.is_some() && !multi {
                break;
            }
        }
        found
    }

    /// Every section and key of the files, with the place that counts, in a stable order.
    pub(super) fn keys(&self) -> Vec<(&str, &str, Place)> {
        let mut keys: HashMap<(&str, &str), Place> = HashMap::new();
        for layer in &self.layers {
            for ((section, key), (_, line)) in &layer.values {
                let path = layer.path.clone();
                keys.insert((section, key), Place::File { path, line: *line });
            }
        }
        let mut keys: Vec<_> = keys.into_iter().map(|((s, k), p)| (s, k, p)).collect();
        keys.sort_by_key(|(section, key, _)| (*section, *key));
        keys
    }

    /// The files in force, weakest first.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.layers.iter().map(|layer| layer.path.clone()).collect()
    }
}

/// The directories in which oslo.config looks, strongest first.
pub(super) fn default_directories(home: Option<&Path>) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    if let Some(home) = home {
        directories.push(home.join(".magnum"));
        directories.push(home.to_owned());
    }
    directories.push("/etc/magnum".into());
    directories.push("/etc".into());
    directories
}

/// For the project and for the program: the first directory that holds `<name>.<extension>`.
fn default_paths(program: &str, home: Option<&Path>, extension: &str) -> Vec<PathBuf> {
    let directories = default_directories(home);
    ["magnum", program]
        .iter()
        .filter_map(|name| directories.iter().map(|directory| directory.join(format!("{name}.{extension}"))).find(|path| path.exists()))
        .collect()
}

fn expand_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
