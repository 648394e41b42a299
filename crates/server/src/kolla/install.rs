//! Installing what a definition lists.
//!
//! What an entry replaces is kept under [`DEFAULTS`] with its owner and mode, and comes back when a later definition does not list it any
//! more: a container that is restarted, not made anew, otherwise keeps files that nobody asks for.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use super::definition::{Definition, Directory, Entry, Mode, Permission};
use super::places::Owner;
use super::{Doing, Places, Trouble};

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
    let command = places.at(COMMAND);
    write(&command, wanted.command.as_bytes())?;
    set_mode(&command, 0o644)?;
    if once {
        write(&places.at(CONFIGURED), b"")?;
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
    let text = serde_json::to_vec(tracked).expect("a map of texts is JSON");
    let place = places.at(STATE);
    parents(&place)?;
    // Whole or not at all: the record is what makes a later restart right.
    let new = place.with_extension("new");
    write(&new, &text)?;
    fs::rename(&new, &place).doing(|| format!("write {STATE}"))
}

/// Takes away what is not listed any more, and puts back what was there before.
fn restore(places: &Places, wanted: &Definition) -> Result<(), Trouble> {
    let mut tracked = tracked(places)?;
    let gone: Vec<(String, bool)> =
        tracked.iter().filter(|(dest, _)| !wanted.config_files.iter().any(|e| e.dest == **dest)).map(|(d, k)| (d.clone(), *k)).collect();
    for (dest, was_kept) in gone {
        let (place, kept) = (places.at(dest.trim_end_matches('/')), kept_at(places, &dest));
        // The copy is the proof that there was something: without it the removal was done already.
        if was_kept && !exists(&kept) {
            return Err(Trouble::Wrong(format!("{} is gone: {dest} cannot be put back", places.name_of(&kept).display())));
        }
        remove(&place)?;
        if was_kept {
            copy(places, &kept, &place, &Manner::Preserve, &[])?;
        }
        tracked.remove(&dest);
        record(places, &tracked)?;
        remove(&kept)?;
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
    keep(places, entry)?;
    for source in sources {
        let dest = dest_of(places, entry, &source);
        println!("installing {} from {}", places.name_of(&dest).display(), places.name_of(&source).display());
        if !entry.merge {
            remove(&dest)?;
        }
        parents(&dest)?;
        copy(places, &source, &dest, &Manner::of(places, entry)?, &entry.exclude)?;
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
    let (place, kept) = (places.at(entry.dest.trim_end_matches('/')), kept_at(places, &entry.dest));
    let is_there = exists(&place);
    if is_there {
        remove(&kept)?;
        parents(&kept)?;
        copy(places, &place, &kept, &Manner::Preserve, &[])?;
    }
    tracked.insert(entry.dest.clone(), is_there);
    record(places, &tracked)
}

/// How copies get owner and mode.
enum Manner {
    Preserve,
    Set(Owner, Mode),
}

impl Manner {
    fn of(places: &Places, entry: &Entry) -> Result<Self, Trouble> {
        match (&entry.owner, entry.perm) {
            (Some(owner), Some(mode)) if !entry.preserve_properties => Ok(Self::Set(places.owner(owner)?, mode)),
            _ => Ok(Self::Preserve),
        }
    }

    fn apply(&self, source: &fs::Metadata, dest: &Path) -> Result<(), Trouble> {
        let (owner, mode) = match self {
            Self::Preserve => (Owner { user: source.uid(), group: source.gid() }, source.mode() & 0o7777),
            Self::Set(owner, mode) => (*owner, if source.is_dir() { mode.of_folder() } else { mode.0 }),
        };
        // The owner first: a change of it takes the bits of set-user-ID away.
        set_owner(dest, owner)?;
        set_mode(dest, mode)
    }
}

/// Copies a file or a folder with all in it over what is there.
fn copy(places: &Places, source: &Path, dest: &Path, manner: &Manner, exclude: &[super::definition::Exclude]) -> Result<(), Trouble> {
    if exclude.iter().any(|exclude| exclude.finds(&places.name_of(source))) {
        return Ok(());
    }
    let facts = fs::metadata(source).doing(|| format!("look at {}", source.display()))?;
    let there = fs::symlink_metadata(dest).ok();
    if facts.is_dir() {
        if !there.is_some_and(|there| there.is_dir()) {
            remove(dest)?;
            fs::create_dir_all(dest).doing(|| format!("make {}", dest.display()))?;
        }
        let mut names = list(source)?;
        names.sort();
        for name in names {
            copy(places, &source.join(&name), &dest.join(&name), manner, exclude)?;
        }
    } else {
        // Never through a link or into a file that somebody has open.
        remove(dest)?;
        fs::copy(source, dest).doing(|| format!("copy {} to {}", source.display(), dest.display()))?;
    }
    manner.apply(&facts, dest)
}

fn make(places: &Places, directory: &Directory) -> Result<(), Trouble> {
    let place = places.at(&directory.path);
    fs::create_dir_all(&place).doing(|| format!("make {}", directory.path))?;
    if let Some(owner) = &directory.owner {
        set_owner(&place, places.owner(owner)?)?;
    }
    directory.perm.map_or(Ok(()), |mode| set_mode(&place, mode.0))
}

fn permit(places: &Places, permission: &Permission) -> Result<(), Trouble> {
    let owner = permission.owner.as_deref().map(|owner| places.owner(owner)).transpose()?;
    let mut todo = places.matching(&permission.path)?;
    let pattern_found: Vec<PathBuf> = todo.clone();
    while let Some(place) = todo.pop() {
        let facts = match fs::symlink_metadata(&place) {
            // Logs come and go.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other.doing(|| format!("look at {}", place.display()))?,
        };
        if permission.recurse && facts.is_dir() {
            todo.extend(list(&place)?.into_iter().map(|name| place.join(name)));
        }
        let is_excluded = permission.exclude.iter().any(|exclude| exclude.finds(&places.name_of(&place)));
        // A link inside a folder could lead anywhere; one that was asked for by its name is meant.
        if is_excluded || (facts.is_symlink() && !pattern_found.contains(&place)) {
            continue;
        }
        if let Some(owner) = owner {
            set_owner(&place, owner)?;
        }
        if let Some(mode) = permission.perm {
            set_mode(&place, mode.0)?;
        }
    }
    Ok(())
}

/// The names in a folder.
pub(super) fn list(folder: &Path) -> Result<Vec<std::ffi::OsString>, Trouble> {
    let entries = fs::read_dir(folder).doing(|| format!("list {}", folder.display()))?;
    entries.map(|entry| entry.map(|entry| entry.file_name()).doing(|| format!("list {}", folder.display()))).collect()
}

fn set_owner(place: &Path, owner: Owner) -> Result<(), Trouble> {
    let facts = fs::symlink_metadata(place).doing(|| format!("look at {}", place.display()))?;
    if (facts.uid(), facts.gid()) == (owner.user, owner.group) {
        return Ok(());
    }
    let change = if facts.is_symlink() { lchown } else { chown::<&Path> };
    change(place, Some(owner.user), Some(owner.group)).doing(|| format!("give {} to {}:{}", place.display(), owner.user, owner.group))
}

fn set_mode(place: &Path, mode: u32) -> Result<(), Trouble> {
    fs::set_permissions(place, fs::Permissions::from_mode(mode)).doing(|| format!("set the mode of {} to {mode:04o}", place.display()))
}

fn write(place: &Path, text: &[u8]) -> Result<(), Trouble> {
    fs::write(place, text).doing(|| format!("write {}", place.display()))
}

fn parents(place: &Path) -> Result<(), Trouble> {
    place.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).doing(|| format!("make {}", parent.display())))
}

pub(super) fn exists(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok()
}

/// Removes whatever is there.
fn remove(place: &Path) -> Result<(), Trouble> {
    let removed = match fs::symlink_metadata(place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(error) => Err(error),
    };
    removed.doing(|| format!("remove {}", place.display()))
}

#[cfg(test)]
mod tests;
