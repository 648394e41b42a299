//! One of the competing workers.

use std::process::ExitCode;

use clap::Parser;
use provider_clients::warden;
use server::config::{Cli, Config};
use server::wire::{self, ConductorRole};

/// OpenStack container-infra conductor.
#[derive(Parser)]
#[command(name = "magnum-conductor", version)]
struct Arguments {
    #[command(flatten)]
    config: Cli,
}

fn main() -> ExitCode {
    // Conductors start this program once more beside each helm.
    if let Some(code) = warden::called(std::env::args_os()) {
        return code;
    }
    let arguments = Arguments::parse();
    let threads = |config: &Config| if config.conductor.workers == 0 { 2 } else { config.conductor.workers.min(8) as usize };
    server::program::serve("magnum-conductor", &arguments.config, threads, async |config, shutdown| {
        let store = wire::store(&config)?;
        let shown = wire::metrics(&config, config.metrics.conductor_port, &store).await?;
        wire::conductor(&config, ConductorRole { store, metrics: shown.metrics.clone(), doorbell: None }, &shutdown).await
    })
}
