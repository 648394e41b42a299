//! `test`: everything, on servers of its own.

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::keep::Keeper;
use crate::{cargo, helm, images, lab, node, paths, prerequisites, process, servers, tidy, until, upstream};

#[derive(Args, Default)]
pub struct Options {
    /// Leave out the run on the real OpenStack
    #[arg(long, conflicts_with = "only_lab")]
    no_lab: bool,
    /// Only the run on the real OpenStack
    #[arg(long)]
    only_lab: bool,
    /// Only the crash matrices, but every cell of them; says how many there are (hours)
    #[arg(long, conflicts_with = "only_lab")]
    every_cell: bool,
    /// Only tests whose name contains one of these (leaves out the run on the real OpenStack)
    #[arg(conflicts_with = "only_lab")]
    filters: Vec<String>,
}

/// All tests together; the lab's first installation is not in it.
const TESTS: Duration = Duration::from_secs(2 * 3600);
/// The images, and nodes, on a slow machine.
const IMAGES: Duration = Duration::from_secs(3 * 60);
const NODES: Duration = Duration::from_secs(9 * 60);
/// Every cell of the crash matrices.
const CELLS: Duration = Duration::from_secs(24 * 3600);
/// What the tests have in their names that leave no cell out, and are ignored otherwise.
const EVERY_CELL: &str = "every_cell";
/// Says, with `1`, that this CI is known to boot no nodes.
const NO_NODE: &str = "MAGNUM_NO_NODE";

/// A line that says what comes now, and how long all has taken so far.
pub fn heading(text: &str) {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    eprintln!("\n=== [{:>4} s] {text}", BEGIN.get_or_init(Instant::now).elapsed().as_secs());
}

/// Runs what the options ask for; the exit code of the worst part.
pub fn run(options: &Options) -> Result<u8> {
    let with_lab = options.only_lab || (!options.no_lab && !options.every_cell && options.filters.is_empty());
    let with_tests = !options.only_lab;
    until::check()?;
    heading("prerequisites");
    prerequisites::ensure(&[prerequisites::BUILD])?;
    if with_tests {
        prerequisites::ensure(&[prerequisites::SERVERS, prerequisites::SCRIPTS, prerequisites::PYTHON, prerequisites::BESIDE])?;
    }
    let whole = with_tests && !options.every_cell && options.filters.is_empty();
    let obstacle = if whole { tolerated(node::obstacle(), |name| std::env::var(name).ok())? } else { Some("not asked for".to_owned()) };
    if obstacle.is_none() {
        prerequisites::ensure(&[prerequisites::NODE])?;
    }
    if with_lab {
        prerequisites::ensure_lab()?;
    }
    let mut worst = 0;
    if with_tests {
        heading("tidy");
        worst = worst.max(tidy::run()?);
        heading("build");
        cargo::must(&["build", "--workspace", "--all-targets"])?;
    } else {
        heading("build");
        cargo::build_binaries()?;
    }
    // Beside the tests, for it waits most of its time.
    let the_lab = with_lab.then(|| thread::spawn(|| judged("the run on the real OpenStack", run_lab(), 1)));
    let mut summary = Vec::new();
    if with_tests {
        let (code, lines) = judged("the tests", run_tests(options), (1, Vec::new()));
        worst = worst.max(code);
        summary = lines;
    }
    let images_code = (whole && images::can_run() && until::is_time_for("the images", IMAGES)?).then(|| {
        heading("images");
        judged("images", images::start("debug"), 1)
    });
    let node_code = (obstacle.is_none() && until::is_time_for("the nodes", NODES)?).then(|| {
        heading("nodes");
        judged("nodes", node::start(), 1)
    });
    let lab_code = the_lab.map(|lab| lab.join().unwrap_or(1));
    worst = [images_code, lab_code, node_code].into_iter().flatten().fold(worst, u8::max);
    heading("summary");
    for line in summary {
        eprintln!("{line}");
    }
    match images_code {
        Some(0) => eprintln!("the images passed"),
        Some(_) => eprintln!("the images FAILED"),
        None => eprintln!("the images were left out"),
    }
    match (node_code, obstacle) {
        (Some(0), _) => eprintln!("the nodes passed"),
        (Some(_), _) => eprintln!("the nodes FAILED"),
        (None, obstacle) => eprintln!("the nodes were left out: {}", obstacle.as_deref().unwrap_or("for lack of time")),
    }
    match lab_code {
        Some(0) => eprintln!("the run on the real OpenStack passed"),
        Some(_) => eprintln!("the run on the real OpenStack FAILED"),
        None => eprintln!("the run on the real OpenStack was left out"),
    }
    for line in until::left_out() {
        eprintln!("{line}");
    }
    Ok(worst)
}

/// What is in the way of the nodes. A developer's machine need not boot them and is told so at the end; where nobody reads the end (`CI=true`) a
/// run does not pass without them, unless `MAGNUM_NO_NODE=1` says that it is known.
fn tolerated(obstacle: Option<String>, variable: impl Fn(&str) -> Option<String>) -> Result<Option<String>> {
    let says = |name: &str, value: &str| variable(name).is_some_and(|said| said == value);
    if let Some(what) = &obstacle
        && says("CI", "true")
        && !says(NO_NODE, "1")
    {
        bail!("nodes cannot be booted here: {what}. A CI does not leave them out by itself; {NO_NODE}=1 has it do so");
    }
    Ok(obstacle)
}

/// What came of a part; of one that could not be run that is told, and that it has `failed`.
fn judged<T>(what: &str, outcome: Result<T>, failed: T) -> T {
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {what}: {error:#}");
        failed
    })
}

fn run_tests(options: &Options) -> Result<(u8, Vec<String>)> {
    let dir = servers::fresh_dir("test")?;
    let keeper = Keeper::start(&dir, false)?;
    let outcome = run_tests_in(&dir, options);
    heading("stopping the servers");
    keeper.finish()?;
    outcome
}

fn run_tests_in(dir: &Path, options: &Options) -> Result<(u8, Vec<String>)> {
    heading("starting MariaDB and RabbitMQ");
    let env = servers::up(dir, &servers::Kind::ALL)?;
    // A copy: building the tests may replace the file that we were started from.
    let xtask = dir.join("xtask");
    std::fs::copy(paths::this_program(), &xtask).context("copy this program")?;
    let nextest = process::find_program("cargo-nextest").is_some();
    let mut filters = options.filters.clone();
    if options.every_cell && filters.is_empty() {
        filters.push(EVERY_CELL.to_owned());
    }
    // nextest gives out places, of which most tests take several (`.config/nextest.toml`).
    let threads = (if nextest { PLACES_OF_A_TEST } else { 1 } * at_once()).to_string();
    let mut command = cargo::cargo();
    if nextest {
        heading("cargo nextest run");
        command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
        if options.every_cell {
            command.args(["--profile", "every-cell", "--run-ignored", "ignored-only", "--success-output", "immediate"]);
        }
        command.args(["--test-threads", &threads]).args(&filters);
    } else {
        heading("cargo test");
        command.args(["test", "--workspace", "--no-fail-fast"]);
        if !filters.is_empty() {
            command.arg("--").args(&filters);
        }
        if options.every_cell {
            command.args(["--ignored", "--nocapture", "--test-threads", &threads]);
        }
    }
    command.env("MAGNUM_TEST_HELM", helm::program(helm::Major::Three)?).env("MAGNUM_TEST_HELM4", helm::program(helm::Major::Four)?);
    command.env("MAGNUM_TEST_UPSTREAM", upstream::folder()?);
    command.envs(env).env("XTASK", xtask).env("MAGNUM_BIN_DIR", paths::bin_dir("debug")).stdin(Stdio::null());
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    run_and_keep_summary(&mut command, nextest, if options.every_cell { CELLS } else { TESTS })
}

/// Places of a nextest run that a usual test takes.
const PLACES_OF_A_TEST: usize = 3;

/// Usual tests at once: twice as many as there are cores, for most tests of the suite wait for leases and intervals longer than they compute.
fn at_once() -> usize {
    2 * thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Passes the runner's output on and keeps its last words, to be said again at the very end.
fn run_and_keep_summary(command: &mut Command, nextest: bool, longest: Duration) -> Result<(u8, Vec<String>)> {
    let mut child = if nextest {
        command.stderr(Stdio::piped()).spawn().context("start cargo nextest")?
    } else {
        command.stdout(Stdio::piped()).spawn().context("start cargo test")?
    };
    let stream: Option<Box<dyn std::io::Read + Send>> = match (child.stderr.take(), child.stdout.take()) {
        (Some(stderr), _) => Some(Box::new(stderr)),
        (None, Some(stdout)) => Some(Box::new(stdout)),
        (None, None) => None,
    };
    let stream = stream.context("the runner's output is piped")?;
    let reader = thread::spawn(move || {
        let (mut kept, mut cells) = (Vec::new(), 0);
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            eprintln!("{line}");
            cells += line.split_once("cells: ").and_then(|(_, count)| count.trim().parse::<u64>().ok()).unwrap_or_default();
            // nextest: everything from "Summary [" on; cargo test: one line for each binary.
            let wanted = if nextest { !kept.is_empty() || line.contains("Summary") } else { line.starts_with("test result:") };
            if wanted && kept.len() < 100 {
                kept.push(line);
            }
        }
        (kept, cells)
    });
    let status = process::wait(&mut child, "the test run", longest);
    let (mut kept, cells) = reader.join().map_err(|_| anyhow::anyhow!("the reader of the test output panicked"))?;
    if cells > 0 {
        kept.push(format!("{cells} cells of the crash matrices passed"));
    }
    Ok((process::exit_code(status?), kept))
}

fn run_lab() -> Result<u8> {
    let _lock = lab::lock()?;
    let was_up = lab::is_up()?;
    // An empty folder of servers: this keeper is there for the lab alone.
    let keeper = if was_up { None } else { Some(Keeper::start(&servers::fresh_dir("lab")?, true)?) };
    heading(if was_up { "the lab is up" } else { "lab up" });
    let outcome = lab::up().and_then(|()| {
        heading("our services on the real OpenStack");
        lab::walk()
    });
    if let Some(keeper) = keeper {
        heading("lab down");
        keeper.finish()?;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ci_does_not_pass_without_the_nodes_unless_that_is_known() {
        let outcome = |obstacle: Option<&str>, set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
            tolerated(obstacle.map(str::to_owned), variable)
        };
        let swap = Some("swap");
        let left_out = |set: &[(&str, &str)]| outcome(swap, set).expect("it goes on").as_deref() == swap;
        assert!(left_out(&[]) && left_out(&[("CI", "false")]) && left_out(&[("CI", "true"), (NO_NODE, "1")]));
        for set in [&[("CI", "true")][..], &[("CI", "true"), (NO_NODE, "0")], &[("CI", "true"), (NO_NODE, "")]] {
            let error = outcome(swap, set).expect_err("it does not go on").to_string();
            assert!(error.contains("swap") && error.contains("MAGNUM_NO_NODE=1"), "{error}");
        }
        // Where they can be booted they are.
        assert_eq!(outcome(None, &[("CI", "true"), (NO_NODE, "1")]).expect("it goes on"), None);
    }
}
