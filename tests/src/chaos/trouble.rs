//! What goes wrong: processes die, stop and stand still, servers go away, and the cloud fails. What happens next follows from the seed; troubles
//! overlap, but one conductor and one API process are always left alone, so that there is somebody to take over.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use cloud_simulator::{Fault, How, ManagementCluster};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::takeover::Death;
use crate::management::Management;
use crate::servers::PrivateServer;
use crate::world::World;

/// A process that was told to stop has done so after this; its grace is 10 s.
const STOPPING: Duration = Duration::from_secs(30);
/// One trouble comes so soon after the other.
const BETWEEN_MS: Range<u64> = 700..3_200;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    KillConductor,
    StopConductor,
    FreezeConductor,
    FreezeConductorShortly,
    KillApi,
    StopApi,
    KillBroker,
    StopBroker,
    KillDatabase,
    StopDatabase,
    CloudFault,
    CloudOutage,
    StackFails,
    ManagementFault,
    ManagementOutage,
    WatchesDrop,
}

/// How often each happens, relative to the others.
const OFTEN: [(What, u32); 16] = [
    (What::KillConductor, 5),
    (What::StopConductor, 2),
    (What::FreezeConductor, 3),
    (What::FreezeConductorShortly, 2),
    (What::KillApi, 2),
    (What::StopApi, 1),
    (What::KillBroker, 2),
    (What::StopBroker, 1),
    (What::KillDatabase, 1),
    (What::StopDatabase, 1),
    (What::CloudFault, 10),
    (What::CloudOutage, 2),
    (What::StackFails, 2),
    (What::ManagementFault, 6),
    (What::ManagementOutage, 1),
    (What::WatchesDrop, 1),
];

impl What {
    /// In words, for the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::KillConductor => "conductor: kill -9",
            Self::StopConductor => "conductor: SIGTERM",
            Self::FreezeConductor => "conductor: SIGSTOP for longer than a lease",
            Self::FreezeConductorShortly => "conductor: SIGSTOP for less than a lease",
            Self::KillApi => "API: kill -9",
            Self::StopApi => "API: SIGTERM",
            Self::KillBroker => "RabbitMQ: kill -9",
            Self::StopBroker => "RabbitMQ: clean stop",
            Self::KillDatabase => "MariaDB: kill -9",
            Self::StopDatabase => "MariaDB: clean stop",
            Self::CloudFault => "cloud: one call goes wrong",
            Self::CloudOutage => "cloud: a service is away or slow for seconds",
            Self::StackFails => "cloud: a stack fails",
            Self::ManagementFault => "management cluster: one call goes wrong",
            Self::ManagementOutage => "management cluster: away or slow for seconds",
            Self::WatchesDrop => "management cluster: all watches are cut off",
        }
    }
}

/// Calls that go wrong one at a time.
const CALLS: [&str; 23] = [
    "heat.stack_create",
    "heat.stack_create",
    "heat.stack_update",
    "heat.stack_update",
    "heat.stack_delete",
    "heat.stack_delete",
    "heat.stack_show",
    "heat.stack_lookup",
    "heat.stack_list",
    "heat.resource_list",
    "keystone.user_create",
    "keystone.user_delete",
    "keystone.user_update",
    "keystone.trust_create",
    "keystone.trust_delete",
    "keystone.token_issue",
    "keystone.application_credential_create",
    "keystone.application_credential_delete",
    "keystone.role_grant",
    "nova.keypair_create",
    "nova.keypair_delete",
    "nova.limits_show",
    "glance.image_list",
];

/// Calls to the management cluster that go wrong one at a time, helm's among them.
const MANAGEMENT_CALLS: [&str; 7] = [
    "kubernetes.get",
    "kubernetes.list",
    "kubernetes.create",
    "kubernetes.update",
    "kubernetes.patch",
    "kubernetes.delete",
    "kubernetes.watch",
];

/// Services that are away for a while.
const SERVICES: [&str; 5] = ["heat.any", "heat.any", "keystone.any", "nova.any", "neutron.any"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    Frozen { until: Instant },
    Stopping { since: Instant },
    Down { until: Instant },
}

struct Host {
    pid: u32,
    state: State,
}

/// A server that the product needs.
struct Server {
    server: Arc<PrivateServer>,
    /// Going away and coming back.
    trouble: Option<JoinHandle<Result<()>>>,
}

/// Whoever makes the trouble.
pub struct Troublemaker {
    random: StdRng,
    conductors: Vec<Host>,
    apis: Vec<Host>,
    broker: Server,
    database: Server,
    outage_ends: Option<Instant>,
    management_outage_ends: Option<Instant>,
    next: Instant,
    pub counts: BTreeMap<What, u32>,
    pub deaths: Vec<Death>,
    /// What must not have been seen on the way.
    pub findings: Vec<String>,
}

impl Troublemaker {
    /// Nothing has happened yet.
    pub fn new(world: &World, random: StdRng, database: PrivateServer, broker: PrivateServer) -> Self {
        let hosts = |name: &str| world.pids(name).into_iter().map(|pid| Host { pid, state: State::Up }).collect();
        let server = |server| Server { server: Arc::new(server), trouble: None };
        Self {
            random,
            conductors: hosts("conductor"),
            apis: hosts("api"),
            broker: server(broker),
            database: server(database),
            outage_ends: None,
            management_outage_ends: None,
            next: Instant::now(),
            counts: BTreeMap::new(),
            deaths: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Mends what is due, and makes the next trouble when its time has come.
    pub async fn step(&mut self, world: &mut World, management: Option<&Management>) -> Result<()> {
        self.mend(world, management).await?;
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next = Instant::now() + Duration::from_millis(self.random.random_range(BETWEEN_MS));
        let total: u32 = OFTEN.iter().map(|(_, often)| often).sum();
        let mut drawn = self.random.random_range(0..total);
        let what = OFTEN.iter().find(|(_, often)| {
            let is_it = drawn < *often;
            drawn = drawn.saturating_sub(*often);
            is_it
        });
        let (what, _) = what.context("a trouble is drawn")?;
        if self.strike(world, management, *what)? {
            *self.counts.entry(*what).or_default() += 1;
        }
        Ok(())
    }

    /// What is not as it should be just now, for the line of progress.
    pub fn now(&self) -> String {
        let down = |hosts: &[Host]| hosts.iter().filter(|host| host.state != State::Up).count();
        let away = |server: &Server, name| if server.trouble.is_some() { name } else { "" };
        format!(
            "{} conductors and {} APIs not up{}{}{}",
            down(&self.conductors),
            down(&self.apis),
            away(&self.broker, ", RabbitMQ away"),
            away(&self.database, ", MariaDB away"),
            if self.outage_ends.is_some() { ", a cloud service away" } else { "" }
        )
    }

    /// Ends all trouble: everything is up when it returns.
    pub async fn calm(&mut self, world: &mut World, management: Option<&Management>) -> Result<()> {
        (self.outage_ends, self.management_outage_ends) = (None, None);
        world.cloud.clear_faults();
        if let Some(management) = management {
            management.cluster.clear_faults();
        }
        for server in [&mut self.database, &mut self.broker] {
            if let Some(trouble) = server.trouble.take() {
                trouble.await.context("a server's trouble")??;
            }
        }
        let now = Instant::now();
        for host in self.conductors.iter_mut().chain(&mut self.apis) {
            match &mut host.state {
                State::Frozen { until } | State::Down { until } => *until = now,
                State::Up | State::Stopping { .. } => {}
            }
        }
        while self.conductors.iter().chain(&self.apis).any(|host| host.state != State::Up) {
            self.mend(world, management).await?;
            ensure!(now.elapsed() < STOPPING * 2, "not everything could be started again");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }

    async fn mend(&mut self, world: &mut World, management: Option<&Management>) -> Result<()> {
        let now = Instant::now();
        if self.outage_ends.is_some_and(|end| end <= now) {
            self.outage_ends = None;
            world.cloud.clear_faults();
        }
        if let (Some(management), true) = (management, self.management_outage_ends.is_some_and(|end| end <= now)) {
            self.management_outage_ends = None;
            management.cluster.clear_faults();
        }
        for server in [&mut self.database, &mut self.broker] {
            if server.trouble.as_ref().is_some_and(JoinHandle::is_finished)
                && let Some(trouble) = server.trouble.take()
            {
                trouble.await.context("a server's trouble")??;
            }
        }
        for host in self.conductors.iter_mut().chain(&mut self.apis) {
            match host.state {
                State::Frozen { until } if until <= now => {
                    world.thaw(host.pid)?;
                    host.state = State::Up;
                }
                State::Stopping { since } => match world.ended(host.pid)? {
                    Some(status) => {
                        if !status.success() {
                            self.findings.push(format!("process {} was told to stop and ended with {status}", host.pid));
                        }
                        self.deaths.push(Death { pid: host.pid, at_ms: Utc::now().timestamp_millis(), how: "SIGTERM" });
                        host.state = State::Down { until: now + Duration::from_millis(self.random.random_range(100..4_000)) };
                    }
                    None if since.elapsed() > STOPPING => {
                        self.findings.push(format!("process {} did not end within {} s of SIGTERM", host.pid, STOPPING.as_secs()));
                        world.kill(host.pid)?;
                    }
                    None => {}
                },
                State::Down { until } if until <= now => {
                    host.pid = world.start_again(host.pid)?;
                    host.state = State::Up;
                }
                State::Up => {
                    if let Some(status) = world.ended(host.pid)? {
                        self.findings.push(format!("process {} ended by itself: {status}", host.pid));
                        host.state = State::Down { until: now };
                    }
                }
                State::Frozen { .. } | State::Down { .. } => {}
            }
        }
        Ok(())
    }

    /// Makes this trouble; false when it cannot be made now.
    fn strike(&mut self, world: &mut World, management: Option<&Management>, what: What) -> Result<bool> {
        match what {
            What::KillConductor | What::KillApi => {
                let until = Instant::now() + self.millis(200..12_000);
                let Some(at) = self.victim(what) else { return Ok(false) };
                let pid = self.hosts(what)[at].pid;
                self.dies(pid, "kill -9");
                world.kill(pid)?;
                self.hosts(what)[at].state = State::Down { until };
            }
            What::StopConductor | What::StopApi => {
                let Some(at) = self.victim(what) else { return Ok(false) };
                let pid = self.hosts(what)[at].pid;
                world.ask_to_end(pid)?;
                self.hosts(what)[at].state = State::Stopping { since: Instant::now() };
            }
            What::FreezeConductor | What::FreezeConductorShortly => {
                let lasts = self.millis(if what == What::FreezeConductor { 11_000..24_000 } else { 300..6_000 });
                let Some(at) = self.victim(what) else { return Ok(false) };
                let pid = self.hosts(what)[at].pid;
                // Who stands still for less than a lease comes back to it.
                if what == What::FreezeConductor {
                    self.dies(pid, "SIGSTOP");
                }
                world.freeze(pid)?;
                self.hosts(what)[at].state = State::Frozen { until: Instant::now() + lasts };
            }
            What::KillBroker | What::StopBroker | What::KillDatabase | What::StopDatabase => return Ok(self.server_goes(what)),
            What::CloudFault => {
                let at = CALLS[self.random.random_range(0..CALLS.len())];
                let how = self.how(at);
                let nth = self.random.random_range(1..=2);
                world.cloud.inject(Fault { at: at.to_owned(), nth, how });
            }
            What::CloudOutage => {
                if self.outage_ends.is_some() {
                    return Ok(false);
                }
                let at = SERVICES[self.random.random_range(0..SERVICES.len())];
                let how = self.outage("the service is being restarted");
                self.outage_ends = Some(Instant::now() + self.millis(1_000..8_000));
                world.cloud.inject(Fault { at: at.to_owned(), nth: 0, how });
            }
            What::StackFails => {
                let drawn: usize = self.random.random_range(0..1_000);
                let at_work: Vec<String> =
                    world.cloud.stacks().into_iter().filter(|s| s.status.ends_with("_IN_PROGRESS")).map(|s| s.id).collect();
                if at_work.is_empty() {
                    return Ok(false);
                }
                world.cloud.fail_stack(&at_work[drawn % at_work.len()], "No valid host was found.");
            }
            What::ManagementFault | What::ManagementOutage | What::WatchesDrop => {
                let Some(management) = management else { return Ok(false) };
                return Ok(self.management_goes(&management.cluster, what));
            }
        }
        Ok(true)
    }

    fn management_goes(&mut self, cluster: &ManagementCluster, what: What) -> bool {
        match what {
            What::WatchesDrop => cluster.drop_watches(),
            What::ManagementOutage if self.management_outage_ends.is_some() => return false,
            What::ManagementOutage => {
                let how = self.outage("the apiserver is being restarted");
                self.management_outage_ends = Some(Instant::now() + self.millis(1_000..8_000));
                cluster.inject(Fault { at: "kubernetes.any".to_owned(), nth: 0, how });
            }
            _ => {
                let at = MANAGEMENT_CALLS[self.random.random_range(0..MANAGEMENT_CALLS.len())];
                let how = self.how(at);
                // helm makes dozens of calls.
                let nth = self.random.random_range(1..=20);
                cluster.inject(Fault { at: at.to_owned(), nth, how });
            }
        }
        true
    }

    /// How a service is away; the words are its load balancer's.
    fn outage(&mut self, words: &str) -> How {
        match self.random.random_range(0..3) {
            0 => How::Refuse,
            1 => How::Status(503, words.to_owned()),
            _ => How::Slow(self.millis(500..3_000)),
        }
    }

    fn how(&mut self, at: &str) -> How {
        match self.random.random_range(0..6) {
            0 => How::Status(500, "the cloud has a bad day".to_owned()),
            1 => How::Status(503, "the cloud has a bad day".to_owned()),
            2 | 3 => How::AcceptThenLose,
            // A login that is told 401 has been told that the password is wrong; a trust or an application credential is made with the user's
            // own token, which nobody but he can get anew.
            4 if !matches!(at, "keystone.token_issue" | "keystone.trust_create" | "keystone.application_credential_create") => {
                How::Unauthorized
            }
            4 => How::Refuse,
            _ => How::Slow(self.millis(500..9_000)),
        }
    }

    fn hosts(&mut self, what: What) -> &mut Vec<Host> {
        if matches!(what, What::KillApi | What::StopApi) { &mut self.apis } else { &mut self.conductors }
    }

    /// One that is up, unless it is the last one.
    fn victim(&mut self, what: What) -> Option<usize> {
        let drawn: usize = self.random.random_range(0..1_000);
        let up: Vec<usize> = self.hosts(what).iter().enumerate().filter(|(_, host)| host.state == State::Up).map(|(at, _)| at).collect();
        (up.len() > 1).then(|| up[drawn % up.len()])
    }

    fn dies(&mut self, pid: u32, how: &'static str) {
        self.deaths.push(Death { pid, at_ms: Utc::now().timestamp_millis(), how });
    }

    fn server_goes(&mut self, what: What) -> bool {
        let away = self.millis(100..5_000);
        let target = if matches!(what, What::KillBroker | What::StopBroker) { &mut self.broker } else { &mut self.database };
        if target.trouble.is_some() {
            return false;
        }
        let server = target.server.clone();
        let is_killed = matches!(what, What::KillBroker | What::KillDatabase);
        target.trouble = Some(tokio::spawn(async move {
            if is_killed {
                server.kill().await?
            } else {
                server.stop().await?
            }
            tokio::time::sleep(away).await;
            server.start_again().await
        }));
        true
    }
}
