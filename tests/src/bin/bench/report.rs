//! The table, and what the project has promised beside what was measured.

use std::time::Duration;

use tests::load::Account;

use crate::{CONNECTIONS, Cell, STARTS};

/// Prints the table, and beside the targets what was measured.
pub fn report(cells: &[Cell], first_answer: Duration, account: Account) {
    println!("{:<24} {:>5} {:>10} {:>9} {:>9} {:>7} {:>12}", "", "conn", "per s", "p50 ms", "p99 ms", "errors", "API CPU ms");
    for cell in cells {
        let Cell { what, connections, outcome, cpu } = cell;
        println!(
            "{what:<24} {connections:>5} {:>10.0} {:>9.2} {:>9.2} {:>7} {:>12}",
            outcome.rate(),
            millis(outcome.quantile(0.5)),
            millis(outcome.quantile(0.99)),
            outcome.errors,
            cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{:.3}", millis(cpu))),
        );
        if let Some(error) = &outcome.first_error {
            println!("    first error: {error}");
        }
    }
    let most = CONNECTIONS[CONNECTIONS.len() - 1];
    let find = |what: &str| cells.iter().find(|cell| cell.what == what && cell.connections == most);
    let cpu = |what: &str| find(what).and_then(|cell| cell.cpu).map_or(f64::NAN, millis);
    let rate = |what: &str| find(what).map_or(f64::NAN, |cell| cell.outcome.rate());
    let ratio = 100.0 * rate("GET /v1/clusters (20)") / rate("bare SQL, 20 rows");
    let memory = account.resident as f64 / 1024.0;
    println!("\nAt {most} connections; API memory at the end {memory:.1} MiB, at most {:.1} MiB\n", account.peak as f64 / 1024.0);
    println!("{:<52} {:>10} {:>12}", "", "measured", "target");
    line("list of 20, share of the bare query's rate", ratio, "%", 50.0, ratio >= 50.0, "at least");
    for (what, key, limit) in [
        ("list of 20, API CPU per request", "GET /v1/clusters (20)", 0.3),
        ("list of 1000, API CPU per request", "GET /v1/clusters (1000)", 10.0),
    ] {
        line(what, cpu(key), "ms", limit, cpu(key) <= limit, "at most");
    }
    line("API memory after the run", memory, "MiB", 25.0, memory <= 25.0, "at most");
    let first = millis(first_answer);
    line(&format!("first answer after start (median of {STARTS})"), first, "ms", 200.0, first <= 200.0, "at most");
}

fn line(what: &str, measured: f64, unit: &str, target: f64, is_met: bool, side: &str) {
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("{what:<52} {measured:>7.2} {unit:<3} {side} {target} {unit}: {verdict}");
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
