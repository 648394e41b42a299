//! `bench`: measurements on optimised binaries, most with a private MariaDB.

use std::process::Command as Process;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::{cargo, keep, paths, prerequisites, process, servers};

#[derive(Subcommand)]
pub enum Command {
    /// Requests/s, p50, p99, errors, CPU and memory of the API, beside the bare query on the same database
    Api {
        /// Handed to the benchmark; with --strict a missed target ends in exit code 1
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Requests to Heat (or the management cluster), SQL, CPU, memory and delays with thousands of clusters in flight
    Conductor {
        /// Handed to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Requests/s with tokens that the API knows and that it does not, signatures/s, memory of a full cache of tokens
    Identity {
        /// Handed to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// What it takes to render a thousand clusters for Heat, and how much Heat is sent
    Render,
}

/// A run of 20,000 clusters takes hours.
const LONGEST: Duration = Duration::from_secs(8 * 3600);

/// Builds what is measured, and measures.
pub fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Api { args } => with_servers("api", args),
        Command::Conductor { args } => with_servers("conductor", args),
        Command::Identity { args } => with_servers("identity", args),
        Command::Render => render(),
    }
}

/// A test of the conductor that prints and never fails, for what it measures is inside.
fn render() -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    let name = "driver::heat::render::tests::measure::a_thousand_clusters";
    cargo::call(&["test", "--profile", "simulation", "-p", "conductor", "--lib", "--", "--ignored", "--exact", "--nocapture", name])
}

/// Builds in release, starts servers of its own, measures, stops them.
fn with_servers(what: &str, args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD, prerequisites::SERVERS])?;
    cargo::build_for_measuring()?;
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
