//! `magnum-db-manage`, with upstream's arguments, output and exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use tempfile::TempDir;
use tests::binaries::program;
use tests::database::{Database, needed};

/// The revision at which upstream's 20.0.2 leaves a database.
const HEAD: &str = "c0f832afc4fd";

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sqlite,
    MariaDb,
}

/// An empty database, and a configuration that names it.
struct Place {
    conf: PathBuf,
    database: Option<Database>,
    _folder: TempDir,
}

impl Place {
    async fn new(kind: Kind) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (connection, database) = match kind {
            Kind::Sqlite => (format!("sqlite:///{}/magnum.sqlite", folder.path().display()), None),
            Kind::MariaDb => {
                let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
                (database.connection(), Some(database))
            }
        };
        let conf = folder.path().join("magnum.conf");
        std::fs::write(&conf, format!("[database]\nconnection = {connection}\n"))?;
        Ok(Self { conf, database, _folder: folder })
    }

    async fn finish(self) -> Result<()> {
        match self.database {
            Some(database) => database.drop().await,
            None => Ok(()),
        }
    }
}

fn command(conf: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(program("magnum-db-manage")?);
    command.arg("--config-file").arg(conf).args(arguments);
    Ok(command)
}

/// Exit code and standard output.
fn run(conf: &Path, arguments: &[&str]) -> Result<(i32, String)> {
    read(command(conf, arguments)?.output().context("run magnum-db-manage")?)
}

fn read(output: Output) -> Result<(i32, String)> {
    let code = output.status.code().context("ended by a signal")?;
    Ok((code, String::from_utf8(output.stdout)?.trim().to_owned()))
}

#[rstest]
#[tokio::test]
async fn a_database_is_upgraded_and_tells_its_revision(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) -> Result<()> {
    let place = Place::new(kind).await?;
    let version = |revision: &str| (0, format!("Current DB revision is {revision}"));
    ensure!(run(&place.conf, &["version"])? == version("None"));
    for arguments in [&["upgrade"][..], &["upgrade"], &["upgrade", "head"], &["upgrade", HEAD]] {
        let (code, _) = run(&place.conf, arguments)?;
        ensure!(code == 0, "{arguments:?} ended with {code}");
        ensure!(run(&place.conf, &["version"])? == version(HEAD));
    }
    place.finish().await
}

#[rstest]
#[tokio::test]
async fn several_upgrades_at_once_all_succeed(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) -> Result<()> {
    let place = Place::new(kind).await?;
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(command(&place.conf, &["upgrade"])?.stderr(std::process::Stdio::piped()).spawn()?);
    }
    for child in running {
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    ensure!(run(&place.conf, &["version"])?.1.ends_with(HEAD));
    place.finish().await
}

#[tokio::test]
async fn failures_have_upstreams_exit_codes() -> Result<()> {
    let place = Place::new(Kind::Sqlite).await?;
    for (arguments, wanted) in [(&[][..], 2), (&["no-such-command"], 2), (&["upgrade", "no-such-revision"], 1)] {
        let (code, _) = run(&place.conf, arguments)?;
        ensure!(code == wanted, "{arguments:?} ended with {code}");
    }
    let nowhere = place.conf.with_file_name("nowhere.conf");
    std::fs::write(&nowhere, "[database]\nconnection = mysql+pymysql://magnum:hunter2@127.0.0.1:1/magnum\nmax_retries = 0\n")?;
    for verb in ["upgrade", "version"] {
        let output = command(&nowhere, &[verb])?.output()?;
        ensure!(output.status.code() == Some(1), "{verb}: {}", output.status);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!words.is_empty() && !words.contains("hunter2"), "{words}");
    }
    ensure!(run(Path::new("/no/such/magnum.conf"), &["version"])?.0 == 1);
    place.finish().await
}
