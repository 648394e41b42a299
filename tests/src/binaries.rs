//! Where the programs are that a test starts.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The path of one of our programs: in `MAGNUM_BIN_DIR`, else where cargo put this executable.
///
/// # Errors
/// When it has not been built.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = folder()?.join(name);
    if !path.is_file() {
        bail!("{} does not exist: build it first (`cargo build -p server --bins`), or set MAGNUM_BIN_DIR", path.display());
    }
    Ok(path)
}

fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("MAGNUM_BIN_DIR").filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder));
    }
    let this = env::current_exe().context("find this program")?;
    let folder = this.parent().context("this program has no folder")?;
    // Test executables are one folder deeper.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(Path::new(folder).to_owned())
}
