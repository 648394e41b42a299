//! Upstream's own programs, for tests of databases that they made: four releases over one environment of libraries.
//!
//! The releases are installed without what they depend on, side by side; the libraries are pinned to versions that all four work with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{paths, prerequisites, process};

/// The releases.
const RELEASES: [&str; 4] = ["15.0.2", "18.0.1", "20.0.2", "22.0.0"];

/// The libraries.
const LIBRARIES: &str = include_str!("../../tests/suite/upstream/requirements.txt");

/// To be raised when the folder is made otherwise than before.
const FORM: u32 = 1;

/// Prints where they are.
pub fn run() -> Result<u8> {
    println!("{}", folder()?.display());
    Ok(0)
}

/// The folder with `venv` and one folder for each release, made once.
pub fn folder() -> Result<PathBuf> {
    paths::made_once(&format!("upstream-{FORM}-{:016x}", fingerprint()), |own| {
        prerequisites::ensure(&[prerequisites::PYTHON])?;
        install(own)
    })
}

fn install(into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("make {}", into.display()))?;
    let (venv, list) = (into.join("venv"), into.join("requirements.txt"));
    fs::write(&list, LIBRARIES).context("write the list of libraries")?;
    must(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv")?;
    let pip = || {
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip
    };
    must(pip().arg("--requirement").arg(&list), "pip install of the libraries")?;
    for release in RELEASES {
        must(pip().arg("--target").arg(into.join(release)).arg(format!("magnum=={release}")), "pip install of a release")?;
    }
    Ok(())
}

fn must(command: &mut Command, what: &str) -> Result<()> {
    process::must(command, what, Duration::from_secs(900))
}

/// Tells one list of libraries and releases from another (FNV-1a).
fn fingerprint() -> u64 {
    let bytes = LIBRARIES.bytes().chain(RELEASES.iter().flat_map(|release| release.bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
