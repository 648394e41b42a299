//! What is counted about operations.
//!
//! Counters are of this process; what stands in the table is the same for all conductors and is read when somebody asks, at most every
//! [`TABLE_AGE`], with a few statements. Labels are kinds, states and codes of `model`: bounded, no ids.

mod credentials;
mod delay;
mod management;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::certificate::Keys;
use model::operation::{Claim, Operation, OperationKind, OutcomeCode};
use model::store::{Conn, Store, operation};
use model::time::{millis, now};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::Mutex;
use tokio::time::Instant;

use self::credentials::OfCredentials;
use self::delay::OfDelays;
use self::management::OfManagement;
use crate::driver::capi_helm::Capi;

/// For how long what was read of the table is shown without reading again.
pub const TABLE_AGE: Duration = Duration::from_secs(5);
/// How long a reading of the table may take.
const READ: Duration = Duration::from_secs(3);

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Standing {
    state: String,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Health {
    status: &'static str,
}

/// How an operation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// The doorbell rang.
    Bell,
    /// The scan of the table.
    Scan,
}

/// The numbers of a conductor. Clones count into the same ones; those made by `default` are shown nowhere.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    claimed: Family<Kind, Counter>,
    taken_over: Family<Kind, Counter>,
    ended: Family<Ended, Counter>,
    retried: Family<Kind, Counter>,
    delays: OfDelays,
    held: Gauge,
    max_held: Gauge,
    turns: Gauge,
    max_turns: Gauge,
    unfinished: Family<Standing, Gauge>,
    oldest: Family<Standing, Seconds>,
    lease_left: Family<Standing, Seconds>,
    table_failures: Counter,
    health: Family<Health, Counter>,
    notifications_sent: Counter,
    notifications_dropped: Counter,
    notification_failures: Counter,
    sweep_findings: Family<Kind, Gauge>,
    sweep_removed: Family<Kind, Counter>,
    sweep_failures: Counter,
    keys_ready: Gauge,
    keys: Arc<OnceLock<Arc<Keys>>>,
    credentials: OfCredentials,
    management: OfManagement,
    read: Arc<Mutex<Option<Instant>>>,
}

impl Metrics {
    /// Numbers that the registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let m = &metrics;
        let registry = registry.sub_registry_with_prefix("magnum_conductor");
        registry.register("operations_claimed", "Operations claimed, each attempt counted", m.claimed.clone());
        let help = "Operations claimed after the lease of another conductor had run out";
        registry.register("operations_taken_over", help, m.taken_over.clone());
        let help = "Operations that this conductor ended, by outcome: succeeded, or the code of the failure";
        registry.register("operations_ended", help, m.ended.clone());
        registry.register("steps_retried", "Turns that failed and were put off to be tried again", m.retried.clone());
        m.delays.register_all(registry);
        registry.register(
            "operations_held",
            "Operations that are this conductor's, those that wait for the cloud included",
            m.held.clone(),
        );
        registry.register("operations_held_max", "Operations that it has at the same time at most", m.max_held.clone());
        registry.register("turns_at_work", "Operations that it works on at this moment", m.turns.clone());
        registry.register("turns_at_work_max", "Operations that it works on at the same time at most", m.max_turns.clone());
        let help = "Unfinished operations in the table, of all conductors, by state and kind";
        registry.register("operations_unfinished", help, m.unfinished.clone());
        let help = "Age of the oldest unfinished operation in the table, by state and kind";
        registry.register_with_unit("operations_oldest_age", help, Unit::Seconds, m.oldest.clone());
        let help = "Time left to the lease that ends first, by state and kind; negative: past due, nobody has taken over yet";
        registry.register_with_unit("operations_lease_left_min", help, Unit::Seconds, m.lease_left.clone());
        registry.register("table_readings_failed", "Readings of the table that failed", m.table_failures.clone());
        registry.register("health_looks", "Looks at the health of clusters, by what was seen", m.health.clone());
        registry.register("notifications_sent", "Notifications that the broker has confirmed", m.notifications_sent.clone());
        let help = "Notifications that waited for the broker for too long and were dropped";
        registry.register("notifications_dropped", help, m.notifications_dropped.clone());
        let help = "Attempts to send notifications that failed; what was to be sent waits";
        registry.register("notification_attempts_failed", help, m.notification_failures.clone());
        let help =
            "Things that the last sweep of this conductor found in the cloud without their cluster, by kind; none where another sweeps";
        registry.register("sweep_findings", help, m.sweep_findings.clone());
        let help = "Things that sweeps removed because the inventory knew them and their cluster was gone, by kind";
        registry.register("sweep_removed", help, m.sweep_removed.clone());
        registry.register("sweeps_failed", "Sweeps that could not look at everything", m.sweep_failures.clone());
        let help = "Private keys of certificates that are ready before anybody asks for them";
        registry.register("certificate_keys_ready", help, m.keys_ready.clone());
        m.credentials.register_all(registry);
        m.management.register_all(registry);
        metrics
    }

    /// The credentials of a cluster were looked at.
    pub(crate) fn credentials_looked(&self, seen: &'static str) {
        self.credentials.looked(seen);
    }

    /// From now on it is shown how many keys are ready.
    pub(crate) fn show_keys(&self, keys: Arc<Keys>) {
        self.keys.get_or_init(|| keys);
    }

    /// From now on the management clusters are shown.
    pub(crate) fn watch_over(&self, capi: Arc<Capi>) {
        self.management.watch_over(capi);
    }

    /// The health of a cluster was looked at.
    pub(crate) fn health_looked(&self, status: &'static str) {
        self.health.get_or_create(&Health { status }).inc();
    }

    /// So many notifications were sent.
    pub(crate) fn notifications_sent(&self, count: usize) {
        self.notifications_sent.inc_by(count as u64);
    }

    /// So many notifications were given up.
    pub(crate) fn notifications_dropped(&self, count: usize) {
        self.notifications_dropped.inc_by(count as u64);
    }

    /// An attempt to send notifications failed.
    pub(crate) fn notification_failed(&self) {
        self.notification_failures.inc();
    }

    /// The last sweep, if it was one of ours, found so many things, by kind.
    pub(crate) fn swept(&self, findings: &BTreeMap<&'static str, i64>) {
        self.sweep_findings.clear();
        for (kind, count) in findings {
            self.sweep_findings.get_or_create(&Kind { kind }).set(*count);
        }
    }

    /// A sweep removed something.
    pub(crate) fn sweep_removed(&self, kind: &'static str) {
        self.sweep_removed.get_or_create(&Kind { kind }).inc();
    }

    /// A sweep could not look at everything.
    pub(crate) fn sweep_failed(&self) {
        self.sweep_failures.inc();
    }

    /// An operation is ours.
    pub(crate) fn claimed(&self, operation: &Operation, claim: &Claim, by: FoundBy) {
        let kind = Kind { kind: word(operation) };
        self.claimed.get_or_create(&kind).inc();
        if claim.taken_over {
            self.taken_over.get_or_create(&kind).inc();
        }
        if operation.attempt == 1 {
            self.delays.claimed(operation, by);
        }
    }

    /// An operation of ours ended well (no code) or badly.
    pub(crate) fn ended(&self, operation: &Operation, code: Option<OutcomeCode>) {
        let outcome = code.map_or("succeeded", OutcomeCode::as_str);
        self.ended.get_or_create(&Ended { kind: word(operation), outcome }).inc();
    }

    /// A turn failed and will be tried again.
    pub(crate) fn retried(&self, operation: &Operation) {
        self.retried.get_or_create(&Kind { kind: word(operation) }).inc();
    }

    /// At most so many operations are ours, and so many of them at work, at the same time.
    pub(crate) fn at_most(&self, held: usize, turns: usize) {
        self.max_held.set(i64::try_from(held).unwrap_or(i64::MAX));
        self.max_turns.set(i64::try_from(turns).unwrap_or(i64::MAX));
    }

    /// An operation is ours until what is returned is dropped.
    pub(crate) fn hold(&self) -> Counted {
        Counted::new(&self.held)
    }

    /// A turn is at work until what is returned is dropped.
    pub(crate) fn begin_turn(&self) -> Counted {
        Counted::new(&self.turns)
    }

    /// Reads what is shown as it is now, and the table again if what was read of it is too old. While the table cannot be read nothing is shown of it: an old number would be
    /// taken for the present.
    pub async fn refresh(&self, store: &Store) {
        if let Some(keys) = self.keys.get() {
            self.keys_ready.set(i64::try_from(keys.ready()).unwrap_or(i64::MAX));
        }
        let mut read = self.read.lock().await;
        if read.is_some_and(|at| at.elapsed() < TABLE_AGE) {
            return;
        }
        let rows = tokio::time::timeout(READ, store.read(async |conn: &mut Conn| operation::unfinished_by_kind(conn).await)).await;
        let are_placed = tokio::time::timeout(READ, self.management.refresh(store)).await;
        // At once: who asks has only so much patience.
        let (are_summed, are_timed) = futures::join!(
            tokio::time::timeout(READ, self.credentials.refresh(store)),
            tokio::time::timeout(READ, self.delays.refresh(store)),
        );
        *read = Some(Instant::now());
        if !matches!(are_timed, Ok(Ok(()))) {
            self.table_failures.inc();
        }
        if !matches!(are_summed, Ok(Ok(()))) {
            self.credentials.are_unknown();
            self.table_failures.inc();
        }
        if !matches!(are_placed, Ok(Ok(()))) {
            self.management.placed_is_unknown();
            self.table_failures.inc();
        }
        self.unfinished.clear();
        self.oldest.clear();
        self.lease_left.clear();
        let Ok(Ok(rows)) = rows else {
            self.table_failures.inc();
            return;
        };
        let at = millis(now());
        let seconds = |ms: i64| ms as f64 / 1000.0;
        for row in rows {
            let standing = Standing { state: row.state, kind: row.kind };
            self.unfinished.get_or_create(&standing).set(row.count);
            if let Some(created) = row.oldest_created_ms {
                self.oldest.get_or_create(&standing).set(seconds(at - created));
            }
            if let Some(lease) = row.first_lease_ms {
                self.lease_left.get_or_create(&standing).set(seconds(lease - at));
            }
        }
    }
}

/// One of what a gauge counts, until it is dropped.
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn word(operation: &Operation) -> &'static str {
    operation.kind().map_or("unknown", OperationKind::as_str)
}
