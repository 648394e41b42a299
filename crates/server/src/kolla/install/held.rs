//! The container's files by descriptors, and never through a link.
//!
//! Who installs has root's rights, and some of the folders that are installed into belong to the service, which may call the program as often as
//! it likes and stop it wherever it likes. Whoever has taken the service over can so put a link in the place of a file or of a folder above it
//! between a look at a path and its use. Therefore each folder is opened from the one above it, from the root on and without following;
//! owner and mode are changed of what is open, and a new file is made under a name of its own and renamed.
//!
//! A second name of a file (a hard link) leads out of such a folder, too, and opening does not tell: owner and mode of a file with several names
//! are not changed. That its names are not taken away while they are counted is the kernel's: `fs.protected_hardlinks`, which distributions
//! turn on, lets nobody link to a file that he could not write anyway.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, chownat, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::super::places::Owner;
use super::super::{Doing, Places, Trouble};

impl<T> Doing<T> for rustix::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(io::Error::from).doing(what)
    }
}

/// What a link is when something is opened to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kolla) enum Links {
    /// What it leads to: where root alone writes.
    Follow,
    /// A link.
    Keep,
}

/// A file, folder or link that is open: its name may be given to something else, this stays what it is.
pub(in crate::kolla) struct Held {
    pub file: File,
    /// As it was when it was opened.
    pub facts: Metadata,
    /// In the container; for messages and for what is left out.
    pub path: PathBuf,
}

impl Held {
    fn of(fd: OwnedFd, path: PathBuf) -> Result<Self, Trouble> {
        let file = File::from(fd);
        let facts = file.metadata().doing(|| format!("look at {}", path.display()))?;
        Ok(Self { file, facts, path })
    }

    /// What a definition says is to be installed; links lead to it.
    pub fn source(places: &Places, place: &Path) -> Result<Self, Trouble> {
        let path = places.name_of(place);
        Self::of(openat(CWD, place, reading(Links::Follow), Mode::empty()).doing(|| format!("open {}", path.display()))?, path)
    }

    /// The folder of what is at a place, and its name there. None: there is nothing.
    ///
    /// # Errors
    /// Also when the way to it leads through a link.
    pub fn find(places: &Places, place: &Path) -> Result<Option<(Self, OsString)>, Trouble> {
        let (mut folder, above, name) = Self::way(places, place)?;
        for part in above {
            let Some(next) = folder.enter(&part)? else { return Ok(None) };
            folder = next;
        }
        Ok(folder.look(&name)?.is_some().then_some((folder, name)))
    }

    /// The folder for what shall be at a place, and its name there; folders that are missing are made.
    ///
    /// # Errors
    /// Also when the way to it leads through a link.
    pub fn make_way(places: &Places, place: &Path) -> Result<(Self, OsString), Trouble> {
        let (mut folder, above, name) = Self::way(places, place)?;
        for part in above {
            folder = folder.make(&part, 0o755)?;
        }
        Ok((folder, name))
    }

    /// The root, which is trusted, the names of the folders below it, and the last name.
    fn way(places: &Places, place: &Path) -> Result<(Self, Vec<OsString>, OsString), Trouble> {
        let path = places.name_of(place);
        let wrong = || Trouble::Wrong(format!("{} is no place for a file or a folder", path.display()));
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => names.push(name.to_owned()),
                Component::Prefix(_) | Component::ParentDir => return Err(wrong()),
            }
        }
        let name = names.pop().ok_or_else(wrong)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, places.at("/"), flags, Mode::empty()).doing(|| "open /".to_owned())?;
        Ok((Self::of(root, PathBuf::from("/"))?, names, name))
    }

    /// What has a name in this folder, a link itself too. None: nothing has it.
    pub fn look(&self, name: &OsStr) -> Result<Option<Self>, Trouble> {
        let path = self.path.join(name);
        // No right to read or write is asked for: nothing happens to a device or a pipe by being opened.
        match openat(&self.file, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            other => Self::of(other.doing(|| format!("look at {}", path.display()))?, path).map(Some),
        }
    }

    fn enter(&self, name: &OsStr) -> Result<Option<Self>, Trouble> {
        match self.look(name)? {
            Some(other) if !other.facts.is_dir() => {
                let what = if other.facts.is_symlink() { "a link, which is not followed," } else { "no folder" };
                Err(Trouble::Wrong(format!("{} is {what} where a folder must be", other.path.display())))
            }
            found => Ok(found),
        }
    }

    /// The folder of a name in this one; made when there is none.
    pub fn make(&self, name: &OsStr, mode: u32) -> Result<Self, Trouble> {
        if let Some(there) = self.enter(name)? {
            return Ok(there);
        }
        let what = || format!("make {}", self.path.join(name).display());
        match mkdirat(&self.file, name, Mode::from_raw_mode(mode)) {
            // Somebody was faster: a folder is as good, and nothing else is.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).doing(what),
        }
        self.enter(name)?.ok_or(Errno::NOENT).doing(what)
    }

    /// Opens what has a name in this folder to be copied or compared.
    pub fn open(&self, name: &OsStr, links: Links) -> Result<Self, Trouble> {
        let path = self.path.join(name);
        let what = || format!("open {}", self.path.join(name).display());
        match openat(&self.file, name, reading(links), Mode::empty()) {
            Err(Errno::LOOP) if links == Links::Keep => self.look(name)?.ok_or(Errno::NOENT).doing(what),
            other => Self::of(other.doing(what)?, path),
        }
    }

    /// The names in this folder, in order.
    pub fn names(&self) -> Result<Vec<OsString>, Trouble> {
        let what = || format!("list {}", self.path.display());
        let folder = match openat(&self.file, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            // It has been removed.
            Err(Errno::NOENT) => return Ok(Vec::new()),
            other => other.doing(what)?,
        };
        let mut names = Vec::new();
        for entry in Dir::new(folder).doing(what)? {
            let entry = entry.doing(what)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Where this link leads.
    pub fn target(&self) -> Result<OsString, Trouble> {
        let target = readlinkat(&self.file, "", Vec::<u8>::new()).doing(|| format!("read the link {}", self.path.display()))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Writes a file in the place of whatever has the name: whole or not at all.
    pub fn put(&self, name: &OsStr, from: &mut impl io::Read, owner: Option<Owner>, mode: u32) -> Result<(), Trouble> {
        let new = self.fresh()?;
        let path = self.path.join(name);
        let what = || format!("write {}", self.path.join(name).display());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Root's alone until it is whole.
        let fd = openat(&self.file, &new, flags, Mode::from_raw_mode(0o600)).doing(what)?;
        let written = Self::of(fd, path).and_then(|mut held| {
            io::copy(from, &mut held.file).doing(what)?;
            held.settle(owner, Some(mode))?;
            self.rename(&new, name)
        });
        if written.is_err() {
            let _ = unlinkat(&self.file, &new, AtFlags::empty());
        }
        written
    }

    /// Makes a link in the place of whatever has the name.
    pub fn link(&self, name: &OsStr, target: &OsStr) -> Result<(), Trouble> {
        let new = self.fresh()?;
        symlinkat(target, &self.file, &new).doing(|| format!("make the link {}", self.path.join(name).display()))?;
        self.rename(&new, name)
    }

    /// A name for what is not whole yet; what an earlier process of this number has left is removed.
    fn fresh(&self) -> Result<OsString, Trouble> {
        let name = OsString::from(format!(".magnum-container-{}", std::process::id()));
        self.remove(&name)?;
        Ok(name)
    }

    fn rename(&self, new: &OsStr, name: &OsStr) -> Result<(), Trouble> {
        let renamed = match renameat(&self.file, new, &self.file, name) {
            Err(Errno::ISDIR) => {
                self.remove(name)?;
                renameat(&self.file, new, &self.file, name)
            }
            other => other,
        };
        renamed.doing(|| format!("write {}", self.path.join(name).display()))
    }

    /// Removes whatever has the name, a folder with all in it.
    pub fn remove(&self, name: &OsStr) -> Result<(), Trouble> {
        let mut removed = unlinkat(&self.file, name, AtFlags::empty());
        if removed == Err(Errno::ISDIR) {
            let Some(folder) = self.enter(name)? else { return Ok(()) };
            for inner in folder.names()? {
                folder.remove(&inner)?;
            }
            removed = unlinkat(&self.file, name, AtFlags::REMOVEDIR);
        }
        match removed {
            Err(Errno::NOENT) => Ok(()),
            other => other.doing(|| format!("remove {}", self.path.join(name).display())),
        }
    }

    /// Gives it owner and mode, where it has others.
    ///
    /// # Errors
    /// Also when it is a file that has other names: they may be where nobody meant.
    pub fn settle(&self, owner: Option<Owner>, mode: Option<u32>) -> Result<(), Trouble> {
        let path = self.path.display();
        let facts = self.file.metadata().doing(|| format!("look at {path}"))?;
        let owner = owner.filter(|owner| (owner.user, owner.group) != (facts.uid(), facts.gid()));
        let mode = mode.filter(|mode| owner.is_some() || facts.mode() & 0o7777 != *mode);
        if owner.is_none() && mode.is_none() {
            return Ok(());
        }
        if !facts.is_dir() && facts.nlink() > 1 {
            return Err(Trouble::Wrong(format!(
                "{path} has other names (hard links), which may be anywhere: neither owner nor mode is changed, remove it or them"
            )));
        }
        // The owner first: a change of it takes the bits of set-user-ID away.
        if let Some(Owner { user, group }) = owner {
            chownat(&self.file, "", Some(Uid::from_raw(user)), Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)
                .doing(|| format!("give {path} to {user}:{group}"))?;
        }
        let Some(mode) = mode else { return Ok(()) };
        // What is open without a right to read has its mode changed by this name only, on kernels before 6.6.
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        fs::set_permissions(open, Permissions::from_mode(mode)).doing(|| format!("set the mode of {path} to {mode:04o}"))
    }
}

/// How something is opened to be read; a pipe does not make it wait.
fn reading(links: Links) -> OFlags {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match links {
        Links::Follow => flags,
        Links::Keep => flags | OFlags::NOFOLLOW,
    }
}
