//! `fuzz`: the targets of `tests/fuzz/` under libFuzzer.
//!
//! No nightly compiler and no further tool is needed: coverage counters are a pass that the stable compiler has. Only our own crates get them
//! (this program stands before the compiler as cargo's workspace wrapper), so that everything else is shared with ordinary builds.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{cargo, paths, process};

const TARGETS: [&str; 8] = ["policy", "patch", "query", "config", "csr", "signing", "message", "memcached"];

/// Set for the compiler runs that pass through this program.
const AS_COMPILER: &str = "XTASK_FUZZ_COMPILER";

const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

#[derive(Args)]
pub struct Options {
    /// policy, patch, query, config, csr, signing, message, memcached; all when none is named
    targets: Vec<String>,
    /// How long each of them runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Add what reached something new to the corpora in tests/fuzz/corpus
    #[arg(long)]
    keep: bool,
}

/// Stands in for the compiler when cargo asks it to; none when this is an ordinary run.
pub fn as_compiler() -> Option<Result<u8>> {
    env::var_os(AS_COMPILER)?;
    let mut args = env::args_os().skip(1);
    let compiler = args.next().unwrap_or_else(|| "rustc".into());
    let args: Vec<OsString> = args.collect();
    // Build scripts and macros run inside the compiler, without the runtime that the counters call.
    let is_ours =
        !args.iter().any(|arg| arg == "build_script_build" || arg == "proc-macro") && args.iter().any(|arg| arg == "--crate-name");
    let counters = COVERAGE.iter().filter(|_| is_ours).map(OsString::from);
    let status = Command::new(&compiler).args(args).args(counters).status();
    Some(status.context("run the compiler").map(process::exit_code))
}

/// Builds and runs the targets one after the other; fails when one of them breaks.
pub fn run(options: &Options) -> Result<u8> {
    for target in &options.targets {
        ensure!(TARGETS.contains(&target.as_str()), "there is no target {target}: there are {}", TARGETS.join(", "));
    }
    let mut build = cargo::cargo();
    build.args(["build", "-p", "fuzz", "--features", "libfuzzer", "--bins"]);
    build.env("RUSTC_WORKSPACE_WRAPPER", env::current_exe().context("find this program")?).env(AS_COMPILER, "1");
    let built = process::exit_code(process::run(&mut build, Duration::from_secs(3 * 3600))?);
    ensure!(built == 0, "the build ended with exit code {built}");
    let chosen = TARGETS.iter().filter(|name| options.targets.is_empty() || options.targets.iter().any(|wanted| wanted == *name));
    let mut broken = Vec::new();
    for target in chosen {
        if !one(target, options)? {
            broken.push(*target);
        }
    }
    if !broken.is_empty() {
        bail!("broken: {}; the inputs are in {}", broken.join(", "), work("broken").display());
    }
    Ok(0)
}

fn work(name: &str) -> std::path::PathBuf {
    paths::root().join("target/fuzz").join(name)
}

/// Runs one target; false when it broke.
fn one(target: &str, options: &Options) -> Result<bool> {
    let (found, broken) = (work(target), work("broken"));
    for folder in [&found, &broken] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let ours = paths::root().join("tests/fuzz");
    let corpus = ours.join("corpus").join(target);
    let program = paths::bin_dir("debug").join(format!("fuzz-{target}"));
    println!("fuzz {target}: {} s", options.seconds);
    let mut command = Command::new(&program);
    command
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-artifact_prefix={}/{target}-", broken.display()))
        .arg(format!("-dict={}", ours.join("dictionaries").join(format!("{target}.dict")).display()))
        .args(["-max_len=4096", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=1"])
        .args([&found, &corpus]);
    let status = process::run(&mut command, Duration::from_secs(options.seconds + 600))?;
    if process::exit_code(status) != 0 {
        return Ok(false);
    }
    if options.keep {
        keep(&program, &found, &corpus)?;
    }
    Ok(true)
}

/// Adds the smallest set of inputs that reaches all that has been reached.
fn keep(program: &Path, found: &Path, corpus: &Path) -> Result<()> {
    let status = process::run(Command::new(program).arg("-merge=1").args([corpus, found]), Duration::from_secs(3600))?;
    ensure!(process::exit_code(status) == 0, "merging the corpus failed");
    Ok(())
}
