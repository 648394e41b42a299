//! Installing what a definition lists.
//!
//! What an entry replaces is kept under [`DEFAULTS`] with its owner and mode, and comes back when a later definition does not list it any
//! more: a container that is restarted, not made anew, otherwise keeps files that nobody asks for.

pub(super) mod held;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::definition::{Definition, Directory, Entry, Exclude, Mode, Permission};
use super::places::Owner;
use super::{Doing, Places, Trouble};
use held::{Held, Links};

/// What was there before, and the list of what was installed.
const DEFAULTS: &str = "/etc/kolla/defaults";
const STATE: &str = "/etc/kolla/defaults/state";
/// Exists once `COPY_ONCE` has done its work.
const CONFIGURED: &str = "/configured";
/// The command line, for whoever starts the service.
pub(super) const COMMAND: &str = "/run_command";

/// Each path of an entry, and whether something was kept when it was installed.
pub(super) type Tracked = BTreeMap<String, bool>;

/// Installs everything, by the strategy of `KOLLA_CONFIG_STRATEGY`.
pub(super) fn set_configs(places: &Places, wanted: &Definition, strategy: Option<String>) -> Result<(), Trouble> {
    let once = match strategy.as_deref() {
        Some("COPY_ALWAYS") => false,
        Some("COPY_ONCE") => true,
        other => {
            let given = other.map_or_else(|| "not set".to_owned(), |value| format!("{value:?}"));
            return Err(Trouble::Wrong(format!("KOLLA_CONFIG_STRATEGY is {given}: it must be COPY_ALWAYS or COPY_ONCE")));
        }
    };
    if once && places.at(CONFIGURED).exists() {
        println!("installed before, and the strategy is COPY_ONCE: nothing is done");
        return Ok(());
    }
    restore(places, wanted)?;
    for entry in &wanted.config_files {
        install(places, entry)?;
    }
    for directory in &wanted.directories {
        make(places, directory)?;
    }
    for permission in &wanted.permissions {
        permit(places, permission)?;
    }
    write(places, COMMAND, wanted.command.as_bytes())?;
    if once {
        write(places, CONFIGURED, b"")?;
    }
    Ok(())
}

/// What is recorded as installed.
pub(super) fn tracked(places: &Places) -> Result<Tracked, Trouble> {
    match fs::read_to_string(places.at(STATE)) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| Trouble::Wrong(format!("{STATE}: {error}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Tracked::new()),
        other => other.map(|_| Tracked::new()).doing(|| format!("read {STATE}")),
    }
}

fn record(places: &Places, tracked: &Tracked) -> Result<(), Trouble> {
    write(places, STATE, &serde_json::to_vec(tracked).expect("a map of texts is JSON"))
}

/// Takes away what is not listed any more, and puts back what was there before.
fn restore(places: &Places, wanted: &Definition) -> Result<(), Trouble> {
    let mut tracked = tracked(places)?;
    let gone: Vec<(String, bool)> =
        tracked.iter().filter(|(dest, _)| !wanted.config_files.iter().any(|e| e.dest == **dest)).map(|(d, k)| (d.clone(), *k)).collect();
    for (dest, was_kept) in gone {
        let (place, kept) = (places.at(dest.trim_end_matches('/')), kept_at(places, &dest));
        let found = Held::find(places, &kept)?;
        match &found {
            // The copy is the proof that there was something: without it the removal was done already.
            None if was_kept => {
                return Err(Trouble::Wrong(format!("{} is gone: {dest} cannot be put back", places.name_of(&kept).display())));
            }
            Some((from, kept)) if was_kept => {
                let (folder, name) = Held::make_way(places, &place)?;
                folder.remove(&name)?;
                copy(&from.open(kept, Links::Keep)?, &folder, &name, &AS_IT_IS)?;
            }
            _ => {
                if let Some((folder, name)) = Held::find(places, &place)? {
                    folder.remove(&name)?;
                }
            }
        }
        tracked.remove(&dest);
        record(places, &tracked)?;
        if let Some((folder, kept)) = &found {
            folder.remove(kept)?;
        }
    }
    Ok(())
}

fn kept_at(places: &Places, dest: &str) -> PathBuf {
    places.at(format!("{DEFAULTS}{}", dest.trim_end_matches('/')))
}

fn install(places: &Places, entry: &Entry) -> Result<(), Trouble> {
    let sources = sources(places, entry)?;
    if sources.is_empty() {
        return Ok(());
    }
    let manner = Manner::of(places, entry)?;
    keep(places, entry)?;
    for source in sources {
        let from = Held::source(places, &source)?;
        if manner.leaves_out(&from.path) {
            continue;
        }
        let dest = dest_of(places, entry, &source);
        println!("installing {} from {}", places.name_of(&dest).display(), from.path.display());
        let (folder, name) = Held::make_way(places, &dest)?;
        // A file takes the place of what was there without a moment between.
        if !entry.merge && from.facts.is_dir() {
            folder.remove(&name)?;
        }
        copy(&from, &folder, &name, &manner)?;
    }
    Ok(())
}

/// What an entry installs.
///
/// # Errors
/// When there is none, unless it is optional.
pub(super) fn sources(places: &Places, entry: &Entry) -> Result<Vec<PathBuf>, Trouble> {
    let found = places.matching(&entry.source)?;
    if found.is_empty() && !entry.optional {
        return Err(Trouble::Wrong(format!("{} does not exist (it goes to {})", entry.source, entry.dest)));
    }
    Ok(found)
}

/// Where a source of an entry goes.
pub(super) fn dest_of(places: &Places, entry: &Entry, source: &Path) -> PathBuf {
    match source.file_name() {
        Some(name) if entry.dest.ends_with('/') => places.at(&entry.dest).join(name),
        _ => places.at(&entry.dest),
    }
}

/// Keeps what is there before the first installation.
fn keep(places: &Places, entry: &Entry) -> Result<(), Trouble> {
    let mut tracked = tracked(places)?;
    if tracked.contains_key(&entry.dest) {
        return Ok(());
    }
    let found = Held::find(places, &places.at(entry.dest.trim_end_matches('/')))?;
    if let Some((from, name)) = &found {
        let (folder, kept) = Held::make_way(places, &kept_at(places, &entry.dest))?;
        folder.remove(&kept)?;
        copy(&from.open(name, Links::Keep)?, &folder, &kept, &AS_IT_IS)?;
    }
    tracked.insert(entry.dest.clone(), found.is_some());
    record(places, &tracked)
}

/// How something is copied.
struct Manner<'a> {
    /// None: the source's.
    rights: Option<(Owner, Mode)>,
    links: Links,
    exclude: &'a [Exclude],
}

/// How things are kept and put back. What is kept may be anybody's: a link to a file that only root reads must not become a copy of it.
const AS_IT_IS: Manner<'static> = Manner { rights: None, links: Links::Keep, exclude: &[] };

impl<'a> Manner<'a> {
    fn of(places: &Places, entry: &'a Entry) -> Result<Self, Trouble> {
        let rights = match (&entry.owner, entry.perm) {
            (Some(owner), Some(mode)) if !entry.preserve_properties => Some((places.owner(owner)?, mode)),
            _ => None,
        };
        Ok(Self { rights, links: Links::Follow, exclude: &entry.exclude })
    }

    fn rights_of(&self, source: &fs::Metadata) -> (Owner, u32) {
        match self.rights {
            None => (Owner { user: source.uid(), group: source.gid() }, source.mode() & 0o7777),
            Some((owner, mode)) => (owner, if source.is_dir() { mode.of_folder() } else { mode.0 }),
        }
    }

    fn leaves_out(&self, path: &Path) -> bool {
        self.exclude.iter().any(|exclude| exclude.finds(path))
    }
}

/// Copies a file or a folder with all in it over what has a name in another folder.
fn copy(from: &Held, folder: &Held, name: &OsStr, manner: &Manner<'_>) -> Result<(), Trouble> {
    let (owner, mode) = manner.rights_of(&from.facts);
    if from.facts.is_dir() {
        if !folder.look(name)?.is_some_and(|there| there.facts.is_dir()) {
            folder.remove(name)?;
        }
        // Closed until all in it is as it should be.
        let made = folder.make(name, 0o700)?;
        for inner in from.names()? {
            if !manner.leaves_out(&from.path.join(&inner)) {
                copy(&from.open(&inner, manner.links)?, &made, &inner, manner)?;
            }
        }
        made.settle(Some(owner), Some(mode))
    } else if from.facts.is_file() {
        folder.put(name, &mut &from.file, Some(owner), mode)
    } else if from.facts.is_symlink() {
        folder.link(name, &from.target()?)
    } else {
        Err(Trouble::Wrong(format!("{} is neither a file nor a folder", from.path.display())))
    }
}

fn make(places: &Places, directory: &Directory) -> Result<(), Trouble> {
    let owner = directory.owner.as_deref().map(|owner| places.owner(owner)).transpose()?;
    let (folder, name) = Held::make_way(places, &places.at(&directory.path))?;
    folder.make(&name, 0o755)?.settle(owner, directory.perm.map(|mode| mode.0))
}

fn permit(places: &Places, permission: &Permission) -> Result<(), Trouble> {
    let owner = permission.owner.as_deref().map(|owner| places.owner(owner)).transpose()?;
    let is_pattern = permission.path.contains(['*', '?', '[']);
    for place in places.matching(&permission.path)? {
        let Some((folder, name)) = Held::find(places, &place)? else { continue };
        let Some(held) = folder.look(&name)? else { continue };
        if held.facts.is_symlink() && !is_pattern {
            return Err(Trouble::Wrong(format!("{} is a link: owner and mode are not changed through it", held.path.display())));
        }
        allow(&held, owner, permission)?;
    }
    Ok(())
}

/// Owner and mode of what is open, and of all in it where that is wanted. A link stays as it is: it could lead anywhere.
fn allow(held: &Held, owner: Option<Owner>, permission: &Permission) -> Result<(), Trouble> {
    if held.facts.is_symlink() {
        return Ok(());
    }
    if permission.recurse && held.facts.is_dir() {
        for name in held.names()? {
            // Logs come and go.
            if let Some(inner) = held.look(&name)? {
                allow(&inner, owner, permission)?;
            }
        }
    }
    if permission.exclude.iter().any(|exclude| exclude.finds(&held.path)) {
        return Ok(());
    }
    held.settle(owner, permission.perm.map(|mode| mode.0))
}

/// Writes a file of root's. Whole or not at all: the record is what makes a later restart right. Nobody else may write it, whatever the
/// caller's umask lets new files have.
pub(super) fn write(places: &Places, path: &str, mut text: &[u8]) -> Result<(), Trouble> {
    let (folder, name) = Held::make_way(places, &places.at(path))?;
    folder.put(&name, &mut text, None, 0o644)
}

/// The names in a folder.
pub(super) fn list(folder: &Path) -> Result<Vec<std::ffi::OsString>, Trouble> {
    let entries = fs::read_dir(folder).doing(|| format!("list {}", folder.display()))?;
    entries.map(|entry| entry.map(|entry| entry.file_name()).doing(|| format!("list {}", folder.display()))).collect()
}

#[cfg(test)]
mod tests;
