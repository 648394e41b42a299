//! One run with clusters of the Cluster API driver: the real helm, a simulated management cluster.
//!
//! The controllers stand still until every release is there. Then, for each number of conductors, the largest first: those that are too many
//! are asked to end, the others take over, all clusters are watched for a while, and a share of them is let go at a steady rate. A delay
//! counts from the last change of anything of the cluster to the end of its operation.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use tests::config::{MANY_CLUSTERS, PRODUCTION_TIMES};
use tests::management::{self, Management};
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};

use super::run::{Watched, accounts, finished, post, quantiles};
use super::{Line, Plan, Table};

/// What a run came to. Times are seconds: median and p99.
pub struct Figures {
    pub clusters: usize,
    pub conductors: usize,
    /// From the first request until every release is there; none for those who only took over.
    pub helm_per_minute: Option<f64>,
    /// Clusters that are watched.
    pub watched: usize,
    /// While all are watched: requests to the management cluster, statements, share of one CPU of all conductors.
    pub requests_per_second: f64,
    pub sql_per_second: f64,
    pub cpu_percent: f64,
    /// Of the largest conductor.
    pub memory_mib: f64,
    /// What all conductors have grown by, for each cluster.
    pub kib_per_cluster: f64,
    pub end: (f64, f64),
    pub failed: usize,
}

impl Line for Figures {
    const HEAD: &'static [&'static str] =
        &["clusters", "cond.", "watched", "helm/min", "calls/s", "SQL/s", "CPU %", "MiB max", "KiB each", "end p50", "end p99"];

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{}", self.clusters),
            format!("{}", self.conductors),
            format!("{}", self.watched),
            self.helm_per_minute.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            format!("{:.2}", self.requests_per_second),
            format!("{:.0}", self.sql_per_second),
            format!("{:.1}", self.cpu_percent),
            format!("{:.1}", self.memory_mib),
            format!("{:.1}", self.kib_per_cluster),
            format!("{:.2} s", self.end.0),
            format!("{:.2} s", self.end.1),
        ]
    }

    fn failed(&self) -> usize {
        self.failed
    }

    fn missed(all: &[Self], _: &Plan) -> Vec<String> {
        let late = all.iter().filter(|figures| figures.end.1 > 1.0);
        late.map(|f| {
            format!("{} clusters, {} conductors: p99 from Ready to the cluster's end {:.2} s, of 1 s", f.clusters, f.conductors, f.end.1)
        })
        .collect()
    }
}

/// The longest that all runs of helm may take; on two cores one takes about a second.
fn patience(clusters: usize) -> Duration {
    Duration::from_secs(600 + 4 * clusters as u64)
}

pub async fn run(plan: &Plan, clusters: usize, table: &mut Table<Figures>) -> Result<()> {
    let mut stages = plan.conductors.clone();
    stages.sort_unstable_by_key(|count| Reverse(*count));
    stages.dedup();
    let most = *stages.first().context("a number of conductors")?;
    let management = Management::start(Duration::ZERO, "3").await?;
    management.cluster.hold_clusters(true);
    let options = Options {
        apis: 1,
        conductors: most,
        usual_keys: plan.usual_keys,
        api: MANY_CLUSTERS.to_owned(),
        conductor: PRODUCTION_TIMES.to_owned(),
        environment: management.environment().into_iter().chain(plan.keys()).collect(),
        ..Options::default()
    };
    let mut world = World::start(Mix::Distributed, options).await?;
    let mut pids = world.pids("conductor");
    let empty = accounts(&pids)?;
    let template = world.demo().post("/v1/clustertemplates", &management::template("bench")).await?.expect(201)?.uuid()?;
    let begun = Instant::now();
    post(world.demo(), plan, &template, clusters).await?;
    wait::until("all releases", patience(clusters), async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let there: Vec<i64> = world.database()?.rows("SELECT COUNT(*) FROM operation WHERE step = 'machines'").await?;
        Ok(Seen::when(there == [clusters as i64], || format!("{there:?} of {clusters} wait for machines")))
    })
    .await?;
    let mut helm_per_minute = Some(clusters as f64 * 60.0 / begun.elapsed().as_secs_f64());
    let rows: Vec<(String, String)> = world.database()?.rows("SELECT uuid, stack_id FROM cluster").await?;
    let releases: HashMap<String, String> = rows.into_iter().collect();
    let mut waiting = releases.values().collect::<VecDeque<_>>();
    let mut done: HashSet<String> = HashSet::new();

    for (stage, conductors) in stages.iter().copied().enumerate() {
        leave(&mut world, &mut pids, conductors).await?;
        let all = waiting.len();
        let watched = Watched::begin(&world, &pids, || vec![management.cluster.calls("kubernetes.any")]).await?;
        tokio::time::sleep(plan.window()).await;
        let window = watched.end(&world, &pids).await?;

        let mut ticks = tokio::time::interval(Plan::pace(plan.ends));
        let share = all / (stages.len() - stage);
        for release in waiting.drain(..share) {
            ticks.tick().await;
            management.cluster.let_cluster_go(release);
        }
        let finished: HashMap<String, DateTime<Utc>> =
            finished(&world, waiting.len()).await?.into_iter().filter(|(id, _)| !done.contains(id)).collect();
        done.extend(finished.keys().cloned());
        let moved: HashMap<String, DateTime<Utc>> = management.cluster.moved();
        let delay = |(id, at): (&String, &DateTime<Utc>)| Some((*at - *moved.get(releases.get(id)?)?).as_seconds_f64());
        table.add(Figures {
            clusters,
            conductors,
            watched: all,
            helm_per_minute: helm_per_minute.take(),
            requests_per_second: window.counted[0],
            sql_per_second: window.statements,
            cpu_percent: window.cpu_percent,
            memory_mib: window.memory_mib(),
            kib_per_cluster: window.kib_per_cluster(&empty, all),
            end: quantiles(finished.iter().filter_map(delay).collect()),
            failed: share - finished.len(),
        });
    }
    world.close().await?;
    Ok(())
}

/// Asks all conductors but so many to end, and waits until the others have all that is unfinished.
async fn leave(world: &mut World, pids: &mut Vec<u32>, conductors: usize) -> Result<()> {
    let leavers = pids.split_off(conductors);
    for pid in &leavers {
        world.ask_to_end(*pid)?;
    }
    for pid in leavers {
        wait::until("a conductor to end", Duration::from_secs(120), async || {
            Ok(Seen::when(world.ended(pid)?.is_some(), || format!("{pid} goes on")))
        })
        .await?;
    }
    let theirs: Vec<String> = pids.iter().map(u32::to_string).collect();
    // An owner is host:pid:random.
    let others = format!(
        "SELECT COUNT(*) FROM operation WHERE finished_ms IS NULL \
         AND (owner IS NULL OR SUBSTRING_INDEX(SUBSTRING_INDEX(owner, ':', -2), ':', 1) NOT IN ({}))",
        theirs.join(", ")
    );
    let database = world.database()?;
    wait::until("the others to take over", Duration::from_secs(300), async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left: Vec<i64> = database.rows(&others).await?;
        Ok(Seen::when(left == [0], || format!("{left:?} operations are not theirs")))
    })
    .await
}
