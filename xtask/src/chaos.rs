//! `chaos`: operations by the thousand while conductors, APIs, broker and database are killed and the cloud fails (`tests/src/chaos.rs`).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{beside, cargo, keep, paths, prerequisites, process, servers};

/// Two thousand operations take a quarter of an hour.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// Programs of an earlier release at work beside those of this one.
const BESIDE: &str = "--beside";

/// Builds, starts servers of its own, lets the troubles loose, stops everything. Arguments go to the runner.
pub fn run(args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD, prerequisites::SERVERS])?;
    let (args, older) = match args.iter().position(|arg| arg == BESIDE) {
        Some(at) => {
            let revision = args.get(at + 1).with_context(|| format!("{BESIDE} takes a revision"))?;
            ([&args[..at], &args[at + 2..]].concat(), Some(beside::programs(revision)?))
        }
        None => (args.to_vec(), None),
    };
    cargo::build_binaries()?;
    let dir = servers::fresh_dir("chaos")?;
    let keeper = keep::Keeper::start(&dir, false)?;
    servers::up(&dir, &servers::Kind::ALL)?;
    // A copy: it is called during the run, and a build may replace the file that we were started from.
    let xtask = dir.join("xtask");
    std::fs::copy(paths::this_program(), &xtask).context("copy this program")?;
    let bin = paths::bin_dir("debug");
    let mut command = Command::new(bin.join("chaos"));
    command
        .arg("--servers")
        .arg(&dir)
        .args(args)
        .args(older.iter().flat_map(|folder| [Path::new("--older"), folder]))
        .env("XTASK", &xtask)
        .env("MAGNUM_BIN_DIR", &bin);
    let status = process::run(&mut command, LONGEST);
    keeper.finish()?;
    status.map(process::exit_code)
}
