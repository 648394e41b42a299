//! The REST API.

use std::process::ExitCode;

use clap::Parser;
use server::config::Cli;
use server::wire::{self, ApiRole};

/// OpenStack container-infra API server.
#[derive(Parser)]
#[command(name = "magnum-api", version)]
struct Arguments {
    #[command(flatten)]
    config: Cli,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Requests have threads of their own. This one rings, shows the metrics, looks for what streams of events wait for, and ends what clients have
    // left; two would wake each other at each ring.
    server::program::serve(
        "magnum-api",
        &arguments.config,
        |_| 1,
        async |config, shutdown| {
            let store = wire::store(&config)?;
            let shown = wire::metrics(&config, config.metrics.api_port, &store).await?;
            wire::api(&config, ApiRole { store, metrics: shown.metrics.clone(), doorbell: None, listener: None }, &shutdown).await
        },
    )
}
