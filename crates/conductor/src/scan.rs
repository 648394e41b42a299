//! The scan of the table: finds the work that no bell announced, and what a dead conductor left.
//!
//! What nobody has begun is found by its index. What somebody has worked on is held, nearly all of it, and the database has to look at each row to
//! tell: with thousands in flight and many conductors that would be most of what it does. So a conductor looks there when one of the leases that it
//! saw the last time may have run out, and twice in the length of a lease for what was taken or given back since then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use model::id::OperationId;
use model::operation::OperationState;
use model::planted::{self, Bug};
use model::store::{Conn, StoreError, operation};
use model::time::{millis, now};
use tokio::time::Instant;

use crate::context::Context;
use crate::metrics::FoundBy;
use crate::worker::{self, Room};

/// Operations taken from one scan at most. To find them the database looks at all that are due, however few are asked for.
const BATCH: i64 = 256;
/// Operations claimed at the same time. One after the other, what a dead conductor held would wait for as many commits.
const AT_ONCE: usize = 8;

/// Scans until the conductor stops, with jitter so that conductors do not scan in step.
pub(crate) async fn run(cx: Arc<Context>) {
    let mut failing = false;
    loop {
        let interval = cx.settings.timing.scan.mul_f64(model::random::range(0.5..1.0));
        tokio::select! {
            biased;
            () = tokio::time::sleep(interval) => {}
            () = cx.stop.cancelled() => return,
        }
        match scan(&cx).await {
            Ok(()) => failing = false,
            Err(error) if failing => tracing::debug!(%error, "failed to scan for operations"),
            Err(error) => {
                failing = true;
                tracing::warn!(%error, "failed to scan for operations; trying again until the database is back");
            }
        }
    }
}

/// When the operations that somebody has worked on are to be looked at.
pub(crate) struct Begun {
    /// By this clock, which nobody sets.
    next: Mutex<Instant>,
}

impl Begun {
    /// At once.
    pub fn new() -> Self {
        Self { next: Mutex::new(Instant::now()) }
    }

    /// No later than then: one was given back that is due by that time.
    pub fn look_by(&self, at: Instant) {
        let mut next = self.next();
        *next = at.min(*next);
    }

    fn next(&self) -> MutexGuard<'_, Instant> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one of them may be taken.
    async fn may_be_free(&self, cx: &Context) -> Result<bool, StoreError> {
        let began = Instant::now();
        let longest = cx.settings.timing.lease / 2;
        {
            let mut next = self.next();
            if began < *next {
                return Ok(false);
            }
            // Before the look: of what is given back meanwhile nobody knows whether it was seen.
            *next = began + longest;
        }
        let soonest = cx.store.read(async |conn: &mut Conn| operation::soonest(conn).await).await.inspect_err(|_| self.look_by(began))?;
        let wait =
            soonest.map_or(longest, |free_ms| Duration::from_millis(u64::try_from(free_ms.saturating_sub(millis(now()))).unwrap_or(0)));
        self.look_by(began + wait);
        Ok(wait.is_zero())
    }
}

async fn scan(cx: &Arc<Context>) -> Result<(), StoreError> {
    if planted::has(Bug::AckBeforeClaim) {
        return Ok(());
    }
    // As long as something is found to do: what a conductor that died has left are thousands.
    while scan_once(cx).await? > 0 {}
    Ok(())
}

/// How many were claimed.
async fn scan_once(cx: &Arc<Context>) -> Result<usize, StoreError> {
    if cx.places.available_permits() == 0 || cx.permits.available_permits() == 0 {
        return Ok(0);
    }
    let begun = if cx.begun.may_be_free(cx).await? { Some(OperationState::Running) } else { None };
    let states: Vec<OperationState> = [OperationState::Queued].into_iter().chain(begun).collect();
    let (states, at) = (&states, millis(now()));
    // However few permits there are: some of what is due cannot be claimed (it waits behind another), and must not hide the rest.
    let mut due = cx.store.read(async |conn: &mut Conn| operation::due(conn, states, at, BATCH).await).await?;
    if i64::try_from(due.len()).is_ok_and(|found| found >= BATCH) {
        // Each conductor finds the same ones: from the same place on, all but one would find claimed whatever they come to.
        let begin = model::random::range(0..due.len());
        due.rotate_left(begin);
    }
    let mut claimed = 0;
    for some in due.chunks(AT_ONCE) {
        if cx.stop.is_cancelled() {
            return Ok(0);
        }
        let taken = join_all(some.iter().map(|id| take(cx, id))).await;
        if taken.contains(&Taken::NoRoom) {
            return Ok(0);
        }
        let ours = taken.iter().filter(|taken| **taken == Taken::Ours).count();
        if ours == 0 && claimed > 0 {
            // Another has been here. What is due now is found by the next look; one that claims nothing ends the scan, and has tried all of them.
            break;
        }
        claimed += ours;
    }
    Ok(claimed)
}

/// What came of an operation that was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Ours,
    NotOurs,
    NoRoom,
}

async fn take(cx: &Arc<Context>, id: &OperationId) -> Taken {
    let Some(room) = Room::find(cx) else { return Taken::NoRoom };
    // A claim that fails for good is met again at the next scan.
    match tokio::time::timeout(Duration::from_secs(10), worker::take(cx, id, room, FoundBy::Scan)).await {
        Ok(true) => Taken::Ours,
        Ok(false) => Taken::NotOurs,
        Err(_) => {
            tracing::warn!(operation.id = %id, "no answer from the database while claiming");
            Taken::NotOurs
        }
    }
}
