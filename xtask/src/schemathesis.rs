//! `schemathesis`: requests made from the served OpenAPI document, against a real API process.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{cargo, keep, paths, prerequisites, process, servers};

/// The tool, as it was when its configuration was written.
const TOOL: &str = "schemathesis==4.32.5";

/// Builds, starts servers of its own, lets the tool loose, stops them. Arguments go to the runner.
pub fn run(args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD, prerequisites::SERVERS, prerequisites::PYTHON])?;
    let program = tool()?;
    cargo::build_binaries()?;
    let dir = servers::fresh_dir("schemathesis")?;
    let keeper = keep::Keeper::start(&dir, false)?;
    let servers = servers::up(&dir, &servers::Kind::ALL)?;
    let bin = paths::bin_dir("debug");
    let mut command = Command::new(bin.join("schemathesis"));
    command.arg("--program").arg(&program).args(args).envs(servers).env("MAGNUM_BIN_DIR", &bin);
    let status = process::run(&mut command, Duration::from_secs(3600));
    keeper.finish()?;
    status.map(process::exit_code)
}

/// The tool in an environment of its own in the cache folder, made once.
fn tool() -> Result<PathBuf> {
    let venv = paths::cache_dir()?.join(TOOL);
    let program = venv.join("bin/schemathesis");
    let done = venv.join("done");
    if done.is_file() && program.is_file() {
        return Ok(program);
    }
    eprintln!("installing {TOOL} into {}", venv.display());
    let must = |command: &mut Command, what: &str| process::must(command, what, Duration::from_secs(900));
    must(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv")?;
    must(Command::new(venv.join("bin/pip")).args(["install", "--quiet", TOOL]), "pip install")?;
    fs::write(&done, "").context("note that the tool is installed")?;
    Ok(program)
}
