//! The commands of this checkout: `cargo xtask <command>`.
//!
//! It needs nothing but the Rust toolchain to build and knows none of our crates, because it must run first on a fresh
//! machine and find out what the other crates need. It never leaves a process behind and never stops one that it did
//! not start: processes are held by pid in a folder of their own, never looked up by name.

mod advisories;
mod bench;
mod beside;
mod cargo;
mod chaos;
mod ci;
mod demo;
mod dependencies;
mod dev;
mod fuzz;
mod helm;
mod images;
mod keep;
mod lab;
mod node;
mod paths;
mod prerequisites;
mod process;
mod schemathesis;
mod servers;
mod simulate;
mod test;
mod tidy;
mod until;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, try and test this checkout", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The main job in one command: a cluster from nothing to CREATE_COMPLETE and back, on the embedded system
    Demo {
        /// Handed to the demo
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the embedded system in the foreground and print what to export for the `openstack` client
    Dev {
        /// Handed to magnum-standalone
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// A real OpenStack on loopback (root on Debian; see tests/lab/README.md)
    #[command(subcommand)]
    Lab(lab::Command),
    /// A private MariaDB and RabbitMQ for tests
    #[command(subcommand)]
    Servers(servers::Command),
    /// Everything: tidy, all tests on private servers, the run on the real OpenStack
    Test(test::Options),
    /// Layers, fences, migration twins, file sizes; licences, sources and TLS of dependencies
    Tidy,
    /// What the programs are made of, as CycloneDX
    Sbom(dependencies::sbom::Options),
    /// What CI runs: formatting, clippy, sbom, known weaknesses of dependencies, test
    Ci(test::Options),
    /// The fuzz targets under libFuzzer, a minute each
    Fuzz(fuzz::Options),
    /// Measure (release build)
    #[command(subcommand)]
    Bench(bench::Command),
    /// Thousands of operations while conductors, APIs, MariaDB and RabbitMQ are killed at random and the cloud fails; nothing may be lost,
    /// doubled, stuck or left behind
    Chaos {
        /// Handed to the run: `--operations N`, `--seed S`, `--conductors N`, `--apis N`, `--in-flight N`; `--beside REVISION` has one API process and
        /// one conductor be of that revision of the project, which is built first
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The engine under deterministic simulation: many seeds with their figures, or one with everything that happens
    Simulate {
        /// Handed to the simulation: `--seeds N`, `--from S`, `--seed S --trace`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Thousands of requests made from the OpenAPI document, with all checks of the tool of that name (fetched into the cache folder)
    Schemathesis {
        /// Handed to the runner
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The container images for kolla-ansible: built, started as it starts them, compared with what it expects (root on Debian)
    Images(images::Options),
    /// Real machines from the first-boot documents of the Heat driver, with stand-ins for what they download (root on Debian)
    Node,
    /// Prints where the helm program of the tests is (fetched into the cache folder)
    Helm(helm::Options),
    /// Prints where upstream's releases are that tests build databases with (installed into the cache folder)
    Upstream,
    /// Stops what a run started once that run has ended, however it ended (internal)
    #[command(hide = true)]
    Keep(keep::Options),
}

fn main() -> ExitCode {
    if let Some(compiled) = fuzz::as_compiler() {
        return compiled.map_or(ExitCode::FAILURE, ExitCode::from);
    }
    let outcome = match Cli::parse().command {
        Command::Demo { args } => demo::run(&args),
        Command::Dev { args } => dev::run(&args),
        Command::Lab(command) => lab::run(command),
        Command::Servers(command) => servers::run(command),
        Command::Test(options) => test::run(&options),
        Command::Tidy => tidy::run(),
        Command::Sbom(options) => dependencies::sbom::run(&options),
        Command::Ci(options) => ci::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Bench(command) => bench::run(&command),
        Command::Chaos { args } => chaos::run(&args),
        Command::Simulate { args } => simulate::run(&args),
        Command::Schemathesis { args } => schemathesis::run(&args),
        Command::Images(options) => images::run(&options),
        Command::Node => node::run(),
        Command::Helm(options) => helm::run(&options),
        Command::Upstream => upstream::run(),
        Command::Keep(options) => keep::run(&options),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
