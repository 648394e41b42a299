//! The chaos run as a program; `cargo xtask chaos` builds it, starts MariaDB and RabbitMQ for it, and runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tests::chaos::{self, Plan};

#[derive(Parser)]
#[command(about = "Conductors, APIs, broker and database are killed at random under a load; run it through `cargo xtask chaos`")]
struct Arguments {
    /// Operations to be accepted, at least
    #[arg(long, default_value_t = 2_000)]
    operations: usize,
    /// What is asked for and what goes wrong follows from it; when it happens does not
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Conductor processes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=16))]
    conductors: u16,
    /// API processes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=8))]
    apis: u16,
    /// Users who ask at the same time, each for one cluster after the other
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u16).range(1..=1000))]
    in_flight: u16,
    /// How many of the users have clusters of the Cluster API driver, made by the real helm on a simulated management cluster
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1000))]
    on_cluster_api: u16,
    /// Folder of MariaDB and RabbitMQ that `xtask servers up` has started
    #[arg(long)]
    servers: Option<PathBuf>,
    /// Folder with the programs of an earlier release: one API process and one conductor are of it (`cargo xtask chaos --beside REVISION` builds them)
    #[arg(long)]
    older: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { operations, seed, conductors, apis, in_flight, on_cluster_api, servers, older } = Arguments::parse();
    let plan = Plan {
        operations,
        seed,
        conductors: conductors.into(),
        apis: apis.into(),
        in_flight: in_flight.into(),
        on_cluster_api: on_cluster_api.into(),
        servers,
        older,
        ..Plan::default()
    };
    match chaos::run(plan).await {
        Ok(report) => {
            println!("{}", report.text());
            if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}
