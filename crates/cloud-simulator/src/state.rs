//! All that the simulated cloud knows, behind one lock, and the helpers every service shares.
//!
//! One lock and no background thread: a request sees the cloud at one moment, and a test that looks twice sees the same order.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::TimeDelta;
use uuid::Uuid;

use crate::{
    barbican, cinder, clock, clock::Moment, fault::Faults, gate::Gate, glance, heat, http::Call, keystone, neutron, nova, octavia,
};

/// To look at so many stacks takes longer than nearly every request for which it would be done.
const MANY_STACKS: usize = 2_000;

/// The time between two looks at so many stacks: within it what moves by the clock stands still.
const APART: TimeDelta = TimeDelta::milliseconds(200);

/// What the HTTP side and the test side share.
pub(crate) struct Shared {
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    world: Mutex<World>,
    /// Where calls are held.
    pub(crate) gate: Gate,
}

/// The whole simulated cloud.
pub(crate) struct World {
    pub(crate) faults: Faults,
    pub(crate) keystone: keystone::Store,
    pub(crate) heat: heat::Store,
    pub(crate) nova: nova::Store,
    pub(crate) neutron: neutron::Store,
    pub(crate) glance: glance::Store,
    pub(crate) octavia: octavia::Store,
    pub(crate) cinder: cinder::Store,
    pub(crate) barbican: barbican::Store,
    /// How much of a resource, by its service's name for it, a project may have, by its id; of what is not here any number.
    pub(crate) quotas: HashMap<(String, String), u64>,
    pub(crate) container_infra_url: Option<String>,
    /// The moment that everything was brought up to last.
    advanced: Moment,
}

impl Shared {
    pub(crate) fn new(base: String, world: World) -> Self {
        Self { base, world: Mutex::new(world), gate: Gate::default() }
    }

    /// The cloud. A handler that panicked is a failed test already; the others may go on.
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    pub(crate) fn new(stack_duration: Duration, delete_duration: Duration, container_infra_url: Option<String>) -> Self {
        let keystone = keystone::Store::seeded();
        let neutron = neutron::Store::seeded(&keystone);
        Self {
            faults: Faults::default(),
            heat: heat::Store::new(stack_duration, delete_duration),
            nova: nova::Store::seeded(),
            neutron,
            glance: glance::Store::seeded(),
            octavia: octavia::Store::new(clock::delta(delete_duration)),
            cinder: cinder::Store::default(),
            barbican: barbican::Store::default(),
            quotas: HashMap::new(),
            container_infra_url,
            keystone,
            advanced: Moment::MIN_UTC,
        }
    }

    /// How much of a resource a project may have; -1 is any number.
    pub(crate) fn quota(&self, project: &str, resource: &str) -> i64 {
        let most = self.quotas.get(&(project.to_owned(), resource.to_owned()));
        most.map_or(-1, |most| i64::try_from(*most).unwrap_or(i64::MAX))
    }

    /// Brings everything that takes time up to this moment, or nearly so where there are thousands of stacks.
    pub(crate) fn advance(&mut self, now: Moment) {
        if self.heat.stacks.len() >= MANY_STACKS && now - self.advanced < APART {
            return;
        }
        self.advanced = now;
        let ports = self.octavia.advance(now);
        self.neutron.release(&ports);
        for trust in self.heat.advance(now, &self.octavia.occupied()) {
            self.keystone.delete_trust(&trust);
        }
    }
}

thread_local! {
    /// Seed and count of the ids on a thread that has a cloud in the same process.
    static IDS: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Ids on this thread follow from a seed from now on, or are random again.
pub(crate) fn seed_ids(seed: Option<u64>) {
    IDS.set(seed.map(|seed| (seed, 0)));
}

fn new_id() -> Uuid {
    let Some((seed, count)) = IDS.get() else { return Uuid::new_v4() };
    IDS.set(Some((seed, count + 1)));
    seeded("id", &format!("{seed}/{count}"))
}

/// A new id as Keystone writes it.
pub(crate) fn hex_id() -> String {
    new_id().simple().to_string()
}

/// A new id as the other services write it.
pub(crate) fn dashed_id() -> String {
    new_id().to_string()
}

/// The id of something seeded: the same in every run, so that rows kept by the product stay true over a restart.
pub(crate) fn seeded(kind: &str, name: &str) -> Uuid {
    // FNV-1a with 128 bits, stirred once more so that like names get unlike ids; spread is all that is wanted.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in kind.bytes().chain(*b":").chain(name.bytes()) {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash ^= hash >> 64;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    hash ^= hash >> 67;
    uuid::Builder::from_random_bytes(hash.to_be_bytes()).into_uuid()
}

/// `limit` and `marker`, as every list takes them.
pub(crate) fn page<T>(call: &Call, items: Vec<T>, id: impl Fn(&T) -> &str) -> Vec<T> {
    let after = call.query("marker").and_then(|marker| items.iter().position(|item| id(item) == marker)).map_or(0, |at| at + 1);
    let limit = call.query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    items.into_iter().skip(after).take(limit).collect()
}
