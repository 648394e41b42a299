//! Measures the product on the machine at hand, beside what the machine itself can do.
//!
//! The figure that a busy machine disturbs least is CPU time per request, so it is printed with every cell; rates are to be
//! read against the bare query's rate of the same run.

mod fill;
mod report;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use cloud_simulator::Simulator;
use mysql_async::prelude::Queryable;
use tests::binaries;
use tests::client;
use tests::config::{self, Settings};
use tests::database::{Database, needed};
use tests::load::{self, Account, Connection, Http, Outcome, Request};
use tests::process::Process;
use tests::world::free_port;

const CONNECTIONS: [usize; 3] = [1, 8, 64];
const FEW: usize = 20;
const MANY: usize = 1000;
const STARTS: usize = 5;

#[derive(Parser)]
#[command(about = "Measurements; run them through `cargo xtask bench`")]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// One API process on MariaDB.
    Api {
        /// Seconds for each cell of the table.
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let What::Api { seconds } = Arguments::parse().command;
    match measure(Duration::from_secs_f64(seconds.clamp(0.1, 600.0))).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("bench: some requests were not answered as they should be");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One cell of the table.
struct Cell {
    what: &'static str,
    connections: usize,
    outcome: Outcome,
    /// CPU of the API per request; none for the bare query.
    cpu: Option<Duration>,
}

async fn measure(time: Duration) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let simulator = Simulator::start(cloud_simulator::Options::default()).await?;
    let settings = Settings {
        database: database.connection(),
        // Nobody listens: the API accepts without a broker, and no conductor works beside the measurement.
        transport: env::var("MAGNUM_TEST_AMQP_URL").unwrap_or_else(|_| "rabbit://guest:guest@127.0.0.1:1/".to_owned()),
        topic: format!("bench-{}", uuid::Uuid::new_v4().simple()),
        auth_url: simulator.auth_url(),
    };
    let conf = folder.path().join("magnum.conf");
    let text = config::shared(&settings) + "[quotas]\nmax_clusters_per_project = 100000000\n";
    fs::write(&conf, text).context("write magnum.conf")?;
    let upgrade = Command::new(binaries::program("magnum-db-manage")?).arg("--config-file").arg(&conf).arg("upgrade").output()?;
    ensure!(upgrade.status.success(), "magnum-db-manage: {}", String::from_utf8_lossy(&upgrade.stderr));

    let port = free_port()?;
    let own = folder.path().join("api.conf");
    fs::write(&own, config::api("bench", port, 2)).context("write api.conf")?;
    let address = format!("127.0.0.1:{port}");
    let mut first_answers = Vec::new();
    let mut api = start(&address, folder.path(), &mut first_answers).await?;
    for _ in 1..STARTS {
        api.terminate(Duration::from_secs(20))?;
        api = start(&address, folder.path(), &mut first_answers).await?;
    }
    first_answers.sort_unstable();

    let bench = Bench {
        time,
        address,
        pid: api.pid(),
        database,
        few_token: simulator.cloud().token_for("demo", "demo"),
        many_token: simulator.cloud().token_for("demo2", "demo2"),
        few_project: simulator.cloud().project_id("demo"),
        many_project: simulator.cloud().project_id("demo2"),
    };
    let (template, cluster) = bench.fill().await?;
    let cells = bench.cells(&template, &cluster).await?;
    let account = Account::of(api.pid())?;
    api.terminate(Duration::from_secs(20))?;
    bench.database.drop().await?;
    report::report(&cells, first_answers[first_answers.len() / 2], account);
    Ok(cells.iter().all(|cell| cell.outcome.errors == 0))
}

/// Starts the API and notes how long its first answer took.
async fn start(address: &str, folder: &Path, first_answers: &mut Vec<Duration>) -> Result<Process> {
    let mut command = Command::new(binaries::program("magnum-api")?);
    for name in ["magnum.conf", "api.conf"] {
        command.arg("--config-file").arg(folder.join(name));
    }
    let begin = Instant::now();
    let mut process = Process::start("api", &mut command, folder)?;
    let mut connection = Http::new(address, &request("GET", "/", None, None), 200);
    while connection.act().await.is_err() {
        ensure!(process.ended().is_none(), "magnum-api ended while starting:\n{}", process.tail());
        ensure!(begin.elapsed() < Duration::from_secs(30), "magnum-api does not answer:\n{}", process.tail());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    first_answers.push(begin.elapsed());
    Ok(process)
}

struct Bench {
    time: Duration,
    address: String,
    pid: u32,
    database: Database,
    few_token: String,
    many_token: String,
    few_project: String,
    many_project: String,
}

impl Bench {
    async fn cells(&self, template: &str, cluster: &str) -> Result<Vec<Cell>> {
        let one = format!("/v1/clusters/{cluster}");
        let body = client::cluster("posted", template).to_string();
        let plan: [(&str, Request<'_>, u16); 5] = [
            ("GET /", request("GET", "/", None, None), 200),
            ("GET /v1/clusters (20)", request("GET", "/v1/clusters", Some(&self.few_token), None), 200),
            ("GET /v1/clusters (1000)", request("GET", "/v1/clusters", Some(&self.many_token), None), 200),
            ("GET /v1/clusters/{id}", request("GET", &one, Some(&self.few_token), None), 200),
            ("POST /v1/clusters", request("POST", "/v1/clusters", Some(&self.few_token), Some(&body)), 202),
        ];
        let mut cells = Vec::new();
        for (what, request, wanted) in &plan {
            for connections in CONNECTIONS {
                if *what == "GET /v1/clusters (20)" {
                    cells.push(self.bare(connections).await?);
                }
                let load = (0..connections).map(|_| Http::new(&self.address, request, *wanted)).collect();
                let before = Account::of(self.pid)?;
                let outcome = load::run(load, self.time).await?;
                let used = Account::of(self.pid)?.cpu.saturating_sub(before.cpu);
                let count = u32::try_from(outcome.count().max(1))?;
                cells.push(Cell { what, connections, outcome, cpu: Some(used / count) });
            }
        }
        Ok(cells)
    }

    /// The query a list of 20 clusters cannot do without, and nothing else.
    async fn bare(&self, connections: usize) -> Result<Cell> {
        let mut load = Vec::new();
        for _ in 0..connections {
            load.push(Bare { conn: self.database.open().await?, project: self.few_project.clone() });
        }
        let outcome = load::run(load, self.time).await?;
        Ok(Cell { what: "bare SQL, 20 rows", connections, outcome, cpu: None })
    }
}

/// A connection to MariaDB that reads the rows of the short list over and over.
struct Bare {
    conn: mysql_async::Conn,
    project: String,
}

impl Connection for Bare {
    async fn act(&mut self) -> Result<()> {
        let sql = "SELECT * FROM cluster WHERE project_id = ? ORDER BY id LIMIT 1000";
        let rows: Vec<mysql_async::Row> = self.conn.exec(sql, (&self.project,)).await?;
        ensure!(rows.len() == FEW, "{} rows", rows.len());
        Ok(())
    }
}

fn request<'a>(method: &'a str, path: &'a str, token: Option<&'a str>, body: Option<&'a str>) -> Request<'a> {
    Request { method, path, token, body }
}
