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
        let shown = wire::metrics(&config, config.metrics.conductor_port, &store).await?;
        wire::conductor(&config, ConductorRole { store, metrics: shown.metrics.clone(), doorbell: None }, &shutdown).await
    })
}
