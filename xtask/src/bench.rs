//! `bench`: measurements on release binaries and a private MariaDB.

use std::process::Command as Process;
use std::time::Duration;

use anyhow::{Context, Result};
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
    /// Requests to Heat (or the management cluster), SQL, CPU, memory and delays with thousands of clusters in flight
    Conductor {
        /// Handed to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// A run of 20,000 clusters takes hours.
const LONGEST: Duration = Duration::from_secs(8 * 3600);

/// Builds in release, starts servers of its own, measures, stops them.
pub fn run(command: &Command) -> Result<u8> {
    let (what, args) = match command {
        Command::Api { args } => ("api", args),
        Command::Conductor { args } => ("conductor", args),
    };
    prerequisites::ensure(&[prerequisites::BUILD, prerequisites::SERVERS])?;
    cargo::must(&["build", "--release", "-p", "server", "-p", "tests", "--bins"])?;
    let dir = servers::fresh_dir("bench")?;
    let keeper = keep::Keeper::start(&dir, false)?;
    let servers = servers::up(&dir, &servers::Kind::ALL)?;
    let bin = paths::bin_dir("release");
    // A copy: it is asked for helm during the run.
    let xtask = dir.join("xtask");
    std::fs::copy(paths::this_program(), &xtask).context("copy this program")?;
    let mut command = Process::new(bin.join("bench"));
    command.arg(what).args(args).envs(servers).env("XTASK", &xtask).env("MAGNUM_BIN_DIR", &bin);
    let status = process::run(&mut command, LONGEST);
    keeper.finish()?;
    status.map(process::exit_code)
}
