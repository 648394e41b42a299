//! The `helm` program, 3.x and 4.x: run with a deadline, an environment of its own, and so many at once.
//!
//! Nothing of it is trusted to be there afterwards: what a run that was cut off has left is found by [`HelmUntil::last`], and a release
//! that it left pending, which no other run would touch any more, is taken up: the first one by [`HelmUntil::resume`], a later one by doing
//! it again.
//!
//! No run goes on when whoever began it may not act any more, whatever has become of him: [`warden`].

pub mod warden;
mod words;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Span;

use self::warden::Watched;
use self::words::{failure, is_contest, words};
use crate::error::{CloudError, Sent};
use crate::observe::Watchers;
use crate::service::Service;

const SERVICE: Service = Service::Helm;
/// What helm itself is told as its time-out; upstream's.
const TIMEOUT: &str = "5m";
/// Revisions of a release that are kept; upstream's.
const HISTORY: &str = "10";
/// Why something could not be deleted is in the debugging output only.
const UNINSTALL: &[&str] = &["--debug", "--timeout", TIMEOUT];
/// More of what it prints is not read; a release of fifty objects is a tenth of it.
const LONGEST: u64 = 8 * 1024 * 1024;

/// How helm is run.
#[derive(Clone)]
pub struct HelmOptions {
    /// A name that is looked for in `PATH` of `environment`, or a path.
    pub program: String,
    /// A program that asks [`warden::called`] before all else.
    pub warden: PathBuf,
    /// Where else than usual the warden finds the libraries that it is linked with (`LD_LIBRARY_PATH`); helm is not told.
    pub libraries: Option<OsString>,
    /// All that the program finds in its environment; nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// The path of the kubeconfig; none: helm finds one by its own rules.
    pub kubeconfig: Option<String>,
    /// Runs at once.
    pub at_once: usize,
    /// The longest that one run may take. It is killed then.
    pub deadline: Duration,
}

impl fmt::Debug for HelmOptions {
    // Values of the environment may carry a proxy's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, warden, libraries, environment: _, kubeconfig, at_once, deadline } = self;
        let mut all = f.debug_struct("HelmOptions");
        all.field("program", program).field("warden", warden).field("libraries", libraries).field("kubeconfig", kubeconfig);
        all.field("at_once", at_once).field("deadline", deadline);
        all.finish_non_exhaustive()
    }
}

/// What a release is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmRun {
    pub release: String,
    pub namespace: String,
    /// Name, `oci://` reference or path.
    pub chart: String,
    /// Address of the repository; none for references and paths.
    pub repo: Option<String>,
    pub version: Option<String>,
}

/// The last revision of a release.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LastRelease {
    pub revision: u32,
    /// helm's word: `deployed`, `failed`, `pending-install`, `pending-upgrade`, `pending-rollback`, `uninstalling`, `uninstalled` …
    pub status: String,
}

impl LastRelease {
    /// Whether it was left by a run that did not end, so that no other can begin.
    pub fn is_pending(&self) -> bool {
        self.status.starts_with("pending-")
    }

    /// Whether it was to make the release.
    pub fn is_install(&self) -> bool {
        self.status == "pending-install"
    }
}

/// The helm program. Cheap to clone; clones share the limit.
#[derive(Clone, Debug)]
pub struct Helm {
    options: Arc<HelmOptions>,
    room: Arc<Semaphore>,
    watchers: Watchers,
}

/// Runs helm for somebody who may act until a moment only.
pub struct HelmUntil {
    helm: Helm,
    end: Box<dyn Fn() -> Instant + Send + Sync>,
}

impl HelmRun {
    /// The command line that makes the release, or changes it: upstream's, word for word.
    pub fn upgrade(&self, kubeconfig: Option<&str>) -> Vec<String> {
        let words = ["upgrade", &self.release, &self.chart, "--history-max", HISTORY, "--install", "--output", "json"];
        let mut line: Vec<String> = words.map(str::to_owned).into();
        line.extend(["--timeout", TIMEOUT, "--values", "-", "--namespace", &self.namespace].map(str::to_owned));
        for (option, value) in [("--repo", self.repo.as_deref()), ("--version", self.version.as_deref()), ("--kubeconfig", kubeconfig)] {
            line.extend(value.into_iter().flat_map(|value| [option.to_owned(), value.to_owned()]));
        }
        line
    }
}

fn of_release(verb: &str, release: &str, more: &[&str], namespace: &str, kubeconfig: Option<&str>) -> Vec<String> {
    let mut line = vec![verb.to_owned(), release.to_owned()];
    line.extend(more.iter().map(|word| (*word).to_owned()));
    line.extend(["--namespace".to_owned(), namespace.to_owned()]);
    line.extend(kubeconfig.into_iter().flat_map(|path| ["--kubeconfig".to_owned(), path.to_owned()]));
    line
}

impl Helm {
    /// Runs nothing yet.
    pub fn new(options: HelmOptions, watchers: Watchers) -> Self {
        let room = Arc::new(Semaphore::new(options.at_once.clamp(1, Semaphore::MAX_PERMITS)));
        Self { options: Arc::new(options), room, watchers }
    }

    /// To be run until this moment, which is asked for again and again, for it may be put off while helm is at work.
    pub fn until(&self, end: impl Fn() -> Instant + Send + Sync + 'static) -> HelmUntil {
        HelmUntil { helm: self.clone(), end: Box::new(end) }
    }
}

impl HelmUntil {
    /// Makes the release, or changes it, with exactly these values. Sizes of groups that another has set (an autoscaler, a hand) are ours
    /// to set: helm 4 asks for that expressly.
    ///
    /// # Errors
    /// A conflict ([`CloudError::is_conflict`]) says that a run is under way, or was cut off (see [`HelmUntil::last`]).
    pub async fn upgrade(&self, run: &HelmRun, values: &Value) -> Result<(), CloudError> {
        let mut line = run.upgrade(self.kubeconfig());
        match self.run("upgrade", &line, Some(values.to_string())).await {
            Err(error) if is_contest(error.message()) => {
                line.push("--force-conflicts".to_owned());
                self.run("upgrade", &line, Some(values.to_string())).await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    /// The values that a revision was, or was to be, made with.
    pub async fn values(&self, release: &str, namespace: &str, revision: u32) -> Result<Value, CloudError> {
        let revision = revision.to_string();
        let more = ["values", release, "--revision", revision.as_str(), "--output", "json"];
        let line = of_release("get", more[0], &more[1..], namespace, self.kubeconfig());
        let printed = self.run("values", &line, None).await?;
        serde_json::from_slice(&printed).map_err(|_| CloudError::malformed(SERVICE, "values", 0, None, "it printed no values"))
    }

    /// Removes the release; false when there was none.
    pub async fn uninstall(&self, release: &str, namespace: &str) -> Result<bool, CloudError> {
        let line = of_release("uninstall", release, UNINSTALL, namespace, self.kubeconfig());
        match self.run("uninstall", &line, None).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The last revision of a release; none when there is no such release.
    pub async fn last(&self, release: &str, namespace: &str) -> Result<Option<LastRelease>, CloudError> {
        let line = of_release("history", release, &["--max", "1", "--output", "json"], namespace, self.kubeconfig());
        let printed = match self.run("history", &line, None).await {
            Ok(printed) => printed,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let malformed = |_| CloudError::malformed(SERVICE, "history", 0, None, "it printed no list of revisions");
        let mut all: Vec<LastRelease> = serde_json::from_slice(&printed).map_err(malformed)?;
        Ok(all.pop())
    }

    /// Takes up a first revision that was left pending: what it was to make is made, nothing is taken away, and the release can be changed
    /// again.
    pub async fn resume(&self, release: &str, namespace: &str, revision: u32) -> Result<(), CloudError> {
        let revision = revision.to_string();
        let more = [revision.as_str(), "--timeout", TIMEOUT, "--history-max", HISTORY];
        let line = of_release("rollback", release, &more, namespace, self.kubeconfig());
        self.run("rollback", &line, None).await.map(drop)
    }

    fn kubeconfig(&self) -> Option<&str> {
        self.helm.options.kubeconfig.as_deref()
    }

    /// Runs it and returns what it printed.
    async fn run(&self, operation: &'static str, line: &[String], input: Option<String>) -> Result<Vec<u8>, CloudError> {
        let Helm { options, room, watchers } = &self.helm;
        let _room = room.acquire().await.map_err(|_| CloudError::unreachable(SERVICE, operation, Sent::No, "it is not run any more"))?;
        let call = watchers.begin(SERVICE, operation, Span::none(), options.deadline);
        let outcome = match tokio::time::timeout(options.deadline, self.child(operation, line, input)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let seconds = options.deadline.as_secs();
                Err(CloudError::unreachable(
                    SERVICE,
                    operation,
                    Sent::Perhaps,
                    &format!("it did not end within {seconds} s and was killed"),
                ))
            }
        };
        let is_good = outcome.is_ok();
        let took = call.ended(is_good.then_some(200), is_good);
        tracing::debug!(service = SERVICE.name(), operation, is_good, duration_ms = took.as_millis() as u64, "helm ended");
        outcome
    }

    /// Dropping it kills the program, and what that has started.
    async fn child(&self, operation: &'static str, line: &[String], input: Option<String>) -> Result<Vec<u8>, CloudError> {
        let unknown = |what: &str| CloudError::unreachable(SERVICE, operation, Sent::Perhaps, what);
        let broken = |what: &str, error: io::Error| unknown(&format!("{what}: {error}"));
        let not_run = |words: &str| CloudError::unreachable(SERVICE, operation, Sent::No, words);
        let (options, input) = (&self.helm.options, input.unwrap_or_default());
        let mut child = Watched::start(options, line).map_err(|error| not_run(&unstarted(&options.warden, &error)))?;
        let leader = child.leader();
        let (stdin, stdout, stderr) = (leader.stdin.take(), leader.stdout.take(), leader.stderr.take());
        let left_behind = warden::left_behind(child.number());
        let mut read = pin!(async { tokio::join!(all_of(stdout), all_of(stderr)) });
        // Both end when neither the program nor its warden, nor what they have started, is there any more; until then the pipe to the warden
        // must not.
        let all = tokio::select! {
            biased;
            all = &mut read => Some(all),
            () = left_behind => None,
            never = warden::tell(stdin, &input, &*self.end) => match never {},
        };
        let (printed, said) = match all {
            Some(all) => all,
            // Nobody is there who could end what is left.
            None => {
                child.kill();
                let rest = tokio::time::timeout(warden::LEFT, read).await;
                rest.map_err(|_| unknown("something that it has started cannot be ended"))?
            }
        };
        let status = child.leader().wait().await.map_err(|error| broken("its end", error))?;
        let (printed, said) =
            (printed.map_err(|error| broken("what it printed", error))?, said.map_err(|error| broken("its words", error))?);
        let said = String::from_utf8_lossy(&said);
        match status.code().map(u8::try_from) {
            Some(Ok(0)) => Ok(printed),
            Some(Ok(warden::NO_PROGRAM)) => Err(CloudError::invalid(SERVICE, operation, &words(&said))),
            Some(Ok(warden::NOT_RUN)) => Err(not_run(&words(&said))),
            Some(_) => Err(failure(operation, &said)),
            None => Err(unknown("it was killed")),
        }
    }
}

/// Why a warden could not be started: whatever it is, it may be different the next time.
fn unstarted(warden: &Path, error: &io::Error) -> String {
    let path = warden.display();
    match error.kind() {
        io::ErrorKind::NotFound if warden.starts_with("/proc") => {
            format!("its warden cannot be started: there is no {path}; /proc must be mounted where conductors run")
        }
        _ => format!("its warden, the program {path}, cannot be started: {error}"),
    }
}

async fn all_of(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let mut stream = stream.take(LONGEST);
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_upstreams() {
        let run = HelmRun {
            release: "blue-pwh4u2hzpwnw".into(),
            namespace: "magnum-01".into(),
            chart: "openstack-cluster".into(),
            repo: Some("https://charts.example".into()),
            version: Some("0.10.1".into()),
        };
        assert_eq!(
            run.upgrade(Some("/etc/magnum/kubeconfig")).join(" "),
            "upgrade blue-pwh4u2hzpwnw openstack-cluster --history-max 10 --install --output json --timeout 5m --values - \
             --namespace magnum-01 --repo https://charts.example --version 0.10.1 --kubeconfig /etc/magnum/kubeconfig"
        );
        let oci = HelmRun { chart: "oci://r/c".into(), repo: None, version: None, ..run };
        assert!(oci.upgrade(None).join(" ").ends_with("--values - --namespace magnum-01"));
        let line = of_release("uninstall", "r", UNINSTALL, "n", Some("k"));
        assert_eq!(line.join(" "), "uninstall r --debug --timeout 5m --namespace n --kubeconfig k");
    }

    #[test]
    fn without_proc_it_is_said_what_is_missing() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        assert!(unstarted(Path::new("/proc/self/exe"), &missing).contains("/proc must be mounted"));
        assert!(unstarted(Path::new("/usr/bin/magnum-conductor"), &missing).contains("/usr/bin/magnum-conductor, cannot be started"));
        let full = io::Error::from(io::ErrorKind::OutOfMemory);
        assert!(!unstarted(Path::new("/proc/self/exe"), &full).contains("mounted"));
    }
}
