//! Makes, adopts, gives back and shows the database schema, with upstream's arguments and exit codes: 0 done, 1 failed, 2 wrong usage.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use model::store::Store;
use model::store::adoption::{self, UPSTREAM_PREVIOUS};
use model::store::migrate::{self, UPSTREAM_HEAD, Upgraded};
use server::config::{Cli, Config};
use server::sealing::{self, Wanted};
use server::{adoption as report, program, telemetry, wire};

const NAME: &str = "magnum-db-manage";

/// Between two looks at what is in flight.
const LOOK: Duration = Duration::from_secs(1);

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
    /// Bring the database to the schema of this program: an empty one is filled, upstream's is adopted.
    Upgrade {
        /// Upstream's revision to end at: `head`, or its id.
        revision: Option<String>,
    },
    /// Show what the database is, whether it can be adopted, and rows that upstream fails on. Changes nothing.
    Check,
    /// Adopt a database of upstream 2023.1 to 2026.1 in place, and put back what a release has set aside.
    Adopt,
    /// Make the database fit for upstream again. Refused while operations are in flight. Stop the API first, the conductors when none is.
    Release {
        /// Wait so many seconds for the conductors to end what is in flight; a day at most.
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86_400))]
        wait: u64,
        /// End at the revision of upstream 18.x to 22.x, also when an older one was adopted.
        #[arg(long)]
        keep_revision: bool,
    },
    /// Seal the secrets in the rows by the first key of [certificates] seal_key_file, also those that another key has sealed. Services may
    /// run; can be repeated.
    Seal,
    /// Bring the secrets in the rows back into the clear, as upstream reads them. Services may run; can be repeated.
    Unseal,
    /// Refused: revisions are upstream's, none is written by hand.
    Stamp {
        /// Upstream's argument.
        revision: String,
    },
    /// Refused: this program makes no revisions.
    Revision {
        /// Upstream's argument.
        #[arg(short, long)]
        message: Option<String>,
        /// Upstream's argument.
        #[arg(long)]
        autogenerate: bool,
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
    match &arguments.command {
        Command::Stamp { revision } => bail!(
            "stamp {revision} is refused: the revision tells which tables upstream finds, and a wrong one ends every later start of upstream. \
             `adopt` and `release` keep it right"
        ),
        Command::Revision { .. } => bail!("revision is refused: upstream's revisions are made by upstream, and this program adds none"),
        _ => {}
    }
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
                    None | Some("head" | "heads" | UPSTREAM_HEAD | UPSTREAM_PREVIOUS) => {}
                    Some(other) => bail!("Can't locate revision identified by '{other}'"),
                }
                log(&migrate::upgrade(&store).await.context("upgrade the schema")?);
            }
            Command::Check => {
                let (text, refusal) = report::check(&store, &config).await?;
                print!("{text}");
                if let Some(refusal) = refusal {
                    bail!("{refusal}");
                }
            }
            Command::Adopt => {
                let done = migrate::adopt(&store).await.context("adopt the database")?;
                log(&done);
                print!("{}", report::adopted(&store, &config, &done).await?);
            }
            Command::Release { wait, keep_revision } => {
                rest(&store, Duration::from_secs(*wait)).await?;
                let released = adoption::release(&store, *keep_revision).await.context("give the database back")?;
                print!("{}", report::released(&store, &config, &released).await?);
            }
            Command::Seal => convert(&store, Wanted::Sealed).await?,
            Command::Unseal => convert(&store, Wanted::Clear).await?,
            Command::Stamp { .. } | Command::Revision { .. } => {}
        }
        Ok(())
    })
}

/// Waits until no operation is in flight, as long as there is time, and shows what is waited for. What is in flight then has the release
/// refused.
async fn rest(store: &Store, patience: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + patience;
    let mut shown = None;
    while Instant::now() < end {
        let Some(told) = adoption::in_flight(store).await.context("look for operations in flight")? else { break };
        if shown.as_ref() != Some(&told) {
            println!("Waiting: {told}");
            shown = Some(told);
        }
        tokio::time::sleep(LOOK.min(end.saturating_duration_since(Instant::now()))).await;
    }
    Ok(())
}

async fn convert(store: &Store, wanted: Wanted) -> anyhow::Result<()> {
    wire::check_schema(store).await?;
    let (text, problem) = sealing::convert(store, wanted).await?;
    print!("{text}");
    match problem {
        Some(problem) => bail!("{problem}"),
        None => Ok(()),
    }
}

fn log(done: &Upgraded) {
    for migration in &done.migrations {
        tracing::info!("Migration {migration} done");
    }
    for kept in &done.restored {
        tracing::info!("Put back: {} {}", kept.what, kept.of);
    }
}
