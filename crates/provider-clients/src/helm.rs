//! The `helm` program, 3.x and 4.x: run with a deadline, an environment of its own, and so many at once.
//!
//! Nothing of it is trusted to be there afterwards: what a run that was cut off has left is found by [`HelmUntil::last`], and a release
//! that it left pending, which no other run would touch any more, is taken up: the first one by [`HelmUntil::resume`], a later one by doing
//! it again.
//!
//! No run goes on when whoever began it may not act any more, whatever has become of him: [`warden`].

pub mod warden;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::warden::Watched;
use crate::error::{CloudError, Sent};
use crate::observe::{Call, Watchers};
use crate::service::Service;

const SERVICE: Service = Service::Helm;
/// What helm itself is told as its time-out; upstream's.
const TIMEOUT: &str = "5m";
/// Revisions of a release that are kept; upstream's.
const HISTORY: &str = "10";
/// More of what it prints is not read; a release of fifty objects is a tenth of it.
const LONGEST: u64 = 8 * 1024 * 1024;

/// How helm is run.
#[derive(Clone)]
pub struct HelmOptions {
    /// A name that is looked for in `PATH` of `environment`, or a path.
    pub program: String,
    /// A program that asks [`warden::called`] before all else.
    pub warden: PathBuf,
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
        let Self { program, warden, environment: _, kubeconfig, at_once, deadline } = self;
        let mut all = f.debug_struct("HelmOptions");
        all.field("program", program).field("warden", warden).field("kubeconfig", kubeconfig);
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
        let line = of_release("uninstall", release, &["--timeout", TIMEOUT], namespace, self.kubeconfig());
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
        let started = Instant::now();
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
        let took = started.elapsed();
        let status = outcome.is_ok().then_some(200);
        watchers.ended(&Call { service: SERVICE, operation, status, took });
        let is_good = outcome.is_ok();
        tracing::debug!(service = SERVICE.name(), operation, is_good, duration_ms = took.as_millis() as u64, "helm ended");
        outcome
    }

    /// Dropping it kills the program, and what that has started.
    async fn child(&self, operation: &'static str, line: &[String], input: Option<String>) -> Result<Vec<u8>, CloudError> {
        let broken =
            |what: &str, error: std::io::Error| CloudError::unreachable(SERVICE, operation, Sent::Perhaps, &format!("{what}: {error}"));
        let (options, input) = (&self.helm.options, input.unwrap_or_default());
        let mut child = Watched::start(options, line).map_err(|error| {
            CloudError::invalid(SERVICE, operation, &format!("the program {} cannot be run: {error}", options.warden.display()))
        })?;
        let leader = child.leader();
        let (stdin, stdout, stderr) = (leader.stdin.take(), leader.stdout.take(), leader.stderr.take());
        let read = async { tokio::join!(all_of(stdout), all_of(stderr)) };
        // Both end when neither the program nor its warden is there any more; until then the pipe to the warden must not.
        let (printed, said) = tokio::select! {
            biased;
            all = read => all,
            never = warden::tell(stdin, &input, &*self.end) => match never {},
        };
        let status = leader.wait().await.map_err(|error| broken("its end", error))?;
        let (printed, said) =
            (printed.map_err(|error| broken("what it printed", error))?, said.map_err(|error| broken("its words", error))?);
        let said = String::from_utf8_lossy(&said);
        match status.code() {
            Some(0) => Ok(printed),
            Some(code) if code == i32::from(warden::NOT_RUN) => Err(CloudError::invalid(SERVICE, operation, &words(&said))),
            Some(_) => Err(failure(operation, &said)),
            None => Err(CloudError::unreachable(SERVICE, operation, Sent::Perhaps, "it was killed")),
        }
    }
}

async fn all_of(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let mut stream = stream.take(LONGEST);
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Parts of helm's words by which a failure is one of the moment: of the way to the API server or the charts, or a change that another
/// overtook.
const PASSING: [&str; 27] = [
    "cluster unreachable",
    "connection refused",
    "connection reset",
    "i/o timeout",
    "connection timed out",
    "connection lost",
    "tls handshake timeout",
    "no such host",
    "no route to host",
    "network is unreachable",
    "server misbehaving",
    "temporary failure in name resolution",
    "context deadline exceeded",
    "unexpected eof",
    ": eof",
    "server was unable to return a response",
    "server is currently unable to handle the request",
    "too many requests",
    "service unavailable",
    "internal server error",
    "bad gateway",
    "gateway timeout",
    "internal error occurred",
    "object has been modified",
    "http2:",
    "etcdserver",
    // Of some object of the release, for a reason that helm does not tell: a lost answer, as often as not.
    "failed to delete release:",
];

/// How Go says that it found no address of a name; the name comes next, then often the address of who was asked.
const LOOKUP: &str = "dial tcp: lookup ";
/// What is said instead.
const UNRESOLVED: &str = "the name of a server that it needs cannot be resolved";

/// Whether helm 4 was refused a size that another manager of fields has set. helm 3 overwrites it.
fn is_contest(words: &str) -> bool {
    let lower = words.to_lowercase();
    lower.contains("conflict") && lower.contains("apply failed with") && lower.contains(".spec.replicas")
}

/// What helm's words mean. It ends with status 1 whatever went wrong.
fn failure(operation: &'static str, said: &str) -> CloudError {
    let words = words(said);
    let lower = words.to_lowercase();
    if lower.contains("another operation (install/upgrade/rollback) is in progress") {
        return CloudError::refused(SERVICE, operation, 409, None, &words);
    }
    if lower.contains("release: not found") {
        return CloudError::refused(SERVICE, operation, 404, None, &words);
    }
    // helm's words go to tenants, and where this machine asks for names is none of theirs.
    if lower.contains(LOOKUP) {
        tracing::warn!(operation, words, "helm cannot resolve a name");
        return CloudError::unreachable(SERVICE, operation, Sent::Perhaps, UNRESOLVED);
    }
    // Neither is a status that helm has: they make the error answer as one of a service would.
    if PASSING.iter().any(|part| lower.contains(part)) {
        return CloudError::unreachable(SERVICE, operation, Sent::Perhaps, &words);
    }
    CloudError::refused(SERVICE, operation, 424, None, &words)
}

/// The line that says what is wrong, without warnings before it.
fn words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.iter().position(|line| line.starts_with("Error:") || line.contains("level=ERROR")).unwrap_or(0);
    let text = lines[from.min(lines.len())..].join(" ");
    let text = text.strip_prefix("Error: ").unwrap_or(&text);
    if text.is_empty() { "it failed without a word".to_owned() } else { text.to_owned() }
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
        let line = of_release("uninstall", "r", &["--timeout", TIMEOUT], "n", Some("k"));
        assert_eq!(line.join(" "), "uninstall r --timeout 5m --namespace n --kubeconfig k");
    }

    #[test]
    fn failures_are_told_apart_by_helms_words() {
        let of = |said: &str| failure("upgrade", said);
        let busy = of("Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress\n");
        assert!(busy.is_conflict(), "{busy}");
        assert!(of("Error: uninstall: Release not loaded: x: release: not found").is_not_found());
        for said in [
            "Error: Kubernetes cluster unreachable: Get \"http://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused",
            "Error: looks like \"http://h\" is not a valid chart repository or cannot be reached: Get \"http://h/index.yaml\": EOF",
            "Error: looks like \"http://h\" is not a valid chart repository or cannot be reached: failed to fetch http://h/index.yaml : 502 Bad Gateway",
            "Error: failed to fetch https://h/c-0.27.0.tgz : 500 Internal Server Error",
            "Error: Get \"https://h/index.yaml\": dial tcp: lookup h on 192.0.2.1:53: server misbehaving",
            "Error: failed to do request: Head \"https://h/v2/c/manifests/1\": dial tcp 192.0.2.1:443: connect: no route to host",
            "Error: failed to delete release: blue-pwh4u2hzpwnw",
        ] {
            assert!(of(said).retry_may_help(), "{said}");
        }
        let unresolved = of("Error: Get \"https://h/index.yaml\": dial tcp: lookup h on 192.0.2.1:53: no such host");
        assert!(unresolved.retry_may_help() && unresolved.message() == UNRESOLVED, "{unresolved}");
        let warned = of("WARNING: x\nlevel=WARN msg=y\nError: chart \"c\" version \"9\" not found in http://h repository\n");
        assert!(!warned.retry_may_help() && warned.message().starts_with("chart \"c\" version"), "{warned}");
        assert_eq!(of("").message(), "it failed without a word");
    }
}
