//! `schemathesis`: thousands of requests made from the served OpenAPI document, good and bad, against a real API process on MariaDB, with all
//! of the tool's checks: no 5xx, no hang, no status, body or header that the document does not name, nothing accepted that it forbids.
//!
//! Two runs: as an admin, who may do everything, and as a plain user. Both begin with a template and a cluster to find.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;
use tests::client::{Client, text};
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};

/// What the tool is told besides the document.
const CONFIG: &str = include_str!("schemathesis.toml");

/// Seconds that a request may take before it counts as a hang.
const HANG: &str = "20";

/// Lines of the API's log that are shown when an answer was not as it should be.
const SHOWN: usize = 50;

/// How long clusters may take: many are made at once.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Parser)]
#[command(about = "Requests made from the OpenAPI document; run it through `cargo xtask schemathesis`")]
struct Arguments {
    /// The tool's program.
    #[arg(long)]
    program: PathBuf,
    /// Requests at most for each operation in the random phase; the systematic ones come on top.
    #[arg(long, default_value_t = 20)]
    examples: u32,
    /// The run fails when it made fewer requests than this.
    #[arg(long, default_value_t = 2000)]
    at_least: u64,
    /// What random numbers begin with.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Handed to the tool.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("schemathesis: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool> {
    let options = Options { apis: 1, conductors: 1, stack: Duration::from_millis(300), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut requests = 0;
    let mut is_good = true;
    for (user, project) in [("admin", "admin"), ("demo", "demo")] {
        let client = world.user(user, project);
        let template = client.create_template("small").await?;
        for name in ["blue", "spare"] {
            let cluster = client.create_cluster(name, &template).await?;
            client.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        }
        let (good, made) = as_user(arguments, &world, user, project, folder.path())?;
        println!("{user}: {made} requests, {}", if good { "all answered as the document says" } else { "not all answered as it says" });
        requests += made;
        is_good &= good;
    }
    if !is_good {
        for line in world
            .logs("api")
            .iter()
            .flat_map(|log| log.lines().filter(|line| line.contains(" ERROR ") || line.contains(" WARNING ")))
            .take(SHOWN)
        {
            println!("{line}");
        }
    }
    println!("{requests} requests in all; deleting what they made");
    delete_clusters(&world.user("admin", "admin")).await?;
    remove_abandoned(&world).await?;
    world.finish().await?;
    ensure!(requests >= arguments.at_least, "{requests} requests are fewer than {}", arguments.at_least);
    Ok(is_good)
}

/// Whatever became of them, all clusters must go.
async fn delete_clusters(admin: &Client) -> Result<()> {
    wait::until("all clusters to be gone", PATIENCE, async || {
        let body = admin.get("/v1/clusters").await?.expect(200)?.body;
        let clusters = body["clusters"].as_array().context("a list of clusters")?;
        for cluster in clusters.iter().filter(|cluster| cluster["status"] != "DELETE_IN_PROGRESS") {
            // Another run of the conductor may have removed it by now.
            admin.delete(&format!("/v1/clusters/{}", text(cluster, "uuid"))).await?;
        }
        Ok(Seen::when(clusters.is_empty(), || format!("{} clusters", clusters.len())))
    })
    .await
}

/// Clusters that were abandoned leave their stacks, as was asked for.
async fn remove_abandoned(world: &World) -> Result<()> {
    let abandoned: Vec<String> = world.database()?.rows("SELECT cluster_uuid FROM operation WHERE kind = 'cluster_abandon'").await?;
    for stack in world.cloud.stacks() {
        // A stack's name has the first twelve digits of its cluster's id.
        if abandoned.iter().any(|uuid| uuid.replace('-', "").get(..12).is_some_and(|digits| stack.name.contains(digits))) {
            world.cloud.remove_stack(&stack.id);
        }
    }
    Ok(())
}

/// One run: whether all checks held, and how many requests it made.
fn as_user(arguments: &Arguments, world: &World, user: &str, project: &str, folder: &Path) -> Result<(bool, u64)> {
    let config = folder.join("schemathesis.toml");
    fs::write(&config, CONFIG).context("write the configuration")?;
    let report = folder.join(format!("{user}.ndjson"));
    let status = Command::new(&arguments.program)
        .arg("--config-file")
        .arg(&config)
        .arg("run")
        .arg(format!("{}/v1/openapi.json", world.api()))
        .args(["--header", &format!("X-Auth-Token: {}", world.token(user, project))])
        // One worker: with two the tool once died in Python 3.11's own parser, which keeps its depth in one place for all threads.
        .args(["--request-timeout", HANG, "--workers", "1", "--max-examples", &arguments.examples.to_string()])
        .args(["--seed", &arguments.seed.to_string(), "--report", "ndjson", "--report-ndjson-path"])
        .arg(&report)
        .args(&arguments.more)
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("run {}", arguments.program.display()))?;
    Ok((status.success(), requests_of(&report)?))
}

/// How many requests a run made, by its report: every recorded case was sent.
fn requests_of(report: &Path) -> Result<u64> {
    let file = File::open(report).with_context(|| format!("open {}", report.display()))?;
    let mut count = 0;
    for line in BufReader::new(file).lines() {
        let event: Value = serde_json::from_str(&line.context("read the report")?).context("read an event")?;
        if let Some(made) = event.pointer("/ScenarioFinished/recorder/interactions").and_then(Value::as_object) {
            count += u64::try_from(made.len())?;
        }
    }
    Ok(count)
}
