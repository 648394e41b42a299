//! Every process is restarted, one after the other, behind HAProxy with the file of `deploy/haproxy`, while users go on: no request fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::client::{self, Client};
use tests::load::{self, Http, Request, Until};
use tests::process::Process;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};

/// What the file recommends.
const API: &str = "[DEFAULT]\ngraceful_shutdown_timeout = 30\n[requests]\ndrain_delay = 5\n";

/// HAProxy before the API processes of a world.
struct Balancer {
    process: Process,
    port: u16,
    stats: u16,
    http: reqwest::Client,
}

impl Balancer {
    fn start(world: &World, folder: &Path) -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/haproxy/magnum.cfg");
        let (port, stats) = (free_port()?, free_port()?);
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        command.env("MAGNUM_BIND", format!("127.0.0.1:{port}")).env("MAGNUM_STATS", format!("127.0.0.1:{stats}"));
        for (number, address) in world.addresses().iter().enumerate() {
            command.env(format!("MAGNUM_API_{}", number + 1), address);
        }
        let process = Process::start("haproxy", &mut command, folder).context("haproxy is a package of Debian")?;
        Ok(Self { process, port, stats, http: client::http()? })
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The servers and what HAProxy thinks of them.
    async fn servers(&self) -> Result<BTreeMap<String, String>> {
        let answer = self.http.get(format!("http://127.0.0.1:{}/;csv", self.stats)).send().await?.text().await?;
        let mut lines = answer.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = head.iter().position(|name| *name == "status").context("no column of that name")?;
        let rows = lines.map(|line| line.split(',').collect::<Vec<_>>()).filter(|row| row[1].starts_with("api-"));
        Ok(rows.filter_map(|row| Some((row[1].to_owned(), (*row.get(column)?).to_owned()))).collect())
    }

    /// Waits until a server, or all, are in a state.
    async fn until(&self, what: &str, holds: impl Fn(&BTreeMap<String, String>) -> bool) -> Result<()> {
        wait::until(what, PATIENCE, async || {
            Ok(match self.servers().await {
                Ok(servers) => Seen::when(holds(&servers), || format!("{servers:?}")),
                Err(error) => Seen::Instead(format!("{error:#}")),
            })
        })
        .await
    }

    async fn all_up(&self) -> Result<()> {
        self.until("HAProxy to see all API processes", |servers| servers.len() == 2 && servers.values().all(|state| state == "UP")).await
    }
}

/// Restarts a process as its supervisor would.
async fn restart(world: &mut World, pid: u32) -> Result<()> {
    world.ask_to_end(pid)?;
    let ended = wait::until("the process to end", PATIENCE, async || Ok(Seen::from_option(world.ended(pid)?, "it runs"))).await?;
    ensure!(ended.success(), "it ended with {ended}");
    world.start_again(pid).map(drop)
}

/// Every process, one after the other.
async fn restart_all(world: &mut World, balancer: &Balancer) -> Result<()> {
    for (pid, server) in world.pids("api").into_iter().zip(["api-1", "api-2"]) {
        world.ask_to_end(pid)?;
        // It still serves, and is asked no more before it stops.
        balancer.until("HAProxy to send nothing more", |servers| servers.get(server).is_some_and(|state| state == "DOWN")).await?;
        ensure!(world.ended(pid)?.is_none(), "{server} ended before HAProxy had noticed");
        restart(world, pid).await?;
        balancer.all_up().await?;
    }
    for pid in world.pids("conductor") {
        restart(world, pid).await?;
    }
    Ok(())
}

/// Clusters come and go until it is told to stop; how many did.
async fn clusters(user: Client, template: String, go_on: Arc<AtomicBool>) -> Result<usize> {
    let mut count = 0;
    while go_on.load(Ordering::Relaxed) {
        let cluster = user.create_cluster("blue", &template).await?;
        user.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        user.delete_cluster(&cluster).await?;
        user.wait_gone(&cluster, PATIENCE).await?;
        count += 1;
    }
    Ok(count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_behind_haproxy_loses_no_request() -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { api: API.to_owned(), ..Options::default() }).await?;
    let folder = tempfile::tempdir()?;
    let mut balancer = Balancer::start(&world, folder.path())?;
    balancer.all_up().await?;

    // As a later release expands the schema while this one runs: what it adds is not seen.
    let database = world.database()?;
    database.execute("ALTER TABLE operation ADD COLUMN of_a_later_release VARCHAR(16) NULL", Vec::new()).await?;
    database.execute("CREATE TABLE of_a_later_release (id BIGINT PRIMARY KEY)", Vec::new()).await?;

    let token = world.token("demo", "demo");
    let (address, go_on) = (balancer.address(), Arc::new(AtomicBool::new(true)));
    let body = client::template("small").to_string();
    let request = |method, path, body| Request { method, path, token: Some(&token), microversion: None, body };
    let (list, make) = (request("GET", "/v1/clusters", None), request("POST", "/v1/clustertemplates", Some(body.as_str())));
    let mut connections: Vec<Http> = (0..6).map(|_| Http::new(&address, &list, 200)).collect();
    connections.extend((0..2).map(|_| Http::of(&address, &[(&make, 201), (&list, 200)])));
    let load = tokio::spawn(load::run(connections, Until::Told(go_on.clone())));
    let user = Client::new(client::http()?, &[format!("http://{address}")], Some(&token));
    let template = user.create_template("rolling").await?;

    let restarts = async {
        let restarted = restart_all(&mut world, &balancer).await;
        go_on.store(false, Ordering::Relaxed);
        restarted
    };
    let (lives, restarted) = tokio::join!(clusters(user, template, go_on.clone()), restarts);
    restarted?;
    let lives = lives?;
    let outcome = load.await??;
    eprintln!(
        "{} requests, {} failed, {lives} clusters came and went, slowest answer {} ms",
        outcome.count(),
        outcome.errors,
        outcome.quantile(1.0).as_millis()
    );
    ensure!(outcome.errors == 0, "{} of {} failed; the first: {:?}", outcome.errors, outcome.count(), outcome.first_error);
    ensure!(outcome.count() > 100 && lives > 0, "hardly any load: {outcome:?}");
    ensure!(balancer.process.died().is_none(), "HAProxy ended: {}", balancer.process.tail());
    balancer.process.terminate(Duration::from_secs(10))?;
    world.finish().await
}
