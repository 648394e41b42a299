//! Servers of a test's own, for tests that stop them. `xtask` makes them; its path is in `XTASK`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::Command;

use crate::binaries;

/// The password in the address of a server, or in that of the first of a list of them.
///
/// # Errors
/// When there is none.
pub fn password(address: &str) -> Result<String> {
    let first = address.split(',').next().unwrap_or(address);
    let url = url::Url::parse(first).context("the address of a server is a URL")?;
    Ok(url.password().context("the address of the server has a password")?.to_owned())
}

/// A private MariaDB or RabbitMQ; stopped when dropped, unless somebody else has started it.
pub struct PrivateServer {
    xtask: PathBuf,
    kind: &'static str,
    folder: Folder,
}

/// Where a server lives.
enum Folder {
    /// Made here, and removed with the server.
    Ours(TempDir),
    /// Of whoever started it, and stops it.
    Found(PathBuf),
}

impl PrivateServer {
    /// Starts one with empty data: `mariadb` or `rabbitmq`.
    pub async fn start(kind: &'static str) -> Result<Self> {
        // The servers' own users must be able to walk to it.
        let folder = tempfile::Builder::new()
            .prefix("magnum-server-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .context("make a folder")?;
        let server = Self { xtask: xtask()?, kind, folder: Folder::Ours(folder) };
        server.command("up").await?;
        Ok(server)
    }

    /// The same, speaking TLS only, with `server.pem` and `server-key.pem` of a folder, to clients of the authority `ca.pem`.
    pub async fn start_secure(kind: &'static str, certificates: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("magnum-server-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .context("make a folder")?;
        let server = Self { xtask: xtask()?, kind, folder: Folder::Ours(folder) };
        let mut command = command(&server.xtask, "up", kind, server.folder());
        let output = command.arg("--tls").arg(certificates).output().await?;
        if !output.status.success() {
            bail!("xtask servers up {kind}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(server)
    }

    /// Stops it and starts it again with another certificate of a folder.
    pub async fn start_again_with(&self, certificates: &Path, name: &str) -> Result<()> {
        self.stop().await?;
        let own = self.folder().join(self.kind).join("tls");
        for (from, to) in [(format!("{name}.pem"), "server.pem"), (format!("{name}-key.pem"), "server-key.pem")] {
            fs::copy(certificates.join(&from), own.join(to)).with_context(|| format!("copy {from}"))?;
        }
        self.start_again().await
    }

    /// One that `xtask servers up` has started in this folder.
    pub fn found(kind: &'static str, folder: &Path) -> Result<Self> {
        Ok(Self { xtask: xtask()?, kind, folder: Folder::Found(folder.to_owned()) })
    }

    fn folder(&self) -> &Path {
        match &self.folder {
            Folder::Ours(folder) => folder.path(),
            Folder::Found(path) => path,
        }
    }

    /// Its address, as the environment variable would have it.
    pub fn url(&self) -> Result<String> {
        let path = self.folder().join("env");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = if self.kind == "mariadb" { "MAGNUM_TEST_MYSQL_URL=" } else { "MAGNUM_TEST_AMQP_URL=" };
        let address = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(address.context("the env file does not name the server")?.to_owned())
    }

    /// Stops it; the data stays.
    pub async fn stop(&self) -> Result<()> {
        self.command("stop").await.map(drop)
    }

    /// Ends it as a power cut would.
    pub async fn kill(&self) -> Result<()> {
        self.command("kill").await.map(drop)
    }

    /// Starts it again, on the same port and data.
    pub async fn start_again(&self) -> Result<()> {
        self.command("start").await.map(drop)
    }

    /// The names of its queues, in order.
    ///
    /// # Errors
    /// Also when it is no RabbitMQ.
    pub async fn queues(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.command("queues").await?.lines().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    async fn command(&self, verb: &str) -> Result<String> {
        let output = command(&self.xtask, verb, self.kind, self.folder()).output().await?;
        if !output.status.success() {
            bail!("xtask servers {verb} {}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn xtask() -> Result<PathBuf> {
    match env::var_os("XTASK").filter(|path| !path.is_empty()) {
        Some(path) => Ok(PathBuf::from(path)),
        None => binaries::program("xtask").context("XTASK is not set"),
    }
}

fn command(xtask: &Path, verb: &str, kind: &str, folder: &Path) -> Command {
    let mut command = Command::new(xtask);
    command.args(["servers", verb, "--dir"]).arg(folder).arg(kind);
    command
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let Folder::Ours(folder) = &self.folder else { return };
        let mut command = std::process::Command::new(&self.xtask);
        command.args(["servers", "down", "--dir"]).arg(folder.path()).arg(self.kind);
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("failed to stop the private {}", self.kind);
        }
    }
}
