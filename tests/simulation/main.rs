//! Deterministic simulation of the engine: the real conductors on the real store, with clock, doorbell, cloud and scheduling under one seed.
//!
//! Everything runs on one thread. A conductor is a runtime with a paused clock of its own (`host.rs`) that the world (`world.rs`) runs for a
//! moment at a time, in an order that the seed says. Its way to the database (`gate.rs`) and to the cloud (`carrier.rs`) is slow, is cut, and
//! loses questions and answers; users ask (`requests.rs`, `workload.rs`), members of stacks do not become nodes (`mishaps.rs`), Kubernetes makes
//! things of its own (`kubernetes.rs`), clocks go wrong (`clocks.rs`), and conductors die, stand still and come back (`trouble.rs`). Then nothing
//! goes wrong any more, and everything must end and be as it should be (`check.rs`) and as it was promised (`book.rs`, `promises.rs`); nor may a step
//! have outlived its deadline (`steps.rs`), or a conductor of an earlier release have taken what it does not understand (`older.rs`).
//! That the checks can fail is shown by changing what they look at (`tamper.rs`). `cargo xtask simulate` runs more seeds, or one with its trace.

mod book;
mod carrier;
mod check;
mod clocks;
mod ends;
mod gate;
mod host;
mod kubernetes;
mod mishaps;
mod older;
mod promises;
mod releases;
mod requests;
mod rows;
mod scene;
mod steps;
mod tamper;
mod trouble;
mod workload;
mod world;

use ends::Ends;
use model::planted::Bug;
use rstest::rstest;
use world::{Options, Report, run};

/// Seeds that CI runs.
const SEEDS: u64 = 1_000;
/// A planted bug must be found within this many seeds.
const SEEDS_FOR_A_BUG: u64 = 200;

fn seed(seed: u64) -> Report {
    run(Options { seed, prints: false, bug: None })
}

#[test]
fn one_seed_replays_everything() {
    for number in [1, 2, 3] {
        let (first, second) = (seed(number), seed(number));
        assert_eq!((first.hash, first.counts, first.lasted), (second.hash, second.counts, second.lasted), "seed {number}");
    }
    assert_ne!(seed(1).hash, seed(2).hash);
}

/// In parts, for a test has a deadline of its own.
#[rstest]
fn nothing_is_lost_stuck_doubled_or_left_behind(#[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)] part: u64) {
    let each = SEEDS / 10;
    let reports: Vec<(u64, Report)> = (part * each..(part + 1) * each).map(|number| (number, seed(number))).collect();
    let failed: Vec<String> =
        reports.iter().flat_map(|(number, report)| report.findings.iter().map(move |what| format!("seed {number}: {what}"))).collect();
    assert!(failed.is_empty(), "{} findings:\n{}", failed.len(), failed.join("\n"));
    // Else nothing was found because nobody asked for it.
    let ends = Ends::sum(reports.iter().map(|(_, report)| &report.ends));
    let missing = ends.missing(each);
    assert!(missing.is_empty(), "{}; in {each} seeds:\n{ends}", missing.join(", "));
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        let found = (0..SEEDS_FOR_A_BUG).find_map(|seed| {
            let report = run(Options { seed, prints: false, bug: Some(bug) });
            report.findings.first().map(|what| (seed, what.clone()))
        });
        let (seed, what) = found.unwrap_or_else(|| panic!("{bug:?} is not found within {SEEDS_FOR_A_BUG} seeds"));
        println!("{bug:?} is found by seed {seed}: {what}");
    }
}
