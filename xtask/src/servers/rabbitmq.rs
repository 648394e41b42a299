//! RabbitMQ with a node name, ports, cookie, home and epmd of its own. Started straight from its own folder: the packaged
//! wrapper would reset HOME and read the machine's configuration. Only the name `localhost` must resolve.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{PASSWORD, PATIENCE, certificate, choose_port, read_port, spawn_held, user_ids};
use crate::paths;
use crate::process::Held;

const USER: &str = "magnum_test";

/// An address of the default virtual host.
pub fn url(port: u16) -> String {
    format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/%2f")
}

/// Empty data and ports.
pub fn create(home: &Path) -> Result<()> {
    for name in ["port", "dist-port", "epmd-port"] {
        choose_port(home, name)?;
    }
    let data = home.join("data");
    paths::open_folder(&data)?;
    let port = read_port(home, "port")?;
    let listener = match (certificate(home, "ca.pem"), certificate(home, "server.pem"), certificate(home, "server-key.pem")) {
        (Some(ca), Some(certificate), Some(key)) => format!(
            "listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
             ssl_options.keyfile = {}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
            ca.display(),
            certificate.display(),
            key.display()
        ),
        _ => format!("listeners.tcp.1 = 127.0.0.1:{port}\n"),
    };
    let conf = format!(
        "{listener}default_user = {USER}\ndefault_pass = {PASSWORD}\ndefault_permissions.configure = .*\n\
         default_permissions.read = .*\ndefault_permissions.write = .*\ndisk_free_limit.absolute = 100MB\nlog.file.level = warning\n"
    );
    fs::write(home.join("rabbitmq.conf"), conf).context("write rabbitmq.conf")?;
    fs::write(home.join("plugins"), "[].\n").context("write plugins")?;
    if paths::is_root() {
        let (uid, gid) = user_ids("rabbitmq")?;
        std::os::unix::fs::chown(&data, Some(uid), Some(gid)).context("give the data folder to rabbitmq")?;
    }
    Ok(())
}

/// Starts it unless it runs.
pub fn spawn(home: &Path) -> Result<Option<Child>> {
    let epmd_port = read_port(home, "epmd-port")?.to_string();
    // In the foreground and held by us: an epmd that the node starts would become a daemon and outlive it.
    spawn_held(home, "epmd-pid", as_user(Command::new("epmd").args(["-address", "127.0.0.1", "-port", &epmd_port]))?)?;
    let mut command = program(home, "rabbitmq-server")?;
    command
        .env("RABBITMQ_DIST_PORT", read_port(home, "dist-port")?.to_string())
        .env("RABBITMQ_MNESIA_BASE", home.join("data/mnesia"))
        .env("RABBITMQ_LOG_BASE", home.join("data/log"))
        .env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("plugins"))
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}");
    spawn_held(home, "pid", as_user(&mut command)?)
}

/// The names of its queues, one a line.
pub fn queues(home: &Path) -> Result<String> {
    let mut command = program(home, "rabbitmqctl")?;
    command.args(["--quiet", "--timeout", "30", "list_queues", "--no-table-headers", "name"]);
    let output = as_user(&mut command)?.output().context("ask RabbitMQ for its queues")?;
    if !output.status.success() {
        bail!("rabbitmqctl: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program of RabbitMQ's that finds this node.
fn program(home: &Path, name: &str) -> Result<Command> {
    let data = home.join("data");
    let mut command = Command::new(Path::new("/usr/lib/rabbitmq/bin").join(name));
    command
        .current_dir(&data)
        .env("HOME", &data)
        .env("RABBITMQ_NODENAME", format!("magnum-{}@localhost", read_port(home, "port")?))
        .env("ERL_EPMD_PORT", read_port(home, "epmd-port")?.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_CONF_ENV_FILE", "/dev/null");
    Ok(command)
}

pub fn stop(home: &Path) -> Result<()> {
    Held::at(home.join("pid")).stop(PATIENCE)?;
    Held::at(home.join("epmd-pid")).stop(Duration::from_secs(5))
}

/// Whether it speaks AMQP 0-9-1: it listens only once the node has booted.
pub fn answers(home: &Path, port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(1)) else {
        return false;
    };
    if certificate(home, "server.pem").is_some() {
        // It would speak TLS first.
        return true;
    }
    let mut first = [0; 1];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.write_all(b"AMQP\x00\x00\x09\x01").is_ok()
        && stream.read_exact(&mut first).is_ok()
        && first[0] == 1
}

fn as_user(command: &mut Command) -> Result<&mut Command> {
    if paths::is_root() {
        let (uid, gid) = user_ids("rabbitmq")?;
        command.uid(uid).gid(gid);
    }
    Ok(command)
}
