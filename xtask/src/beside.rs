//! Programs of an earlier release, for runs in which they work beside those of this one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{cargo, paths, process};

/// What runs beside.
const PROGRAMS: [&str; 2] = ["magnum-api", "magnum-conductor"];
/// From nothing, on a small machine.
const BUILD: Duration = Duration::from_secs(3600);

/// The folder with the programs of a revision of this project, built once.
pub fn programs(revision: &str) -> Result<PathBuf> {
    let asked = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet"])
        .arg(format!("{revision}^{{commit}}"))
        .current_dir(paths::root())
        .output();
    let asked = asked.context("run git")?;
    ensure!(asked.status.success(), "{revision} is no revision of this project");
    let commit = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    paths::made_once(&format!("release-{commit}"), |own| build(&commit, own))
}

fn build(commit: &str, own: &Path) -> Result<()> {
    fs::create_dir_all(own).with_context(|| format!("make {}", own.display()))?;
    let source = own.join("source");
    let must = |command: &mut Command, what: &str| process::must(command, what, BUILD);
    must(Command::new("git").args(["clone", "--quiet", "--no-checkout"]).arg(paths::root()).arg(&source), "git clone")?;
    must(Command::new("git").args(["checkout", "--quiet", "--detach", commit]).current_dir(&source), "git checkout")?;
    let mut build = cargo::cargo();
    build.current_dir(&source).args(["build", "-p", "server", "--bins"]).env("CARGO_TARGET_DIR", source.join("target"));
    must(&mut build, "cargo build of an earlier release")?;
    for program in PROGRAMS {
        fs::copy(source.join("target/debug").join(program), own.join(program)).with_context(|| format!("keep {program}"))?;
    }
    paths::remove(&source)
}
