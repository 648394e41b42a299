//! One run with clusters of the Cluster API driver: the real helm, a simulated management cluster.
//!
//! The controllers stand still until every release is there; then all are watched for a while; then clusters are let go at a steady rate. A
//! delay counts from the last change of anything of the cluster to the end of its operation.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use chrono::{DateTime, Utc};
use tests::config::{MANY_CLUSTERS, PRODUCTION_TIMES, SMALL_KEYS};
use tests::management::{self, Management};
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};

use super::run::{Watched, accounts, finished, post, quantiles};
use super::{Line, Plan};

/// What a run came to. Times are seconds: median and p99.
pub struct Figures {
    pub clusters: usize,
    pub conductors: usize,
    /// From the first request until every release is there.
    pub helm_per_minute: f64,
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
        &["clusters", "cond.", "helm/min", "calls/s", "SQL/s", "CPU %", "MiB max", "KiB each", "end p50", "end p99"];

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{}", self.clusters),
            format!("{}", self.conductors),
            format!("{:.0}", self.helm_per_minute),
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
}

/// The longest that all runs of helm may take; on two cores one takes about a second.
fn patience(clusters: usize) -> Duration {
    Duration::from_secs(600 + 4 * clusters as u64)
}

pub async fn run(plan: &Plan, clusters: usize, conductors: usize) -> Result<Figures> {
    let management = Management::start(Duration::ZERO, "3").await?;
    management.cluster.hold_clusters(true);
    let options = Options {
        apis: 1,
        conductors,
        api: MANY_CLUSTERS.to_owned(),
        conductor: format!("{PRODUCTION_TIMES}{SMALL_KEYS}"),
        environment: management.environment(),
        ..Options::default()
    };
    let world = World::start(Mix::Distributed, options).await?;
    let pids = world.pids("conductor");
    let empty = accounts(&pids)?;
    let template = world.demo().post("/v1/clustertemplates", &management::template("bench")).await?.expect(201)?.uuid()?;
    let begun = Instant::now();
    post(&world, plan, &template, clusters).await?;
    let database = world.database()?;
    wait::until("all releases", patience(clusters), async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let there: Vec<i64> = database.rows("SELECT COUNT(*) FROM operation WHERE step = 'machines'").await?;
        Ok(Seen::when(there == [clusters as i64], || format!("{there:?} of {clusters} wait for machines")))
    })
    .await?;
    let helm_per_minute = clusters as f64 * 60.0 / begun.elapsed().as_secs_f64();

    let watched = Watched::begin(&world, &pids, || vec![management.cluster.calls("kubernetes.any")]).await?;
    tokio::time::sleep(plan.window()).await;
    let window = watched.end(&world, &pids).await?;

    let releases: HashMap<String, String> =
        database.rows::<(String, String)>("SELECT uuid, stack_id FROM cluster").await?.into_iter().collect();
    let mut ticks = tokio::time::interval(Plan::pace(plan.ends));
    for release in releases.values() {
        ticks.tick().await;
        management.cluster.let_cluster_go(release);
    }
    let finished = finished(&world, clusters).await?;
    let moved: HashMap<String, DateTime<Utc>> = management.cluster.moved();
    let delay = |(id, at): (&String, &DateTime<Utc>)| Some((*at - *moved.get(releases.get(id)?)?).as_seconds_f64());
    let end = finished.iter().filter_map(delay).collect();
    world.close().await?;
    Ok(Figures {
        clusters,
        conductors,
        helm_per_minute,
        requests_per_second: window.counted[0],
        sql_per_second: window.statements,
        cpu_percent: window.cpu_percent,
        memory_mib: window.memory_mib(),
        kib_per_cluster: window.kib_per_cluster(&empty, clusters),
        end: quantiles(end),
        failed: clusters - finished.len(),
    })
}
