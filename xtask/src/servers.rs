//! `servers`: a private MariaDB and RabbitMQ for tests, from Debian's packages, on ports, users, data and names of their own.
//!
//! All they are lives in one folder: `<dir>/<kind>/{pid,port,log,data}` and `<dir>/env`, so that any process can stop and
//! start them again on the same ports and data. `up` always begins with empty data. Nothing of the machine's own servers is
//! read or touched.

mod mariadb;
mod rabbitmq;

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use crate::paths;
use crate::prerequisites;
use crate::process::{self, Held};

#[derive(Subcommand)]
pub enum Command {
    /// Start with empty data; both unless named
    Up(Target),
    /// Stop; both unless named
    Down(Target),
    /// Start again what was stopped: same port, same data
    Start(Target),
    /// Stop for a while; the data stays
    Stop(Target),
    /// End at once, as a power cut would; the data stays as it is
    Kill(Target),
    /// The names of RabbitMQ's queues, one a line
    Queues(Target),
}

#[derive(Args)]
pub struct Target {
    /// Folder of these servers [default: in the cache folder]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// With `up`: speak TLS only, with server.pem and server-key.pem of this folder, to clients with a certificate of the authority ca.pem
    #[arg(long)]
    tls: Option<PathBuf>,
    kinds: Vec<Kind>,
}

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Mariadb,
    Rabbitmq,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Mariadb, Self::Rabbitmq];

    fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Rabbitmq => "rabbitmq",
        }
    }
}

/// The folder of a server's certificates; without it no TLS.
const TLS: &str = "tls";

/// The file of a server's certificates, if it has any.
fn certificate(home: &Path, name: &str) -> Option<PathBuf> {
    Some(home.join(TLS).join(name)).filter(|path| path.exists())
}

/// Stopping: the server's own clean shutdown, then the hard way.
/// Of the user that tests log in as: a word of its own, so that where it is printed it is found.
const PASSWORD: &str = "password-of-a-test";
const PATIENCE: Duration = Duration::from_secs(40);
const STARTING: Duration = Duration::from_secs(120);

pub fn run(command: Command) -> Result<u8> {
    let (Command::Up(target)
    | Command::Down(target)
    | Command::Start(target)
    | Command::Stop(target)
    | Command::Kill(target)
    | Command::Queues(target)) = &command;
    let dir = match &target.dir {
        Some(dir) => std::path::absolute(dir).context("read --dir")?,
        None => paths::cache_dir()?.join("servers/default"),
    };
    let kinds = if target.kinds.is_empty() { &Kind::ALL[..] } else { &target.kinds };
    match command {
        Command::Up(_) => {
            prerequisites::ensure(&[prerequisites::SERVERS])?;
            for (name, value) in up_with(&dir, kinds, target.tls.as_deref())? {
                println!("export {name}={value}");
            }
        }
        Command::Start(_) => start(&dir, kinds)?,
        Command::Queues(_) => print!("{}", rabbitmq::queues(&dir.join(Kind::Rabbitmq.name()))?),
        Command::Down(_) | Command::Stop(_) => stop(&dir, kinds)?,
        // RabbitMQ's epmd stays, as the machine's would.
        Command::Kill(_) => kinds.iter().try_for_each(|kind| Held::at(dir.join(kind.name()).join("pid")).kill())?,
    }
    Ok(0)
}

/// A folder of its own for one run.
pub fn fresh_dir(name: &str) -> Result<PathBuf> {
    Ok(paths::cache_dir()?.join("servers").join(format!("{name}-{}", std::process::id())))
}

/// Starts these servers with empty data; returns the environment that points at all servers of the folder.
pub fn up(dir: &Path, kinds: &[Kind]) -> Result<Vec<(&'static str, String)>> {
    up_with(dir, kinds, None)
}

/// The same; with the certificates of a folder they speak TLS only.
fn up_with(dir: &Path, kinds: &[Kind], tls: Option<&Path>) -> Result<Vec<(&'static str, String)>> {
    paths::open_folder(dir)?;
    must_be_walkable(dir)?;
    stop(dir, kinds)?;
    for kind in kinds {
        let home = dir.join(kind.name());
        paths::remove(&home)?;
        paths::open_folder(&home)?;
        if let Some(from) = tls {
            // Copies: a start after a stop reads them again, and a test may have changed them by then.
            let to = home.join(TLS);
            paths::open_folder(&to)?;
            for name in ["ca.pem", "server.pem", "server-key.pem"] {
                fs::copy(from.join(name), to.join(name)).with_context(|| format!("copy {name} of {}", from.display()))?;
                fs::set_permissions(to.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o644))
                    .context("let the server read it")?;
            }
        }
        match kind {
            Kind::Mariadb => mariadb::create(&home)?,
            Kind::Rabbitmq => rabbitmq::create(&home)?,
        }
    }
    start(dir, kinds)?;
    let env = environment(dir)?;
    let text: String = env.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    fs::write(dir.join("env"), text).context("write the env file")?;
    Ok(env)
}

/// Stops all servers of the folder.
pub fn down(dir: &Path) -> Result<()> {
    stop(dir, &Kind::ALL)
}

/// Starts servers that `up` has made, on their ports and data, and waits until they answer.
fn start(dir: &Path, kinds: &[Kind]) -> Result<()> {
    // All at once, then awaited: each takes seconds.
    let mut children = Vec::new();
    for kind in kinds {
        let home = dir.join(kind.name());
        children.push(match kind {
            Kind::Mariadb => mariadb::spawn(&home)?,
            Kind::Rabbitmq => rabbitmq::spawn(&home)?,
        });
    }
    for (kind, child) in kinds.iter().zip(&mut children) {
        let home = dir.join(kind.name());
        let port = read_port(&home, "port")?;
        let mut ended = false;
        let ready = process::wait_until(STARTING, || {
            ended = child.as_mut().is_some_and(|c| !matches!(c.try_wait(), Ok(None)));
            ended
                || match kind {
                    Kind::Mariadb => mariadb::answers(port),
                    Kind::Rabbitmq => rabbitmq::answers(&home, port),
                }
        });
        if ended || !ready {
            let problem = if ended { "ended while starting" } else { "does not answer" };
            let log = process::tail(&home.join("log"), 30);
            stop(dir, kinds)?;
            bail!("{} {problem}; the end of its log:\n{log}", kind.name());
        }
    }
    Ok(())
}

fn stop(dir: &Path, kinds: &[Kind]) -> Result<()> {
    for kind in kinds {
        let home = dir.join(kind.name());
        match kind {
            Kind::Mariadb => Held::at(home.join("pid")).stop(PATIENCE)?,
            Kind::Rabbitmq => rabbitmq::stop(&home)?,
        }
    }
    Ok(())
}

fn environment(dir: &Path) -> Result<Vec<(&'static str, String)>> {
    let mut env = Vec::new();
    for kind in Kind::ALL {
        let home = dir.join(kind.name());
        if home.join("port").exists() {
            let port = read_port(&home, "port")?;
            env.push(match kind {
                Kind::Mariadb => ("MAGNUM_TEST_MYSQL_URL", mariadb::url(port)),
                Kind::Rabbitmq => ("MAGNUM_TEST_AMQP_URL", rabbitmq::url(port)),
            });
        }
    }
    Ok(env)
}

/// Starts a server unless it runs already.
fn spawn_held(home: &Path, pid: &str, command: &mut Process) -> Result<Option<Child>> {
    let held = Held::at(home.join(pid));
    if held.pid().is_some() {
        return Ok(None);
    }
    held.start(command, &home.join("log")).map(Some)
}

/// Picks a free port and writes it down. Below the range from which the system takes ports for outgoing connections (from
/// 32768), so that nobody gets it while its server is stopped for a while; and not where the lab has its own (from 21000).
fn choose_port(home: &Path, name: &str) -> Result<()> {
    let seed = RandomState::new().build_hasher().finish();
    for i in 0..1000 {
        let port = u16::try_from(10_000 + (seed % 10_000 + i * 7) % 10_000).context("choose a port")?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return fs::write(home.join(name), port.to_string()).context("write the port");
        }
    }
    bail!("no free port between 10000 and 19999")
}

fn read_port(home: &Path, name: &str) -> Result<u16> {
    let path = home.join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("read {} (was it made by `servers up`?)", path.display()))?;
    text.trim().parse().with_context(|| format!("read {}", path.display()))
}

/// As root the servers run as users of their own: everyone must be able to walk to their data.
fn must_be_walkable(dir: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for folder in dir.ancestors().filter(|_| paths::is_root()) {
        if fs::metadata(folder).with_context(|| format!("look at {}", folder.display()))?.permissions().mode() & 0o001 == 0 {
            bail!("the servers' users cannot walk through {}: choose another --dir", folder.display());
        }
    }
    Ok(())
}

/// User and group id of a system user.
fn user_ids(name: &str) -> Result<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name)).with_context(|| format!("no user {name}"))?;
    let mut ids = line.split(':').skip(2).map_while(|field| field.parse().ok());
    Ok((ids.next().context("no user id")?, ids.next().context("no group id")?))
}
