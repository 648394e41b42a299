//! The whole service on one machine, without any other software.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use provider_clients::warden;
use server::program;
use server::standalone::{self, Plan};

const NAME: &str = "magnum-standalone";

/// API, conductor, database and (unless --cloud is given) a simulated cloud in one process.
#[derive(Parser)]
#[command(name = NAME, version)]
struct Arguments {
    /// Folder of the database; kept. Without it a folder is made and removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of the API; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9511")]
    listen: SocketAddr,
    /// Keystone of the cloud to use instead of the simulated one.
    #[arg(long, value_name = "AUTH_URL")]
    cloud: Option<String>,
    /// Seconds that the simulated cloud takes for a stack.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    stack_seconds: u64,
    /// Print what to export for the `openstack` client.
    #[arg(long)]
    dev: bool,
}

fn main() -> ExitCode {
    // Conductors start this program once more beside each helm.
    if let Some(code) = warden::called(std::env::args_os()) {
        return code;
    }
    let arguments = Arguments::parse();
    let plan = Plan {
        listen: arguments.listen,
        cloud: arguments.cloud,
        stack_duration: Duration::from_secs(arguments.stack_seconds),
        explain: arguments.dev,
    };
    match start(&plan, arguments.data_dir) {
        Ok(code) => code,
        Err(error) => program::refuse(NAME, &error),
    }
}

fn start(plan: &Plan, data_dir: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let made = if data_dir.is_none() { Some(tempfile::tempdir()?) } else { None };
    let data = match (&data_dir, &made) {
        (Some(path), _) => path.clone(),
        (None, Some(folder)) => folder.path().to_owned(),
        (None, None) => unreachable!("a folder was made when none was given"),
    };
    std::fs::create_dir_all(&data)?;
    let data = data.canonicalize()?;
    // The simulated cloud has threads and a runtime of its own and outlives the service's runtime.
    let starter = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (simulator, auth_url) = starter.block_on(standalone::simulated_cloud(plan))?;
    let config = standalone::configuration(&data, &auth_url)?;
    let code =
        program::serve_with(NAME, config, 2, async |config, shutdown| standalone::run(plan, &config, simulator.as_ref(), &shutdown).await);
    drop(simulator);
    Ok(code)
}
