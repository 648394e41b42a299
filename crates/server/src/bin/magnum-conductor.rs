//! One of the competing workers.

use std::process::ExitCode;

use clap::Parser;
use server::config::Cli;
use server::wire::{self, ConductorRole};

/// OpenStack container-infra conductor.
#[derive(Parser)]
#[command(name = "magnum-conductor", version)]
struct Arguments {
    #[command(flatten)]
    config: Cli,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    server::program::serve("magnum-conductor", &arguments.config, async |config, shutdown| {
        let store = wire::store(&config)?;
        wire::conductor(&config, ConductorRole { store, doorbell: None }, &shutdown).await
    })
}
