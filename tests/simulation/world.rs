//! One simulation from beginning to end: three conductors, a cloud, users, and everything that goes wrong, in the order that the seed says.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use cloud_simulator::{InProcess, Options as CloudOptions};
use futures::FutureExt;
use model::id::{ClusterId, OperationId, ProjectId, UserId};
use model::operation::{Operation, StepLimits};
use model::planted::{self, Bug};
use model::queue::{Doorbell, Listener, memory};
use model::quota::Resource;
use model::random::range;
use model::seal::Sealer;
use model::simulation::Simulation;
use model::store::{DatabaseUrl, Store, StoreOptions, migrate};
use tests::agreement;
use tokio::runtime::{Builder, Runtime};

use crate::book::Book;
use crate::clocks::Clock;
use crate::ends::Ends;
use crate::host::{Host, Parts};
use crate::kubernetes::{self, Moment, Thing};
use crate::requests::{self, Request};
use crate::rows::Rows;
use crate::scene::{self, Counts, Cut, Weather};
use crate::trouble::{self, Trouble, What};
use crate::workload::{Act, Asked, User};
use crate::{check, mishaps, older, promises, releases, steps};

/// Conductors.
const CONDUCTORS: usize = 3;
/// Once nothing goes wrong any more, everything ends within this time: a rotation of authorities replaces every node of the cluster in three
/// phases, a few at a time.
const PATIENCE: Duration = Duration::from_secs(1500);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub seed: u64,
    /// Prints every line of the trace.
    pub prints: bool,
    pub bug: Option<Bug>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of all that happened, and when.
    pub hash: u64,
    pub findings: Vec<String>,
    pub counts: Counts,
    pub ends: Ends,
    pub lasted: Duration,
}

pub struct World {
    simulation: Simulation,
    /// For what is asked from outside.
    pub runtime: Runtime,
    now: Duration,
    hosts: Vec<Option<Host>>,
    lives: Vec<u32>,
    /// Of each conductor, and of the API.
    clocks: Vec<Clock>,
    pub parts: Parts,
    pub user: User,
    /// What was accepted.
    pub book: Book,
    bell: Listener,
    /// Rings on their way.
    rings: Vec<(Duration, OperationId)>,
    /// Until then no ring reaches anybody.
    silent_until: Duration,
    pub clusters: Vec<ClusterId>,
    /// What Kubernetes made.
    pub things: Vec<Thing>,
    /// What has become of them.
    noted: Ends,
    /// All that were accepted, in order.
    pub operations: Vec<OperationId>,
    /// Conductors that are down, and until when.
    down: Vec<(Duration, usize)>,
    mended: Vec<(Duration, usize)>,
    _folder: tempfile::TempDir,
}

/// Runs one seed.
pub fn run(options: Options) -> Report {
    planted::plant(options.bug);
    let database = empty_database();
    let mut world = World::begin(options, &database);
    world.trouble(options.seed);
    world.calm();
    let (lasted, ends) = (world.now, world.ends());
    planted::plant(None);
    drop(world);
    let scene = scene::take();
    Report { hash: scene.hash(), findings: scene.findings.clone(), counts: scene.counts, ends, lasted }
}

impl World {
    /// Before anybody has asked for anything.
    pub fn begin(options: Options, database: &PathBuf) -> Self {
        let simulation = Simulation::begin(options.seed, scene::start());
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let folder = folder();
        let path = folder.path().join("magnum.sqlite");
        std::fs::copy(database, &path).expect("the database is copied");
        let store = open(path);
        let seconds = |from: u64, to: u64| Duration::from_millis(range(from * 1000..to * 1000));
        let options_of_cloud = CloudOptions { stack_duration: seconds(1, 20), delete_duration: seconds(0, 8), ..CloudOptions::default() };
        let cloud = InProcess::start(options_of_cloud, options.seed, scene::start());
        let auth_url = cloud.auth_url();
        let (user_id, project) = (UserId(cloud.cloud().user_id("demo")), ProjectId(cloud.cloud().project_id("demo")));
        let token = cloud.cloud().token_for("demo", "demo");
        let releases = runtime.block_on(releases::insert(&store, &user_id, &project)).expect("templates");
        let limits = [(Resource::Cluster, range(2..=4)), (Resource::Node, range(10..=24))];
        let book = runtime.block_on(Book::open(&store, project.clone(), limits)).expect("quotas");
        let mut weather = Weather::draw();
        if requests::goes_on_past_failed_members(options.seed) {
            weather.members_fail = mishaps::OFTEN;
        }
        scene::set(cloud, store.clone(), weather, options.prints);
        let sealer = Sealer::new(&"a secret of the service".into());
        let (doorbell, listener) = memory::channel();
        let in_barbican = range(0..4) == 0;
        let step_limits = steps::limits(options.seed);
        let parts = Parts { store, auth_url, sealer: sealer.clone(), doorbell, in_barbican, step_limits, seed: options.seed };
        let clocks: Vec<Clock> = (0..=CONDUCTORS).map(|_| Clock::draw()).collect();
        let mut world = Self {
            simulation,
            runtime,
            now: Duration::ZERO,
            hosts: Vec::new(),
            lives: vec![0; CONDUCTORS],
            clocks,
            parts,
            user: User { id: user_id, project, token, sealer, releases, is_pressed: true },
            book,
            bell: Listener::Memory(listener),
            rings: Vec::new(),
            silent_until: Duration::ZERO,
            clusters: Vec::new(),
            things: Vec::new(),
            noted: Ends::default(),
            operations: Vec::new(),
            down: Vec::new(),
            mended: Vec::new(),
            _folder: folder,
        };
        for number in 0..CONDUCTORS {
            world.hosts.push(None);
            world.start(number);
        }
        world
    }

    fn start(&mut self, number: usize) {
        self.lives[number] += 1;
        self.hosts[number] = Some(Host::start(number, self.lives[number], &self.parts, self.now));
    }

    /// Users ask and things go wrong.
    fn trouble(&mut self, seed: u64) {
        let (requests, clusters) = requests::draw(seed);
        self.clusters = (0..clusters).map(|_| ClusterId::generate()).collect();
        let last = requests.last().map_or(Duration::ZERO, |r| r.at);
        let end = last + Duration::from_millis(range(1_000..40_000));
        let mut troubles: VecDeque<Trouble> = trouble::draw(end, CONDUCTORS).into();
        let mut requests: VecDeque<Request> = requests.into();
        let mut moments: VecDeque<Moment> = kubernetes::draw(end, clusters).into();
        if range(0..2) == 0 {
            self.things = kubernetes::of_a_stranger(&scene::with(|s| s.cloud.cloud()), &self.user.project);
        }
        while self.now < end {
            while let Some(request) = requests.pop_front_if(|r| r.at <= self.now) {
                self.ask(request.cluster, request.act);
            }
            while let Some(moment) = moments.pop_front_if(|m| m.at <= self.now) {
                self.act_inside(moment.cluster);
            }
            while let Some(trouble) = troubles.pop_front_if(|t| t.at <= self.now) {
                self.strike(&trouble);
            }
            self.step();
        }
    }

    /// Nothing goes wrong any more: everything must end, and be as it should be; then everything is deleted, and nothing may be left.
    fn calm(&mut self) {
        scene::with(|s| {
            s.trace("calm");
            s.weather = Weather::default();
            s.cuts.clear();
        });
        self.user.is_pressed = false;
        self.silent_until = Duration::ZERO;
        for host in self.hosts.iter_mut().flatten() {
            host.paused_until = None;
        }
        self.down.iter_mut().for_each(|(at, _)| *at = Duration::ZERO);
        if !self.until_ended() {
            return;
        }
        self.check(false);
        for cluster in 0..self.clusters.len() {
            self.ask(cluster, Act::removal());
        }
        if self.until_ended() {
            self.check(true);
        }
    }

    /// Goes on until everything has ended; says whether it has.
    pub fn until_ended(&mut self) -> bool {
        let end = self.now + PATIENCE;
        let mut next_look = self.now;
        while self.now < end {
            self.step();
            if self.now < next_look {
                continue;
            }
            next_look = self.now + Duration::from_secs(1);
            let late = scene::with(|s| !s.late.is_empty());
            if !late && self.runtime.block_on(check::unfinished(&self.parts.store, &self.operations)).is_empty() {
                return true;
            }
        }
        for line in self.runtime.block_on(check::unfinished(&self.parts.store, &self.operations)) {
            scene::with(|s| s.found(format!("not ended {} s after everything was well: {line}", PATIENCE.as_secs())));
        }
        false
    }

    /// How the operations ended, which steps they took, and what was noted.
    fn ends(&self) -> Ends {
        let rows = self.runtime.block_on(agreement::rows(&self.parts.store, &self.operations)).expect("the store is there");
        let steps = self.runtime.block_on(Ends::of_steps(&self.parts.store, &self.operations)).expect("the store is there");
        let (_, left) = self.by_older(&rows);
        Ends::sum([&Ends::of(&rows), &steps, &self.noted, &left].into_iter())
    }

    /// Finds what is not as it should be, and what is not as it was promised.
    pub fn check(&mut self, is_end: bool) {
        let rows = self.runtime.block_on(agreement::rows(&self.parts.store, &self.operations)).expect("the store is there");
        for row in &rows {
            let (cluster, why) = (&row.cluster_uuid, row.outcome_reason.as_deref().unwrap_or_default());
            scene::with(|s| s.trace(&format!("{} {} of cluster {cluster} is {} {why}", row.kind, row.uuid, row.state)));
        }
        let cloud = scene::with(|s| s.cloud.cloud());
        let inside = kubernetes::broken(&self.parts.store, &cloud, &mut self.things, &mut self.noted, is_end);
        let inside = self.runtime.block_on(inside).expect("the store is there");
        inside.into_iter().for_each(|what| scene::with(|s| s.found(what)));
        let unclear = self.runtime.block_on(agreement::remove_reported(&self.parts.store, &cloud, &self.operations));
        unclear.expect("the store is there").into_iter().for_each(|what| scene::with(|s| s.found(what)));
        let found = self.runtime.block_on(check::all(&self.parts, &self.clusters, &self.operations, is_end));
        let broken = self.runtime.block_on(promises::broken(&self.parts.store, &cloud, &self.book, &self.clusters));
        let outlived = self.outlived(&self.parts.step_limits, steps::UNSEEN_MS);
        let (taken, _) = self.by_older(&rows);
        for what in found.into_iter().chain(broken.expect("the store is there")).chain(outlived).chain(taken) {
            scene::with(|s| s.found(what));
        }
    }

    /// What a conductor of an earlier release took and should not have, and what it left to others, where there is one.
    fn by_older(&self, rows: &[Operation]) -> (Vec<String>, Ends) {
        if !older::is_there(self.parts.seed) {
            return (Vec::new(), Ends::default());
        }
        self.runtime.block_on(older::taken(&self.parts.store, rows)).expect("the store is there")
    }

    /// Steps that have outlived what they may take by so much.
    pub fn outlived(&self, limits: &StepLimits, unseen_ms: i64) -> Vec<String> {
        let store = &self.parts.store;
        let rows = self.runtime.block_on(agreement::rows(store, &self.operations)).expect("the store is there");
        self.runtime.block_on(steps::broken(store, &rows, limits, unseen_ms)).expect("the store is there")
    }

    /// A user asks. Nothing else happens meanwhile, so that of a refused request nothing at all may be seen afterwards.
    pub fn ask(&mut self, cluster: usize, act: Act) {
        let id = self.clusters[cluster].clone();
        self.user.token = scene::with(|s| s.cloud.cloud().token_for("demo", "demo"));
        let before = self.rows(&id);
        // What is accepted bears the time of the API's clock.
        self.simulation.stand(self.true_time() + self.clocks[CONDUCTORS].ahead());
        let asked = self.runtime.block_on(self.user.ask(&self.parts.store, &id, act));
        self.simulation.stand(self.true_time());
        let (ring, line) = match asked {
            Ok(Asked::Nothing) => return,
            Ok(Asked::New(entry, at_work)) => {
                let operation = entry.operation.clone();
                self.operations.push(operation.clone());
                self.book.note(*entry);
                scene::with(|s| s.counts.operations += 1);
                let line = format!("{act:?} of cluster {cluster} accepted as {operation}");
                (Some(at_work), line)
            }
            Ok(Asked::Known(operation) | Asked::Ring(operation)) if !self.operations.contains(&operation) => {
                scene::with(|s| s.found(format!("{act:?} of cluster {id} came to {operation}, which nobody asked for")));
                return;
            }
            Ok(Asked::Known(operation)) => {
                // What it was left to must be to its end: nobody else will do it.
                let rows = self.runtime.block_on(agreement::rows(&self.parts.store, std::slice::from_ref(&operation)));
                let is_to_be_done = |row: &Operation| row.finished_ms.is_none() && row.cancel_ms.is_none();
                if !rows.expect("the store is there").iter().all(is_to_be_done) {
                    scene::with(|s| s.found(format!("{act:?} of cluster {id} was left to {operation}, which ends without doing it")));
                }
                (Some(operation.clone()), format!("{act:?} of cluster {cluster} accepted, {operation} does it"))
            }
            Ok(Asked::Ring(operation)) => {
                let line = format!("{act:?} of cluster {cluster} accepted, for {operation}");
                (Some(operation), line)
            }
            Err(error) => {
                if self.rows(&id) != before {
                    scene::with(|s| s.found(format!("{act:?} of cluster {id} was refused ({error}) and has changed something")));
                }
                scene::with(|s| s.counts.refused += 1);
                (None, format!("{act:?} of cluster {cluster} refused: {error}"))
            }
        };
        scene::with(|s| s.trace(&line));
        if let Some(operation) = ring {
            Doorbell::Memory(self.parts.doorbell.clone()).ring(operation);
        }
    }

    /// Kubernetes of a cluster makes something or gives it up, where it runs.
    pub fn act_inside(&mut self, cluster: usize) {
        let rows = self.runtime.block_on(Rows::read(&self.parts.store, &self.clusters[cluster])).expect("the store is there");
        let cloud = scene::with(|s| s.cloud.cloud());
        if let Some(line) = rows.cluster.and_then(|row| kubernetes::act(&cloud, &row, &mut self.things)) {
            scene::with(|s| s.trace(&line));
        }
    }

    fn true_time(&self) -> DateTime<Utc> {
        scene::start() + TimeDelta::from_std(self.now).expect("short")
    }

    /// All that the store says of a cluster.
    fn rows(&self, id: &ClusterId) -> String {
        self.runtime.block_on(Rows::read(&self.parts.store, id)).expect("the store is there").as_text()
    }

    fn strike(&mut self, trouble: &Trouble) {
        let number = trouble.conductor;
        let until = self.now + trouble.lasts;
        let Some(host) = &mut self.hosts[number] else { return };
        scene::with(|s| {
            s.trace(&format!("c{number} {:?} for {:?}", trouble.what, trouble.lasts));
            match trouble.what {
                What::Crash | What::Stop => s.counts.crashes += 1,
                What::Pause => s.counts.pauses += 1,
                What::CutStore | What::CutCloud => s.counts.cuts += 1,
                What::SlowCloud => s.counts.slow += 1,
                What::Silence => s.counts.silences += 1,
                What::SetClock => s.counts.clocks_set += 1,
            }
        });
        match trouble.what {
            What::Crash => {
                self.hosts[number] = None;
                self.down.push((until, number));
            }
            What::Stop => {
                host.stop.cancel();
                self.down.push((until, number));
            }
            What::Pause => host.pause(until),
            What::Silence => self.silent_until = self.silent_until.max(until),
            What::SetClock => self.clocks[number].set(),
            What::CutStore | What::CutCloud | What::SlowCloud => {
                let is = |what: What| trouble.what == what;
                let cut = Cut { store: is(What::CutStore), cloud: is(What::CutCloud), is_slow: is(What::SlowCloud) };
                scene::with(|s| s.cuts.insert(number, cut));
                self.mended.push((until, number));
            }
        }
    }

    /// A little time passes, for one conductor after the other.
    fn step(&mut self) {
        let most = if range(0..4) == 0 { 15 } else { 150 };
        let passed = Duration::from_millis(range(1..=most));
        self.now += passed;
        self.clocks.iter_mut().for_each(|clock| clock.go(passed));
        let (now, wall) = (self.now, self.true_time());
        self.simulation.stand(wall);
        for (_, number) in self.down.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.start(number);
        }
        for (_, number) in self.mended.extract_if(.., |(at, _)| *at <= now) {
            scene::with(|s| s.cuts.remove(&number));
        }
        let late = scene::with(|s| s.late.extract_if(.., |l| l.at <= wall).collect::<Vec<_>>());
        for late in late {
            let answered = late.request.perform(wall);
            scene::with(|s| s.trace(&format!("{} is carried out at last: {}", late.request.name, answered.status)));
        }
        scene::with(|s| s.cloud.set_clock(wall));
        self.carry_rings();
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, range(0..=i));
        }
        for number in order {
            if let Some(host) = &mut self.hosts[number]
                && host.paused_until.is_none_or(|until| until <= now)
            {
                host.paused_until = None;
                host.set_clock(self.clocks[number].ahead());
                host.run_until(&self.simulation, now);
                self.see_to(number);
            }
        }
        self.simulation.stand(wall);
    }

    /// A conductor that died of an effect is started again, and one that is to stand still does.
    fn see_to(&mut self, number: usize) {
        let lasts = Duration::from_millis(range(1..30_000));
        let (is_dead, stands) = scene::with(|s| (s.dead.remove(&number), s.standing.remove(&number)));
        if is_dead {
            scene::with(|s| s.counts.crashes += 1);
            self.hosts[number] = None;
            self.down.push((self.now + lasts, number));
        } else if let (true, Some(host)) = (stands, &mut self.hosts[number]) {
            scene::with(|s| s.counts.pauses += 1);
            host.pause(self.now + lasts);
        }
    }

    /// Every ring goes to one conductor, unless something happens to it on the way.
    fn carry_rings(&mut self) {
        if self.now < self.silent_until {
            while self.bell.next().now_or_never().is_some() {}
            self.rings.clear();
            return;
        }
        while let Some(ring) = self.bell.next().now_or_never() {
            let trouble = scene::with(|s| if s.happens(|w| w.bell) { range(1..4) } else { 0 });
            let soon = self.now + Duration::from_millis(range(0..20));
            let later = self.now + Duration::from_millis(range(100..10_000));
            match trouble {
                0 => self.rings.push((soon, ring.operation)),
                1 => {}
                2 => self.rings.push((later, ring.operation)),
                _ => self.rings.extend([(soon, ring.operation.clone()), (later, ring.operation)]),
            }
        }
        let now = self.now;
        for (_, operation) in self.rings.extract_if(.., |(at, _)| *at <= now) {
            let listening: Vec<&Host> = self.hosts.iter().flatten().collect();
            if let Some(host) = (!listening.is_empty()).then(|| listening[range(0..listening.len())]) {
                Doorbell::Memory(host.bell.clone()).ring(operation);
            }
        }
    }
}

/// A folder in memory where the machine has one: nothing of a simulation has to last.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder")
}

fn open(path: PathBuf) -> Store {
    Store::open(StoreOptions { is_thrown_away: true, ..StoreOptions::new(DatabaseUrl::Sqlite(path)) }).expect("a store")
}

/// An empty database with the schema, made once for all simulations of the process.
pub fn empty_database() -> PathBuf {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let make = || {
        let folder = folder();
        let path = folder.path().join("empty.sqlite");
        let store = open(path.clone());
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.block_on(migrate::upgrade(&store)).expect("the schema is made");
        (folder, path)
    };
    MADE.get_or_init(make).1.clone()
}
