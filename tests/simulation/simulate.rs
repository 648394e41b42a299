//! `cargo xtask simulate`: many seeds with their figures, or one seed with its trace.

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
mod trouble;
mod workload;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use ends::Ends;
use model::planted::Bug;
use world::{Options, Report, run};

#[derive(Parser)]
struct Arguments {
    /// Seeds to run
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed only
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens
    #[arg(long, requires = "seed")]
    trace: bool,
    /// With a bug planted: LostUpdate, MissingGuard, AckBeforeClaim, NameNotRecorded, DoubleApply or PasswordOfAttempt
    #[arg(long, value_parser = bug)]
    planted: Option<Bug>,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

fn bug(name: &str) -> Result<Bug, String> {
    Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name).ok_or_else(|| format!("one of {:?}", Bug::ALL))
}

fn main() {
    let arguments = Arguments::parse();
    let (from, to) = match arguments.seed {
        Some(seed) => (seed, seed + 1),
        None => (arguments.from, arguments.from + arguments.seeds),
    };
    let begin = Instant::now();
    let (next, done) = (AtomicU64::new(from), AtomicU64::new(0));
    let work = || {
        let mut reports = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return reports;
            }
            let report = run(Options { seed, prints: arguments.trace, bug: arguments.planted });
            for what in &report.findings {
                println!("seed {seed}: {what}");
            }
            if arguments.seed.is_some() {
                println!("trace of seed {seed}: {:016x}", report.hash);
            }
            reports.push(report);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(1_000) {
                eprintln!("{done} of {} seeds in {} s", to - from, begin.elapsed().as_secs());
            }
        }
    };
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads.clamp(1, to - from)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a simulation panicked")).collect()
    });
    let sum = |what: fn(&Report) -> u64| reports.iter().map(what).sum::<u64>();
    let lasted: Duration = reports.iter().map(|r| r.lasted).sum();
    println!("seeds                {} ({from} to {})", reports.len(), to - 1);
    println!("time simulated       {:.1} h in {:.0} s", lasted.as_secs_f64() / 3600.0, begin.elapsed().as_secs_f64());
    println!("operations           {} accepted, {} refused", sum(|r| r.counts.operations), sum(|r| r.counts.refused));
    println!("transactions         {}", sum(|r| r.counts.transactions));
    println!("cloud calls          {}", sum(|r| r.counts.calls));
    println!("faults on the way    {}", sum(|r| r.counts.faults));
    println!("crashes and stops    {}", sum(|r| r.counts.crashes));
    println!("pauses               {}", sum(|r| r.counts.pauses));
    println!("partitions           {}", sum(|r| r.counts.cuts));
    println!("times of slow clouds {}", sum(|r| r.counts.slow));
    println!("times without bell   {}", sum(|r| r.counts.silences));
    println!("members that failed  {}", sum(|r| r.counts.members));
    println!("clocks set           {}", sum(|r| r.counts.clocks_set));
    let failed = reports.iter().filter(|r| !r.findings.is_empty()).count();
    println!("seeds with findings  {failed}");
    let ends = Ends::sum(reports.iter().map(|r| &r.ends));
    print!("{ends}");
    // A seed with a planted bug may not come to its end.
    let missing = if arguments.planted.is_none() { ends.missing(to - from) } else { Vec::new() };
    for what in &missing {
        println!("{what}");
    }
    std::process::exit(i32::from(failed > 0 || !missing.is_empty()));
}
