//! Claims operations and drives each until it is settled, handed back, or lost.
//!
//! Order matters in three places. A ring is acknowledged after the claim is stored, never held during the work. The lease is renewed for
//! all operations together (`lease.rs`), and the step at work is dropped the moment the claim is lost or can no longer be renewed in time,
//! so that no effect begins under an expired lease. What is dropped can be repeated: every step looks before it makes.
//!
//! Two things are counted. An operation that is ours has a place from its claim to its end; there are thousands. A turn at work has a
//! permit as well; there are few, for each may be at work in the cloud and the database. Between its turns an operation has none, and
//! keeps no more than it needs to begin the next one.

pub(crate) mod allowance;
mod work;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use model::notification::Outcome;
use model::operation::{AT_ONCE, Claimed, Ending};
use model::planted::{self, Bug};
use model::queue::Listener;
use model::store::{Conn, StoreError, operation};
use model::time::{millis, now};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;

use crate::context::Context;
use crate::metrics::FoundBy;
use crate::operation as acts;
use crate::outcome::{Failure, Turn};
use crate::rest::{self, Rested};

pub(crate) use work::{Size, Work};

/// Longest pause after a failed turn.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Pauses that are cut at a deadline are never shorter: what ends the operation then may fail, too, and is not tried again in a circle.
const LEAST_PAUSE: Duration = Duration::from_millis(250);

/// The place and the permit of an operation that is about to be claimed.
pub(crate) struct Room {
    place: OwnedSemaphorePermit,
    permit: OwnedSemaphorePermit,
}

impl Room {
    /// Waits for both; none when the conductor stops.
    async fn wait(cx: &Context) -> Option<Self> {
        let both = async {
            let place = cx.places.clone().acquire_owned().await.ok()?;
            Some(Self { place, permit: cx.permits.clone().acquire_owned().await.ok()? })
        };
        tokio::select! {
            biased;
            room = both => room,
            () = cx.stop.cancelled() => None,
        }
    }

    /// Both, when they are there.
    pub fn find(cx: &Context) -> Option<Self> {
        let place = cx.places.clone().try_acquire_owned().ok()?;
        Some(Self { place, permit: cx.permits.clone().try_acquire_owned().ok()? })
    }
}

/// Answers rings for ever: one room, one ring, one claim.
pub(crate) async fn listen(cx: Arc<Context>, mut listener: Listener) {
    loop {
        // The ring first: a room taken while nothing rings would be one less for the scan. Whoever stops leaves it to the others.
        let ring = tokio::select! {
            biased;
            () = cx.stop.cancelled() => return,
            ring = listener.next() => ring,
        };
        let Some(room) = Room::wait(&cx).await else { return };
        if planted::has(Bug::AckBeforeClaim) {
            let id = ring.operation.clone();
            ring.taken().await;
            take(&cx, &id, room, FoundBy::Bell).await;
            continue;
        }
        if !take(&cx, &ring.operation, room, FoundBy::Bell).await && cx.stop.is_cancelled() {
            // It was not looked at, or rung by one of our own that gave it back: it comes again, to somebody else.
            return;
        }
        ring.taken().await;
    }
}

/// Claims an operation if it can be claimed, and works on it in a task of its own. True when it is ours.
pub(crate) async fn take(cx: &Arc<Context>, id: &model::id::OperationId, room: Room, by: FoundBy) -> bool {
    if cx.stop.is_cancelled() {
        return false;
    }
    let asked = Instant::now();
    let at = millis(now());
    let lease = at + cx.settings.timing.lease.as_millis() as i64;
    let owner = &cx.owner;
    let claimed = cx.store.write(async |conn: &mut Conn| {
        let claimed = operation::claim(conn, id, owner, at, lease).await?;
        cx.outbox.begun(conn, &claimed).await.map(|()| claimed)
    });
    match claimed.await {
        Ok(Claimed::NotNow) => {
            tracing::debug!(operation.id = %id, "nothing to claim");
            false
        }
        Ok(Claimed::Ours(operation, claim)) => {
            cx.metrics.claimed(&operation, &claim, by);
            let Room { place, permit } = room;
            let work = Box::new(Work::new(*operation, cx.leases.hold(claim, asked), place));
            let span = tracing::info_span!(
                "operation",
                operation.id = %work.operation.uuid,
                cluster.id = %work.operation.cluster_uuid,
                request.id = work.operation.request_id.as_deref().unwrap_or("-"),
                user.id = %work.operation.user_id,
                project.id = %work.operation.project_id,
                otel.name = %work.operation.kind,
            );
            if let (Some(tracing), Some(parent)) = (&cx.tracing, work.operation.payload().ok().and_then(|p| p.traceparent)) {
                tracing.follow(&span, &parent);
            }
            cx.tasks.spawn(drive(cx.clone(), work, permit).instrument(span));
            true
        }
        // The scan will find it again.
        Err(error) => {
            tracing::warn!(operation.id = %id, %error, "failed to claim");
            false
        }
    }
}

/// Turn after turn until the operation is settled, handed back or lost. The future of each of thousands that rest: `work` is boxed, for it
/// would be in it twice, and so is what only some of them do.
async fn drive(cx: Arc<Context>, work: Box<Work>, permit: OwnedSemaphorePermit) {
    tracing::info!(kind = %work.operation.kind, attempt = work.operation.attempt, "operation claimed");
    let _held = cx.metrics.hold();
    let ended = tokio::select! {
        // The lease first: nothing goes on when it is over.
        biased;
        () = work.lease().lost(&cx.settings.timing) => {
            tracing::info!("operation lost: taken over, or the lease could not be renewed");
            Ended::Stale
        }
        ended = turns(&cx, &work, permit) => ended,
    };
    Box::pin(give_back(&cx, &work, ended)).await;
}

/// What was found stale is due after this time only.
const NOT_AT_ONCE: Duration = Duration::from_secs(1);

/// Gives back what is still ours (nothing, when it is settled), and ends the hold on what was superseded meanwhile. What was found stale is
/// not due at once: whatever made it so, it must not be claimed in a circle.
async fn give_back(cx: &Context, work: &Work, ended: Ended) {
    let due = match ended {
        Ended::Settled | Ended::Stopped => AT_ONCE,
        Ended::Stale => millis(now()) + i64::try_from(NOT_AT_ONCE.as_millis()).unwrap_or(i64::MAX),
    };
    // All at once, as when the conductor stops, they would wait for a connection for longer than that may take.
    let _place = cx.handing_back.acquire().await;
    if let Err(error) = cx.store.write(async |conn: &mut Conn| operation::release(conn, work.claim(), due).await).await {
        tracing::warn!(%error, "failed to give the operation back; its lease will run out");
    }
    // Behind the release: a look before it would find it held still.
    if matches!(ended, Ended::Stale) {
        cx.begun.look_by(Instant::now() + NOT_AT_ONCE);
    }
    ring_next(cx, work).await;
}

/// Whatever is next on this cluster need not wait for the scan.
async fn ring_next(cx: &Context, work: &Work) {
    let cluster = work.operation.cluster_id();
    match cx.store.read(async |conn: &mut Conn| operation::unfinished(conn, &cluster).await).await {
        Ok(rest) => {
            if let Some(next) = rest.first() {
                cx.doorbell.ring(next.operation_id());
            }
        }
        Err(error) => tracing::debug!(%error, "failed to look for the next operation"),
    }
}

/// Why the turns ended.
#[derive(Clone, Copy)]
enum Ended {
    Settled,
    Stopped,
    Stale,
}

async fn turns(cx: &Arc<Context>, work: &Work, permit: OwnedSemaphorePermit) -> Ended {
    let mut failures = 0u32;
    let mut permit = Some(permit);
    let mut waits = rest::Waits::default();
    loop {
        if permit.is_none() {
            permit = match rest::permit(cx, work).await {
                Ok(permit) => permit,
                Err(ended) => return ended.into(),
            };
        }
        // What a turn needs and what came of it is large, and is gone while the operation rests.
        let after = Box::pin(turn(cx, work, &mut failures, &mut waits)).await;
        match Box::pin(pass(work, after, &mut permit, &mut waits)).await {
            Ok(Then::Turn) => continue,
            Ok(Then::Wait) => permit = None,
            Err(ended) => return ended,
        }
        match rest::wait(cx, work, &mut waits).await {
            Rested::Awake => {}
            ended => return ended.into(),
        }
    }
}

/// What is next, once what comes after a turn is over.
enum Then {
    Turn,
    /// Waiting in the place that was taken for it ([`rest::wait`]).
    Wait,
}

/// Lets pass what comes after a turn, until the next one or the wait before it. Who rests or pauses gives up his permit first.
async fn pass(work: &Work, after: After<'_>, permit: &mut Option<OwnedSemaphorePermit>, waits: &mut rest::Waits) -> Result<Then, Ended> {
    match after {
        After::End(ended) => Err(ended),
        After::Wait => Ok(Then::Wait),
        After::Rest(rest) => {
            *permit = None;
            match rest.await {
                Rested::Awake => Ok(Then::Turn),
                ended => Err(ended.into()),
            }
        }
        After::Pause(pause) => {
            if !pause.is_zero() {
                *permit = None;
            }
            rest::until(work, || tokio::time::sleep(pause)).await?;
            // Whom the follower woke, and Heat has not answered, does not go on asking by himself: the follower asks for all, within its budget.
            if !waits.go_back() {
                return Ok(Then::Turn);
            }
            work.unload();
            Ok(Then::Wait)
        }
    }
}

/// What comes after a turn.
enum After<'a> {
    /// The next one, after so long.
    Pause(Duration),
    /// Waiting in the place that was taken for it ([`rest::wait`]).
    Wait,
    /// This, which begins when it is polled.
    Rest(BoxFuture<'a, Rested>),
    End(Ended),
}

/// One turn, and what follows from what came of it.
async fn turn<'a>(cx: &'a Arc<Context>, work: &'a Work, failures: &mut u32, waits: &mut rest::Waits) -> After<'a> {
    let turn = turn_before_deadline(cx, work).instrument(tracing::info_span!("turn")).await;
    // Of who waits for a place to begin, what failed before is still to be done.
    if !matches!(turn, Ok(Turn::Room { .. })) {
        work.repeats(matches!(turn, Err(Failure::Retry { .. })));
    }
    waits.turned(&turn);
    match turn {
        Ok(Turn::Again { after }) => {
            *failures = 0;
            After::Pause(before_deadline(cx, work, after).await)
        }
        Ok(Turn::Follow(follows)) => {
            *failures = 0;
            work.unload();
            rest::follow(cx, work, follows, waits);
            After::Wait
        }
        Ok(Turn::Hear { news, poll, at_most }) => {
            *failures = 0;
            work.unload();
            After::Rest(rest::hear(cx, work, news, poll, at_most).boxed())
        }
        // Not counted as a step that went well: what failed before is still to be done.
        Ok(Turn::Room { places }) => {
            work.unload();
            After::Rest(rest::room(cx, work, places).boxed())
        }
        Ok(Turn::Settled) => {
            cx.metrics.ended(&work.operation, None);
            tracing::info!("operation settled");
            After::End(Ended::Settled)
        }
        Err(Failure::Stale) if cx.stop.is_cancelled() => After::End(Ended::Stopped),
        Err(Failure::Stale) => After::End(Ended::Stale),
        Err(Failure::Retry { reason, error }) => {
            cx.metrics.retried(&work.operation);
            tracing::warn!(reason, failures, "a step failed; trying again");
            *failures += 1;
            if let Err(StoreError::Stale { .. }) = acts::note_retry(cx, work, &reason, error.as_deref()).await {
                return After::End(Ended::Stale);
            }
            After::Pause(before_deadline(cx, work, backoff(*failures)).await)
        }
        Err(Failure::Final { code, reason, error }) => {
            tracing::warn!(code = code.as_str(), reason, "operation failed");
            match acts::fail(cx, work, code, &reason, error.as_deref()).await {
                Ok(recorded) => {
                    cx.metrics.ended(&work.operation, recorded);
                    After::End(Ended::Settled)
                }
                Err(StoreError::Stale { .. }) => After::End(Ended::Stale),
                Err(error) => {
                    tracing::warn!(%error, "failed to record the failure; trying again");
                    *failures += 1;
                    // Not cut: its time may be over already.
                    After::Pause(backoff(*failures))
                }
            }
        }
    }
}

impl From<Rested> for Ended {
    fn from(rested: Rested) -> Self {
        match rested {
            Rested::Stopped => Self::Stopped,
            Rested::Awake | Rested::Stale => Self::Stale,
        }
    }
}

/// One turn, cut at the deadline of the operation and of the step that it is at and, when the conductor stops, at the end of its grace.
async fn turn_before_deadline(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let _at_work = cx.metrics.begin_turn();
    let stopping = async {
        cx.stop.cancelled().await;
        tokio::time::sleep(cx.settings.timing.grace).await;
    };
    let ended = match allowance::left(cx, work).await {
        // One whose end was asked for ends as cancelled, however late: it can end in no other way.
        Ok(left) if left.is_zero() && work.operation.cancel_ms.is_none() => Err(allowance::over(cx, work).await),
        Ok(left) => tokio::select! {
            biased;
            turn = acts::turn(cx, work) => turn,
            () = allowance::overdue(cx, work, left) => Err(allowance::over(cx, work).await),
            () = stopping => Err(Failure::Stale),
        },
        Err(error) => Err(error.into()),
    };
    work.leave();
    ended
}

/// A pause between two turns, over when the time of the operation or of its step is: the turn after it ends the operation then.
async fn before_deadline(cx: &Context, work: &Work, pause: Duration) -> Duration {
    if pause.is_zero() {
        return pause;
    }
    cut(pause, allowance::left_or_whole(cx, work).await)
}

fn cut(pause: Duration, left: Duration) -> Duration {
    pause.min(left.max(LEAST_PAUSE))
}

fn backoff(failures: u32) -> Duration {
    let base = Duration::from_millis(500).saturating_mul(2u32.saturating_pow(failures.saturating_sub(1).min(8)));
    base.min(MAX_BACKOFF).mul_f64(model::random::range(0.5..1.0))
}

/// Ends an operation well, with what `settle` records, in one transaction.
pub(crate) async fn succeed<F>(cx: &Context, work: &Work, settle: F) -> Result<Turn, Failure>
where
    for<'c> F: AsyncFn(&'c mut Conn) -> Result<(), StoreError>
        + model::store::Query<&'c mut Conn, Result<(), StoreError>, Answer: Send>
        + Send
        + Sync,
{
    let cluster = work.operation.cluster_id();
    let (claim, settle, cluster) = (work.claim(), &settle, &cluster);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::finish(conn, claim, cluster, &Ending::Succeeded).await?;
            let before = cx.outbox.look(conn, &work.operation).await?;
            model::store::Query::answer(settle, conn).await?;
            cx.outbox.ended(conn, &work.operation, Outcome::Success, before).await
        })
        .await?;
    Ok(Turn::Settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thousands of them rest at a time, and each took 1,640 bytes when the future of what it waits for was in it twice.
    #[test]
    fn the_future_of_an_operation_is_small() {
        fn size<F>(_: impl Fn(Arc<Context>, Box<Work>, OwnedSemaphorePermit) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(drive);
        // With what the runtime, the tracker and the span add it takes 1,024 bytes of memory; one word more, and it takes 1,280.
        assert!(size <= 872, "{size} bytes");
    }

    #[test]
    fn no_pause_lasts_beyond_a_deadline_and_none_becomes_a_circle() {
        let seconds = Duration::from_secs;
        assert_eq!(cut(seconds(30), seconds(2)), seconds(2));
        assert_eq!(cut(seconds(6), seconds(3600)), seconds(6));
        assert_eq!(cut(seconds(30), Duration::ZERO), LEAST_PAUSE);
        let short = LEAST_PAUSE / 2;
        assert_eq!(cut(short, Duration::ZERO), short);
        for failures in 1..20 {
            let pause = backoff(failures);
            assert!((LEAST_PAUSE..=MAX_BACKOFF).contains(&pause), "{failures}: {pause:?}");
        }
    }
}
