//! One run with clusters of the Heat driver.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use serde_json::json;
use tests::client::Client;
use tests::config::{MANY_CLUSTERS, PRODUCTION_TIMES};
use tests::database::needed;
use tests::heat_notifier::HeatNotifier;
use tests::load::Account;
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};
use tokio::sync::Semaphore;

use super::{Line, Plan, Table, copies};

/// Requests for a cluster under way at once.
const POSTING: usize = 32;

/// How often a request is sent again that the service had no time for: nothing of it was stored. All of it counts as the request's time.
const SENT_AGAIN: usize = 10;

/// What a run came to. Times are seconds: median and p99.
pub struct Figures {
    pub clusters: usize,
    pub conductors: usize,
    /// While all are in flight.
    pub heat_per_second: f64,
    pub lists_per_second: f64,
    pub sql_per_second: f64,
    /// From the request to the end, the API's included, beyond what following all that are in flight takes.
    pub sql_per_cluster: f64,
    /// Of one CPU, all conductors together, while all are in flight.
    pub cpu_percent: f64,
    /// Of the largest conductor.
    pub memory_mib: f64,
    /// What all conductors have grown by, for each cluster.
    pub kib_per_cluster: f64,
    /// Copies that the conductors took up in a second.
    pub taken_up: Option<f64>,
    /// From the end of a stack to the end of its operation.
    pub end: (f64, f64),
    /// From the request to the stack.
    pub post: (f64, f64),
    pub failed: usize,
}

impl Line for Figures {
    const HEAD: &'static [&'static str] = &[
        "clusters", "cond.", "Heat/s", "lists/s", "SQL/s", "SQL each", "CPU %", "MiB max", "KiB each", "taken/s", "end p50", "end p99",
        "POST p50", "POST p99",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{}", self.clusters),
            format!("{}", self.conductors),
            format!("{:.1}", self.heat_per_second),
            format!("{:.1}", self.lists_per_second),
            format!("{:.0}", self.sql_per_second),
            format!("{:.1}", self.sql_per_cluster),
            format!("{:.1}", self.cpu_percent),
            format!("{:.1}", self.memory_mib),
            format!("{:.1}", self.kib_per_cluster),
            self.taken_up.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            format!("{:.2} s", self.end.0),
            format!("{:.2} s", self.end.1),
            format!("{:.2} s", self.post.0),
            format!("{:.2} s", self.post.1),
        ]
    }

    fn failed(&self) -> usize {
        self.failed
    }

    fn missed(all: &[Self], plan: &Plan) -> Vec<String> {
        let most_end = if plan.notifications { 1.0 } else { 5.0 };
        let mut missed = Vec::new();
        for figures in all {
            let mut meet = |is_met: bool, what: String| {
                if !is_met {
                    missed.push(format!("{} clusters, {} conductors: {what}", figures.clusters, figures.conductors));
                }
            };
            meet(figures.end.1 <= most_end, format!("p99 from a stack's end to its cluster's {:.2} s, of {most_end} s", figures.end.1));
            meet(figures.post.1 <= 1.0, format!("p99 from POST to the stack {:.2} s, of 1 s", figures.post.1));
            if figures.clusters <= 1000 {
                meet(figures.heat_per_second <= 17.0, format!("{:.1} requests to Heat in a second, of 17", figures.heat_per_second));
            }
            if figures.clusters <= 5000 && figures.conductors == 1 {
                meet(figures.memory_mib <= 60.0, format!("{:.1} MiB, of 60", figures.memory_mib));
            }
            // As many for each number of conductors, but for what the edges of the window cut off.
            let first = all.iter().find(|other| other.clusters == figures.clusters).map_or(0.0, |other| other.heat_per_second);
            let same = (figures.heat_per_second - first).abs() <= 0.1 * first;
            meet(same, format!("{:.1} requests to Heat in a second, and {first:.1} on the first line", figures.heat_per_second));
        }
        missed
    }
}

/// A run for each number of conductors.
pub async fn each(plan: &Plan, clusters: usize, table: &mut Table<Figures>) -> Result<()> {
    for conductors in &plan.conductors {
        table.add(run(plan, clusters, *conductors).await?);
    }
    Ok(())
}

async fn run(plan: &Plan, clusters: usize, conductors: usize) -> Result<Figures> {
    let exchange = format!("heat-{}", uuid::Uuid::new_v4().simple());
    let notifier = match plan.notifications {
        true => Some(HeatNotifier::connect(&needed("MAGNUM_TEST_AMQP_URL")?, &exchange).await?),
        false => None,
    };
    let hear =
        if plan.notifications { format!("heat_notifications = true\nheat_notification_exchange = {exchange}\n") } else { String::new() };
    let options = Options {
        // Longer than the run: stacks move by this clock, and are ended by us.
        stack: Duration::from_secs(3600),
        apis: 1,
        conductors,
        usual_keys: plan.usual_keys,
        environment: plan.keys(),
        api: MANY_CLUSTERS.to_owned(),
        // The last setting of PRODUCTION_TIMES' section: room for all that one conductor may have to take.
        conductor: format!("{PRODUCTION_TIMES}max_held = 60000\n{hear}"),
        ..Options::default()
    };
    let mut world = World::start(Mix::Distributed, options).await?;
    world.cloud.hold_stacks(true);
    let pids = world.pids("conductor");
    let template = world.demo().create_template("bench").await?;
    // Thousands are not of one project: what a request asks the cloud about its project, and its quota, would be told of all of them.
    let other = world.user("demo2", "demo2");
    let template_of_other = other.create_template("bench").await?;

    let asked = plan.asked.clamp(1, clusters);
    let first = post(world.demo(), plan, &template, 1).await?;
    stacks_made(&world, 1, 1).await?;
    // Not before: a process that has just been started has not yet read its own program.
    let empty = accounts(&pids)?;
    let copies = clusters - asked;
    let taken_up = if copies > 0 { Some(copies::make(&world, copies).await?) } else { None };

    let asking = Watched::begin(&world, &pids, Vec::new).await?;
    let mut posted = post(other, plan, &template_of_other, asked - 1).await?;
    stacks_made(&world, asked, clusters).await?;
    let asking = asking.end(&world, &pids).await?;
    posted.extend(first);

    let count = || vec![world.cloud.calls("heat.any"), world.cloud.calls("heat.stack_list")];
    let watched = Watched::begin(&world, &pids, count).await?;
    tokio::time::sleep(plan.window()).await;
    let window = watched.end(&world, &pids).await?;

    // Those that were asked for are among those that end: the newest.
    let stacks = world.cloud.stacks_briefly("cluster_uuid");
    let ended = plan.ended.clamp(1, clusters);
    let ending = Watched::begin(&world, &pids, Vec::new).await?;
    let mut ends = HashMap::new();
    let mut ticks = tokio::time::interval(Plan::pace(plan.ends));
    for stack in stacks.iter().rev().take(ended) {
        ticks.tick().await;
        ends.insert(stack.parameter.clone(), Utc::now());
        world.cloud.complete_stack(&stack.id);
        if let Some(notifier) = &notifier {
            notifier.created(&stack.id).await?;
        }
    }
    let finished = finished(&world, clusters - ended).await?;
    let ending = ending.end(&world, &pids).await?;

    let end = finished.iter().filter_map(|(id, at)| Some((*at - *ends.get(id)?).as_seconds_f64())).collect();
    let begun: HashMap<String, DateTime<Utc>> = stacks.into_iter().map(|stack| (stack.parameter, stack.began)).collect();
    let post = posted.iter().filter_map(|(id, at)| Some((*begun.get(id)? - *at).as_seconds_f64())).collect();
    // Thousands that wait would be given back one by one.
    world.kill_all("conductor")?;
    world.close().await?;
    Ok(Figures {
        clusters,
        conductors,
        heat_per_second: window.counted[0],
        lists_per_second: window.counted[1],
        sql_per_second: window.statements,
        sql_per_cluster: asking.statements_beyond(&window) / (asked - 1).max(1) as f64 + ending.statements_beyond(&window) / ended as f64,
        cpu_percent: window.cpu_percent,
        memory_mib: window.memory_mib(),
        kib_per_cluster: window.kib_per_cluster(&empty, clusters),
        taken_up,
        end: quantiles(end),
        post: quantiles(post),
        failed: ended - finished.len().min(ended),
    })
}

/// Waits until so many stacks were asked for, and so many are there.
async fn stacks_made(world: &World, asked: usize, there: usize) -> Result<()> {
    wait::until("all stacks", Duration::from_secs(1800), async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let made = world.cloud.calls("heat.stack_create");
        Ok(Seen::when(made >= asked && world.cloud.stack_count() == there, || format!("{made} stacks")))
    })
    .await
}

/// Asks for clusters at a steady rate; when each was asked for.
pub(super) async fn post(user: Client, plan: &Plan, template: &str, clusters: usize) -> Result<HashMap<String, DateTime<Utc>>> {
    let user = Arc::new(user);
    let places = Arc::new(Semaphore::new(POSTING));
    let mut ticks = tokio::time::interval(Plan::pace(plan.posts));
    let mut tasks = Vec::new();
    for number in 0..clusters {
        ticks.tick().await;
        let place = places.clone().acquire_owned().await?;
        let (user, template): (Arc<Client>, String) = (user.clone(), template.to_owned());
        tasks.push(tokio::spawn(async move {
            let _place = place;
            let body = json!({"name": format!("fleet-{number}"), "cluster_template_id": template, "keypair": "key", "node_count": 2});
            let at = Utc::now();
            let mut answer = user.post("/v1/clusters", &body).await?;
            for _ in 0..SENT_AGAIN {
                if answer.status != 503 {
                    break;
                }
                answer = user.post("/v1/clusters", &body).await?;
            }
            let answer = answer.expect(202)?;
            let id = answer.body["uuid"].as_str().context("a uuid")?.to_owned();
            anyhow::Ok((id, at))
        }));
    }
    let mut posted = HashMap::new();
    for task in join_all(tasks).await {
        let (id, at) = task??;
        posted.insert(id, at);
    }
    Ok(posted)
}

/// When the operations of complete clusters ended, by cluster, once so many only are unfinished.
pub(super) async fn finished(world: &World, wanted: usize) -> Result<HashMap<String, DateTime<Utc>>> {
    let database = world.database()?;
    let unfinished = "SELECT COUNT(*) FROM operation WHERE finished_ms IS NULL";
    wait::until("clusters to be complete", Duration::from_secs(600), async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left: Vec<i64> = database.rows(unfinished).await?;
        // Fewer where others have failed, which is told below.
        Ok(Seen::when(left.iter().all(|left| *left <= wanted as i64), || format!("{left:?} are unfinished")))
    })
    .await?;
    let failed = "SELECT COALESCE(outcome_code, ''), COALESCE(outcome_reason, ''), COUNT(*) FROM operation \
                  WHERE finished_ms IS NOT NULL AND state != 'SUCCEEDED' GROUP BY 1, 2 LIMIT 20";
    for (code, reason, count) in database.rows::<(String, String, i64)>(failed).await? {
        eprintln!("    {count} ended so: {code}: {reason}");
    }
    let rows: Vec<(String, i64)> =
        database.rows("SELECT cluster_uuid, finished_ms FROM operation WHERE kind = 'cluster_create' AND state = 'SUCCEEDED'").await?;
    Ok(rows.into_iter().map(|(id, ms)| (id, DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms))).collect())
}

/// Statements that the server has answered so far.
async fn statements(world: &World) -> Result<u64> {
    let rows: Vec<(String, String)> = world.database()?.rows("SHOW GLOBAL STATUS LIKE 'Questions'").await?;
    let (_, count) = rows.into_iter().next().context("no count of statements")?;
    count.parse().context("the count of statements")
}

pub(super) fn accounts(pids: &[u32]) -> Result<Vec<Account>> {
    pids.iter().map(|pid| Account::of(*pid)).collect()
}

/// The counters at the beginning of a while: statements, CPU time, and whatever else is counted.
pub(super) struct Watched<F> {
    at: Instant,
    count: F,
    counted: Vec<usize>,
    statements: u64,
    cpu: Duration,
}

/// What a while came to.
pub(super) struct Window {
    /// A second: what was counted.
    pub counted: Vec<f64>,
    /// A second.
    pub statements: f64,
    /// Of one CPU, all together.
    pub cpu_percent: f64,
    took: f64,
    /// Of each process, at the end.
    accounts: Vec<Account>,
}

impl<F: Fn() -> Vec<usize>> Watched<F> {
    pub async fn begin(world: &World, pids: &[u32], count: F) -> Result<Self> {
        Ok(Self {
            statements: statements(world).await?,
            cpu: accounts(pids)?.iter().map(|account| account.cpu).sum(),
            counted: count(),
            count,
            at: Instant::now(),
        })
    }

    pub async fn end(self, world: &World, pids: &[u32]) -> Result<Window> {
        let took = self.at.elapsed().as_secs_f64();
        let counted = (self.count)().into_iter().zip(self.counted).map(|(now, then)| (now - then) as f64 / took).collect();
        let accounts = accounts(pids)?;
        let cpu: Duration = accounts.iter().map(|account| account.cpu).sum();
        let statements = (statements(world).await? - self.statements) as f64 / took;
        Ok(Window { counted, statements, cpu_percent: 100.0 * cpu.saturating_sub(self.cpu).as_secs_f64() / took, took, accounts })
    }
}

impl Window {
    /// Statements that there would not have been had all gone on as in `usual`.
    fn statements_beyond(&self, usual: &Self) -> f64 {
        ((self.statements - usual.statements) * self.took).max(0.0)
    }

    /// Of the largest process.
    pub fn memory_mib(&self) -> f64 {
        self.accounts.iter().map(|account| account.resident).max().unwrap_or_default() as f64 / 1024.0
    }

    /// What all processes have grown by since they were `empty`, for each cluster.
    pub fn kib_per_cluster(&self, empty: &[Account], clusters: usize) -> f64 {
        let grown: u64 = self.accounts.iter().zip(empty).map(|(now, then)| now.resident.saturating_sub(then.resident)).sum();
        grown as f64 / clusters as f64
    }
}

pub(super) fn quantiles(mut seconds: Vec<f64>) -> (f64, f64) {
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| seconds.get((share * seconds.len().saturating_sub(1) as f64).round() as usize).copied().unwrap_or(f64::NAN);
    (at(0.5), at(0.99))
}
