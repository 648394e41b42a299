//! `demo`: the main job in one command on a fresh machine.

use std::process::Command;

use anyhow::Result;

use crate::{cargo, paths, prerequisites, process};

/// Builds what is needed and becomes the demo.
pub fn run(args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    cargo::build_binaries()?;
    let bin = paths::bin_dir("debug");
    Err(process::become_command(Command::new(bin.join("demo")).args(args).env("MAGNUM_BIN_DIR", &bin)))
}
