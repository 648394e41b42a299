//! Measures the product on the machine at hand, beside what the machine itself can do.
//!
//! The figure that a busy machine disturbs least is CPU time per request, so it is printed with every cell; rates are to be
//! read against the bare query's rate of the same run.

mod conductor;
mod fill;
mod identity;
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
use tests::load::{self, Account, Connection, Http, Outcome, Request, Until};
use tests::process::Process;
use tests::world::free_port;

const CONNECTIONS: [usize; 3] = [1, 8, 64];
const FEW: usize = 20;
const MANY: usize = 1000;
const STARTS: usize = 5;
const LIST: &str = "GET /v1/clusters (20)";
const LONG_DETAIL: &str = "GET .../detail (1000)";
const BARE: &str = "bare SQL, 20 rows";
const POST: &str = "POST /v1/clusters";
/// The same where each request looks up in the cloud anew what it names: what the checks cost that [`POST`] mostly remembers.
const POST_ASKING: &str = "POST, looking all up";

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
        /// Only cells whose name holds this text, and no endurance run.
        #[arg(long)]
        only: Option<String>,
        /// Requests of the endurance run at the end; 0 leaves it out.
        #[arg(long, default_value_t = 200_000)]
        endurance: u64,
        /// Exit with 1 when a target is missed, too. Without it a slow machine fails nobody.
        #[arg(long)]
        strict: bool,
    },
    /// Conductors with thousands of clusters in flight, on MariaDB, RabbitMQ and the simulated cloud.
    Conductor(conductor::Plan),
    /// Tokens known and unknown, a full cache of them, signatures of certificates.
    Identity(identity::Plan),
}

#[tokio::main]
async fn main() -> ExitCode {
    let (outcome, wrong) = match Arguments::parse().command {
        What::Api { seconds, only, endurance, strict } => {
            let plan = Plan { time: Duration::from_secs_f64(seconds.clamp(0.1, 600.0)), only, endurance, strict };
            (measure(plan).await, "some requests were not answered as they should be")
        }
        What::Conductor(plan) => (conductor::measure(&plan).await, "some clusters are not complete"),
        What::Identity(plan) => (identity::measure(&plan).await, "some requests were not answered as they should be"),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("bench: {wrong}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is to be measured.
struct Plan {
    /// Of each cell.
    time: Duration,
    only: Option<String>,
    endurance: u64,
    /// Whether a missed target fails the run.
    strict: bool,
}

impl Plan {
    fn wants(&self, what: &str) -> bool {
        self.only.as_deref().is_none_or(|only| what.contains(only))
    }
}

/// One cell of the table.
struct Cell {
    what: &'static str,
    connections: usize,
    outcome: Outcome,
    /// CPU of the API per request; none for the bare query.
    cpu: Option<Duration>,
    /// Memory of the API afterwards, in KiB.
    resident: u64,
}

impl Cell {
    /// What these connections come to until they are over, and what they cost the process that answers.
    async fn measured(pid: u32, what: &'static str, load: Vec<Http>, until: Until) -> Result<Self> {
        let connections = load.len();
        let before = Account::of(pid)?;
        let outcome = load::run(load, until).await?;
        let after = Account::of(pid)?;
        let count = u32::try_from(outcome.count().max(1))?;
        let cpu = Some(after.cpu.saturating_sub(before.cpu) / count);
        Ok(Self { what, connections, outcome, cpu, resident: after.resident })
    }
}

async fn measure(plan: Plan) -> Result<bool> {
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

    let address = settle("api", folder.path(), "")?;
    let mut first_answers = Vec::new();
    let mut api = start("api", &address, folder.path(), &mut first_answers).await?;
    for _ in 1..STARTS {
        api.terminate(Duration::from_secs(20))?;
        api = start("api", &address, folder.path(), &mut first_answers).await?;
    }
    first_answers.sort_unstable();

    let bench = Bench {
        plan,
        address,
        pid: api.pid(),
        database,
        few_token: simulator.cloud().token_for("demo", "demo"),
        many_token: simulator.cloud().token_for("demo2", "demo2"),
        few_project: simulator.cloud().project_id("demo"),
        many_project: simulator.cloud().project_id("demo2"),
    };
    let (template, cluster) = bench.fill().await?;
    let mut cells = bench.cells(&template, &cluster).await?;
    let account = at_rest(api.pid()).await?;
    let endurance = match bench.plan.only {
        None if bench.plan.endurance > 0 => Some(bench.endure(&template, &cluster).await?),
        _ => None,
    };
    api.terminate(Duration::from_secs(20))?;
    if bench.plan.wants(POST_ASKING) {
        cells.extend(bench.posts_that_look_all_up(&template, folder.path()).await?);
    }
    bench.database.drop().await?;
    let missed = report::report(&cells, first_answers[first_answers.len() / 2], account, endurance.as_ref());
    let is_good = cells.iter().all(|cell| cell.outcome.errors == 0) && endurance.is_none_or(|run| run.errors == 0);
    ensure!(!is_good || !bench.plan.strict || missed == 0, "{missed} targets are missed");
    Ok(is_good)
}

/// Writes what an API process of this name has for itself beside the usual; the address where it will listen.
fn settle(name: &str, folder: &Path, more: &str) -> Result<String> {
    let port = free_port()?;
    let own = folder.join(format!("{name}.conf"));
    fs::write(&own, config::api("bench", port, 2) + more).with_context(|| format!("write {}", own.display()))?;
    Ok(format!("127.0.0.1:{port}"))
}

/// Looks at a process once its memory changes no more, for what was freed last goes back to the system after a while.
async fn at_rest(pid: u32) -> Result<Account> {
    const SAME: u64 = 64;
    let end = Instant::now() + Duration::from_secs(15);
    let mut account = Account::of(pid)?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let next = Account::of(pid)?;
        if next.resident.abs_diff(account.resident) <= SAME || Instant::now() > end {
            return Ok(next);
        }
        account = next;
    }
}

/// Starts the API process of this name and notes how long its first answer took.
async fn start(name: &str, address: &str, folder: &Path, first_answers: &mut Vec<Duration>) -> Result<Process> {
    let mut command = Command::new(binaries::program("magnum-api")?);
    for file in ["magnum", name] {
        command.arg("--config-file").arg(folder.join(format!("{file}.conf")));
    }
    let begin = Instant::now();
    let mut process = Process::start(name, &mut command, folder)?;
    let mut connection = Http::new(address, &request("GET", "/", None, None), 200);
    while connection.act().await.is_err() {
        ensure!(process.ended().is_none(), "magnum-api ended while starting:\n{}", process.tail());
        ensure!(begin.elapsed() < Duration::from_secs(30), "magnum-api does not answer:\n{}", process.tail());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    first_answers.push(begin.elapsed());
    Ok(process)
}

/// What the endurance run came to.
struct Endurance {
    requests: u64,
    errors: usize,
    /// Memory of the API after each tenth, in KiB.
    resident: Vec<u64>,
}

struct Bench {
    plan: Plan,
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
        let (few, many) = (Some(self.few_token.as_str()), Some(self.many_token.as_str()));
        let one = format!("/v1/clusters/{cluster}");
        let groups = format!("/v1/clusters/{cluster}/nodegroups");
        let body = client::cluster("posted", template).to_string();
        let stats = format!("/v1/stats?project_id={}&type=cluster", self.many_project);
        let plan: [(&str, Request<'_>, u16); 9] = [
            ("GET /", request("GET", "/", None, None), 200),
            (LIST, request("GET", "/v1/clusters", few, None), 200),
            ("GET /v1/clusters (1000)", request("GET", "/v1/clusters", many, None), 200),
            ("GET .../detail (20)", request("GET", "/v1/clusters/detail", few, None), 200),
            (LONG_DETAIL, request("GET", "/v1/clusters/detail", many, None), 200),
            ("GET /v1/clusters/{id}", request("GET", &one, few, None), 200),
            ("GET .../nodegroups (2)", Request { microversion: Some("1.9"), ..request("GET", &groups, few, None) }, 200),
            ("GET /v1/stats (1000)", request("GET", &stats, many, None), 200),
            // The template names an image, flavors, a network and a key pair: Glance, Nova and Neutron are asked.
            (POST, request("POST", "/v1/clusters", few, Some(&body)), 202),
        ];
        let mut cells = Vec::new();
        for (what, request, wanted) in plan.iter().filter(|(what, ..)| self.plan.wants(what)) {
            for connections in CONNECTIONS {
                if *what == LIST {
                    cells.push(self.bare(connections).await?);
                }
                let load = (0..connections).map(|_| Http::new(&self.address, request, *wanted)).collect();
                cells.push(Cell::measured(self.pid, what, load, Until::Time(self.plan.time)).await?);
            }
        }
        Ok(cells)
    }

    /// Requests for clusters to a process of their own that remembers nothing of the cloud, when the other one has ended.
    async fn posts_that_look_all_up(&self, template: &str, folder: &Path) -> Result<Vec<Cell>> {
        let address = settle("api-asking", folder, "[requests]\ncloud_check_cache_seconds = 0\n")?;
        let mut api = start("api-asking", &address, folder, &mut Vec::new()).await?;
        let body = client::cluster("posted", template).to_string();
        let post = request("POST", "/v1/clusters", Some(&self.few_token), Some(&body));
        let mut cells = Vec::new();
        for connections in CONNECTIONS {
            let load = (0..connections).map(|_| Http::new(&address, &post, 202)).collect();
            cells.push(Cell::measured(api.pid(), POST_ASKING, load, Until::Time(self.plan.time)).await?);
        }
        api.terminate(Duration::from_secs(20))?;
        Ok(cells)
    }

    /// Many requests of all kinds, to see whether memory grows with them.
    async fn endure(&self, template: &str, cluster: &str) -> Result<Endurance> {
        let (few, many) = (Some(self.few_token.as_str()), Some(self.many_token.as_str()));
        let one = format!("/v1/clusters/{cluster}");
        let body = client::cluster("posted", template).to_string();
        let show = request("GET", &one, few, None);
        let list = request("GET", "/v1/clusters?limit=20", few, None);
        let long = request("GET", "/v1/clusters", many, None);
        let detail = request("GET", "/v1/clusters/detail?limit=20", few, None);
        let post = request("POST", "/v1/clusters", few, Some(&body));
        let none = request("GET", "/v1/clusters/none", few, None);
        let mut round: Vec<(&Request<'_>, u16)> = Vec::new();
        for _ in 0..20 {
            round.extend([(&show, 200), (&list, 200), (&show, 200), (&detail, 200), (&none, 404)]);
        }
        round[33] = (&long, 200);
        round[66] = (&post, 202);
        let connections = 8;
        let mut run = Endurance { requests: 0, errors: 0, resident: Vec::new() };
        while run.requests < self.plan.endurance {
            let turns = (self.plan.endurance / 10 / connections).max(1);
            let load = (0..connections).map(|_| Http::of(&self.address, &round)).collect();
            let outcome = load::run(load, Until::Turns(turns)).await?;
            if let Some(error) = &outcome.first_error {
                eprintln!("endurance: {error}");
            }
            run.requests += turns * connections;
            run.errors += outcome.errors;
            run.resident.push(Account::of(self.pid)?.resident);
        }
        Ok(run)
    }

    /// The query a list of 20 clusters cannot do without, and nothing else.
    async fn bare(&self, connections: usize) -> Result<Cell> {
        let mut load = Vec::new();
        for _ in 0..connections {
            load.push(Bare { conn: self.database.open().await?, project: self.few_project.clone() });
        }
        let outcome = load::run(load, Until::Time(self.plan.time)).await?;
        Ok(Cell { what: BARE, connections, outcome, cpu: None, resident: Account::of(self.pid)?.resident })
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
    Request { method, path, token, microversion: None, body }
}
