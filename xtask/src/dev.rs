//! `dev`: the embedded system in the foreground.

use std::process::Command;

use anyhow::Result;

use crate::{cargo, paths, prerequisites, process};

/// Builds what is needed and becomes magnum-standalone, which prints what to export.
pub fn run(args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    cargo::build_binaries()?;
    Err(process::become_command(Command::new(paths::bin_dir("debug").join("magnum-standalone")).arg("--dev").args(args)))
}
