//! Known weaknesses of dependencies: asked of a program that knows them, where one and its database are on this machine.
//!
//! The database is a git repository that registries do not serve. Nothing is fetched here, so that nobody waits for a network that there may not
//! be; where nobody looked that is said.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fmt, fs};

use crate::{cargo, process};

/// It reads the lock file and the database: seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Who knows advisories.
struct Auditor {
    program: &'static str,
    /// The folder of its database in that of cargo.
    database: &'static str,
    /// What cargo is told, so that it does without the network.
    arguments: &'static [&'static str],
}

/// The first one knows the exceptions in `deny.toml`.
const AUDITORS: &[Auditor] = &[
    Auditor { program: "cargo-deny", database: "advisory-dbs", arguments: &["deny", "--offline", "check", "advisories"] },
    Auditor { program: "cargo-audit", database: "advisory-db", arguments: &["audit", "--no-fetch", "--stale"] },
];

/// What came of it.
pub enum Outcome {
    /// By whom none was found.
    Clean(&'static str),
    /// By whom some were, or who failed.
    Found(&'static str),
    /// Why nobody looked.
    NotLooked(String),
}

impl Outcome {
    /// Nobody having looked is no failure.
    pub fn code(&self) -> u8 {
        u8::from(matches!(self, Self::Found(_)))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("known weaknesses of dependencies: ")?;
        match self {
            Self::Clean(program) => write!(f, "none by {program}"),
            Self::Found(program) => write!(f, "FOUND by {program}, or it failed"),
            Self::NotLooked(why) => write!(f, "NOT LOOKED FOR: {why}"),
        }
    }
}

/// Looks for them.
pub fn look() -> Outcome {
    let Some(home) = cargo_home() else { return Outcome::NotLooked("neither CARGO_HOME nor HOME is set".to_owned()) };
    let auditor = match choose(&home, |program| process::find_program(program).is_some()) {
        Ok(auditor) => auditor,
        Err(why) => return Outcome::NotLooked(why),
    };
    let mut command = cargo::cargo();
    command.args(auditor.arguments).env("CARGO_NET_OFFLINE", "true").stdin(Stdio::null());
    match process::run(&mut command, LIMIT) {
        Ok(status) if status.success() => Outcome::Clean(auditor.program),
        Ok(_) => Outcome::Found(auditor.program),
        Err(error) => Outcome::NotLooked(format!("{error:#}")),
    }
}

/// Who can look; if nobody can, why.
fn choose(home: &Path, is_there: impl Fn(&str) -> bool) -> Result<&'static Auditor, String> {
    let mut reasons = Vec::new();
    for auditor in AUDITORS.iter().filter(|auditor| is_there(auditor.program)) {
        let folder = home.join(auditor.database);
        if fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(auditor);
        }
        reasons.push(format!("{} has no database in {}", auditor.program, folder.display()));
    }
    if reasons.is_empty() {
        let programs: Vec<&str> = AUDITORS.iter().map(|auditor| auditor.program).collect();
        return Err(format!("there is neither {}", programs.join(" nor ")));
    }
    Err(reasons.join(", "))
}

/// Where cargo keeps what is its own.
fn cargo_home() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CARGO_HOME").or_else(|| set("HOME").map(|home| home.join(".cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_looks_where_program_and_database_are_at_hand_and_otherwise_it_is_said_why_not() {
        let home = env::temp_dir().join(format!("xtask-advisories-{}", std::process::id()));
        let make = |folder: &str| fs::create_dir_all(home.join(folder)).expect("a folder");
        let chosen = |programs: &[&str]| choose(&home, |program| programs.contains(&program)).map(|auditor| auditor.program);
        let both = ["cargo-deny", "cargo-audit"];
        assert_eq!(chosen(&[]), Err("there is neither cargo-deny nor cargo-audit".to_owned()));
        // An empty folder is no database.
        make("advisory-dbs");
        let none = |program: &str, folder: &str| format!("{program} has no database in {}", home.join(folder).display());
        let why = format!("{}, {}", none("cargo-deny", "advisory-dbs"), none("cargo-audit", "advisory-db"));
        assert_eq!(chosen(&both), Err(why));
        make("advisory-db/crates");
        assert_eq!(chosen(&both), Ok("cargo-audit"));
        assert_eq!(chosen(&both[..1]), Err(none("cargo-deny", "advisory-dbs")));
        make("advisory-dbs/one");
        assert_eq!(chosen(&both), Ok("cargo-deny"));
        fs::remove_dir_all(&home).expect("clean up");
    }

    #[test]
    fn only_what_was_found_is_a_failure() {
        let not_looked = Outcome::NotLooked("there is nobody".to_owned());
        assert_eq!([Outcome::Clean("a").code(), Outcome::Found("a").code(), not_looked.code()], [0, 1, 0]);
        assert_eq!(not_looked.to_string(), "known weaknesses of dependencies: NOT LOOKED FOR: there is nobody");
    }
}
