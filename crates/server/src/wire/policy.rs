//! The policy files: which there are, and what they say whenever that changes.
//!
//! Files are looked at once a second, because notifications of changes do not reach every file system that configuration is mounted from.
//! A change counts when two looks in a row see the same: an editor that empties a file before it writes must not loosen the policy meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use api::{Policy, PolicyFile, PolicyOptions};

use crate::config::Config;

const INTERVAL: Duration = Duration::from_secs(1);

/// Where upstream's older releases had their rules; counts when there is no file of the usual name.
const OLD_DEFAULT: (&str, &str) = ("policy.yaml", "policy.json");

/// The policy of `[oslo_policy]`, and what keeps it up to date.
pub fn policy(config: &Config) -> anyhow::Result<(Policy, Watch)> {
    let ours = &config.oslo_policy;
    let options = PolicyOptions {
        default_rule: ours.policy_default_rule.clone(),
        enforce_new_defaults: ours.enforce_new_defaults,
        enforce_scope: ours.enforce_scope,
    };
    let files = Files { config: config.clone() };
    let seen = files.look()?;
    let policy = Policy::new(options, &seen.read()?)?;
    if !seen.0.is_empty() {
        tracing::info!("Policy files in force: {seen}");
    }
    Ok((policy.clone(), Watch { files, policy, before: Some(seen.clone()), settled: Some(seen) }))
}

/// The file of rules that counts first; none when there is none.
pub(super) fn main_file(config: &Config) -> Option<PathBuf> {
    Files { config: config.clone() }.main()
}

/// Puts the rules of changed files in force.
pub struct Watch {
    files: Files,
    policy: Policy,
    /// What the look before saw; none when it failed.
    before: Option<Seen>,
    /// What has been loaded or refused; none when the last look that counted failed.
    settled: Option<Seen>,
}

impl Watch {
    /// Looks for ever.
    pub async fn run(self) {
        let mut watch = self;
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // A file system that hangs must not hold up requests.
            watch = match tokio::task::spawn_blocking(move || (watch.look(), watch).1).await {
                Ok(watch) => watch,
                Err(error) => {
                    tracing::error!(%error, "The policy files are no longer watched");
                    return;
                }
            };
        }
    }

    /// One look; true when other rules are in force after it.
    fn look(&mut self) -> bool {
        let seen = self.files.look();
        let now = seen.as_ref().ok().cloned();
        if now != self.before {
            self.before = now;
            return false;
        }
        if now == self.settled {
            return false;
        }
        let loaded = seen.and_then(|seen| {
            let files = seen.read()?;
            if self.files.look().ok().as_ref() != Some(&seen) {
                return Ok(None);
            }
            self.policy.replace(&files)?;
            Ok(Some(seen))
        });
        match &loaded {
            // It changed while it was read: the next looks will tell.
            Ok(None) => return false,
            Ok(Some(seen)) => tracing::info!("Policy files in force: {seen}"),
            Err(error) => tracing::error!("The policy stays as it was, for the changed files cannot be used: {error:#}"),
        }
        self.settled = now;
        loaded.is_ok()
    }
}

/// The files that the configuration names.
struct Files {
    config: Config,
}

impl Files {
    fn look(&self) -> anyhow::Result<Seen> {
        let mut paths: Vec<PathBuf> = self.main().into_iter().collect();
        for directory in &self.config.oslo_policy.policy_dirs.0 {
            let Some(directory) = self.config.find_file(Path::new(directory)) else { continue };
            if !directory.is_dir() {
                bail!("[oslo_policy] policy_dirs: {} is not a directory", directory.display());
            }
            let entries = fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut names: Vec<PathBuf> =
                entries.with_context(|| format!("list {}", directory.display()))?.iter().map(fs::DirEntry::path).collect();
            names.sort();
            let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            paths.extend(names.into_iter().filter(|path| !is_hidden(path) && path.is_file()));
        }
        paths.into_iter().map(State::of).collect::<Result<_, _>>().map(Seen)
    }

    fn main(&self) -> Option<PathBuf> {
        let name = self.config.oslo_policy.policy_file.as_path();
        let old = || (name.as_os_str() == OLD_DEFAULT.0).then(|| self.config.find_file(Path::new(OLD_DEFAULT.1))).flatten();
        self.config.find_file(name).or_else(old).filter(|path| path.is_file())
    }
}

/// Files in the order in which they count, as they were at one moment.
#[derive(Clone, PartialEq)]
struct Seen(Vec<State>);

/// What tells one version of a file from another.
#[derive(Clone, PartialEq)]
struct State {
    path: PathBuf,
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl State {
    fn of(path: PathBuf) -> anyhow::Result<Self> {
        let found = fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?;
        Ok(Self { path, modified: found.modified().ok(), length: found.len(), inode: found.ino() })
    }
}

impl Seen {
    fn read(&self) -> anyhow::Result<Vec<PolicyFile>> {
        let read = |state: &State| {
            let name = state.path.display().to_string();
            let text = fs::read_to_string(&state.path).with_context(|| format!("read policy file {name}"))?;
            Ok(PolicyFile { name, text })
        };
        self.0.iter().map(read).collect()
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<String> = self.0.iter().map(|state| state.path.display().to_string()).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests;
