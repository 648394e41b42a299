//! Where things are: the checkout, what cargo built, and the cache folder outside the checkout.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The checkout that this binary was built from. Not the environment's CARGO_MANIFEST_DIR: a test runner sets that to
/// the package of the test which calls us.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package folder is inside the checkout")
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// Where cargo puts the binaries of `profile` ("debug" or "release").
pub fn bin_dir(profile: &str) -> PathBuf {
    target_dir().join(profile)
}

/// Downloads, the lab and server data: outside the checkout, so that a second run, or another checkout, is quick.
/// Server users (mysql, rabbitmq) must be able to walk through it.
pub fn cache_dir() -> Result<PathBuf> {
    let dir = match env::var_os("MAGNUM_CACHE_DIR").filter(|v| !v.is_empty()) {
        Some(dir) => std::path::absolute(dir).context("read MAGNUM_CACHE_DIR")?,
        None if is_root() => PathBuf::from("/var/tmp/magnum-cache"),
        None => PathBuf::from(env::var_os("HOME").context("neither MAGNUM_CACHE_DIR nor HOME is set")?).join(".cache/magnum"),
    };
    open_folder(&dir)?;
    Ok(dir)
}

/// A folder of that name in the cache folder, which `make` fills once. It is made aside, so that two who make it at once do not meet half of it;
/// what somebody left there who was killed is removed.
pub fn made_once(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cache = cache_dir()?;
    let folder = cache.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    eprintln!("making {}", folder.display());
    let aside = cache.join("making");
    open_folder(&aside)?;
    for other in fs::read_dir(&aside).with_context(|| format!("look into {}", aside.display()))? {
        let other = other.with_context(|| format!("look into {}", aside.display()))?.path();
        let is_left = other.extension().is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if is_left {
            remove(&other)?;
        }
    }
    let own = aside.join(format!("{name}.{}", std::process::id()));
    let moved = make(&own).and_then(|()| match fs::rename(&own, &folder) {
        Ok(()) => Ok(()),
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("put {} into its place", folder.display())),
    });
    remove(&own)?;
    moved.map(|()| folder)
}

/// Removes a folder; fine when there is none.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(|| format!("remove {}", folder.display())),
        _ => Ok(()),
    }
}

/// Creates the folder and lets everyone walk through it.
pub fn open_folder(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).with_context(|| format!("open {} to server users", dir.display()))
}

/// This program, also after a build has replaced the file that it was started from.
pub fn this_program() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// Whether we may install packages and start servers as their own users.
pub fn is_root() -> bool {
    // /proc/self belongs to the effective user of this process.
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}
