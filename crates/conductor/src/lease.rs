//! The leases of a conductor: one task renews all of them, many in one transaction.
//!
//! A row that somebody has locked, as one who stands still in the middle of a transaction keeps it, is waited for alone, after all others: it
//! costs its own lease at most.
//!
//! A lease counts from before it was asked for. Whoever works under one drops his step before it may have run out, by a clock of his own
//! ([`Held::lost`]): when renewing fails, hangs or has died, nothing goes on under a lease that somebody else may have taken. What is a
//! process of its own is told the same moment ([`Held::end`]), for nobody may be there to drop it.
//!
//! A claim that was superseded or taken over is told so ([`Held::stale`]) and not renewed any more, but not cut off at once: the call to
//! the cloud that may be at work ends by itself, at the next guard or with the lease, and until then nobody else may begin.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use futures::future::join_all;
use model::operation::Claim;
use model::store::operation::Renewed;
use model::store::{Conn, operation};
use model::time::{millis, now};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Timing};

/// Claims renewed at once.
const CHUNK: usize = 200;
/// Claims that are waited for alone at the same time, each with a connection: those whose rows somebody has locked.
const ALONE: usize = 8;

/// The leases that this process holds.
#[derive(Default)]
pub(crate) struct Leases {
    /// By their numbers.
    held: Mutex<HashMap<u64, Arc<Lease>>>,
    next: AtomicU64,
}

struct Lease {
    claim: Claim,
    /// The moment before it was last asked for with success.
    renewed: Mutex<Instant>,
    stale: CancellationToken,
}

/// A lease in use; dropping it ends its renewal.
pub(crate) struct Held {
    number: u64,
    lease: Arc<Lease>,
    leases: Arc<Leases>,
}

impl Leases {
    /// Renews the lease of this claim from now on; `asked` is the moment before the claim was asked for.
    pub fn hold(self: &Arc<Self>, claim: Claim, asked: Instant) -> Held {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let lease = Arc::new(Lease { claim, renewed: Mutex::new(asked), stale: CancellationToken::new() });
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(number, lease.clone());
        Held { number, lease, leases: self.clone() }
    }

    fn living(&self) -> Vec<Arc<Lease>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut living: Vec<_> = held.values().filter(|lease| !lease.stale.is_cancelled()).cloned().collect();
        // Always in the same order, so that two statements do not lock the same rows crosswise.
        living.sort_by(|a, b| a.claim.operation.as_str().cmp(b.claim.operation.as_str()));
        living
    }
}

impl Held {
    /// Set when the claim was found not to hold any more: no further turn begins.
    pub fn stale(&self) -> &CancellationToken {
        &self.lease.stale
    }

    /// Tells when the lease may have run out by somebody's clock; later when it has been renewed.
    pub fn end(&self, timing: &Timing) -> impl Fn() -> Instant + Send + Sync + use<> {
        let (lease, length) = (self.lease.clone(), timing.lease.saturating_sub(timing.margin()));
        move || lease.renewed() + length
    }

    /// Ends when [`Held::end`] has come. Looks at the clock each time it is polled, not only when its timer has fired: what is polled after
    /// it stands still first when the whole process has stood still for too long.
    pub async fn lost(&self, timing: &Timing) {
        let end_now = self.end(timing);
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

impl Drop for Held {
    fn drop(&mut self) {
        self.leases.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Lease {
    fn renewed(&self) -> Instant {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews for ever, also while the conductor stops: what is at work then needs its lease until it is handed back.
pub(crate) async fn run(cx: Arc<Context>) {
    let timing = cx.settings.timing;
    let mut next = Instant::now();
    loop {
        tokio::time::sleep_until(next).await;
        let began = Instant::now();
        let is_done = round(&cx).await;
        // After a failure soon again: the leases run.
        next = began + if is_done { timing.heartbeat } else { timing.heartbeat / 4 };
    }
}

/// Renews what has not been renewed for a while; false when some of it was not.
async fn round(cx: &Context) -> bool {
    let timing = cx.settings.timing;
    let mut due = cx.leases.living();
    due.retain(|lease| lease.renewed().elapsed() >= timing.heartbeat / 2);
    // A round asks twice, however many rows are locked: two rounds fit in between one that went well and the end of a lease.
    let patience = timing.lease.saturating_sub(timing.heartbeat + timing.margin()) / 4;
    let renewals = join_all(due.chunks(CHUNK).map(|chunk| renew(cx, chunk, patience))).await;
    let is_answered = renewals.iter().all(Option::is_some);
    let mut locked: Vec<Arc<Lease>> = renewals.into_iter().flatten().flatten().collect();
    // Of many, those whose leases end first; the others may be free at the next round.
    locked.sort_by_key(|lease| lease.renewed());
    let alone = &locked[..locked.len().min(ALONE)];
    let renewals = join_all(alone.chunks(1).map(|one| renew(cx, one, patience))).await;
    is_answered && alone.len() == locked.len() && renewals.iter().all(Option::is_some)
}

/// Renews leases in one transaction; those whose rows somebody has locked are as they were. None when nothing is known of any.
async fn renew(cx: &Context, leases: &[Arc<Lease>], patience: Duration) -> Option<Vec<Arc<Lease>>> {
    let asked = Instant::now();
    let until = millis(now()) + cx.settings.timing.lease.as_millis() as i64;
    let claims: Vec<Claim> = leases.iter().map(|lease| lease.claim.clone()).collect();
    let (claims, owner) = (&claims, &cx.owner);
    let write = cx.store.write(async |conn: &mut Conn| operation::renew(conn, owner, claims, until).await);
    match tokio::time::timeout(patience, write).await {
        Ok(Ok(Renewed { gone, locked })) => {
            let mut left = Vec::new();
            for lease in leases {
                if gone.contains(&lease.claim.operation) {
                    lease.stale.cancel();
                } else if locked.contains(&lease.claim.operation) {
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
