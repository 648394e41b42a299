//! Calling cargo.

use std::env;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::{paths, process};

/// A whole build from nothing takes some 20 minutes of CPU in release.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// The cargo that runs us, in the checkout.
///
/// It is not told what cargo has told us of this package: a build script that looks at it (ring's) would be run anew, and much of the workspace
/// be built anew, whenever it is built by hand and by us in turn.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths::root());
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs cargo with these arguments and returns its exit code.
pub fn call(args: &[&str]) -> Result<u8> {
    process::run(cargo().args(args), LIMIT).map(process::exit_code)
}

/// Runs cargo with these arguments; an error when it fails.
pub fn must(args: &[&str]) -> Result<()> {
    match call(args)? {
        0 => Ok(()),
        code => bail!("cargo {} ended with exit code {code}", args.join(" ")),
    }
}

/// The binaries that `demo` and `dev` start.
pub fn build_binaries() -> Result<()> {
    must(&["build", "-p", "server", "-p", "tests", "--bins"])
}

/// What is measured and what measures, in release: without what the workspace's tests ask of libraries. To link one of them takes minutes.
pub fn build_for_measuring() -> Result<()> {
    const BINARIES: [&str; 4] = ["magnum-api", "magnum-conductor", "magnum-db-manage", "bench"];
    let mut all = vec!["build", "--release", "--no-default-features", "-p", "server", "-p", "tests"];
    all.extend(BINARIES.iter().flat_map(|name| ["--bin", name]));
    must(&all)
}
