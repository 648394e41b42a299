//! `bench`: measurements on release binaries and a private MariaDB.

use std::process::Command as Process;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use crate::{cargo, keep, paths, prerequisites, process, servers};

#[derive(Subcommand)]
pub enum Command {
    /// Requests/s, p50, p99, errors, CPU and memory of the API, beside the bare query on the same database
    Api {
        /// Handed to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Builds in release, starts servers of its own, measures, stops them.
pub fn run(command: &Command) -> Result<u8> {
    let Command::Api { args } = command;
    prerequisites::ensure(&[prerequisites::BUILD, prerequisites::SERVERS])?;
    cargo::must(&["build", "--release", "-p", "server", "-p", "tests", "--bins"])?;
    let dir = servers::fresh_dir("bench")?;
    let keeper = keep::Keeper::start(&dir, false)?;
    let servers = servers::up(&dir, &servers::Kind::ALL)?;
    let bin = paths::bin_dir("release");
    let status = process::run(
        Process::new(bin.join("bench")).arg("api").args(args).envs(servers).env("MAGNUM_BIN_DIR", &bin),
        Duration::from_secs(3600),
    );
    keeper.finish()?;
    status.map(process::exit_code)
}
