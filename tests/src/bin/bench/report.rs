//! The table, and what the project has promised beside what was measured.

use std::time::Duration;

use tests::load::Account;

use crate::{BARE, CONNECTIONS, Cell, Endurance, LIST, LONG_DETAIL, POST, STARTS};

/// Prints a line for each cell.
pub fn table(cells: &[Cell]) {
    let heads = ("conn", "per s", "p50 ms", "p99 ms", "errors", "API CPU ms", "MiB");
    println!("{:<24} {:>5} {:>10} {:>9} {:>9} {:>7} {:>12} {:>6}", "", heads.0, heads.1, heads.2, heads.3, heads.4, heads.5, heads.6);
    for cell in cells {
        let Cell { what, connections, outcome, cpu, resident } = cell;
        println!(
            "{what:<24} {connections:>5} {:>10.0} {:>9.2} {:>9.2} {:>7} {:>12} {:>6.1}",
            outcome.rate(),
            millis(outcome.quantile(0.5)),
            millis(outcome.quantile(0.99)),
            outcome.errors,
            cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{:.3}", millis(cpu))),
            mebibytes(*resident),
        );
        if let Some(error) = &outcome.first_error {
            println!("    first error: {error}");
        }
    }
}

/// Prints the table, and beside the targets what was measured. How many of them are missed.
pub fn report(cells: &[Cell], first_answer: Duration, account: Account, endurance: Option<&Endurance>) -> usize {
    table(cells);
    let most = CONNECTIONS[CONNECTIONS.len() - 1];
    let (memory, program, peak) = (mebibytes(account.resident), mebibytes(account.program), mebibytes(account.peak));
    println!(
        "\nAt {most} connections; API memory at rest {memory:.1} MiB ({program:.1} of it pages of the program), at most {peak:.1} MiB\n"
    );
    println!("{:<52} {:>10} {:>12}", "", "measured", "target");
    let mut missed = 0;
    let mut line = |what: &str, measured: f64, unit: &str, target: f64, is_met: bool, side: &str| {
        let verdict = if is_met { "met" } else { "MISSED" };
        println!("{what:<52} {measured:>7.2} {unit:<3} {side} {target} {unit}: {verdict}");
        missed += usize::from(!is_met);
    };
    let find = |what: &str, connections: usize| cells.iter().find(|cell| cell.what == what && cell.connections == connections);
    if let (Some(list), Some(bare)) = (find(LIST, most), find(BARE, most)) {
        let ratio = 100.0 * list.outcome.rate() / bare.outcome.rate();
        line("list of 20, share of the bare query's rate", ratio, "%", 60.0, ratio >= 60.0, "at least");
    }
    for (what, limit) in [(LIST, 0.2), ("GET .../detail (20)", 0.3), ("GET /v1/clusters (1000)", 5.0), (LONG_DETAIL, 5.0), (POST, 1.0)] {
        if let Some(cpu) = find(what, most).and_then(|cell| cell.cpu).map(millis) {
            line(&format!("{what}, API CPU per request"), cpu, "ms", limit, cpu <= limit, "at most");
        }
    }
    if let Some(cell) = find(LONG_DETAIL, 8) {
        let times = cell.outcome.quantile(0.99).as_secs_f64() / cell.outcome.quantile(0.5).as_secs_f64();
        line(&format!("{LONG_DETAIL}, p99 over p50 at 8 connections"), times, "x", 10.0, times <= 10.0, "at most");
    }
    line("API memory after the run", memory, "MiB", 25.0, memory <= 25.0, "at most");
    let first = millis(first_answer);
    line(&format!("first answer after start (median of {STARTS})"), first, "ms", 200.0, first <= 200.0, "at most");
    if let Some(run) = endurance {
        let each: Vec<String> = run.resident.iter().map(|kib| format!("{:.1}", mebibytes(*kib))).collect();
        // The first tenth still opens connections and fills caches.
        let growth = match run.resident[..] {
            [begin, .., end] => mebibytes(end) - mebibytes(begin),
            _ => f64::NAN,
        };
        line(&format!("growth over {} requests", run.requests), growth, "MiB", 1.0, growth <= 1.0, "at most");
        println!("    MiB after each tenth: {}; errors: {}", each.join(" "), run.errors);
    }
    missed
}

fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
