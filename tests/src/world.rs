//! A test's own world: a simulated cloud, a database, a queue and the product's processes, in one of two mixes.
//!
//! A test drives it from outside and ends with [`World::finish`], which checks what must hold after every test. A world that
//! is dropped without it belongs to a test that failed, and shows the end of every log.

mod check;
mod search;
mod start;

pub use start::free_port;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cloud_simulator::{Cloud, Options as CloudOptions, SERVICE_PASSWORD, Simulator};
use model::store::Store;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{self, Client};
use crate::config;
use crate::database::Database;
use crate::heard::Heard;
use crate::process::Process;
use crate::secrets::Secrets;
use crate::wait::{self, PATIENCE, Seen};

/// How the product is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// One process: API, conductor, SQLite, doorbell in memory.
    Embedded,
    /// Two API and three conductor processes on MariaDB and RabbitMQ.
    Distributed,
}

/// The variable that says how long the API remembers what it has found in the cloud. Tests change the cloud and look at once: zero, unless
/// one says otherwise.
pub const CLOUD_CHECK_CACHE: &str = "OS_REQUESTS__CLOUD_CHECK_CACHE_SECONDS";
/// The variable that says how large the keys of clusters are, and a size that is quick to make: those of the usual one take a second of a CPU
/// for each cluster. No TLS library of ours believes a certificate of such a key.
const SMALL_KEYS: (&str, &str) = ("OS_X509__RSA_KEY_SIZE", "1024");
/// The variable that says how many keys are made ahead: none, unless a test says otherwise, for most of a world's would be for nobody.
pub const KEYS_AHEAD: &str = "OS_OPERATIONS__KEYS_AHEAD";

/// What a test wants otherwise than usual.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the cloud takes for a stack.
    pub stack: Duration,
    /// API processes of the distributed mix.
    pub apis: usize,
    /// Conductor processes of the distributed mix.
    pub conductors: usize,
    /// A database that is there, to be upgraded; the world removes it in the end. None: a new one.
    pub database: Option<Database>,
    /// Address of a MariaDB of the test's own.
    pub mysql: Option<String>,
    /// Address of a RabbitMQ of the test's own.
    pub amqp: Option<String>,
    /// More of the configuration of API processes.
    pub api: String,
    /// More of the configuration of conductor processes.
    pub conductor: String,
    /// Options of all processes in both mixes, as environment variables (`OS_<SECTION>__<OPTION>`).
    pub environment: BTreeMap<String, String>,
    /// The API speaks TLS, with a certificate of this authority (PEM).
    pub authority: Option<Vec<u8>>,
    /// Clusters have keys of the usual size, so that TLS believes their certificates.
    pub usual_keys: bool,
    /// Folder with the programs of an earlier release: the first API process and the first conductor are of it.
    pub older: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stack: Duration::from_millis(600),
            apis: 2,
            conductors: 3,
            database: None,
            mysql: None,
            amqp: None,
            api: String::new(),
            conductor: String::new(),
            environment: BTreeMap::new(),
            authority: None,
            usual_keys: false,
            older: None,
        }
    }
}

impl Options {
    /// Conductors that sweep every second.
    pub fn sweeping() -> Self {
        let environment = [("OS_OPERATIONS__SWEEP_SECONDS".to_owned(), "1".to_owned())].into();
        Self { environment, ..Self::default() }
    }
}

/// A world.
pub struct World {
    pub cloud: Cloud,
    pub auth_url: String,
    /// Held: the cloud ends with it.
    _simulator: Simulator,
    http: reqwest::Client,
    folder: TempDir,
    apis: Vec<String>,
    processes: Vec<Process>,
    conductors_started: usize,
    conductor_settings: String,
    older: Option<PathBuf>,
    environment: BTreeMap<String, String>,
    database: Option<Database>,
    store: Option<Store>,
    /// `http`, or `https` where the API speaks TLS.
    scheme: &'static str,
    secrets: Mutex<Secrets>,
    /// What the API has answered.
    heard: Arc<Heard>,
    is_finished: bool,
}

impl World {
    /// Starts everything and waits until the API answers.
    pub async fn start(mix: Mix, options: Options) -> Result<Self> {
        let http = client::http_trusting(options.authority.as_deref())?;
        let simulator =
            Simulator::start(CloudOptions { stack_duration: options.stack, delete_duration: options.stack / 2, ..CloudOptions::default() })
                .await
                .context("start the simulated cloud")?;
        let mut world = Self {
            cloud: simulator.cloud(),
            auth_url: simulator.auth_url(),
            _simulator: simulator,
            http,
            folder: tempfile::tempdir().context("make a folder")?,
            apis: Vec::new(),
            processes: Vec::new(),
            conductors_started: 0,
            conductor_settings: options.conductor.clone(),
            older: options.older.clone(),
            environment: environment(&options),
            database: None,
            store: None,
            scheme: if options.authority.is_some() { "https" } else { "http" },
            secrets: Mutex::default(),
            heard: Arc::default(),
            is_finished: false,
        };
        world.keep_secret(SERVICE_PASSWORD, "the password of the service");
        match mix {
            Mix::Embedded => world.start_embedded().await?,
            Mix::Distributed => world.start_distributed(&options).await?,
        }
        Ok(world)
    }

    /// A world with the usual options.
    pub async fn usual(mix: Mix) -> Result<Self> {
        Self::start(mix, Options::default()).await
    }

    /// Somebody who asks the cloud itself, past Magnum.
    ///
    /// # Errors
    /// When Keystone's address is none of the simulated cloud.
    pub fn cloud_as(&self, user: &str, project: &str) -> Result<Client> {
        let base = self.auth_url.strip_suffix("/identity/v3").context("the address of the cloud")?;
        Ok(Client::new(self.http.clone(), &[base.to_owned()], Some(&self.token(user, project))))
    }

    /// The user `demo` in the project of that name.
    pub fn demo(&self) -> Client {
        self.user("demo", "demo")
    }

    /// A user with a fresh token.
    pub fn user(&self, user: &str, project: &str) -> Client {
        self.client(Some(&self.token(user, project)))
    }

    /// A fresh token.
    pub fn token(&self, user: &str, project: &str) -> String {
        let token = self.cloud.token_for(user, project);
        self.keep_secret(&token, "a caller's token");
        token
    }

    /// Somebody with all roles of the user `demo` in his project, by an application credential that may be restricted.
    pub fn by_credential(&self, restricted: bool) -> Client {
        let token = self.cloud.token_of_credential("demo", "demo", restricted);
        self.keep_secret(&token, "a caller's token");
        self.client(Some(&token))
    }

    /// Somebody with this token, or none, who talks to all API processes in turn.
    pub fn client(&self, token: Option<&str>) -> Client {
        Client::new(self.http.clone(), &self.apis, token).heard_by(&self.heard)
    }

    /// Writes a file beside the configuration of the distributed mix, at once as a whole.
    pub fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.path().join(name);
        let parent = path.parent().context("a file in a folder")?;
        std::fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
        let new = tempfile::NamedTempFile::new_in(self.folder.path()).context("make a file")?;
        std::fs::write(&new, text).with_context(|| format!("write {name}"))?;
        new.persist(&path).with_context(|| format!("put {}", path.display()))?;
        Ok(())
    }

    /// What the processes whose names begin like this have logged.
    pub fn logs(&self, start: &str) -> Vec<String> {
        self.processes.iter().filter(|process| process.name().starts_with(start)).map(Process::log).collect()
    }

    /// What all services of the distributed mix are told.
    pub fn configuration(&self) -> Result<String> {
        std::fs::read_to_string(self.configuration_file()).context("read the configuration")
    }

    /// Where that is.
    pub fn configuration_file(&self) -> PathBuf {
        self.folder.path().join("magnum.conf")
    }

    /// An API at this address, which somebody else has started, is one of this world's, too.
    pub fn add_api(&mut self, url: &str) {
        self.apis.push(url.to_owned());
    }

    /// The address of the first API process.
    pub fn api(&self) -> &str {
        self.apis.first().map_or("", String::as_str)
    }

    /// Where the API processes listen.
    pub fn addresses(&self) -> Vec<&str> {
        self.apis.iter().filter_map(|url| url.split_once("://")).map(|(_, address)| address).collect()
    }

    /// The database's file in the embedded mix.
    pub fn sqlite(&self) -> PathBuf {
        self.folder.path().join("data/magnum.sqlite")
    }

    /// Whether there are rows that can be looked at with SQL.
    pub fn database(&self) -> Result<&Database> {
        self.database.as_ref().context("the embedded mix has no MariaDB")
    }

    /// What is stored, as numbers: a refused request must not change them.
    pub async fn counts(&self) -> Result<BTreeMap<String, i64>> {
        if let Some(database) = &self.database {
            return database.counts().await;
        }
        let admin = self.user("admin", "admin");
        let mut counts = BTreeMap::new();
        for collection in ["clusters", "clustertemplates"] {
            let body = admin.get(&format!("/v1/{collection}")).await?.expect(200)?.body;
            let count = body[collection].as_array().map_or(0, Vec::len);
            counts.insert(collection.to_owned(), i64::try_from(count)?);
        }
        counts.insert("unfinished operations".to_owned(), self.unfinished().await?);
        Ok(counts)
    }

    /// Waits until a conductor process holds the cluster's operation; its pid.
    pub async fn owner(&self, cluster: &str) -> Result<u32> {
        wait::until("a conductor to claim the operation", PATIENCE, async || {
            Ok(Seen::from_option(self.owner_now(cluster).await?, "no owner"))
        })
        .await
    }

    /// The pid of the conductor process that holds the cluster's operation; none when nobody does.
    pub async fn owner_now(&self, cluster: &str) -> Result<Option<u32>> {
        let sql = format!("SELECT owner FROM operation WHERE cluster_uuid = '{cluster}' AND finished_ms IS NULL AND owner IS NOT NULL");
        let Some(owner) = self.database()?.rows::<String>(&sql).await?.pop() else { return Ok(None) };
        // host:pid:random
        let pid = owner.rsplit(':').nth(1).and_then(|pid| pid.parse().ok());
        pid.map(Some).with_context(|| format!("no pid in the owner {owner}"))
    }

    /// The states of a cluster's operations, in order of acceptance.
    pub async fn operation_states(&self, cluster: &str) -> Result<Vec<String>> {
        self.database()?.rows(&format!("SELECT state FROM operation WHERE cluster_uuid = '{cluster}' ORDER BY id")).await
    }

    /// Whether none of a cluster's operations is unfinished.
    pub async fn has_ended(&self, cluster: &str) -> Result<bool> {
        let sql = format!("SELECT COUNT(*) FROM operation WHERE cluster_uuid = '{cluster}' AND finished_ms IS NULL");
        Ok(self.database()?.rows::<i64>(&sql).await? == [0])
    }

    /// The process ids of the processes whose names begin like this.
    pub fn pids(&self, start: &str) -> Vec<u32> {
        self.processes.iter().filter(|process| process.name().starts_with(start)).map(Process::pid).collect()
    }

    /// `kill -9` of a process of this world.
    pub fn kill(&mut self, pid: u32) -> Result<()> {
        self.process_mut(pid)?.kill()
    }

    /// Stops a process in the middle of whatever it does, without its knowing (`SIGSTOP`).
    pub fn freeze(&self, pid: u32) -> Result<()> {
        self.process(pid)?.signal("STOP")
    }

    /// Lets a frozen process go on (`SIGCONT`).
    pub fn thaw(&self, pid: u32) -> Result<()> {
        self.process(pid)?.signal("CONT")
    }

    /// Tells a process to read again what it can (`SIGHUP`).
    pub fn hang_up(&self, pid: u32) -> Result<()> {
        self.process(pid)?.signal("HUP")
    }

    /// Asks a process to end, as an operator would (`SIGTERM`), and does not wait.
    pub fn ask_to_end(&mut self, pid: u32) -> Result<()> {
        self.process_mut(pid)?.ask_to_end()
    }

    /// How a process has ended, when it has.
    pub fn ended(&mut self, pid: u32) -> Result<Option<ExitStatus>> {
        Ok(self.process_mut(pid)?.ended())
    }

    // The last one: an earlier process may have had the same number.
    fn process_mut(&mut self, pid: u32) -> Result<&mut Process> {
        self.processes.iter_mut().rfind(|process| process.pid() == pid).with_context(|| format!("no process {pid} in this world"))
    }

    fn process(&self, pid: u32) -> Result<&Process> {
        self.processes.iter().rfind(|process| process.pid() == pid).with_context(|| format!("no process {pid} in this world"))
    }

    /// `kill -9` of all processes whose name begins so.
    pub fn kill_all(&mut self, name: &str) -> Result<()> {
        let mut ours = self.processes.iter_mut().filter(|process| process.name().starts_with(name));
        ours.try_for_each(Process::kill)
    }

    /// Stops all processes whose name begins so, as an operator would (SIGTERM).
    pub fn terminate(&mut self, name: &str) -> Result<Vec<ExitStatus>> {
        let ours = self.processes.iter_mut().filter(|process| process.name().starts_with(name));
        ours.map(|process| process.terminate(Duration::from_secs(20))).collect()
    }

    /// What conductors that are started from now on have for themselves beside the usual.
    pub fn set_conductor_settings(&mut self, text: &str) {
        text.clone_into(&mut self.conductor_settings);
    }

    /// Starts another conductor process.
    pub fn start_conductor(&mut self) -> Result<()> {
        self.conductors_started += 1;
        let name = format!("conductor-{}", self.conductors_started);
        let own = self.write(&name, &format!("{}{}", config::conductor(&name), self.conductor_settings))?;
        let process = self.start_service("magnum-conductor", &name, own)?;
        self.processes.push(process);
        Ok(())
    }

    /// Starts a process that has ended once more, as its supervisor would: same configuration, same port. Its new pid.
    pub fn start_again(&mut self, pid: u32) -> Result<u32> {
        let before = self.process_mut(pid)?;
        let (base, times) = before.name().split_once('.').unwrap_or((before.name(), "1"));
        let (base, name) = (base.to_owned(), format!("{base}.{}", times.parse::<u32>().context("the number of a life")? + 1));
        let binary = if base.starts_with("api") { "magnum-api" } else { "magnum-conductor" };
        let process = self.start_service(binary, &name, self.folder.path().join(format!("{base}.conf")))?;
        let pid = process.pid();
        self.processes.push(process);
        Ok(pid)
    }

    /// The folder of logs and configuration stays when the world ends; where it is.
    pub fn keep_folder(&mut self) -> &Path {
        self.folder.disable_cleanup(true);
        self.folder.path()
    }

    /// The door to the rows.
    pub fn store(&self) -> Result<&Store> {
        self.store.as_ref().context("the world has started")
    }

    /// Remembers a text that may stand nowhere but where such a thing rightly is (see [`Self::leaks`]).
    pub fn keep_secret(&self, secret: &str, what: &'static str) {
        self.secrets().keep(secret, what);
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A complete cluster of two workers, whose secrets are remembered.
    pub async fn complete_cluster(&self, client: &Client) -> Result<String> {
        let template = client.create_template("small").await?;
        let cluster = client.create_cluster("blue", &template).await?;
        client.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        self.keep_secrets_of_stacks();
        self.keep_secrets_of_rows().await?;
        Ok(cluster)
    }

    /// Waits until the cloud has exactly one stack and returns its id.
    pub async fn only_stack(&self) -> Result<String> {
        wait::until("a stack", PATIENCE, async || {
            let mut stacks = self.cloud.stacks();
            ensure!(stacks.len() <= 1, "more than one stack: {stacks:?}");
            Ok(Seen::from_option(stacks.pop().map(|stack| stack.id), "no stack"))
        })
        .await
    }

    /// Waits until the progress of a stack is told in the cluster's `status_reason`.
    pub async fn progress_is_told(&self, client: &Client, cluster: &str) -> Result<Value> {
        wait::until("progress in status_reason", PATIENCE, async || {
            let body = client.cluster(cluster).await?;
            let reason = client::text(&body, "status_reason");
            Ok(match progress(&reason) {
                Some(_) => Seen::Yes(body),
                None => Seen::Instead(reason),
            })
        })
        .await
    }

    /// An error when a process has ended that nobody asked to.
    pub fn nobody_died(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.died() {
                bail!("{} ended by itself: {status}", process.name());
            }
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        for process in &self.processes {
            eprintln!("--- the end of the log of {} (pid {})\n{}", process.name(), process.pid(), process.tail());
        }
        eprintln!("--- the cloud: {:#?}", self.cloud.leftovers(None));
    }
}

/// The options of all processes, as variables: what a test says goes before what is said for all of them.
fn environment(options: &Options) -> BTreeMap<String, String> {
    let of_keys = (!options.usual_keys).then_some(SMALL_KEYS);
    let usual = [(CLOUD_CHECK_CACHE, "0"), (KEYS_AHEAD, "0")];
    let of_all = usual.into_iter().chain(of_keys).map(|(name, value)| (name.to_owned(), value.to_owned()));
    of_all.chain(options.environment.clone()).collect()
}

/// How many resources of how many are complete, by the words of a `status_reason`.
pub fn progress(reason: &str) -> Option<(u32, u32)> {
    let (before, after) = reason.split_once(" of ")?;
    let (total, rest) = after.split_once(' ')?;
    if !rest.starts_with("resources") {
        return None;
    }
    let done = before.rsplit(' ').next()?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::progress;

    #[test]
    fn progress_is_read_from_a_status_reason() {
        for (text, wanted) in
            [("creating: 4 of 31 resources complete, waiting for stack x", Some((4, 31))), ("trying again: one of us", None), ("", None)]
        {
            assert_eq!(progress(text), wanted, "{text}");
        }
    }
}
