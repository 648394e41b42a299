//! Makes, adopts and shows the database schema, with upstream's arguments and exit codes: 0 done, 1 failed, 2 wrong usage.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use model::store::migrate::{self, UPSTREAM_HEAD};
use server::config::{Cli, Config};
use server::{program, telemetry, wire};

const NAME: &str = "magnum-db-manage";

/// Database schema of the OpenStack container-infra service.
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
    /// Print the current revision.
    Version,
    /// Bring the database to the schema of this program.
    Upgrade {
        /// Upstream's revision to end at: `head`, or its id.
        revision: Option<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => program::refuse(NAME, &error),
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config, NAME)?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let _logs = telemetry::init(&config.service, NAME, None)?;
    // The migrations block a thread each while they run: not possible on a runtime of one thread.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = wire::store(&config)?;
        match &arguments.command {
            Command::Version => {
                let revision = migrate::version(&store).await.context("read the revision")?;
                println!("Current DB revision is {}", revision.as_deref().unwrap_or("None"));
            }
            Command::Upgrade { revision } => {
                match revision.as_deref() {
                    None | Some("head" | "heads" | UPSTREAM_HEAD) => {}
                    Some(other) => bail!("Can't locate revision identified by '{other}'"),
                }
                for done in migrate::upgrade(&store).await.context("upgrade the schema")? {
                    tracing::info!("Migration {done} done");
                }
            }
        }
        Ok(())
    })
}
