//! Tells whether the service can work as it is configured, with upstream's arguments, table and exit codes: 0 all well, 1 warnings, 2 failures,
//! 255 what should never happen.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use server::config::{Cli, Config};
use server::upgrade_check::{self, UNEXPECTED};
use server::wire;

const NAME: &str = "magnum-status";

/// State of the OpenStack container-infra service.
#[derive(Parser)]
#[command(name = NAME, version)]
struct Arguments {
    #[command(flatten)]
    config: Cli,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What an upgrade, or a start, would trip over.
    #[command(subcommand)]
    Upgrade(Upgrade),
}

#[derive(Subcommand)]
enum Upgrade {
    /// Look at configuration, database, broker, Keystone, catalogue, drivers and clocks; each trouble with its cure.
    Check {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Command::Upgrade(Upgrade::Check { json }) = arguments.command;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let checks = match Config::load(&arguments.config, NAME) {
        Ok(config) => match run(config) {
            Ok(checks) => checks,
            Err(error) => {
                eprintln!("{NAME}: {error:#}");
                return ExitCode::from(UNEXPECTED);
            }
        },
        Err(error) => vec![wire::unreadable(&error)],
    };
    if json {
        println!("{}", upgrade_check::as_json(&checks));
    } else {
        print!("{}", upgrade_check::as_table(&checks));
    }
    ExitCode::from(upgrade_check::exit_code(&checks))
}

fn run(config: Config) -> anyhow::Result<Vec<upgrade_check::Check>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // In a task of its own, so that a bug in a check is told by its exit code.
    Ok(runtime.block_on(async move { tokio::spawn(async move { wire::status(&config).await }).await })?)
}
