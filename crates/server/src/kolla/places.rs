//! The file system as the programs of a container see it, and who is who in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Doing, Trouble};

/// The root of a file system: `/`, or a folder that a test has made.
#[derive(Debug, Clone)]
pub struct Places {
    root: PathBuf,
}

/// An owner by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub user: u32,
    pub group: u32,
}

impl Places {
    /// The system's own.
    pub fn system() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A folder that stands for `/`.
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where an absolute path of the container is.
    pub(super) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The path that a place has in the container.
    pub(super) fn name_of(&self, place: &Path) -> PathBuf {
        place.strip_prefix(&self.root).map_or_else(|_| place.to_owned(), |rest| Path::new("/").join(rest))
    }

    /// What a pattern of a shell matches, in order. Names that begin with a dot are matched by a dot only.
    ///
    /// # Errors
    /// When it is no pattern, or a folder cannot be looked at.
    pub(super) fn matching(&self, pattern: &str) -> Result<Vec<PathBuf>, Trouble> {
        let root = glob::Pattern::escape(&self.root.to_string_lossy());
        let pattern = format!("{}/{}", root.trim_end_matches('/'), pattern.trim_start_matches('/'));
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
        let found = glob::glob_with(&pattern, options).map_err(|error| Trouble::Wrong(format!("{pattern} is no pattern: {error}")))?;
        found.map(|found| found.map_err(std::io::Error::from).doing(|| format!("look for {pattern}"))).collect()
    }

    /// `user:group`, `user:` or `user` (whose group has the user's name), by their names.
    ///
    /// # Errors
    /// When the container does not know one of them.
    pub(super) fn owner(&self, text: &str) -> Result<Owner, Trouble> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let group = if group.is_empty() { user } else { group };
        Ok(Owner { user: self.number_of("/etc/passwd", "user", user)?, group: self.number_of("/etc/group", "group", group)? })
    }

    fn number_of(&self, file: &str, what: &str, name: &str) -> Result<u32, Trouble> {
        let place = self.at(file);
        let text = fs::read_to_string(&place).doing(|| format!("read {}", place.display()))?;
        let line = text.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name);
        line.and_then(|fields| fields.get(2)?.parse().ok()).ok_or_else(|| Trouble::Wrong(format!("{what} {name:?} is not in {file}")))
    }

    /// Whether this process has rights that its caller has not.
    pub(super) fn is_set_user_id(&self) -> Result<bool, Trouble> {
        let status = fs::read_to_string("/proc/self/status").doing(|| "read /proc/self/status".to_owned())?;
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        let mut uids = uids.split_whitespace();
        match (uids.next(), uids.next()) {
            (Some(real), Some(effective)) => Ok(real != effective),
            _ => Err(Trouble::Wrong("/proc/self/status does not tell the user".to_owned())),
        }
    }
}
