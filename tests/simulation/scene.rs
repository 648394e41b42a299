//! What everything in one simulation shares: the cloud, the trace, the weather, what was found. It belongs to the thread.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::{DateTime, TimeDelta, Utc};
use cloud_simulator::{Answered, InProcess};
use model::random::range;
use model::store::Store;

use crate::carrier::Late;

/// Calls of which one kind may go wrong far more often than all others in a seed, so that what comes after it is tried at each of its ends.
const UNLUCKY: [&str; 19] = [
    "keystone.token_issue",
    "keystone.user_list",
    "keystone.user_create",
    "keystone.user_delete",
    "keystone.trust_create",
    "keystone.trust_delete",
    "barbican.secret_create",
    "heat.stack_create",
    "heat.stack_show",
    "heat.stack_list",
    "heat.stack_update",
    "heat.stack_delete",
    "heat.resource_list",
    "heat.output_show",
    "neutron.port_list",
    "octavia.loadbalancer_list",
    "octavia.loadbalancer_delete",
    "neutron.floatingip_list",
    "cinder.volume_list",
];
/// How often such a call goes wrong.
const OFTEN: u32 = 350;

/// How likely things go wrong, out of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// A query or transaction fails before anything is done.
    pub store_fails: u32,
    /// A transaction is stored and its answer is lost.
    pub commit_unknown: u32,
    /// A query takes seconds.
    pub store_slow: u32,
    /// A call to the cloud is refused, lost before or after it was carried out, or answered with an error.
    pub cloud_fails: u32,
    /// The calls to the cloud that have no luck.
    pub unlucky: Option<&'static str>,
    /// A request is sent twice on its way, and answered as the second one is: the cloud has what was asked for, and says that it cannot be.
    pub doubled: u32,
    /// A call takes seconds.
    pub cloud_slow: u32,
    /// What Heat shows of its stacks is what it showed a moment ago.
    pub cloud_lies: u32,
    /// What makes or deletes something is carried out long after its request was lost.
    pub stored_late: u32,
    /// A change of a stack makes members that do not become nodes.
    pub members_fail: u32,
    /// A conductor dies just before, in or just after an effect.
    pub dies: u32,
    /// A conductor stands still just before an effect.
    pub stands: u32,
    /// A ring is lost, doubled, or comes seconds late (and so out of order).
    pub bell: u32,
}

impl Weather {
    /// What a seed brings; one in eight has none of it.
    pub fn draw() -> Self {
        let up_to = |most: u32| if range(0..4) == 0 { 0 } else { range(0..=most) };
        if range(0..8) == 0 {
            return Self::default();
        }
        Self {
            store_fails: up_to(30),
            commit_unknown: up_to(30),
            store_slow: up_to(15),
            cloud_fails: up_to(80),
            unlucky: (range(0..3) == 0).then(|| UNLUCKY[range(0..UNLUCKY.len())]),
            doubled: up_to(60),
            cloud_slow: up_to(80),
            cloud_lies: up_to(150),
            stored_late: up_to(300),
            members_fail: up_to(25),
            dies: up_to(100),
            stands: up_to(60),
            bell: up_to(500),
        }
    }
}

/// What a conductor cannot reach at the moment, or not soon.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cut {
    pub store: bool,
    pub cloud: bool,
    /// Every call to the cloud takes seconds.
    pub is_slow: bool,
}

pub struct Scene {
    pub cloud: InProcess,
    /// The database without any gate.
    pub store: Store,
    pub weather: Weather,
    /// By the conductor's number.
    pub cuts: BTreeMap<usize, Cut>,
    /// Conductors that have just died: nothing they ask for is answered, until the world sees it.
    pub dead: BTreeSet<usize>,
    /// Conductors that stand still from the next moment on.
    pub standing: BTreeSet<usize>,
    /// Requests that the cloud carries out later.
    pub late: Vec<Late>,
    /// What the cloud showed last, and when, by what it was asked.
    pub shown: BTreeMap<String, (DateTime<Utc>, Answered)>,
    /// What must never be.
    pub findings: Vec<String>,
    pub counts: Counts,
    /// How far the clock of each conductor is ahead of the true time.
    pub ahead: BTreeMap<usize, TimeDelta>,
    hash: DefaultHasher,
    prints: bool,
}

/// For the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: u64,
    pub transactions: u64,
    pub faults: u64,
    pub operations: u64,
    pub refused: u64,
    pub crashes: u64,
    pub pauses: u64,
    pub cuts: u64,
    pub slow: u64,
    pub silences: u64,
    pub clocks_set: u64,
    pub members: u64,
}

thread_local! {
    static SCENE: RefCell<Option<Scene>> = const { RefCell::new(None) };
}

/// Sets the scene of this thread.
pub fn set(cloud: InProcess, store: Store, weather: Weather, prints: bool) {
    let scene = Scene {
        cloud,
        store,
        weather,
        cuts: BTreeMap::new(),
        dead: BTreeSet::new(),
        standing: BTreeSet::new(),
        late: Vec::new(),
        shown: BTreeMap::new(),
        findings: Vec::new(),
        counts: Counts::default(),
        ahead: BTreeMap::new(),
        hash: DefaultHasher::new(),
        prints,
    };
    SCENE.set(Some(scene));
}

/// Takes the scene away.
pub fn take() -> Scene {
    SCENE.take().expect("a scene was set")
}

/// Ends never for a conductor that has died.
pub async fn while_alive(conductor: usize) {
    if with(|s| s.dead.contains(&conductor)) {
        std::future::pending::<()>().await;
    }
}

/// Looks at the scene; never across an await.
pub fn with<T>(look: impl FnOnce(&mut Scene) -> T) -> T {
    SCENE.with_borrow_mut(|scene| look(scene.as_mut().expect("a scene is set")))
}

impl Scene {
    /// Writes a line of the trace. Ids that follow from the seed may be in it; nothing from outside may.
    pub fn trace(&mut self, line: &str) {
        let at = model::time::now().timestamp_millis();
        (at, line).hash(&mut self.hash);
        if self.prints {
            println!("{:>9.3} {line}", (at - start().timestamp_millis()) as f64 / 1000.0);
        }
    }

    pub fn found(&mut self, what: String) {
        self.trace(&format!("FOUND {what}"));
        self.findings.push(what);
    }

    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The true time while a conductor runs.
    pub fn true_time(&self, conductor: usize) -> DateTime<Utc> {
        model::time::now() - self.ahead.get(&conductor).copied().unwrap_or_default()
    }

    /// How often a call to the cloud of this name goes wrong.
    pub fn bad_luck(&self, call: &str) -> u32 {
        if self.weather.unlucky == Some(call) { OFTEN } else { self.weather.cloud_fails }
    }

    pub fn cut(&self, conductor: usize) -> Cut {
        self.cuts.get(&conductor).copied().unwrap_or_default()
    }

    /// Whether something that happens so often out of 1000 happens now.
    pub fn happens(&mut self, often: impl Fn(&Weather) -> u32) -> bool {
        self.comes(often(&self.weather))
    }

    /// Whether something happens now that has this chance, out of 1000.
    pub fn comes(&mut self, chance: u32) -> bool {
        let comes = chance > 0 && range(0..1000) < chance;
        self.counts.faults += u64::from(comes);
        comes
    }
}

/// When every simulation begins.
pub fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).expect("a time of this century")
}
