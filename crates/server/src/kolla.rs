//! What kolla-ansible and a container engine expect inside an image, without Python, sudo or curl: one program that acts by the name it is
//! called by.
//!
//! | name | what it does |
//! |---|---|
//! | `kolla_start` | settles the configuration, then becomes the service (or bootstraps) |
//! | `kolla_set_configs` | installs what `config.json` lists; `--check` tells whether that is still so |
//! | `kolla_copy_cacerts` | adds the operator's authorities to the system's bundle |
//! | `healthcheck_curl`, `healthcheck_port` | the health checks of kolla-ansible |
//! | `uwsgi` | becomes `magnum-api` by the ini file that newer releases write |
//!
//! The image runs as the user `magnum`, but installing files as their owners needs root. kolla's own images let sudo do that; here the file
//! that bears the names of the two that need it is set-user-ID root, and refuses every other name: it starts no program, and takes nothing
//! from its caller but `--check`. What it installs is what is mounted at [`CONFIG`].

mod authorities;
mod check;
mod definition;
mod install;
mod places;
mod probe;
mod start;
mod uwsgi;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub use definition::Definition;
pub use places::Places;

/// Where kolla-ansible mounts what it wrote for this container.
pub const CONFIG: &str = "/var/lib/kolla/config_files/config.json";

/// Why it did not do it; the two kinds have exit codes of their own.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The definition, the strategy or what is mounted is wrong, or `--check` found a difference: 1.
    #[error("{0}")]
    Wrong(String),
    /// The machine did not do as it should: 2.
    #[error("{what}: {error}")]
    Failed { what: String, error: std::io::Error },
}

impl Trouble {
    fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Wrong(_) => 1,
            Self::Failed { .. } => 2,
        })
    }
}

/// Says what was being done when an operation of the system failed.
trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(|error| Trouble::Failed { what: what(), error })
    }
}

/// Acts by the name it was called by, or by its first argument when it was called by its own. Exit codes are kolla's.
pub fn main(mut arguments: Vec<OsString>) -> ExitCode {
    let name_of = |argument: Option<&OsString>| {
        argument.and_then(|argument| Path::new(argument).file_name()).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    if name_of(arguments.first()) == "magnum-container" {
        arguments.remove(0);
    }
    let name = name_of(arguments.first());
    let rest: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let places = Places::system();
    let privileged = matches!(name.as_str(), "kolla_set_configs" | "kolla_copy_cacerts");
    let done = match places.is_set_user_id() {
        Ok(true) if !privileged => Err(Trouble::Wrong(format!("{name:?} must not run with the rights of another user"))),
        Ok(lent) => run(&name, &rest, &places, lent),
        Err(trouble) => Err(trouble),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("{name}: {trouble}");
            trouble.code()
        }
    }
}

fn run(name: &str, rest: &[String], places: &Places, lent: bool) -> Result<(), Trouble> {
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (name, words.as_slice()) {
        ("kolla_set_configs", []) => install::set_configs(places, &Definition::current(places, lent)?, variable("KOLLA_CONFIG_STRATEGY")),
        ("kolla_set_configs", ["--check"]) => check::check(places, &Definition::current(places, lent)?),
        ("kolla_copy_cacerts", []) => authorities::copy(places),
        ("kolla_start", []) => start::start(places),
        ("healthcheck_curl", [.., url]) => probe::answers(url).map(|said| println!("{said}")),
        ("healthcheck_port", [name, port]) => probe::connected(places, name, port),
        ("uwsgi", [ini]) => uwsgi::become_api(places, ini),
        _ => Err(Trouble::Wrong(format!("unknown name or arguments: {name} {}", rest.join(" ")))),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
