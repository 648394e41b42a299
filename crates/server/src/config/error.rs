//! What can be wrong with a configuration. No message repeats a value of an option that may be secret.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::source::Place;

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file or directory cannot be read.
    #[error("read configuration {path}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A line breaks the rules of the format.
    #[error("{path}:{line}: {rule}", path = path.display())]
    Syntax { path: PathBuf, line: usize, rule: &'static str },
    /// The text of an option does not fit its type.
    #[error("{option}: must be {rule}{shown}")]
    Value {
        option: Box<OptionAt>,
        rule: String,
        /// The value as an addition to the message; empty for secrets.
        shown: String,
    },
    /// A `$name` in the text of an option cannot be replaced.
    #[error("{option}: {reason}")]
    Substitution { option: Box<OptionAt>, reason: String },
    /// An option is needed and absent.
    #[error("[{section}] {key} is not set: {need}")]
    Missing { section: &'static str, key: &'static str, need: &'static str },
}

/// An option and the place of its text.
#[derive(Debug)]
pub struct OptionAt {
    pub section: String,
    pub key: String,
    pub place: Place,
}

impl fmt::Display for OptionAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {} ({})", self.section, self.key, self.place)
    }
}
