//! MariaDB: small and quick to start, but as durable as in production (flushed at each commit), because tests kill what
//! writes to it.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{PASSWORD, certificate, choose_port, read_port, spawn_held, user_ids};
use crate::{paths, process};

const USER: &str = "magnum_test";

/// An address with the right to make databases; no database in it.
pub fn url(port: u16) -> String {
    format!("mysql://{USER}:{PASSWORD}@127.0.0.1:{port}")
}

/// Empty data and a port.
pub fn create(home: &Path) -> Result<()> {
    choose_port(home, "port")?;
    let data = home.join("data");
    let temporary = temporary(home)?;
    folder_of_server(&data)?;
    // Read at every start, before the first connection is accepted.
    let users: String = ["%", "localhost", "127.0.0.1"]
        .iter()
        .map(|host| {
            let must = if certificate(home, "ca.pem").is_some() { " REQUIRE X509" } else { "" };
            let user = format!("'{USER}'@'{host}'");
            format!("CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{PASSWORD}'{must}; GRANT ALL ON *.* TO {user} WITH GRANT OPTION;\n")
        })
        .collect();
    fs::write(home.join("users.sql"), users.replace("; GRANT", ";\nGRANT")).context("write users.sql")?;
    let mut command = Command::new("mariadb-install-db");
    command.arg("--no-defaults").arg(option("--datadir", &data)).arg(option("--tmpdir", &temporary)).arg("--skip-test-db");
    if paths::is_root() {
        command.arg("--user=mysql");
    }
    let log = fs::File::create(home.join("install-log")).context("open install-log")?;
    command.stdin(Stdio::null()).stdout(log.try_clone().context("share the log")?).stderr(log);
    if !process::run(&mut command, Duration::from_secs(120))?.success() {
        // Thirty lines of advice come after the reason.
        bail!("mariadb-install-db failed:\n{}", process::tail(&home.join("install-log"), 120));
    }
    Ok(())
}

/// Where this server keeps its temporary tables: a server that starts removes all that it finds there, also those of another one that runs.
fn temporary(home: &Path) -> Result<PathBuf> {
    let folder = home.join("tmp");
    folder_of_server(&folder)?;
    Ok(folder)
}

/// Makes a folder in which the server may write.
fn folder_of_server(folder: &Path) -> Result<()> {
    paths::open_folder(folder)?;
    if paths::is_root() {
        let (uid, gid) = user_ids("mysql")?;
        std::os::unix::fs::chown(folder, Some(uid), Some(gid)).with_context(|| format!("give {} to mysql", folder.display()))?;
    }
    Ok(())
}

/// Starts it unless it runs.
pub fn spawn(home: &Path) -> Result<Option<Child>> {
    let program = process::find_program("mariadbd").context("mariadbd is not installed")?;
    let mut command = Command::new(program);
    command.arg("--no-defaults");
    if paths::is_root() {
        command.arg("--user=mysql");
    }
    let data = home.join("data");
    command
        .arg(option("--datadir", &data))
        .arg(option("--tmpdir", &temporary(home)?))
        // Relative to the data folder: the path of a socket may have 107 characters only.
        .args(["--socket=s.sock", "--pid-file=m.pid", "--bind-address=127.0.0.1", "--skip-name-resolve"])
        .arg(format!("--port={}", read_port(home, "port")?))
        .arg(option("--init-file", &home.join("users.sql")))
        .args([
            "--max-connections=2000",
            "--innodb-buffer-pool-size=256M",
            "--innodb-log-file-size=64M",
            "--innodb-flush-log-at-trx-commit=1",
        ])
        .args(["--character-set-server=utf8mb4", "--default-time-zone=+00:00"]);
    for (name, file) in [("--ssl-ca", "ca.pem"), ("--ssl-cert", "server.pem"), ("--ssl-key", "server-key.pem")] {
        command.args(certificate(home, file).map(|path| option(name, &path)));
    }
    spawn_held(home, "pid", &mut command)
}

/// Whether it greets.
pub fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(1)) else {
        return false;
    };
    // The greeting: three bytes of length, a number, then protocol version 10. An error packet has 255 there.
    let mut greeting = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(2))).is_ok() && stream.read_exact(&mut greeting).is_ok() && greeting[4] == 10
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(name);
    text.push("=");
    text.push(path);
    text
}
