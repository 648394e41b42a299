//! The main job in one minute, on the embedded system: a cluster from nothing to CREATE_COMPLETE and back.
//!
//! It does what a user would do with the `openstack` client, over the same REST API.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;
use tests::client::{self, Client, text};
use tests::login::log_in;
use tests::process::Process;
use tests::wait::{self, Seen};
use tests::{binaries, kubeconfig};

/// The whole demo is meant to be over in a minute; a busy machine may take longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Between two lines of progress.
const BREATH: Duration = Duration::from_millis(900);

#[derive(Parser)]
#[command(about = "A cluster from nothing to CREATE_COMPLETE and back, on the embedded system")]
struct Arguments {
    /// Seconds that the simulated cloud takes for the cluster's stack.
    #[arg(long, default_value_t = 8)]
    stack_seconds: u64,
    /// Write the kubeconfig to this file.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("demo: no temporary folder: {error}");
            return ExitCode::FAILURE;
        }
    };
    let limit = LIMIT + Duration::from_secs(2 * arguments.stack_seconds);
    let start = Instant::now();
    let result = match tokio::time::timeout(limit, demo(&arguments, folder.path())).await {
        Ok(result) => result,
        Err(_) => Err(anyhow::anyhow!("not done after {} s", limit.as_secs())),
    };
    match result {
        Ok(()) => {
            println!("\nDone in {:.0} s.", start.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("\ndemo: {error:#}");
            if let Ok(log) = fs::read_to_string(folder.path().join("standalone.log")) {
                let lines: Vec<&str> = log.lines().collect();
                eprintln!("The end of the log:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"));
            }
            ExitCode::FAILURE
        }
    }
}

async fn demo(arguments: &Arguments, folder: &Path) -> Result<()> {
    let mut command = Command::new(binaries::program("magnum-standalone")?);
    command.arg("--data-dir").arg(folder.join("data")).args([
        "--listen",
        "127.0.0.1:0",
        "--stack-seconds",
        &arguments.stack_seconds.to_string(),
    ]);
    let (mut system, output) = Process::start_with_output("standalone", &mut command, folder)?;
    let ready = wait::until("the system to be ready", Duration::from_secs(30), async || {
        if let Some(status) = system.ended() {
            anyhow::bail!("magnum-standalone ended while starting: {status}");
        }
        let line = fs::read_to_string(&output).unwrap_or_default();
        let ready = line.split_once('\n').and_then(|(line, _)| serde_json::from_str::<Value>(line).ok());
        Ok(Seen::from_option(ready, "nothing"))
    })
    .await?;
    let (api, auth) = (text(&ready, "api_url"), text(&ready, "auth_url"));
    say("API", &format!("{api} (conductor, SQLite and a simulated OpenStack in the same process)"));

    let http = client::http()?;
    let token = log_in(&http, &auth, "demo", "demo", "demo").await?;
    say("Login", &format!("demo, at {auth}"));
    let user = Client::new(http, &[api], Some(&token));

    let template = user.create_template("small").await?;
    say("Template", &format!("small ({template})"));
    let cluster = user.create_cluster("blue", &template).await?;
    say("Cluster", &format!("blue ({cluster}), 1 master and 2 workers\n"));

    let complete = follow(&user, &cluster).await?.context("the cluster is gone")?;
    ensure!(complete["status"] == "CREATE_COMPLETE", "the cluster ended as {}: {}", complete["status"], complete["status_reason"]);
    println!();
    say("Kubernetes API", &text(&complete, "api_address"));
    say("Masters", &addresses(&complete["master_addresses"]));
    say("Workers", &addresses(&complete["node_addresses"]));

    let access = kubeconfig::access(&user, &cluster).await?;
    println!("\nkubeconfig, signed by the cluster's CA (as from `openstack coe cluster config blue`):\n");
    for line in access.kubeconfig(Some(32)).lines() {
        println!("    {line}");
    }
    if let Some(path) = &arguments.kubeconfig {
        fs::write(path, access.kubeconfig(None)).with_context(|| format!("write {}", path.display()))?;
        println!("\nWritten to {}.", path.display());
    }

    println!("\nClusters:\n");
    let list = user.get("/v1/clusters").await?.expect(200)?.body;
    let clusters = list["clusters"].as_array().context("a list of clusters")?;
    println!("    {:<36}  {:<8}  {:<7}  {:<7}  status", "uuid", "name", "masters", "workers");
    for shown in clusters {
        let field = |key: &str| shown[key].as_str().map_or_else(|| shown[key].to_string(), str::to_owned);
        println!(
            "    {:<36}  {:<8}  {:<7}  {:<7}  {}",
            field("uuid"),
            field("name"),
            field("master_count"),
            field("node_count"),
            field("status")
        );
    }

    println!("\nDeleting it:\n");
    user.delete_cluster(&cluster).await?;
    if let Some(left) = follow(&user, &cluster).await? {
        anyhow::bail!("the cluster is still there as {}: {}", left["status"], left["status_reason"]);
    }
    user.delete(&format!("/v1/clustertemplates/{template}")).await?.expect(204)?;
    let status = system.terminate(Duration::from_secs(20))?;
    ensure!(status.success(), "magnum-standalone ended with {status}");
    Ok(())
}

/// Prints how a cluster changes, about once in a second, until its operation has ended; none when the cluster is gone.
async fn follow(user: &Client, cluster: &str) -> Result<Option<Value>> {
    let start = Instant::now();
    let mut printed = (String::new(), String::new());
    let mut next = Duration::ZERO;
    wait::until("the operation to end", LIMIT, async || {
        let answer = user.get(&format!("/v1/clusters/{cluster}")).await?;
        if answer.status == 404 {
            println!("    {:5.1} s  gone (404)", start.elapsed().as_secs_f64());
            return Ok(Seen::Yes(None));
        }
        let body = answer.expect(200)?.body;
        let now = (text(&body, "status"), text(&body, "status_reason"));
        let is_due = start.elapsed() >= next || now.0 != printed.0;
        if now != printed && is_due {
            let elapsed = start.elapsed().as_secs_f64();
            println!("    {elapsed:5.1} s  {:<18}  {}", now.0, short(&now.1));
            next = start.elapsed() + BREATH;
            printed = now.clone();
        }
        Ok(if now.0.ends_with("_IN_PROGRESS") { Seen::Instead(now.0) } else { Seen::Yes(Some(body)) })
    })
    .await
}

/// Without the stack's name, which says nothing here, and no wider than a terminal.
fn short(reason: &str) -> String {
    let reason = reason.split(" of stack ").next().unwrap_or_default();
    match reason.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.to_owned(),
    }
}

fn addresses(list: &Value) -> String {
    let texts: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    texts.join(", ")
}

fn say(what: &str, text: &str) {
    println!("{what:<15} {text}");
}
