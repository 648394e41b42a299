//! API processes tell each other what Keystone said of a token, through a real memcached. Who can read and write there gains nothing by it, and
//! one that is away or hangs costs a moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::process::Process;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

/// A memcached of the test's own.
struct Memcached {
    process: Process,
    port: u16,
}

impl Memcached {
    async fn start(folder: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-U", "0", "-m", "16", "-t", "1", "-u", "nobody", "-p", &port.to_string()]);
        let process = Process::start("memcached", &mut command, folder).context("memcached is a package of Debian")?;
        let memcached = Self { process, port };
        wait::until("memcached to listen", PATIENCE, async || {
            let connected = TcpStream::connect(("127.0.0.1", port)).await;
            Ok(Seen::when(connected.is_ok(), || format!("{connected:?}")))
        })
        .await?;
        Ok(memcached)
    }

    /// What API processes need to know of it.
    fn environment(&self) -> BTreeMap<String, String> {
        let option = |name: &str, value: &str| (format!("OS_KEYSTONE_AUTHTOKEN__{name}"), value.to_owned());
        BTreeMap::from([
            option("MEMCACHED_SERVERS", &format!("127.0.0.1:{}", self.port)),
            option("MEMCACHE_SECURITY_STRATEGY", "ENCRYPT"),
            option("MEMCACHE_SECRET_KEY", "the-secret-of-the-cache"),
            option("MEMCACHE_POOL_SOCKET_TIMEOUT", "1"),
        ])
    }

    /// The lines that answer a command, up to the one that ends them.
    async fn ask(&self, command: &str) -> Result<Vec<String>> {
        let mut stream = BufStream::new(TcpStream::connect(("127.0.0.1", self.port)).await?);
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        stream.flush().await?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            ensure!(stream.read_line(&mut line).await? > 0, "memcached has closed the connection after {lines:?}");
            let line = line.trim_end().to_owned();
            if ["END", "STORED"].contains(&line.as_str()) {
                return Ok(lines);
            }
            ensure!(!line.contains("ERROR"), "{line}");
            lines.push(line);
        }
    }

    /// What is there, by its name.
    async fn all(&self) -> Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for line in self.ask("lru_crawler metadump all").await? {
            let name = line.split(' ').find_map(|word| word.strip_prefix("key=")).with_context(|| line.clone())?;
            let name = name.replace("%2F", "/").replace("%3A", ":");
            let value = self.ask(&format!("get {name}")).await?.pop().context("a value")?;
            all.insert(name, value);
        }
        Ok(all)
    }

    /// The same, once it tells of so many: what is in use just then it passes by.
    async fn holding(&self, count: usize) -> Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        wait::until("memcached to tell of all that it has", PATIENCE, async || {
            all = self.all().await?;
            Ok(Seen::when(all.len() == count, || format!("{all:?}")))
        })
        .await?;
        Ok(all)
    }

    async fn put(&self, name: &str, value: &str) -> Result<()> {
        self.ask(&format!("set {name} 0 300 {}\r\n{value}", value.len())).await.map(drop)
    }
}

async fn world(memcached: &Memcached) -> Result<World> {
    let world = World::start(Mix::Distributed, Options { environment: memcached.environment(), ..Options::default() }).await?;
    world.keep_secret("the-secret-of-the-cache", "the secret of the cache");
    Ok(world)
}

/// How often Keystone is asked about a token while two requests are made, one to each process; both must be answered so.
async fn asked_about(world: &World, token: &str, path: &str, status: u16) -> Result<usize> {
    let before = world.cloud.calls("keystone.token_validate");
    let client = world.client(Some(token));
    for _ in 0..2 {
        client.get(path).await?.expect(status)?;
    }
    Ok(world.cloud.calls("keystone.token_validate") - before)
}

#[tokio::test]
async fn one_process_asks_keystone_for_all_and_nobody_else_gains_by_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let memcached = Memcached::start(folder.path()).await?;
    let world = world(&memcached).await?;
    let (demo, admin) = (world.token("demo", "demo"), world.token("admin", "admin"));
    ensure!(asked_about(&world, &admin, "/v1/quotas", 200).await? == 1, "each asked for itself");
    let of_admin = memcached.holding(1).await?;
    ensure!(asked_about(&world, &demo, "/v1/clusters", 200).await? == 1, "each asked for itself");

    // Nothing can be read there.
    let all = memcached.holding(2).await?;
    ensure!(all.keys().all(|name| name.starts_with("magnum/v1:")), "{all:?}");
    for secret in [demo.as_str(), &admin, &world.cloud.user_id("demo"), &world.cloud.project_id("demo"), "member", "admin"] {
        ensure!(all.iter().all(|(name, value)| !name.contains(secret) && !value.contains(secret)), "{secret} is there to be read");
    }

    // Nor does it help to write there: neither an administrator's words under another's name, nor any.
    let rights = of_admin.values().next().context("an administrator's")?;
    for (more, value) in [rights.as_str(), "{}", ""].into_iter().enumerate() {
        let other = world.token("demo2", "demo2");
        world.client(Some(&other)).get("/v1/clusters").await?.expect(200)?;
        let new: Vec<String> = memcached.holding(all.len() + 1 + more).await?.into_keys().filter(|name| !all.contains_key(name)).collect();
        for name in &new {
            memcached.put(name, value).await?;
        }
        // Whichever process has not seen it yet asks Keystone.
        ensure!(asked_about(&world, &other, "/v1/quotas", 403).await? == 1, "what was written was believed, or not looked at");
    }

    // What Keystone does not know is nobody's news.
    let before = memcached.all().await?.len();
    ensure!(asked_about(&world, "no-such-token", "/v1/clusters", 401).await? == 2);
    ensure!(memcached.all().await?.len() == before);
    world.finish().await
}

#[tokio::test]
async fn a_memcached_that_is_away_or_hangs_costs_a_moment_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut memcached = Memcached::start(folder.path()).await?;
    let world = world(&memcached).await?;
    ensure!(asked_about(&world, &world.token("demo", "demo"), "/v1/clusters", 200).await? == 1);
    memcached.process.signal("STOP")?;
    let begin = Instant::now();
    for _ in 0..5 {
        ensure!(asked_about(&world, &world.token("demo", "demo"), "/v1/clusters", 200).await? == 2, "somebody was believed");
    }
    // Each process waits a second, once: it leaves alone what did not answer.
    ensure!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    memcached.process.signal("CONT")?;
    memcached.process.kill()?;
    ensure!(asked_about(&world, &world.token("demo", "demo"), "/v1/clusters", 200).await? == 2);
    ensure!(world.logs("api").join("\n").contains("memcached does not answer"), "nobody was told");
    world.finish().await
}
