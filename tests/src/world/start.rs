//! Starting the processes of a world.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use model::store::{DatabaseUrl, Store, StoreOptions};
use serde_json::Value;

use super::{Options, World};
use crate::binaries::program;
use crate::client;
use crate::config::{self, Settings};
use crate::database::{Database, needed};
use crate::process::Process;
use crate::servers::password;
use crate::wait::{self, PATIENCE, Seen};

/// Attempts to find a port that is still free when the API binds it.
const PORT_TRIES: u32 = 5;

impl World {
    pub(super) async fn start_embedded(&mut self) -> Result<()> {
        let data = self.folder.path().join("data");
        let mut command = Command::new(program("magnum-standalone")?);
        command.arg("--data-dir").arg(&data).args(["--listen", "127.0.0.1:0", "--cloud", &self.auth_url]);
        // As in the other mix; it writes its configuration itself.
        command.env("OS_OPERATIONS__HOUSEKEEPING_SECONDS", "1").env("OS_OPERATIONS__FORCE_DELETE_SECONDS", "16");
        command.envs(&self.environment);
        let (process, output) = Process::start_with_output("standalone", &mut command, self.folder.path())?;
        self.processes.push(process);
        let ready = wait::until("magnum-standalone to be ready", PATIENCE, async || {
            self.nobody_died()?;
            let text = fs::read_to_string(&output).unwrap_or_default();
            let line = text.split_once('\n').and_then(|(line, _)| serde_json::from_str::<Value>(line).ok());
            Ok(Seen::from_option(line, &text))
        })
        .await?;
        self.apis.push(client::text(&ready, "api_url"));
        self.store = Some(open_store(DatabaseUrl::Sqlite(self.sqlite()))?);
        self.until_answers(&self.apis[0].clone(), 0).await?;
        Ok(())
    }

    pub(super) async fn start_distributed(&mut self, options: &Options) -> Result<()> {
        let mysql = options.mysql.clone().map_or_else(|| needed("MAGNUM_TEST_MYSQL_URL"), Ok)?;
        let amqp = options.amqp.clone().map_or_else(|| needed("MAGNUM_TEST_AMQP_URL"), Ok)?;
        self.keep_secret(&password(&mysql)?, "the password of the database");
        self.keep_secret(&password(&amqp)?, "the password of the broker");
        let database = match &options.database {
            Some(database) => database.clone(),
            None => Database::create(&mysql).await?,
        };
        let settings = Settings {
            database: database.connection(),
            transport: amqp,
            topic: format!("t-{}", uuid::Uuid::new_v4().simple()),
            auth_url: self.auth_url.clone(),
        };
        self.store = Some(open_store(database.url())?);
        self.database = Some(database);
        let shared = self.write("magnum", &config::shared(&settings))?;
        let upgrade = Command::new(program("magnum-db-manage")?)
            .arg("--config-file")
            .arg(shared)
            .arg("upgrade")
            .output()
            .context("run magnum-db-manage")?;
        ensure!(upgrade.status.success(), "magnum-db-manage upgrade: {}", String::from_utf8_lossy(&upgrade.stderr));
        for number in 1..=options.apis {
            let url = self.start_api(number, &options.api).await?;
            self.apis.push(url);
        }
        for _ in 0..options.conductors {
            self.start_conductor()?;
        }
        Ok(())
    }

    /// Starts an API process that has this for itself beside the usual; its address, where nobody asks until [`World::add_api`].
    pub async fn start_api(&mut self, number: usize, more: &str) -> Result<String> {
        let name = format!("api-{number}");
        for _ in 0..PORT_TRIES {
            let port = free_port()?;
            let own = self.write(&name, &format!("{}{more}", config::api(&name, port, 2)))?;
            let process = self.start_service("magnum-api", &name, own)?;
            self.processes.push(process);
            let url = format!("{}://127.0.0.1:{port}", self.scheme);
            if self.until_answers(&url, self.processes.len() - 1).await? {
                return Ok(url);
            }
            // Somebody else took the port in between; another one then.
            let process = self.processes.pop().context("the process just started")?;
            ensure!(process.log().contains("in use"), "{name} ended while starting:\n{}", process.tail());
        }
        bail!("no free port for {name}")
    }

    /// Waits until the API at this address answers; false when its process has ended.
    async fn until_answers(&mut self, url: &str, process: usize) -> Result<bool> {
        wait::until("the API to answer", PATIENCE, async || {
            if self.processes[process].ended().is_some() {
                return Ok(Seen::Yes(false));
            }
            Ok(match self.http.get(url).send().await {
                Ok(answer) if answer.status() == 200 => Seen::Yes(true),
                Ok(answer) => Seen::Instead(answer.status().to_string()),
                Err(error) => Seen::Instead(error.to_string()),
            })
        })
        .await
    }

    pub(super) fn start_service(&self, binary: &str, name: &str, own: PathBuf) -> Result<Process> {
        // Its first life or a later one (`World::start_again`).
        let is_first = ["api-1", "conductor-1"].contains(&name.split('.').next().unwrap_or_default());
        let program = match &self.older {
            Some(folder) if is_first => folder.join(binary),
            _ => program(binary)?,
        };
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.folder.path().join("magnum.conf")).arg("--config-file").arg(own);
        command.envs(&self.environment);
        Process::start(name, &mut command, self.folder.path())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{name}.conf"));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

fn open_store(url: DatabaseUrl) -> Result<Store> {
    let options = StoreOptions { max_connections: 1, ..StoreOptions::new(url) };
    Store::open(options).context("open the world's store")
}

/// A port below the range from which the system takes ports for outgoing connections, so that it is still free in a moment.
pub fn free_port() -> Result<u16> {
    let seed = uuid::Uuid::new_v4().as_u128();
    for step in 0..1000 {
        let port = u16::try_from(23_000 + (seed % 9_000 + step * 7) % 9_000)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 23000 and 31999")
}
