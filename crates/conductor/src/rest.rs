//! What an operation does between its turns: nothing, until there is a reason for the next one.
//!
//! Thousands rest at a time, so what is kept here is small: what a turn needs is read again when it begins.

use std::sync::Arc;
use std::time::Duration;

use model::operation::CloudFault;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::context::Context;
use crate::driver::capi_helm::news::Listening;
use crate::follow::{Wake, Watch};
use crate::operation::note_retry;
use crate::outcome::{Failure, Follow};
use crate::stack;
use crate::worker::{Work, allowance};

/// Between two looks of one operation at its cluster, however much happens.
const GATHER: Duration = Duration::from_millis(250);

/// Why a rest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    /// It is time for a turn.
    Awake,
    /// The claim does not hold any more.
    Stale,
    /// The conductor stops.
    Stopped,
}

/// What an operation has waited for so far: who is woken again and again with nothing changed is woken less often.
#[derive(Default)]
pub(crate) struct Waits {
    last: Vec<(String, String)>,
    idle: u32,
}

impl Waits {
    /// Counts a wait for these stacks; how often in a row it has been the same.
    fn begin(&mut self, follows: &[Follow]) -> u32 {
        let these: Vec<_> = follows.iter().map(|f| (f.seen.status.clone(), f.seen.changed.clone())).collect();
        self.idle = if these == self.last { self.idle.saturating_add(1) } else { 0 };
        self.last = these;
        self.idle
    }
}

/// Waits for something, unless the claim is lost or the conductor stops first.
pub(crate) async fn until<T>(cx: &Context, work: &Work, what: impl Future<Output = T>) -> Result<T, Rested> {
    tokio::select! {
        biased;
        done = what => Ok(done),
        () = work.lease().stale().cancelled() => Err(Rested::Stale),
        () = cx.stop.cancelled() => Err(Rested::Stopped),
    }
}

/// Waits until a turn may be at work; none when the deadline of the operation or of its step has come first: the turn finds that and ends it.
pub(crate) async fn permit(cx: &Context, work: &Work) -> Result<Option<OwnedSemaphorePermit>, Rested> {
    // Whoever waits already is served first: then there is none.
    if let Ok(permit) = cx.permits.clone().try_acquire_owned() {
        return Ok(Some(permit));
    }
    let waiting = async {
        let mut admitted = Box::pin(cx.permits.clone().acquire_owned());
        loop {
            let left = allowance::left_at_rest(cx, work).await;
            if left.is_zero() {
                return None;
            }
            if let Ok(permit) = tokio::time::timeout(left, &mut admitted).await {
                return permit.ok();
            }
        }
    };
    until(cx, work, Box::pin(waiting)).await
}

/// Waits until there is news of a cluster of the management cluster, or it is time to look without (after `at_most` at the latest), or the
/// deadline of the operation or of its step has come.
pub(crate) async fn hear(cx: &Context, work: &Work, mut news: Listening, poll: Duration, at_most: Option<Duration>) -> Rested {
    let left = allowance::left_at_rest(cx, work).await;
    let left = at_most.map_or(left, |at_most| at_most.min(left));
    let woken = async {
        tokio::select! {
            biased;
            () = news.woken(poll) => {}
            // The turn finds that its time is over.
            () = tokio::time::sleep(left) => {}
        }
    };
    let awake = async { futures::join!(woken, tokio::time::sleep(GATHER.min(left))) };
    match until(cx, work, awake).await {
        Ok(_) => Rested::Awake,
        Err(ended) => ended,
    }
}

/// Waits until one of these places is free and keeps it for the next turn, or until the deadline of the operation or of its step has come.
pub(crate) async fn room(cx: &Context, work: &Work, places: Arc<Semaphore>) -> Rested {
    let left = allowance::left_at_rest(cx, work).await;
    let admitted = async {
        tokio::select! {
            biased;
            place = places.acquire_owned() => {
                if let Ok(place) = place {
                    work.admit(place);
                }
            }
            // The turn finds that its time is over.
            () = tokio::time::sleep(left) => {}
        }
    };
    match until(cx, work, admitted).await {
        Ok(()) => Rested::Awake,
        Err(ended) => ended,
    }
}

/// Waits until one of the stacks has moved, or is to be looked at without, or the deadline of the operation or of its step has come, and tells
/// meanwhile how far they have come.
pub(crate) async fn follow(cx: &Context, work: &Work, follows: Vec<Follow>, waits: &mut Waits) -> Rested {
    let idle = waits.begin(&follows);
    let at_most = follows.iter().filter_map(|f| f.at_most).min().map(|at_most| Instant::now() + at_most);
    let age = stack::age(work.operation.begun());
    let mut told = Vec::with_capacity(follows.len());
    let mut watches = Vec::with_capacity(follows.len());
    for Follow { project, seen, session, told: place, at_most: _ } in follows {
        told.push((seen.stack_id.clone(), place));
        watches.push(Watch { project, seen, age, idle, session });
    }
    let ticket = cx.follower.follow(watches);
    loop {
        // Progress that is told may be another step.
        let end = Instant::now() + allowance::left_at_rest(cx, work).await;
        let end = at_most.map_or(end, |at_most| at_most.min(end));
        let woken = async {
            tokio::select! {
                biased;
                wake = ticket.woken() => wake,
                // The turn finds that its time is over.
                () = tokio::time::sleep_until(end) => Wake::Look,
            }
        };
        let recorded = match until(cx, work, woken).await {
            Ok(Wake::Look) => return Rested::Awake,
            Ok(Wake::Progress(seen)) => match told.iter().find(|(id, _)| *id == seen.stack_id) {
                Some((_, place)) => Box::pin(stack::tell(cx, work, place, "stack", &seen)).await,
                None => Ok(()),
            },
            Ok(Wake::Trouble(reason)) => {
                let error = CloudFault {
                    service: "heat".into(),
                    operation: "stack_list".into(),
                    message: (*reason).into(),
                    ..CloudFault::default()
                };
                Box::pin(note_retry(cx, work, &reason, Some(&error))).await.map_err(Failure::from)
            }
            Err(ended) => return ended,
        };
        match recorded {
            Ok(()) => {}
            Err(Failure::Stale) => return Rested::Stale,
            // The row is another's to say something about, or the database is away: the next turn meets it if it lasts.
            Err(_) => tracing::debug!("failed to record how a stack is getting on"),
        }
    }
}
