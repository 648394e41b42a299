//! A simulated management cluster for the run on the real OpenStack. Prints what to export for our services and then `ready`; on SIGTERM it
//! prints what is left on it, one line each, and ends with 1 if anything is.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tests::management::Management;
use tokio::signal::unix::{SignalKind, signal};

/// Of the controllers: a client that asks every second sees a cluster come up.
const STEP: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(left) if left.is_empty() => ExitCode::SUCCESS,
        Ok(left) => {
            left.iter().for_each(|line| println!("left: {line}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("management: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<Vec<String>> {
    let mut end = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let management = Management::start(STEP, "3").await?;
    for (name, value) in management.environment() {
        println!("export {name}='{value}'");
    }
    println!("export MANAGEMENT_KUBECONFIG='{}'", management.kubeconfig().display());
    println!("ready");
    end.recv().await;
    Ok(management.left())
}
