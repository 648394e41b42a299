//! The chaos run: users ask for thousands of operations on real processes, MariaDB and RabbitMQ while conductors, API processes and servers
//! are killed and the simulated cloud fails; then everything calms down, and nothing may be lost, done twice, stuck or left behind.
//!
//! What users ask for and what goes wrong follows from a seed; when it happens, and so what it meets, does not: this runs on real time. What
//! the deterministic simulation cannot have (processes, sockets, two servers and their recovery) is what it is for.

pub mod check;
mod exits;
pub mod ledger;
mod left;
pub mod report;
pub mod takeover;
pub mod trouble;
mod user;
pub mod wish;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;

use crate::client;
use crate::config::{MANY_CLUSTERS, PRODUCTION_TIMES};
use crate::management::{self, Management};
use crate::notifications::{self, Topic};
use crate::servers::PrivateServer;
use crate::told;
use crate::wait::{self, Seen};
use crate::world::{Mix, Options, World};
use check::{Finding, Wrong};
use ledger::Ledger;
use left::Left;
use report::Report;
use trouble::{Size, Troublemaker};
use user::{Door, Kind, User};

/// Once nothing goes wrong any more, everything ends within this time. What a lost answer makes wait (30 s), a backoff (30 s), a rotation of
/// authorities, which replaces every node twice, and what queues behind them on one cluster is in it.
const DRAIN: Duration = Duration::from_secs(600);
/// Users go on for so long at most once enough was accepted, while some trouble has not happened as often as it must.
const OVERTIME: Duration = Duration::from_secs(600);
/// How long the controllers of the management cluster take for a step.
const CONTROLLERS: Duration = Duration::from_millis(200);
/// Once nothing goes wrong any more, notifications are sent within this time: a sender that is frozen keeps its task for 20 s.
const SENT: Duration = Duration::from_secs(60);
/// How often progress is told.
const TELLING: Duration = Duration::from_secs(5);

/// What is kept of which tables when something was found; no secrets.
const SHOWN: [(&str, &str); 5] = [
    ("cluster", "uuid name status stack_id status_reason trustee_user_id trust_id"),
    ("nodegroup", "cluster_id uuid name status node_count stack_id status_reason"),
    ("cloud_resource", "cluster_uuid kind name resource_id"),
    (
        "operation",
        "uuid cluster_uuid kind state step generation owner request_id created_ms finished_ms deadline_ms outcome_code outcome_reason",
    ),
    ("operation_event", "operation_uuid cluster_uuid at_ms kind message"),
];

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Operations to be accepted, at least.
    pub operations: usize,
    pub seed: u64,
    pub conductors: usize,
    pub apis: usize,
    /// Users at the same time.
    pub in_flight: usize,
    /// How many of them have clusters of the Cluster API driver.
    pub on_cluster_api: usize,
    /// Whether anything goes wrong.
    pub with_trouble: bool,
    /// Folder of MariaDB and RabbitMQ that `xtask servers up` has started; none starts some.
    pub servers: Option<PathBuf>,
    /// How long the cloud takes for a stack.
    pub stack: Duration,
    /// How long a request may be worked on (`[requests] answer_timeout`); who repeats one whose API process died waits twice as long.
    pub answer: Duration,
    /// Folder with the programs of an earlier release, of which one API process and one conductor are.
    pub older: Option<PathBuf>,
    /// Whether what was found is printed with its events, and logs and rows are kept.
    pub shows_findings: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            operations: 2_000,
            seed: 1,
            conductors: 3,
            apis: 2,
            in_flight: 48,
            on_cluster_api: 8,
            with_trouble: true,
            servers: None,
            stack: Duration::from_secs(2),
            answer: Duration::from_secs(60),
            older: None,
            shows_findings: true,
        }
    }
}

/// A run, between its parts.
pub struct Run {
    plan: Plan,
    pub world: World,
    /// Where clusters of the Cluster API driver are.
    management: Option<Management>,
    door: Door,
    ledger: Arc<Ledger>,
    trouble: Troublemaker,
    left: Left,
    /// Where notifications are told: the broker and the topic.
    topic: (String, String),
    /// The ids of all that came, and how often each did: whoever dies between the broker's word and the outbox has a message sent again.
    told: BTreeMap<String, usize>,
    begun: Instant,
    trouble_took: Duration,
    drain_took: Duration,
    findings: Vec<Finding>,
}

/// Runs all of it and says what came of it, with the folder of the logs when something was found.
pub async fn run(plan: Plan) -> Result<Report> {
    let mut run = Run::begin(plan).await?;
    run.trouble().await?;
    run.calm().await?;
    run.check(false).await?;
    run.delete_everything().await?;
    run.check(true).await?;
    run.end().await
}

impl Run {
    /// Starts everything.
    pub async fn begin(plan: Plan) -> Result<Self> {
        let begun = Instant::now();
        let (database, broker) = match &plan.servers {
            Some(folder) => (PrivateServer::found("mariadb", folder)?, PrivateServer::found("rabbitmq", folder)?),
            None => (PrivateServer::start("mariadb").await?, PrivateServer::start("rabbitmq").await?),
        };
        let management = match plan.on_cluster_api {
            0 => None,
            _ => Some(Management::start(CONTROLLERS, "3").await?),
        };
        let mut environment = management.as_ref().map(Management::environment).unwrap_or_default();
        let topic = (broker.url()?, "chaos".to_owned());
        environment.append(&mut notifications::environment(&topic.1, &topic.0));
        // As an operator has it who wants to lose nothing: what was told is there when the broker comes again.
        environment.insert("OS_OSLO_MESSAGING_RABBIT__AMQP_DURABLE_QUEUES".into(), "true".into());
        let options = Options {
            environment,
            stack: plan.stack,
            apis: plan.apis,
            conductors: plan.conductors,
            mysql: Some(database.url()?),
            amqp: Some(broker.url()?),
            api: format!("{PRODUCTION_TIMES}{MANY_CLUSTERS}[requests]\nanswer_timeout = {}\n", plan.answer.as_secs()),
            conductor: PRODUCTION_TIMES.to_owned(),
            older: plan.older.clone(),
            ..Options::default()
        };
        let world = World::start(Mix::Distributed, options).await?;
        let bases = world.addresses().into_iter().map(|address| format!("http://{address}")).collect();
        let door = Door { http: client::http()?, bases, cloud: world.cloud.clone() };
        let size = Size { operations: plan.operations, has_management: management.is_some() };
        let trouble = Troublemaker::new(&world, StdRng::seed_from_u64(plan.seed), database, broker, size);
        Ok(Self {
            plan,
            world,
            management,
            door,
            ledger: Arc::default(),
            trouble,
            left: Left::default(),
            topic,
            told: BTreeMap::new(),
            begun,
            trouble_took: Duration::ZERO,
            drain_took: Duration::ZERO,
            findings: Vec::new(),
        })
    }

    /// Users ask and things go wrong, until enough was accepted, enough has gone wrong, and every user has his last answer.
    pub async fn trouble(&mut self) -> Result<()> {
        let begun = Instant::now();
        let client = self.door.client();
        let on_heat = Kind { template: client.create_template("chaos").await?, is_on_cluster_api: false };
        let on_cluster_api = match &self.management {
            Some(_) => client.post("/v1/clustertemplates", &management::template("chaos-api")).await?.expect(201)?.uuid()?,
            None => String::new(),
        };
        let on_cluster_api = Kind { template: on_cluster_api, is_on_cluster_api: true };
        let mut users = JoinSet::new();
        for number in 0..self.plan.in_flight {
            let kind = if number < self.plan.on_cluster_api { &on_cluster_api } else { &on_heat };
            let number = u64::try_from(number)?;
            users.spawn(User::new(&self.door, &self.ledger, kind.clone(), self.plan.seed, number).run());
        }
        let mut told = Instant::now();
        let mut had_enough: Option<Instant> = None;
        loop {
            let (accepted, wanted) = (self.ledger.accepted(), self.plan.operations);
            if accepted >= wanted {
                let since = *had_enough.get_or_insert_with(Instant::now);
                if !self.plan.with_trouble || self.trouble.is_enough() || since.elapsed() > OVERTIME {
                    break;
                }
            }
            if self.plan.with_trouble {
                self.trouble.step(&mut self.world, self.management.as_ref(), accepted).await?;
            }
            if told.elapsed() > TELLING {
                told = Instant::now();
                eprintln!("{:>4} s  {accepted} of {wanted} operations accepted; {}", begun.elapsed().as_secs(), self.trouble.now());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.ledger.close();
        self.trouble.calm(&mut self.world, self.management.as_ref()).await?;
        self.trouble_took = begun.elapsed();
        while let Some(user) = users.join_next().await {
            user.context("a user")?;
        }
        Ok(())
    }

    /// Waits until everything has ended; what has not by then is for the check to find.
    pub async fn calm(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.drain("operations to end").await?;
        self.drain_took = begun.elapsed();
        self.remove_what_was_left().await
    }

    /// What removals say they have left goes, as an operator would have it; what is there afterwards is an orphan.
    async fn remove_what_was_left(&mut self) -> Result<()> {
        self.findings.extend(self.left.remove(&self.world, self.management.as_ref()).await?);
        Ok(())
    }

    async fn drain(&mut self, what: &str) -> Result<()> {
        let begun = Instant::now();
        let mut told = Instant::now();
        let drained = wait::until(what, DRAIN, async || {
            let count = self.world.unfinished().await?;
            if told.elapsed() > TELLING {
                told = Instant::now();
                eprintln!("{:>4} s  waiting for {count} {what}", begun.elapsed().as_secs());
            }
            Ok(Seen::when(count == 0, || format!("{count} unfinished")))
        });
        if let Err(error) = drained.await {
            self.findings.push(Finding::new(Wrong::Stuck, format!("{error:#}")));
        }
        Ok(())
    }

    /// Looks at everything; what is found is kept for the report, and returned.
    pub async fn check(&mut self, is_end: bool) -> Result<Vec<Finding>> {
        self.hear().await?;
        let mut found =
            check::all(&self.world, self.management.as_ref(), &self.ledger.entries(), self.plan.older.is_some(), is_end).await?;
        found.extend(check::told(&self.world, self.told.keys()).await?);
        for finding in &found {
            // What was found at the first look is not found again at the last.
            if !self.findings.iter().any(|known| known.what == finding.what) {
                self.findings.push(finding.clone());
            }
        }
        Ok(found)
    }

    /// Waits until all notifications are sent, and takes them.
    async fn hear(&mut self) -> Result<()> {
        let sent = wait::until("all notifications to be sent", SENT, async || {
            let left = told::waiting(self.world.store()?).await?.len();
            Ok(Seen::when(left == 0, || format!("{left} wait")))
        });
        if let Err(error) = sent.await {
            self.findings.push(Finding::new(Wrong::Stuck, format!("{error:#}")));
        }
        let (amqp, name) = &self.topic;
        for told in Topic::listen_durably(name, amqp).await?.take().await? {
            *self.told.entry(told.id()).or_default() += 1;
        }
        Ok(())
    }

    /// Forgets a notification that came, for who wants to see that it is missed.
    pub fn forget_a_notification(&mut self) -> Option<String> {
        self.told.pop_first().map(|(id, _)| id)
    }

    /// Every cluster that is left is deleted.
    pub async fn delete_everything(&mut self) -> Result<()> {
        let ids: Vec<String> = self.world.database()?.rows("SELECT uuid FROM cluster").await?;
        eprintln!("deleting {} clusters", ids.len());
        for id in &ids {
            user::delete(&self.door, &self.ledger, id).await;
        }
        self.drain("deletions to end").await?;
        self.remove_what_was_left().await
    }

    /// Stops everything; the report. The folder of logs stays when something was found.
    pub async fn end(mut self) -> Result<Report> {
        if let Err(error) = self.world.nobody_died() {
            self.findings.push(Finding::new(Wrong::Other, format!("{error:#}")));
        }
        let on_the_way = std::mem::take(&mut self.trouble.findings);
        self.findings.extend(on_the_way.into_iter().map(|what| Finding::new(Wrong::Other, what)));
        let (takeovers, other_takeovers) = takeover::takeovers(self.world.database()?, &self.trouble.deaths).await?;
        let mut report = Report {
            seed: self.plan.seed,
            conductors: self.plan.conductors,
            apis: self.plan.apis,
            entries: self.ledger.entries(),
            operations: check::rows(&self.world).await?,
            troubles: self.trouble.counts(),
            left: std::mem::take(&mut self.left.counts),
            takeovers,
            other_takeovers,
            told: self.told.len(),
            told_again: self.told.values().sum::<usize>() - self.told.len(),
            findings: std::mem::take(&mut self.findings),
            trouble_took: self.trouble_took,
            drain_took: self.drain_took,
            took: Duration::ZERO,
        };
        if !report.is_good() && self.plan.shows_findings {
            self.show(&report).await?;
        }
        if let Err(error) = self.world.close().await {
            report.findings.push(Finding::new(Wrong::Other, format!("{error:#}")));
        }
        report.took = self.begun.elapsed();
        Ok(report)
    }

    /// What is needed to look into what was found.
    async fn show(&mut self, report: &Report) -> Result<()> {
        let folder = self.world.keep_folder().to_owned();
        for (table, columns) in SHOWN {
            let columns: Vec<String> = columns.split(' ').map(|column| format!("COALESCE({column}, '')")).collect();
            let sql = format!("SELECT CONCAT_WS('\t', {}) FROM `{table}` ORDER BY id", columns.join(", "));
            let rows: Vec<String> = self.world.database()?.rows(&sql).await?;
            std::fs::write(folder.join(format!("{table}.tsv")), rows.join("\n")).context("write the rows")?;
        }
        eprintln!("logs and rows are in {}", folder.display());
        let slow = report.takeovers.iter().filter(|takeover| takeover.seconds > 30.0);
        for takeover in slow.take(5) {
            eprintln!("taken over {:.1} s after {}:", takeover.seconds, takeover.how);
            self.show_events(&takeover.operation).await?;
        }
        for finding in report.findings.iter().take(20) {
            eprintln!("{}: {}", finding.wrong.word(), finding.what);
            if let Some(operation) = &finding.operation {
                self.show_events(operation).await?;
            }
        }
        Ok(())
    }

    async fn show_events(&self, operation: &str) -> Result<()> {
        let sql = format!("SELECT at_ms, kind, message FROM operation_event WHERE operation_uuid = '{operation}' ORDER BY id");
        for (at, kind, message) in self.world.database()?.rows::<(i64, String, String)>(&sql).await? {
            eprintln!("    {operation} {at} {kind}: {message}");
        }
        Ok(())
    }
}
