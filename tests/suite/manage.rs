//! `magnum-db-manage`, with upstream's arguments, output and exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use tempfile::TempDir;
use tests::binaries::program;
use tests::database::{Database, needed};
use tests::dump::Dump;

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

#[rstest]
#[tokio::test]
async fn a_database_is_given_back_and_adopted_again_and_says_so(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) -> Result<()> {
    let place = Place::new(kind).await?;
    let says = |arguments: &[&str], words: &[&str]| -> Result<()> {
        let (code, text) = run(&place.conf, arguments)?;
        ensure!(code == 0 && words.iter().all(|word| text.contains(word)), "{arguments:?} ended with {code}: {text}");
        Ok(())
    };
    says(&["check"], &["Upstream revision: none", "State: not adopted", "Verdict: empty"])?;
    says(&["upgrade"], &[])?;
    says(&["check"], &["Upstream revision: c0f832afc4fd", "State: adopted", "Findings: 0", "Verdict: this program can work on it"])?;
    says(&["release"], &["Released: upstream finds revision c0f832afc4fd\n", "Set aside until the next adoption: nothing"])?;
    says(&["release"], &["it was given back before"])?;
    says(&["check"], &["State: released", "Verdict: upstream can have it"])?;
    says(&["adopt"], &["Adopted: found at revision c0f832afc4fd", "Put back: nothing"])?;
    says(&["check"], &["State: adopted"])?;
    place.finish().await
}

#[tokio::test]
async fn what_cannot_be_adopted_is_refused_and_left_as_it_is() -> Result<()> {
    let place = Place::new(Kind::MariaDb).await?;
    ensure!(run(&place.conf, &["upgrade"])?.0 == 0);
    let database = place.database.as_ref().context("MariaDB")?;
    for (sql, undo, words) in [
        (
            "UPDATE alembic_version SET version_num = 'f1d8b0ab8b8d'",
            "UPDATE alembic_version SET version_num = 'c0f832afc4fd'",
            "f1d8b0ab8b8d, of upstream 12.x",
        ),
        ("INSERT INTO alembic_version VALUES ('7da8489d6a68')", "DELETE FROM alembic_version WHERE version_num = '7da8489d6a68'", "2 rows"),
        ("ALTER TABLE cluster DROP COLUMN trust_id", "ALTER TABLE cluster ADD COLUMN trust_id VARCHAR(255)", "lacks cluster.trust_id"),
        (
            "UPDATE alembic_version SET version_num = '7da8489d6a68'",
            "UPDATE alembic_version SET version_num = 'c0f832afc4fd'",
            "cluster_template.driver of c0f832afc4fd is there",
        ),
    ] {
        database.execute(sql, Vec::new()).await?;
        let before = Dump::of(database).await?;
        for verb in ["adopt", "upgrade", "check", "release"] {
            let output = command(&place.conf, &[verb])?.output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(1) && said.contains(words), "{verb} after {sql}: {} {said}", output.status);
        }
        ensure!(Dump::of(database).await? == before, "something has changed after {sql}");
        database.execute(undo, Vec::new()).await?;
    }
    place.finish().await
}

/// A cut between any two steps is gone on with by either command.
#[tokio::test]
async fn an_adoption_or_a_release_that_was_cut_off_is_gone_on_with() -> Result<()> {
    let place = Place::new(Kind::MariaDb).await?;
    let database = place.database.as_ref().context("MariaDB")?;
    let version = || -> Result<String> { Ok(run(&place.conf, &["version"])?.1) };
    ensure!(run(&place.conf, &["upgrade"])?.0 == 0);
    let adoption = |state: &str| format!("UPDATE adoption SET found_revision = '7da8489d6a68', state = '{state}'");
    let previous = "UPDATE alembic_version SET version_num = '7da8489d6a68'";
    let cuts: [(&str, &[&str]); 4] = [
        ("adopting", &[previous, "ALTER TABLE cluster_template DROP COLUMN driver"]),
        ("adopting", &[previous]),
        ("releasing", &[]),
        ("releasing", &[previous]),
    ];
    for (state, statements) in cuts {
        for (verb, wanted, column) in [("adopt", HEAD, 1), ("release", "7da8489d6a68", 0)] {
            ensure!(run(&place.conf, &["adopt"])?.0 == 0, "adopt before {state} {statements:?}");
            database.execute(&adoption(state), Vec::new()).await?;
            for sql in statements {
                database.execute(sql, Vec::new()).await?;
            }
            ensure!(run(&place.conf, &["check"])?.1.contains("cut off"), "{state} {statements:?}");
            let (code, text) = run(&place.conf, &[verb])?;
            ensure!(code == 0 && version()?.ends_with(wanted), "{verb} of {state} {statements:?}: {code} {text}");
            let columns: Vec<i64> = database
                .rows("SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'cluster_template' AND column_name = 'driver'")
                .await?;
            ensure!(columns == [column], "{verb} of {state} {statements:?}: {columns:?}");
        }
    }
    place.finish().await
}

#[tokio::test]
async fn failures_have_upstreams_exit_codes() -> Result<()> {
    let place = Place::new(Kind::Sqlite).await?;
    for (arguments, wanted) in [
        (&[][..], 2),
        (&["no-such-command"], 2),
        (&["upgrade", "no-such-revision"], 1),
        (&["stamp", "head"], 1),
        (&["revision", "-m", "mine", "--autogenerate"], 1),
        (&["adopt"], 1),
        (&["release"], 1),
        (&["release", "--wait", "1"], 1),
        (&["release", "--wait", "18446744073709551615"], 2),
    ] {
        let (code, _) = run(&place.conf, arguments)?;
        ensure!(code == wanted, "{arguments:?} ended with {code}");
    }
    // A database that was never ours is no place to wait.
    let output = command(&place.conf, &["release", "--wait", "1"])?.output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(words.contains("never adopted"), "{words}");
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
