//! The images for kolla-ansible, built and started as it starts them, on a real MariaDB and RabbitMQ and the simulated cloud;
//! `cargo xtask images` builds this, starts the servers, and runs it. `deploy/containers/check` says what is compared.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tests::process::send_signal;
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World, free_port};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Building the images takes half a minute, all the checks as long.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Parser)]
#[command(about = "Builds the images and starts both roles as kolla-ansible does; run it through `cargo xtask images`")]
struct Arguments {
    /// The folder `deploy/containers`
    #[arg(long)]
    containers: PathBuf,
    /// Where the images go
    #[arg(long)]
    output: PathBuf,
    /// Folder of the programs
    #[arg(long)]
    programs: PathBuf,
    /// The helm program
    #[arg(long)]
    helm: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("images: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { containers, output, programs, helm } = arguments;
    let mut build = Command::new(containers.join("build"));
    build.arg("--output").arg(output).arg("--bin-dir").arg(programs).arg("--helm").arg(helm).kill_on_drop(true);
    let built = timeout(LIMIT, build.status()).await.context("deploy/containers/build took too long")??;
    ensure!(built.success(), "deploy/containers/build: {built}");

    // Everything but the services.
    let mut world = World::start(Mix::Distributed, Options { apis: 0, conductors: 0, ..Options::default() }).await?;
    let port = free_port()?;
    let config = format!(
        "{}[DEFAULT]\nhost = 127.0.0.1\nlog_dir = /var/log/kolla/magnum\nstate_path = /var/lib/magnum\n\
         [api]\nhost = 127.0.0.1\nport = {port}\nworkers = 2\n",
        world.configuration()?
    );
    let file = output.join("magnum.conf");
    std::fs::write(&file, config).context("write magnum.conf")?;
    let broker = broker_port(&std::env::var("MAGNUM_TEST_AMQP_URL").context("MAGNUM_TEST_AMQP_URL is not set")?)?;
    let mut check = Command::new(containers.join("check"));
    check.arg(output).arg(&file).args([port.to_string(), broker.to_string()]).env("HELM", helm);
    check.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.spawn().context("start deploy/containers/check")?;
    let outcome = timeout(LIMIT, follow(&mut check, &mut world, port)).await.context("deploy/containers/check took too long");
    // It ends its containers when its input ends, or when it is told to.
    drop(check.stdin.take());
    if outcome.is_err() {
        end(&check);
    }
    let ended = timeout(LIMIT, check.wait()).await.context("deploy/containers/check does not end")??;
    outcome??;
    ensure!(ended.success(), "deploy/containers/check: {ended}");
    world.close().await.map(drop)
}

/// Passes on what the check says; a cluster goes through both roles when they are up.
async fn follow(check: &mut Child, world: &mut World, port: u16) -> Result<()> {
    let mut lines = BufReader::new(check.stdout.take().context("its output is ours")?).lines();
    let mut is_done = false;
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        if line == "READY" {
            a_cluster(world, port).await?;
            println!("ok - a cluster from nothing to CREATE_COMPLETE and back, through both containers");
            is_done = true;
            drop(check.stdin.take());
        }
    }
    ensure!(is_done, "the check ended before both roles were up");
    Ok(())
}

async fn a_cluster(world: &mut World, port: u16) -> Result<()> {
    world.add_api(&format!("http://127.0.0.1:{port}"));
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    Ok(())
}

fn end(check: &Child) {
    if let Some(pid) = check.id() {
        // It may have ended meanwhile.
        let _ = send_signal("TERM", pid);
    }
}

fn broker_port(url: &str) -> Result<u16> {
    let authority = url.rsplit('@').next().and_then(|rest| rest.split('/').next()).unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((_, port)) => port.parse().with_context(|| format!("the port of {authority}")),
        None => bail!("no port in the broker's address"),
    }
}
