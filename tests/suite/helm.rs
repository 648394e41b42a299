//! How conductors run helm: under a warden, which is the real one, with a few lines of shell in helm's place.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use provider_clients::{CloudError, Helm, HelmOptions, HelmRun, HelmUntil, Watchers};
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::binaries::program;
use tests::process::{is_running, send_signal};
use tests::wait::{self, PATIENCE, Seen};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// What a program that does not end tells of itself: its process, one that it has started, and its warden.
const NEVER: &str = "sleep 3600 &\necho $$ $! $PPID >\"$FOLDER/begun\"\nmv \"$FOLDER/begun\" \"$FOLDER/pids\"\nwait\n";

/// Where there are no libraries.
const LIBRARIES: &str = "/nonexistent/libraries";

/// A program in helm's place, and the folder for what it leaves.
struct Place {
    folder: TempDir,
    warden: PathBuf,
}

impl Place {
    fn new(script: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("helm");
        fs::write(&path, format!("#!/bin/sh\n{script}"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(Self { folder, warden: program("magnum-conductor")? })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn helm(&self, deadline: Duration) -> Result<Helm> {
        let environment: [(&str, OsString); 3] = [("PATH", "/usr/bin:/bin".into()), ("FOLDER", self.path().into()), ("A", "b".into())];
        let options = HelmOptions {
            program: self.path().join("helm").display().to_string(),
            warden: self.warden.clone(),
            libraries: Some(LIBRARIES.into()),
            environment: environment.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            kubeconfig: None,
            at_once: 1,
            deadline,
        };
        Ok(Helm::new(options, Watchers::default()))
    }

    /// For somebody whose time does not end.
    fn endless(&self, deadline: Duration) -> Result<HelmUntil> {
        Ok(self.helm(deadline)?.until(|| Instant::now() + LONG))
    }

    fn read(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path().join(name)).with_context(|| format!("read {name}"))
    }

    /// The processes of a program that does not end, once it has begun.
    async fn pids(&self) -> Result<Vec<u32>> {
        let told = wait::until("the program to begin", PATIENCE, async || Ok(Seen::from_option(self.read("pids").ok(), "it has not")));
        told.await?.split_whitespace().map(|pid| pid.parse::<u32>().context("a process id")).collect()
    }
}

async fn upgrade(helm: &HelmUntil) -> Result<(), CloudError> {
    upgrade_to(helm, &json!({"a": 1})).await
}

async fn upgrade_to(helm: &HelmUntil, values: &Value) -> Result<(), CloudError> {
    let run = HelmRun { release: "r".into(), namespace: "n".into(), chart: "c".into(), repo: None, version: None };
    helm.upgrade(&run, values).await
}

fn begin(helm: HelmUntil) -> JoinHandle<Result<(), CloudError>> {
    tokio::spawn(async move { upgrade(&helm).await })
}

async fn gone(pids: &[u32]) -> Result<()> {
    wait::until("the processes to end", PATIENCE, async || {
        let left: Vec<&u32> = pids.iter().filter(|pid| is_running(**pid)).collect();
        Ok(Seen::when(left.is_empty(), || format!("{left:?} of {pids:?} run")))
    })
    .await
}

#[tokio::test]
async fn a_program_gets_its_words_its_input_and_no_environment_but_its_own() -> Result<()> {
    let place = Place::new(
        "cat >\"$FOLDER/input\"\ncat /proc/$PPID/environ >\"$FOLDER/wardens\"\n\
         echo \"$A ${CARGO_MANIFEST_DIR-none} ${LD_LIBRARY_PATH-none} $*\" >\"$FOLDER/seen\"\n",
    )?;
    upgrade(&place.endless(LONG)?).await?;
    let (input, seen, wardens) = (place.read("input")?, place.read("seen")?, place.read("wardens")?);
    ensure!(input == "{\"a\":1}" && seen.starts_with("b none none upgrade r c --history-max 10 "), "{input} {seen}");
    // The warden is linked as this program is; helm is not.
    ensure!(wardens.split('\0').any(|variable| variable == format!("LD_LIBRARY_PATH={LIBRARIES}")), "{wardens}");
    Ok(())
}

#[tokio::test]
async fn how_a_program_ends_is_told_as_if_it_had_no_warden() -> Result<()> {
    let place = Place::new("echo '{\"replicas\": 3}'\n")?;
    let values = place.endless(LONG)?.values("r", "n", 1).await?;
    ensure!(values == json!({"replicas": 3}), "{values}");
    let place = Place::new("echo 'Error: uninstall: Release not loaded: r: release: not found' >&2\nexit 1\n")?;
    ensure!(!place.endless(LONG)?.uninstall("r", "n").await?);
    fs::remove_file(place.path().join("helm"))?;
    let error = upgrade(&place.endless(LONG)?).await.expect_err("there is none");
    ensure!(!error.retry_may_help() && error.message().contains("/helm cannot be run: No such file"), "{error}");
    // So it stays until somebody does something about it; all else may pass.
    let place = Place::new("exit 0\n")?;
    fs::set_permissions(place.path().join("helm"), Permissions::from_mode(0o644))?;
    let error = upgrade(&place.endless(LONG)?).await.expect_err("it may not be run");
    ensure!(!error.retry_may_help() && error.message().contains("/helm cannot be run: Permission denied"), "{error}");
    fs::remove_file(place.path().join("helm"))?;
    symlink("helm", place.path().join("helm"))?;
    let error = upgrade(&place.endless(LONG)?).await.expect_err("it leads to itself");
    ensure!(error.retry_may_help() && !error.may_have_made() && error.message().contains("/helm cannot be run: Too many"), "{error}");
    let place = Place { warden: "/proc/nothing/exe".into(), ..Place::new("exit 0\n")? };
    let error = upgrade(&place.endless(LONG)?).await.expect_err("there is no warden");
    ensure!(error.retry_may_help() && !error.may_have_made() && error.message().contains("/proc must be mounted"), "{error}");
    let place = Place::new("kill -s KILL $$\n")?;
    let error = upgrade(&place.endless(LONG)?).await.expect_err("killed");
    ensure!(error.retry_may_help() && error.may_have_made() && error.message() == "it was killed", "{error}");
    Ok(())
}

#[tokio::test]
async fn a_program_that_does_not_end_is_killed_at_its_deadline() -> Result<()> {
    let place = Place::new("exec sleep 3600\n")?;
    let error = upgrade(&place.endless(Duration::from_millis(200))?).await.expect_err("killed");
    ensure!(error.retry_may_help() && error.may_have_made(), "{error}");
    ensure!(error.message() == "it did not end within 0 s and was killed", "{error}");
    Ok(())
}

/// As a step is dropped whose lease is lost. Somebody may have killed the warden, without which nobody would end the program in time.
#[rstest]
#[tokio::test]
async fn a_program_goes_with_all_it_has_started_when_it_is_dropped_or_its_warden_is_gone(
    #[values(true, false)] has_warden: bool,
) -> Result<()> {
    let place = Place::new(NEVER)?;
    let run = begin(place.endless(LONG)?);
    let pids = place.pids().await?;
    if has_warden {
        run.abort();
    } else {
        send_signal("KILL", pids[2])?;
        let error = run.await?.expect_err("killed");
        ensure!(error.retry_may_help() && error.may_have_made() && error.message() == "it was killed", "{error}");
    }
    gone(&pids).await
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_not_waited_for_long() -> Result<()> {
    let place = Place::new("sleep 3600 &\necho $! >\"$FOLDER/begun\"\nmv \"$FOLDER/begun\" \"$FOLDER/pids\"\necho '{\"a\": 1}'\n")?;
    let values = place.endless(LONG)?.values("r", "n", 1).await?;
    ensure!(values == json!({"a": 1}), "{values}");
    gone(&place.pids().await?).await
}

/// More than a pipe holds.
#[tokio::test]
async fn a_program_that_does_not_read_ends_all_the_same() -> Result<()> {
    let values = json!({"a": "b".repeat(1 << 20)});
    let place = Place::new("exit 0\n")?;
    upgrade_to(&place.endless(LONG)?, &values).await?;
    let place = Place::new("exec sleep 3600\n")?;
    let end = Instant::now() + Duration::from_secs(2);
    let error = upgrade_to(&place.helm(LONG)?.until(move || end), &values).await.expect_err("killed");
    ensure!(error.retry_may_help() && error.message() == "it was killed", "{error}");
    Ok(())
}

#[tokio::test]
async fn a_program_goes_with_all_it_has_started_when_its_time_is_over() -> Result<()> {
    let place = Place::new(NEVER)?;
    let end = Arc::new(Mutex::new(Instant::now() + LONG));
    let told = end.clone();
    let run = begin(place.helm(LONG)?.until(move || *told.lock().unwrap_or_else(PoisonError::into_inner)));
    let pids = place.pids().await?;
    *end.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    let error = run.await?.expect_err("killed");
    ensure!(error.retry_may_help() && error.message() == "it was killed", "{error}");
    gone(&pids).await
}

#[tokio::test]
async fn a_program_has_the_time_by_which_its_end_is_put_off() -> Result<()> {
    let place = Place::new("sleep 5\n")?;
    let helm = place.helm(LONG)?.until(|| Instant::now() + Duration::from_secs(3));
    Ok(upgrade(&helm).await?)
}
