//! Clusters in flight by the thousand: what following them costs, and how soon their end is noticed.
//!
//! One run for each number of clusters and conductors: most of the clusters are copies of one whose stack is being made (`copies`), which the
//! conductors find and take up; then some more are asked for at a steady rate. All are in flight for a while (the simulated stacks move and do
//! not end), then some of the stacks are ended at a steady rate. The figures of Heat are the simulator's counts.
//! Clusters of the Cluster API driver take a run of helm each, so there all numbers of conductors watch the same ones.

mod copies;
mod management;
mod run;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use tests::world::KEYS_AHEAD;

/// What is to be measured.
#[derive(Args)]
pub struct Plan {
    /// Clusters in flight, one run for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000, 20_000])]
    clusters: Vec<usize>,
    /// Conductors, one line for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 9])]
    conductors: Vec<usize>,
    /// Seconds for which all are in flight
    #[arg(long, default_value_t = 60)]
    window: u64,
    /// Clusters that are asked for of the API; what there are more are copies (clusters of the Cluster API driver are all asked for)
    #[arg(long, default_value_t = 200)]
    asked: usize,
    /// Stacks that are ended
    #[arg(long, default_value_t = 1000)]
    ended: usize,
    /// Requests for a cluster per second
    #[arg(long, default_value_t = 10.0)]
    posts: f64,
    /// Stacks that end per second
    #[arg(long, default_value_t = 20.0)]
    ends: f64,
    /// Private keys of the usual 2,048 bits, some of them made ahead: what conductors do unless they are told otherwise. Without it keys are
    /// shorter, so that more can be asked for in a second of the processors that the run shares
    #[arg(long)]
    usual_keys: bool,
    /// Heat announces the end of its stacks on RabbitMQ
    #[arg(long)]
    notifications: bool,
    /// Clusters of the Cluster API driver: the real helm on a simulated management cluster
    #[arg(long, conflicts_with = "notifications")]
    cluster_api: bool,
    /// Exit with 1 when a target is missed, too. Without it a slow machine fails nobody
    #[arg(long)]
    strict: bool,
}

impl Plan {
    fn window(&self) -> Duration {
        Duration::from_secs(self.window.clamp(5, 3600))
    }

    /// How many keys are made ahead, as the environment of processes says it: as many as usual, where they are of the usual size.
    fn keys(&self) -> BTreeMap<String, String> {
        self.usual_keys.then(|| (KEYS_AHEAD.to_owned(), "8".to_owned())).into_iter().collect()
    }

    /// The time between two things that happen so often in a second.
    fn pace(per_second: f64) -> Duration {
        Duration::from_secs_f64(1.0 / per_second.clamp(0.1, 1000.0))
    }
}

/// What a run came to, as a line of a table.
trait Line {
    const HEAD: &'static [&'static str];

    fn cells(&self) -> Vec<String>;

    /// Clusters that did not become what they should.
    fn failed(&self) -> usize;

    /// The targets that were missed, each in words.
    fn missed(all: &[Self], plan: &Plan) -> Vec<String>
    where
        Self: Sized;
}

/// The lines so far, each printed as it came.
struct Table<F>(Vec<F>);

impl<F: Line> Table<F> {
    fn add(&mut self, figures: F) {
        print(&[&figures]);
        self.0.push(figures);
    }
}

/// Measures and prints; false when a cluster did not become what it should.
pub async fn measure(plan: &Plan) -> Result<bool> {
    ensure!(plan.clusters.iter().all(|count| (1..=50_000).contains(count)), "--clusters: from 1 to 50000");
    ensure!(plan.conductors.iter().all(|count| (1..=32).contains(count)), "--conductors: from 1 to 32");
    match plan.cluster_api {
        true => each(plan, management::run).await,
        false => each(plan, run::each).await,
    }
}

async fn each<F: Line>(plan: &Plan, run: impl AsyncFn(&Plan, usize, &mut Table<F>) -> Result<()>) -> Result<bool> {
    let mut table = Table(Vec::new());
    for clusters in &plan.clusters {
        eprintln!("{clusters} clusters");
        run(plan, *clusters, &mut table).await?;
    }
    let all = table.0;
    println!();
    print(&all.iter().collect::<Vec<_>>());
    println!(
        "keys: {}",
        if plan.usual_keys {
            "as usual"
        } else {
            "shorter than usual, so the times from POST to the stack are those of --usual-keys at best"
        }
    );
    let missed = F::missed(&all, plan);
    for text in &missed {
        println!("missed: {text}");
    }
    let is_good = all.iter().all(|figures| figures.failed() == 0);
    ensure!(!is_good || !plan.strict || missed.is_empty(), "{} targets are missed", missed.len());
    Ok(is_good)
}

fn print<F: Line>(all: &[&F]) {
    let line =
        |cells: &mut dyn Iterator<Item = String>| println!("{}", cells.map(|text| format!("{text:>9}")).collect::<Vec<_>>().join(" "));
    line(&mut F::HEAD.iter().map(|text| (*text).to_owned()));
    for f in all {
        line(&mut f.cells().into_iter());
        if f.failed() > 0 {
            println!("    {} clusters are not complete", f.failed());
        }
    }
}
