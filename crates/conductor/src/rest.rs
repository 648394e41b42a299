//! What an operation does between its turns: nothing, until there is a reason for the next one.
//!
//! Thousands rest at a time, so what is kept here is small: what a turn needs is read again when it begins.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use model::operation::CloudFault;
use provider_clients::Service;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::cluster::force;
use crate::context::Context;
use crate::driver::capi_helm::news::Listening;
use crate::follow::{Ticket, Wake, Watch};
use crate::operation::note_retry;
use crate::outcome::{Failure, Follow, Turn};
use crate::plan::Seen;
use crate::stack::{self, Told};
use crate::worker::{Work, allowance};

/// Between two looks of one operation at its cluster, however much happens.
const GATHER: Duration = Duration::from_millis(250);

/// When the next look of who has looked in vain is due that no list has asked for.
const LATER: Duration = Duration::from_secs(300);

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

/// What an operation has waited for so far, and where: whom lists wake again and again with nothing changed is woken less often.
#[derive(Default)]
pub(crate) struct Waits {
    /// A hash of id, status and last change of each stack: they are only compared, and thousands are kept. None before the first wait.
    last: Option<u64>,
    idle: u32,
    /// Whether it was a list that woke it last. Any other reason to look says nothing of whether lists can be believed.
    is_by_list: bool,
    place: Option<Place>,
}

/// Where an operation waits for stacks; kept while it looks.
struct Place {
    ticket: Ticket,
    /// By the ids of the stacks.
    told: Vec<(String, Told)>,
    at_most: Option<Instant>,
}

impl Place {
    /// The next reason to wake; a look when so much time has passed.
    fn woken(&self, left: Duration) -> impl Future<Output = Wake> {
        let end = Instant::now() + left;
        let end = self.at_most.map_or(end, |at_most| at_most.min(end));
        // The turn finds whether its time is over.
        tokio::time::timeout_at(end, self.ticket.woken()).map(|woken| woken.unwrap_or(Wake::Look))
    }

    /// Waits on after a look in vain.
    fn again(&mut self, now: Instant) {
        self.ticket.again();
        // Else who has been there for so long would look by himself each time from now on.
        self.at_most = self.at_most.map(|at_most| if at_most > now { at_most } else { now + LATER });
    }
}

impl Waits {
    /// Counts a wait for stacks that were seen so; how often in a row a list has told of something that was not seen.
    fn begin<'s>(&mut self, seen: impl Iterator<Item = &'s Seen>) -> u32 {
        let mut these = DefaultHasher::new();
        for stack in seen {
            (&stack.stack_id, &stack.status, &stack.changed).hash(&mut these);
        }
        let these = Some(these.finish());
        if these != self.last {
            self.idle = 0;
        } else if self.is_by_list {
            self.idle = self.idle.saturating_add(1);
        }
        self.last = these;
        self.idle
    }

    /// Tells how far one of the stacks has come.
    async fn tell(&self, cx: &Context, work: &Work, seen: Box<Seen>) -> Result<(), Failure> {
        let mut told = self.place.iter().flat_map(|place| &place.told);
        match told.find(|(id, _)| *id == seen.stack_id) {
            Some((_, place)) => stack::tell(cx, work, place, "stack", &seen).await,
            None => Ok(()),
        }
    }

    /// Gives up the place for which there is no use any more after this turn.
    pub fn turned(&mut self, turn: &Result<Turn, Failure>) {
        let is_kept = match turn {
            // Until there is the next one: a project in which nobody waits forgets who can list it, and how often that has failed.
            Ok(Turn::Follow(_)) => true,
            Err(Failure::Retry { error: Some(fault), .. }) => is_unanswered(fault),
            Ok(_) | Err(_) => false,
        };
        if !is_kept {
            self.place = None;
        }
    }

    /// Goes back to the place, if there is one, to [`wait`] there again: the look for which it was woken has told nothing. Says whether there is.
    pub fn go_back(&mut self) -> bool {
        if let Some(place) = &mut self.place {
            place.again(Instant::now());
        }
        self.place.is_some()
    }
}

/// Whether it is Heat that has not answered, or Keystone when it was to let somebody in to ask: others that follow stacks meet the same, and it is
/// no use that each of them goes on asking.
fn is_unanswered(fault: &CloudFault) -> bool {
    fault.service == Service::Orchestration.name() || fault.operation == "token_issue"
}

/// Waits for something, unless the claim is lost or the conductor stops first. It is begun here: the future of an argument would be in the one that
/// is returned twice, and thousands rest.
pub(crate) async fn until<F: Future>(work: &Work, begin: impl FnOnce() -> F) -> Result<F::Output, Rested> {
    tokio::select! {
        biased;
        done = begin() => Ok(done),
        () = work.lease().no_more_turns().cancelled() => Err(if work.lease().is_stale() { Rested::Stale } else { Rested::Stopped }),
    }
}

/// Waits until a turn may be at work; none when the deadline of the operation or of its step has come first: the turn finds that and ends it.
pub(crate) async fn permit(cx: &Context, work: &Work) -> Result<Option<OwnedSemaphorePermit>, Rested> {
    // Whoever waits already is served first: then there is none.
    if let Ok(permit) = cx.permits.clone().try_acquire_owned() {
        return Ok(Some(permit));
    }
    let waiting = async || {
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
    until(work, || Box::pin(waiting())).await
}

/// Waits until there is news of a cluster of the management cluster, or it is time to look without (after `at_most` at the latest), or the
/// deadline of the operation or of its step has come.
pub(crate) async fn hear(cx: &Context, work: &Work, mut news: Listening, poll: Duration, at_most: Option<Duration>) -> Rested {
    let left = allowance::left_at_rest(cx, work).await;
    let left = at_most.map_or(left, |at_most| at_most.min(left));
    let mut woken = async || {
        tokio::select! {
            biased;
            () = news.woken(poll) => {}
            // The turn finds that its time is over.
            () = tokio::time::sleep(left) => {}
        }
    };
    let awake = async || futures::join!(woken(), tokio::time::sleep(GATHER.min(left)));
    match until(work, awake).await {
        Ok(_) => Rested::Awake,
        Err(ended) => ended,
    }
}

/// Waits until one of these places is free and keeps it for the next turn, or until the deadline of the operation or of its step has come.
pub(crate) async fn room(cx: &Context, work: &Work, places: Arc<Semaphore>) -> Rested {
    let left = allowance::left_at_rest(cx, work).await;
    let left = force::left_in_row(work).map_or(left, |in_row| in_row.min(left));
    let admitted = async || {
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
    match until(work, admitted).await {
        Ok(()) => Rested::Awake,
        Err(ended) => ended,
    }
}

/// Takes a place to [`wait`] in until one of the stacks has moved.
pub(crate) fn follow(cx: &Context, work: &Work, follows: Vec<Follow>, waits: &mut Waits) {
    let idle = waits.begin(follows.iter().map(|f| &f.seen));
    let at_most = follows.iter().filter_map(|f| f.at_most).min().map(|at_most| Instant::now() + at_most);
    let age = stack::age(work.operation.begun());
    let mut told = Vec::with_capacity(follows.len());
    let mut watches = Vec::with_capacity(follows.len());
    for Follow { project, seen, session, told: place, at_most: _ } in follows {
        told.push((seen.stack_id.clone(), place));
        watches.push(Watch { project, seen, age, idle, session });
    }
    // The former place is given up when there is this one, see [`Waits::turned`].
    waits.place = Some(Place { ticket: cx.follower.follow(watches), told, at_most });
}

/// Waits in its place until one of the stacks has moved, or is to be looked at without, or the deadline of the operation or of its step has come, and
/// tells meanwhile how far they have come. Not at all without a place.
pub(crate) async fn wait(cx: &Context, work: &Work, waits: &mut Waits) -> Rested {
    while let Some(place) = &waits.place {
        // Progress that is told may be another step.
        let left = allowance::left_at_rest(cx, work).await;
        let recorded = match until(work, || place.woken(left)).await {
            Ok(wake @ (Wake::Moved | Wake::Look)) => {
                waits.is_by_list = wake == Wake::Moved;
                return Rested::Awake;
            }
            Ok(Wake::Progress(seen)) => {
                // What moves will end: it must not go unnoticed for what lists have told before.
                waits.idle = 0;
                Box::pin(waits.tell(cx, work, seen)).await
            }
            Ok(Wake::Trouble(reason)) => Box::pin(note_trouble(cx, work, reason)).await,
            Err(ended) => return ended,
        };
        match recorded {
            Ok(()) => {}
            Err(Failure::Stale) => return Rested::Stale,
            // The row is another's to say something about, or the database is away: the next turn meets it if it lasts.
            Err(_) => tracing::debug!("failed to record how a stack is getting on"),
        }
    }
    Rested::Awake
}

/// Records that the stacks cannot be listed, and why.
async fn note_trouble(cx: &Context, work: &Work, reason: Arc<str>) -> Result<(), Failure> {
    let message = (*reason).into();
    let error = CloudFault { service: "heat".into(), operation: "stack_list".into(), message, ..CloudFault::default() };
    note_retry(cx, work, &reason, Some(&error)).await.map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use model::operation::OutcomeCode;

    use super::*;
    use crate::follow::Follower;

    fn seen(id: &str, status: &str) -> Seen {
        Seen { stack_id: id.into(), status: status.into(), ..Seen::default() }
    }

    /// A wait for this stack, after it was woken by a list or by something else.
    fn begin(waits: &mut Waits, seen: &Seen, is_by_list: bool) -> u32 {
        waits.is_by_list = is_by_list;
        waits.begin(std::iter::once(seen))
    }

    #[test]
    fn only_lists_that_tell_what_is_not_so_are_asked_for_less_often() {
        let stack = seen("s1", "CREATE_IN_PROGRESS");
        let mut waits = Waits::default();
        assert_eq!(begin(&mut waits, &stack, true), 0, "the first one");
        for _ in 0..3 {
            assert_eq!(begin(&mut waits, &stack, false), 0, "looked at for another reason");
        }
        assert_eq!([true, true, false, true].map(|is_by_list| begin(&mut waits, &stack, is_by_list)), [1, 2, 2, 3]);
        assert_eq!(begin(&mut waits, &seen("s1", "UPDATE_IN_PROGRESS"), true), 0);
        assert_eq!(begin(&mut waits, &seen("s1", "UPDATE_IN_PROGRESS"), true), 1);
        assert_eq!(begin(&mut waits, &seen("s2", "UPDATE_IN_PROGRESS"), true), 0, "another stack that is at the same");
    }

    /// One that was woken and looks.
    fn looking() -> Waits {
        let follower = Arc::new(Follower::new(15.0, 15.0, Duration::from_secs(1), Duration::from_secs(3)));
        let place = Place { ticket: follower.follow(Vec::new()), told: Vec::new(), at_most: None };
        Waits { place: Some(place), ..Waits::default() }
    }

    #[test]
    fn who_was_to_look_without_a_list_and_did_so_in_vain_does_it_again_later() {
        let now = Instant::now();
        let again = |at_most: Option<Instant>| {
            let mut place = looking().place.take().expect("it has one");
            place.at_most = at_most;
            place.again(now);
            place.at_most
        };
        assert_eq!(again(Some(now)), Some(now + LATER));
        for ahead in [Duration::from_secs(1), 2 * LATER] {
            assert_eq!(again(Some(now + ahead)), Some(now + ahead));
        }
        assert_eq!(again(None), None);
    }

    fn fault(service: &str, operation: &str) -> Failure {
        let error = CloudFault { service: service.into(), operation: operation.into(), status: Some(503), ..CloudFault::default() };
        Failure::Retry { reason: "no answer".into(), error: Some(Box::new(error)) }
    }

    #[test]
    fn who_looked_and_was_not_answered_by_heat_goes_back_to_his_place_and_nobody_else_does() {
        let has_place = |turn: Result<Turn, Failure>| {
            let mut waits = looking();
            waits.turned(&turn);
            waits.place.is_some()
        };
        assert!(has_place(Err(fault("heat", "stack_show"))));
        assert!(has_place(Err(fault("keystone", "token_issue"))));
        assert!(has_place(Ok(Turn::Follow(Vec::new()))), "until it has the next one");
        for turn in [
            Ok(Turn::NOW),
            Ok(Turn::Settled),
            Err(Failure::Stale),
            Err(fault("nova", "server_show")),
            Err(Failure::retry("the database")),
            Err(Failure::fail(OutcomeCode::Cloud, "no")),
        ] {
            assert!(!has_place(turn));
        }
    }
}
