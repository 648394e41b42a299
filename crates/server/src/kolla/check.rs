//! Whether a running container is as its definition wants it: kolla-ansible asks to decide on a restart. Nothing is changed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::definition::{Definition, Entry};
use super::install::held::{Held, Links};
use super::install::{COMMAND, dest_of, list, sources, tracked};
use super::{Doing, Places, Trouble};

/// Done when nothing differs.
///
/// # Errors
/// [`Trouble::Wrong`], naming the first difference.
pub(super) fn check(places: &Places, wanted: &Definition) -> Result<(), Trouble> {
    let command = fs::read_to_string(places.at(COMMAND)).unwrap_or_default();
    if command != wanted.command {
        return Err(Trouble::Wrong(format!("the command is {command:?}, wanted is {:?}", wanted.command)));
    }
    let installed = tracked(places)?;
    let mut dests = BTreeSet::new();
    for entry in &wanted.config_files {
        dests.insert(entry.dest.as_str());
        let found = sources(places, entry)?;
        if found.is_empty() && installed.contains_key(&entry.dest) {
            return Err(Trouble::Wrong(format!("{} is installed, but its source is gone", entry.dest)));
        }
        for source in found {
            same(places, entry, &source, &dest_of(places, entry, &source))?;
        }
    }
    match installed.keys().find(|dest| !dests.contains(dest.as_str())) {
        Some(dest) => Err(Trouble::Wrong(format!("{dest} is installed, but not listed any more"))),
        None => Ok(()),
    }
}

fn same(places: &Places, entry: &Entry, source: &Path, dest: &Path) -> Result<(), Trouble> {
    if entry.exclude.iter().any(|exclude| exclude.finds(&places.name_of(source))) {
        return Ok(());
    }
    let name = places.name_of(dest).display().to_string();
    let differs = |what: String| Err(Trouble::Wrong(format!("{name} {what}")));
    let from = Held::source(places, source)?;
    let Some((folder, at)) = Held::find(places, dest)? else { return differs("is missing".to_owned()) };
    // Whoever may call this may have put something else there.
    let to = folder.open(&at, Links::Keep)?;
    if from.facts.file_type() != to.facts.file_type() {
        return differs("is of another kind than its source".to_owned());
    }
    if from.facts.is_dir() {
        for inner in list(source)? {
            same(places, entry, &source.join(&inner), &dest.join(&inner))?;
        }
    } else if !from.facts.is_file() || from.facts.len() != to.facts.len() || read(&from)? != read(&to)? {
        return differs("differs from its source".to_owned());
    }
    let (from, to) = (from.facts, to.facts);
    let (owner, mode) = match (&entry.owner, entry.perm) {
        (Some(owner), Some(mode)) if !entry.preserve_properties => {
            let owner = places.owner(owner)?;
            ((owner.user, owner.group), if from.is_dir() { mode.of_folder() } else { mode.0 })
        }
        _ => ((from.uid(), from.gid()), from.mode() & 0o7777),
    };
    if (to.uid(), to.gid()) != owner {
        return differs(format!("belongs to {}:{}, wanted is {}:{}", to.uid(), to.gid(), owner.0, owner.1));
    }
    if to.mode() & 0o7777 != mode {
        return differs(format!("has the mode {:04o}, wanted is {mode:04o}", to.mode() & 0o7777));
    }
    Ok(())
}

fn read(held: &Held) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let read = (&held.file).read_to_end(&mut bytes);
    read.map(|_| bytes).doing(|| format!("read {}", held.path.display()))
}
