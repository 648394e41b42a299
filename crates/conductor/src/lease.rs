//! The leases of a conductor: one task renews all of them, many in one transaction.
//!
//! A row that somebody has locked, as one who stands still in the middle of a transaction keeps it, is waited for alone, after all others: it
//! costs its own lease at most.
//!
//! A lease counts from before it was asked for. Whoever works under one drops his step before it may have run out, by a clock of his own
//! ([`Held::lost`]): when renewing fails, hangs or has died, nothing goes on under a lease that somebody else may have taken. What is a
//! process of its own is told the same moment ([`Held::end`]), for nobody may be there to drop it.
//!
//! A claim that was superseded or taken over is told so ([`Held::is_stale`]) and not renewed any more, but not cut off at once: the call to
//! the cloud that may be at work ends by itself, at the next guard or with the lease, and until then nobody else may begin.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use futures::future::join_all;
use model::operation::Claim;
use model::store::operation::Renewed;
use model::store::{Conn, Store, operation};
use model::time::{millis, now};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Timing};

/// Claims renewed by one statement; more where there would be more statements than connections.
const CHUNK: usize = 200;
/// So many at most: SQLite takes no condition of a thousand parts.
const MOST: usize = 900;
/// Claims that are waited for alone at the same time, each with a connection: those whose rows somebody has locked.
const ALONE: usize = 8;

/// The leases that this process holds.
pub(crate) struct Leases {
    /// Set when the conductor is to stop.
    stop: CancellationToken,
    /// By their numbers.
    held: Mutex<HashMap<u64, Arc<Lease>>>,
    next: AtomicU64,
}

struct Lease {
    claim: Claim,
    /// The moment before it was last asked for with success.
    renewed: Mutex<Instant>,
    /// Whether the claim was found not to hold any more.
    is_stale: AtomicBool,
    /// Set then, or when the conductor is to stop: who rests waits for one thing in the place of two, and thousands rest.
    no_more_turns: CancellationToken,
}

/// A lease in use; dropping it ends its renewal.
pub(crate) struct Held {
    number: u64,
    lease: Arc<Lease>,
    leases: Arc<Leases>,
}

impl Leases {
    /// None yet, of a conductor that is to stop when this is set.
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, held: Mutex::default(), next: AtomicU64::new(0) }
    }

    /// Renews the lease of this claim from now on; `asked` is the moment before the claim was asked for.
    pub fn hold(self: &Arc<Self>, claim: Claim, asked: Instant) -> Held {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (is_stale, no_more_turns) = (AtomicBool::new(false), self.stop.child_token());
        let lease = Arc::new(Lease { claim, renewed: Mutex::new(asked), is_stale, no_more_turns });
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(number, lease.clone());
        Held { number, lease, leases: self.clone() }
    }

    /// Those that are renewed, also while the conductor stops.
    fn living(&self) -> Vec<Arc<Lease>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut living: Vec<_> = held.values().filter(|lease| !lease.is_stale()).cloned().collect();
        // Always in the same order, so that two statements do not lock the same rows crosswise.
        living.sort_by_key(|lease| (lease.claim.row, lease.claim.generation));
        living
    }
}

impl Held {
    /// What it is for.
    pub fn claim(&self) -> &Claim {
        &self.lease.claim
    }

    /// Set when no further turn begins: the claim was found not to hold any more, or the conductor is to stop.
    pub fn no_more_turns(&self) -> &CancellationToken {
        &self.lease.no_more_turns
    }

    /// Whether the claim was found not to hold any more.
    pub fn is_stale(&self) -> bool {
        self.lease.is_stale()
    }

    /// Tells when the lease may have run out by somebody's clock; later when it has been renewed.
    pub fn end(&self, timing: &Timing) -> impl Fn() -> Instant + Send + Sync + use<> {
        let (lease, length) = (self.lease.clone(), timing.lease.saturating_sub(timing.margin()));
        move || lease.renewed() + length
    }

    /// Ends when [`Held::end`] has come. Looks at the clock each time it is polled, not only when its timer has fired: what is polled after
    /// it stands still first when the whole process has stood still for too long.
    pub fn lost(&self, timing: &Timing) -> impl Future<Output = ()> + use<> {
        let end_now = self.end(timing);
        async move {
            let mut sleep = pin!(tokio::time::sleep_until(end_now()));
            poll_fn(|cx| {
                loop {
                    let end = end_now();
                    if Instant::now() >= end {
                        return Poll::Ready(());
                    }
                    ready!(sleep.as_mut().poll(cx));
                    sleep.as_mut().reset(end);
                }
            })
            .await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leases.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Lease {
    /// No further turn of it begins.
    fn make_stale(&self) {
        // First: whoever is woken asks why.
        self.is_stale.store(true, Ordering::Release);
        self.no_more_turns.cancel();
    }

    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire)
    }

    fn renewed(&self) -> Instant {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews for ever, also while the conductor stops: what is at work then needs its lease until it is handed back.
pub(crate) async fn run(cx: Arc<Context>) {
    // Behind all turns that want a connection a renewal would come too late where the database is slow, and every lease would be lost at once.
    let (store, owner, leases) = (cx.store.aside(ALONE), cx.owner.clone(), cx.leases.clone());
    Keeper { store, owner, timing: cx.settings.timing, leases }.run().await;
}

/// How many of these claims one statement renews. No more statements than connections, as far as can be: those that waited for one would be cut off, and
/// always the same.
fn at_once(claims: usize) -> usize {
    claims.div_ceil(ALONE).clamp(CHUNK, MOST)
}

/// Renews the leases of one conductor.
struct Keeper {
    store: Store,
    owner: String,
    timing: Timing,
    leases: Arc<Leases>,
}

impl Keeper {
    async fn run(&self) {
        let mut next = Instant::now();
        loop {
            tokio::time::sleep_until(next).await;
            let began = Instant::now();
            let is_done = self.round().await;
            // After a failure soon again: the leases run.
            next = began + if is_done { self.timing.heartbeat } else { self.timing.heartbeat / 4 };
        }
    }

    /// How long may be waited for a connection and the answer to one renewal: two thirds of what a lease has left that is renewed when it is due.
    /// A database that is slow answers in that time; where nobody answers, as on a connection whose other end is gone, there is time for
    /// another try.
    fn patience(&self) -> Duration {
        self.timing.lease.saturating_sub(self.timing.heartbeat + self.timing.margin()) * 2 / 3
    }

    /// Renews what has not been renewed for a while; false when some of it was not.
    async fn round(&self) -> bool {
        let mut due = self.leases.living();
        due.retain(|lease| lease.renewed().elapsed() >= self.timing.heartbeat / 2);
        let patience = self.patience();
        let renewals = join_all(due.chunks(at_once(due.len())).map(|chunk| self.renew(chunk, patience))).await;
        let is_answered = renewals.iter().all(Option::is_some);
        let mut locked: Vec<Arc<Lease>> = renewals.into_iter().flatten().flatten().collect();
        // Of many, those whose leases end first; the others may be free at the next round. For half as long, so that those that were renewed
        // before them have a whole try left.
        locked.sort_by_key(|lease| lease.renewed());
        let alone = &locked[..locked.len().min(ALONE)];
        let renewals = join_all(alone.chunks(1).map(|one| self.renew(one, patience / 2))).await;
        is_answered && alone.len() == locked.len() && renewals.iter().all(Option::is_some)
    }

    /// Renews leases in one transaction; those whose rows somebody has locked are as they were. None when nothing is known of any.
    async fn renew(&self, leases: &[Arc<Lease>], patience: Duration) -> Option<Vec<Arc<Lease>>> {
        let asked = Instant::now();
        let until = millis(now()) + self.timing.lease.as_millis() as i64;
        let claims: Vec<&Claim> = leases.iter().map(|lease| &lease.claim).collect();
        let (claims, owner) = (&claims, &self.owner);
        let write = self.store.write(async |conn: &mut Conn| operation::renew(conn, owner, claims, until).await);
        match tokio::time::timeout(patience, write).await {
            Ok(Ok(Renewed { gone, locked })) => {
                let mut left = Vec::new();
                for lease in leases {
                    if gone.contains(&lease.claim) {
                        lease.make_stale();
                    } else if locked.contains(&lease.claim) {
                        left.push(lease.clone());
                    } else {
                        *lease.renewed.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                    }
                }
                Some(left)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, leases = leases.len(), "failed to renew leases");
                None
            }
            Err(_) => {
                tracing::warn!(leases = leases.len(), "no answer in time while renewing leases");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::slice;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use model::id::{ClusterId, OperationId, ProjectId, UserId};
    use model::operation::{Claimed, NewOperation, OperationKind, Payload};
    use model::simulation::Simulation;
    use model::store::{DatabaseUrl, Gate, StoreError, StoreOptions, migrate};
    use model::time::from_millis;
    use tokio::runtime::Builder;

    use super::*;

    const OWNER: &str = "one";

    /// How long the database takes for its answers, in seconds, and whether a lease is kept then.
    const CASES: [(&[f64], bool); 7] = [
        (&[0.1], true),
        (&[1.2], true),
        (&[2.5], true),
        (&[1000.0, 0.5], true),
        (&[0.1, 1000.0, 1.2, 0.1], true),
        (&[1000.0, 1000.0, 0.1], false),
        (&[4.0], false),
    ];

    /// A way to a database that takes so long for its first answers, in seconds, and the last of these times for all others.
    struct Slow(Mutex<slice::Iter<'static, f64>>);

    impl Gate for Slow {
        fn enter(&self) -> BoxFuture<'_, Result<(), StoreError>> {
            std::future::ready(Ok(())).boxed()
        }

        fn leave(&self) -> BoxFuture<'_, Result<(), StoreError>> {
            let mut times = self.0.lock().expect("nobody panics with it");
            let seconds = match times.as_slice() {
                [last] => *last,
                _ => *times.next().expect("there is another"),
            };
            async move {
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                Ok(())
            }
            .boxed()
        }
    }

    /// Whether a lease is still held after a minute, with the usual times.
    async fn keeps(database: &Path, simulation: &Simulation, answers: &'static [f64]) -> bool {
        simulation.go(from_millis(1_800_000_000_000));
        let store = Store::open(StoreOptions::new(DatabaseUrl::Sqlite(database.to_owned()))).expect("a store");
        let timing = Timing::default();
        let new = NewOperation {
            id: OperationId::generate(),
            kind: OperationKind::ClusterCreate,
            cluster: ClusterId::generate(),
            project: ProjectId("p".into()),
            user: UserId("u".into()),
            request_id: None,
            deadline: Duration::from_secs(3600),
            payload: Payload::default(),
            sealed_token: None,
        };
        let (new, asked, at) = (&new, Instant::now(), millis(now()));
        let lease = at + timing.lease.as_millis() as i64;
        let claimed = store.write(async |conn: &mut Conn| {
            operation::insert(conn, new).await?;
            operation::claim(conn, &new.id, OWNER, at, lease).await
        });
        let Claimed::Ours(_, claim) = claimed.await.expect("stored") else { panic!("it can be claimed") };
        let leases = Arc::new(Leases::new(CancellationToken::new()));
        let held = leases.hold(claim, asked);
        let store = store.behind(Arc::new(Slow(Mutex::new(answers.iter()))));
        let keeper = Keeper { store, owner: OWNER.into(), timing, leases };
        tokio::select! {
            () = keeper.run() => unreachable!("it renews for ever"),
            () = held.lost(&timing) => false,
            () = tokio::time::sleep(Duration::from_secs(60)) => true,
        }
    }

    #[test]
    fn no_renewal_of_thousands_waits_for_a_connection() {
        for claims in [1, CHUNK, ALONE * CHUNK + 1, 5000, ALONE * MOST] {
            assert!(claims.div_ceil(at_once(claims)) <= ALONE, "{claims}");
        }
        assert_eq!((at_once(1), at_once(100_000)), (CHUNK, MOST));
    }

    #[test]
    fn a_lease_is_kept_while_the_database_answers_well_within_it_and_past_a_try_that_nobody_answers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("magnum.sqlite");
        let empty = Store::open(StoreOptions::new(DatabaseUrl::Sqlite(path.clone()))).expect("a store");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.block_on(migrate::upgrade(&empty)).expect("the schema is made");
        // From here on time passes only where somebody waits.
        let simulation = Simulation::begin(1, from_millis(1_800_000_000_000));
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        for (answers, is_kept) in CASES {
            assert_eq!(runtime.block_on(keeps(&path, &simulation, answers)), is_kept, "{answers:?}");
        }
    }
}
