//! What goes wrong: processes die, stop and stand still, servers go away, and the cloud fails. What happens next follows from the seed, and from
//! what has not happened often enough yet in a long run; troubles overlap, but one conductor and one API process are always left alone, so
//! that there is somebody to take over.

pub mod kinds;
mod waiting;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use cloud_simulator::Fault;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use self::kinds::{KINDS, Kind, Manner, What};
use self::waiting::Faults;
use super::takeover::Death;
use crate::management::Management;
use crate::servers::PrivateServer;
use crate::world::World;

/// A process that was told to stop has done so after this; its grace is 10 s.
const STOPPING: Duration = Duration::from_secs(30);
/// One trouble comes so soon after the other.
const BETWEEN_MS: Range<u64> = 700..3_200;

/// Calls that go wrong one at a time.
const CALLS: [&str; 25] = [
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
    "heat.output_show",
    "neutron.port_list",
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

/// How many of a hundred draws are of what should have happened by now, as long as there is something: what cannot be made at the moment must
/// not keep everything else from happening.
const OWED: u32 = 65;
/// What a service says that has a bad day, and what is said in the place of one that is away.
const BAD_DAY: &str = "the cloud has a bad day";
const AWAY: &str = "the service is being restarted";

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
    faults: Faults,
    management_faults: Faults,
    next: Instant,
    size: Size,
    counts: BTreeMap<What, usize>,
    pub deaths: Vec<Death>,
    /// What must not have been seen on the way.
    pub findings: Vec<String>,
}

/// How often something happened.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    pub what: What,
    pub times: usize,
    pub least: usize,
}

/// What a run is, as far as it says what must happen in it.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub operations: usize,
    pub has_management: bool,
}

impl Troublemaker {
    /// Nothing has happened yet.
    pub fn new(world: &World, random: StdRng, database: PrivateServer, broker: PrivateServer, size: Size) -> Self {
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
            faults: Faults::default(),
            management_faults: Faults::default(),
            next: Instant::now(),
            size,
            counts: BTreeMap::new(),
            deaths: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Mends what is due, and makes the next trouble when its time has come; so many operations are accepted.
    pub async fn step(&mut self, world: &mut World, management: Option<&Management>, accepted: usize) -> Result<()> {
        self.mend(world, management).await?;
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next = Instant::now() + self.millis(BETWEEN_MS);
        let owed = self.owed(accepted);
        let what = match owed.len() {
            owes if owes > 0 && self.random.random_range(0..100) < OWED => owed[self.random.random_range(0..owes)],
            _ => self.draw()?,
        };
        // A fault of a call counts when it is met.
        if self.strike(world, management, what)? && !what.waits_for_a_call() {
            self.count(what);
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<What> {
        let total: u32 = KINDS.iter().map(|kind| kind.often).sum();
        let mut drawn = self.random.random_range(0..total);
        let kind = KINDS.iter().find(|kind| {
            let is_it = drawn < kind.often;
            drawn = drawn.saturating_sub(kind.often);
            is_it
        });
        Ok(kind.context("a trouble is drawn")?.what)
    }

    fn count(&mut self, what: What) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn times(&self, what: What) -> usize {
        self.counts.get(&what).copied().unwrap_or_default()
    }

    /// What can happen in this run.
    fn possible(&self) -> impl Iterator<Item = &'static Kind> {
        let has_management = self.size.has_management;
        KINDS.iter().filter(move |kind| has_management || !kind.what.is_of_management())
    }

    /// What should have happened by now, and has not, and no call is waited for that will meet it.
    fn owed(&self, accepted: usize) -> Vec<What> {
        let waits = |what| self.faults.count(what) + self.management_faults.count(what);
        let is_owed = |kind: &&Kind| self.times(kind.what) + waits(kind.what) < kind.due(accepted, self.size.operations);
        self.possible().filter(is_owed).map(|kind| kind.what).collect()
    }

    /// Whether all that must happen in this run has happened.
    pub fn is_enough(&self) -> bool {
        self.counts().iter().all(|count| count.times >= count.least)
    }

    /// How often each thing happened, and must have at least.
    pub fn counts(&self) -> Vec<Count> {
        let count = |kind: &Kind| Count { what: kind.what, times: self.times(kind.what), least: kind.least(self.size.operations) };
        self.possible().map(count).collect()
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
        self.forget_cloud_faults(world);
        if let Some(management) = management {
            self.forget_management_faults(management);
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

    /// Counts the faults that were met.
    fn count_faults(&mut self, world: &World, management: Option<&Management>) {
        let mut met = self.faults.met(|at| world.cloud.calls(at));
        if let Some(management) = management {
            met.extend(self.management_faults.met(|at| management.cluster.calls(at)));
        }
        met.into_iter().for_each(|what| self.count(what));
    }

    /// No fault of the cloud waits any more.
    fn forget_cloud_faults(&mut self, world: &World) {
        // What was met before has happened; one that is met between the two lines is not counted, and nothing is that was not met.
        self.count_faults(world, None);
        world.cloud.clear_faults();
        self.faults.clear();
    }

    fn forget_management_faults(&mut self, management: &Management) {
        for what in self.management_faults.met(|at| management.cluster.calls(at)) {
            self.count(what);
        }
        management.cluster.clear_faults();
        self.management_faults.clear();
    }

    async fn mend(&mut self, world: &mut World, management: Option<&Management>) -> Result<()> {
        let now = Instant::now();
        if self.outage_ends.is_some_and(|end| end <= now) {
            self.outage_ends = None;
            self.forget_cloud_faults(world);
        }
        if let (Some(management), true) = (management, self.management_outage_ends.is_some_and(|end| end <= now)) {
            self.management_outage_ends = None;
            self.forget_management_faults(management);
        }
        self.count_faults(world, management);
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
                let lasts = self.millis(if what == What::FreezeConductor { 11_000..24_000 } else { 300..4_500 });
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
            What::CloudCall(manner) => {
                let Some(at) = self.call(&CALLS, manner) else { return Ok(false) };
                // One that waits where every call goes wrong would never be met.
                if self.outage_ends.is_some() || self.faults.wait_at(at) {
                    return Ok(false);
                }
                let how = manner.how(BAD_DAY, self.millis(500..9_000));
                let nth = self.random.random_range(1..=2);
                world.cloud.inject(Fault { at: at.to_owned(), nth, how });
                self.faults.add(what, at, nth, world.cloud.calls(at));
            }
            What::CloudOutage(manner) => {
                if self.outage_ends.is_some() {
                    return Ok(false);
                }
                self.forget_cloud_faults(world);
                let at = SERVICES[self.random.random_range(0..SERVICES.len())];
                let how = manner.how(AWAY, self.millis(500..3_000));
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
            What::ManagementCall(_) | What::ManagementOutage(_) | What::WatchesDrop => {
                let Some(management) = management else { return Ok(false) };
                return Ok(self.management_goes(management, what));
            }
        }
        Ok(true)
    }

    fn management_goes(&mut self, management: &Management, what: What) -> bool {
        let cluster = &management.cluster;
        match what {
            What::ManagementOutage(manner) => {
                if self.management_outage_ends.is_some() {
                    return false;
                }
                self.forget_management_faults(management);
                let how = manner.how(AWAY, self.millis(500..3_000));
                self.management_outage_ends = Some(Instant::now() + self.millis(1_000..8_000));
                cluster.inject(Fault { at: "kubernetes.any".to_owned(), nth: 0, how });
            }
            What::ManagementCall(manner) => {
                let Some(at) = self.call(&MANAGEMENT_CALLS, manner) else { return false };
                if self.management_outage_ends.is_some() || self.management_faults.wait_at(at) {
                    return false;
                }
                let how = manner.how(BAD_DAY, self.millis(500..9_000));
                // helm makes dozens of calls.
                let nth = self.random.random_range(1..=20);
                cluster.inject(Fault { at: at.to_owned(), nth, how });
                self.management_faults.add(what, at, nth, cluster.calls(at));
            }
            _ => cluster.drop_watches(),
        }
        true
    }

    /// Draws a call that may go wrong in this manner.
    fn call(&mut self, calls: &[&'static str], manner: Manner) -> Option<&'static str> {
        let fits: Vec<&'static str> = calls.iter().copied().filter(|at| manner.fits(at)).collect();
        (!fits.is_empty()).then(|| fits[self.random.random_range(0..fits.len())])
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
