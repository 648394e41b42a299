//! `lab`: the real OpenStack on loopback, by the scripts in tests/lab. One at a time on a machine: its ports are fixed.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use crate::{cargo, helm, paths, prerequisites, process, until};

#[derive(Subcommand)]
pub enum Command {
    /// Install what is missing and start everything; 6 minutes the first time, later 1
    Up,
    /// Stop everything
    Down {
        /// Also remove data and configuration (not logs, nor the Python environments)
        #[arg(long)]
        purge: bool,
    },
    /// Print what to export for the `openstack` client
    Env,
    /// One line for each process
    Status,
    /// Our services against the lab, driven by the `openstack` client (the lab must be up)
    Run,
    /// Clusters of upstream's Magnum, which runs first, taken over by ours on the same database (the lab must be up)
    Adopt,
    /// Heat looks at stacks of every choice that changes resources, together with every other one; none is made (the lab must be up)
    Preview {
        /// How many choices are together in some stack, at least
        #[arg(long, default_value_t = PAIRS, value_parser = clap::value_parser!(u8).range(1..=3))]
        strength: u8,
    },
    /// How long clusters take, upstream's and ours, with the programs of a release build (the lab must be up)
    Times {
        /// Masters+workers of each cluster; 1+1 and 3+10 unless said
        sizes: Vec<String>,
    },
    /// Clusters of other shapes: three masters, cilium, a given network, volumes; the inventory is compared after each step (the lab must be up)
    Shapes {
        /// Names of shapes; all unless said
        names: Vec<String>,
    },
    /// Every node of a cluster with three masters is replaced: an upgrade, new credentials, new authorities; half an hour (the lab must be up)
    Replacements {
        /// `failed`, or `absent` (it never joined): instead of all that, an upgrade whose first new master fails, which is done again
        part: Option<String>,
    },
    /// Other clients' own test suites against our services: tempest's plugin, gophercloud (the lab must be up)
    Clients,
}

/// Every choice of a cluster with every other one.
const PAIRS: u8 = 2;

/// The longest that one script may take to drive the cloud: what takes 20 minutes takes 40 where others are at work.
const ROAD: Duration = Duration::from_secs(75 * 60);

/// The same of [`Command::Replacements`].
const LONG_ROAD: Duration = Duration::from_secs(2 * 3600);

/// Held while a run uses the lab.
pub struct Lock {
    _file: File,
}

pub fn run(command: Command) -> Result<u8> {
    match command {
        Command::Up => {
            let _lock = lock()?;
            up().map(|()| 0)
        }
        Command::Down { purge } => down(purge).map(|()| 0),
        Command::Env => {
            println!("export OSLAB={}", oslab()?.display());
            println!(". {}/tests/lab/env.sh", paths::root().display());
            println!("as demo   # or admin, demo2, reader");
            Ok(0)
        }
        Command::Status => script("status", &[], Duration::from_secs(60)),
        Command::Run => road("run", &[]),
        Command::Adopt => road("adopt", &[]),
        Command::Preview { strength } => {
            prerequisites::ensure(&[prerequisites::BUILD])?;
            let _lock = lock()?;
            preview(strength)
        }
        Command::Times { sizes } => times(&sizes),
        Command::Shapes { names } => road("shapes", &names),
        Command::Replacements { part } => road("replacements", part.as_slice()),
        Command::Clients => road("clients", &[]),
    }
}

/// Waits until no other run uses the lab.
pub fn lock() -> Result<Lock> {
    let path = paths::cache_dir()?.join("lab.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path).with_context(|| format!("open {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("another run uses the lab; waiting for it");
        if !process::wait_until(Duration::from_secs(3600), || file.try_lock().is_ok()) {
            bail!("another run has used the lab for an hour");
        }
    }
    Ok(Lock { _file: file })
}

/// Whether all of it runs.
pub fn is_up() -> Result<bool> {
    Ok(status()? == 0)
}

/// What the script `status` ends with.
fn status() -> Result<u8> {
    let mut command = prepare("status", &[])?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    process::run(&mut command, Duration::from_secs(60)).map(process::exit_code)
}

/// That of a lab that is down, as [`status`] tells it.
const NONE_RUNS: u8 = 3;

/// Starts what does not run. A lab that is down, and in which a road did not come to a good end, is made anew: the next one would count what
/// was left in it.
pub fn up() -> Result<()> {
    prerequisites::ensure_lab()?;
    if unfinished()?.exists() && status()? == NONE_RUNS {
        eprintln!("a run in the lab was cut off or failed: its data is removed");
        down(true)?;
    }
    must("up", &[], Duration::from_secs(3600))
}

pub fn down(purge: bool) -> Result<()> {
    must("down", if purge { &["--purge"] } else { &[] }, Duration::from_secs(240))
}

/// The road `run`, and adoption, on a slow machine that runs the tests beside them.
const LIFE: Duration = Duration::from_secs(70 * 60);
const ADOPTION: Duration = Duration::from_secs(23 * 60);

/// The roads through the real OpenStack that every run of the tests takes; the exit code of the worst. The others, which repeat much of what
/// these do (`clients`) or take still longer, are for who asks for them.
pub fn walk() -> Result<u8> {
    let mut worst = preview(PAIRS)?;
    for (road, what, longest) in [("run", "the life of clusters", LIFE), ("adopt", "adoption", ADOPTION)] {
        if until::is_time_for(&format!("{what} on the real OpenStack (cargo xtask lab {road})"), longest)? {
            worst = worst.max(drive(road, &[])?);
        }
    }
    Ok(worst)
}

fn must_be_up() -> Result<()> {
    if is_up()? { Ok(()) } else { bail!("the lab is not up (cargo xtask lab up)") }
}

/// Has the driver render the stacks, and Heat look at them.
fn preview(strength: u8) -> Result<u8> {
    must_be_up()?;
    let file = oslab()?.join("combinations");
    // One of an earlier run would hide that nothing is rendered any more.
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("remove the stacks of an earlier run"),
        _ => {}
    }
    let name = "driver::heat::render::tests::combinations::combinations";
    let mut render = cargo::cargo();
    // Of the whole workspace: with the dependencies of one package alone, these would be built anew.
    render.args(["test", "--quiet", "--workspace", "--lib", name, "--", "--ignored", "--exact"]);
    render.env("MAGNUM_COMBINATIONS", &file).env("MAGNUM_COMBINATIONS_STRENGTH", strength.to_string());
    match process::run(&mut render, Duration::from_secs(3600)).map(process::exit_code)? {
        0 => script("preview", &[file.to_str().context("the path is text")?], ROAD),
        code => Ok(code),
    }
}

/// Measures with the programs of a release build.
fn times(sizes: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    cargo::build_for_measuring()?;
    let _lock = lock()?;
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let mut command = prepare("times", &sizes)?;
    command.env("MAGNUM_BIN_DIR", paths::bin_dir("release"));
    finish(command, Duration::from_secs(3 * 3600))
}

fn road(name: &str, args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    cargo::build_binaries()?;
    let _lock = lock()?;
    drive(name, args)
}

fn drive(name: &str, args: &[String]) -> Result<u8> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = prepare(name, &args)?;
    // For the management cluster of `run`.
    command.env("MAGNUM_TEST_HELM", helm::program(helm::Major::Three)?);
    finish(command, if name == "replacements" { LONG_ROAD } else { ROAD })
}

/// Runs what makes things in the lab, and removes them at its end. What an earlier one has left stays marked.
fn finish(mut command: Process, limit: Duration) -> Result<u8> {
    must_be_up()?;
    let mark = unfinished()?;
    let was_left = mark.exists();
    File::create(&mark).with_context(|| format!("create {}", mark.display()))?;
    let code = process::run(&mut command, limit).map(process::exit_code)?;
    if code == 0 && !was_left {
        std::fs::remove_file(&mark).with_context(|| format!("remove {}", mark.display()))?;
    }
    Ok(code)
}

/// There while a road is under way in the lab, and after one that did not come to a good end.
fn unfinished() -> Result<PathBuf> {
    Ok(oslab()?.join("state/unfinished"))
}

fn must(name: &str, args: &[&str], limit: Duration) -> Result<()> {
    match script(name, args, limit)? {
        0 => Ok(()),
        code => bail!("tests/lab/{name} ended with exit code {code}"),
    }
}

fn script(name: &str, args: &[&str], limit: Duration) -> Result<u8> {
    process::run(&mut prepare(name, args)?, limit).map(process::exit_code)
}

fn prepare(name: &str, args: &[&str]) -> Result<Process> {
    let mut command = Process::new("bash");
    command.arg(paths::root().join("tests/lab").join(name)).args(args).stdin(Stdio::null());
    command.env("OSLAB", oslab()?).env("MAGNUM_BIN_DIR", paths::bin_dir("debug"));
    // Whatever cloud the caller's shell points at is not this one.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OS_")) {
        command.env_remove(name);
    }
    Ok(command)
}

fn oslab() -> Result<PathBuf> {
    match std::env::var_os("OSLAB").filter(|v| !v.is_empty()) {
        Some(dir) => std::path::absolute(dir).context("read OSLAB"),
        None => Ok(paths::cache_dir()?.join("lab")),
    }
}
