//! `images`: builds the container images for kolla-ansible and starts both roles as it does (`deploy/containers`).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{cargo, helm, keep, paths, prerequisites, process, servers};

#[derive(Args)]
pub struct Options {
    /// Images of a release build, and their sizes
    #[arg(long)]
    release: bool,
}

/// Longer than the run itself allows its parts.
const LONGEST: Duration = Duration::from_secs(1200);

/// Whether this machine lets us: root, and leave to make namespaces (which a container of somebody else's may not have).
pub fn can_run() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "--pid", "--net", "--fork", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
    paths::is_root() && process::find_program("apt-get").is_some() && probe.status().is_ok_and(|status| status.success())
}

/// Builds the programs, then all of [`start`].
pub fn run(options: &Options) -> Result<u8> {
    if !can_run() {
        bail!("images need root on Debian or Ubuntu, with leave to make namespaces: their files belong to several users");
    }
    prerequisites::ensure(&[prerequisites::BUILD])?;
    cargo::build_binaries()?;
    if options.release {
        cargo::must(&["build", "--release", "-p", "server", "--bins"])?;
    }
    start(if options.release { "release" } else { "debug" })
}

/// Images of the programs that are built: starts servers of its own, runs the checks, stops everything. The images stay in the cache folder.
pub fn start(profile: &str) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::SERVERS, prerequisites::IMAGES])?;
    let output = paths::cache_dir()?.join("images").join(profile);
    std::fs::create_dir_all(&output).with_context(|| format!("make {}", output.display()))?;
    let helm = helm::program(helm::Major::Three)?;
    let dir = servers::fresh_dir("images")?;
    let keeper = keep::Keeper::start(&dir, false)?;
    let status = check(&dir, profile, &output, &helm);
    keeper.finish()?;
    status
}

fn check(dir: &Path, profile: &str, output: &Path, helm: &Path) -> Result<u8> {
    let env = servers::up(dir, &servers::Kind::ALL)?;
    // A copy: it is called during the run, and a build may replace the file that we were started from.
    let xtask = dir.join("xtask");
    std::fs::copy(paths::this_program(), &xtask).context("copy this program")?;
    let mut command = Command::new(paths::bin_dir("debug").join("images"));
    command.arg("--containers").arg(paths::root().join("deploy/containers")).arg("--output").arg(output);
    command.arg("--programs").arg(paths::bin_dir(profile)).arg("--helm").arg(helm);
    command.envs(env).env("XTASK", &xtask).env("MAGNUM_BIN_DIR", paths::bin_dir("debug"));
    process::run(&mut command, LONGEST).map(process::exit_code)
}
