//! The follower at work: takes what is next, within the budget, so many requests at a time as there are places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provider_clients::{CloudError, Session};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Follower;
use super::batch::FLOOR;
use super::jobs::{ListFailure, ListJob, Next, ProgressJob};
use super::places::{Kind, Room};
use crate::context::Context;
use crate::driver;

/// The longest sleep: whatever is due in a table that nobody changes is found after it at the latest.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// What is answered to a request that is too long: by gunicorn and HAProxy to a long line 400, by others 414, to a long head 431, to whatever
/// is long 413.
const TOO_LONG: [u16; 4] = [400, 413, 414, 431];

/// Follows until the conductor stops. Requests under way then are dropped: they only read.
pub(crate) async fn run(cx: Arc<Context>) {
    let follower = cx.follower.clone();
    // Of all projects at once, where the configuration says so and Heat allows it.
    let all: Arc<AtomicBool> = Arc::new(AtomicBool::new(cx.service.is_some()));
    let mut requests = JoinSet::new();
    let follow = async {
        loop {
            while let Some(ended) = requests.try_join_next() {
                if let Err(error) = ended {
                    tracing::error!(%error, "a request of the follower ended badly");
                }
            }
            // The places first, then the token: what is most urgent is decided when there is one. Nobody else takes a place meanwhile.
            let room = follower.room();
            if let Some(moment) = idle_until(&follower, all.load(Ordering::Relaxed), room) {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(moment) => {}
                    () = follower.changed.notified() => {}
                }
                continue;
            }
            while let Err(wait) = take(&follower) {
                tokio::time::sleep(wait).await;
            }
            let next = follower.table().next(Instant::now(), all.load(Ordering::Relaxed), room == Room::All);
            let (follower, service, all) = (follower.clone(), cx.service.clone(), all.clone());
            match next {
                Some(Next::List(job)) => {
                    let place = Place::take(&follower, Kind::List);
                    requests.spawn(async move {
                        list(&follower, service, &all, job).await;
                        drop(place);
                    });
                }
                Some(Next::Progress(job)) => {
                    let place = Place::take(&follower, Kind::Count);
                    requests.spawn(async move {
                        count(&follower, job).await;
                        drop(place);
                    });
                }
                // Whoever waited has gone meanwhile; the token is lost, which harms nobody.
                None => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = follow => {}
        () = cx.stop.cancelled() => {}
    }
}

/// The place of a request that is under way; dropping it gives it back.
struct Place {
    follower: Arc<Follower>,
    kind: Kind,
}

impl Place {
    fn take(follower: &Arc<Follower>, kind: Kind) -> Self {
        follower.places().enter(kind);
        Self { follower: follower.clone(), kind }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.follower.places().leave(self.kind);
        self.follower.changed.notify_one();
    }
}

/// When there may be something to do that there is room for; none when there is now.
fn idle_until(follower: &Follower, all: bool, room: Room) -> Option<Instant> {
    let now = Instant::now();
    let due = match room {
        Room::None => None,
        Room::Lists | Room::All => follower.table().next_moment(all, room == Room::All),
    };
    let moment = due.unwrap_or(now + LONGEST_SLEEP);
    (moment > now).then(|| moment.min(now + LONGEST_SLEEP))
}

fn take(follower: &Follower) -> Result<(), Duration> {
    let needed = follower.table().needed();
    follower.budget().take(needed, Instant::now())
}

async fn list(follower: &Follower, service: Option<Session>, all: &AtomicBool, job: ListJob) {
    let is_of_all = job.project.is_none();
    let Some(session) = job.session.as_ref().map(|(_, session)| session.clone()).or(service) else { return };
    let outcome = driver::list(&session, job.ids.clone(), is_of_all).await;
    let now = Instant::now();
    match outcome {
        Ok(stacks) => follower.table().listed(&job, &stacks, now),
        Err(error) => {
            let why = failure(&error, job.ids.len());
            // A login that is refused says nothing of Heat's policy.
            if is_of_all && why == ListFailure::Refused && !error.is_unauthorized() {
                all.store(false, Ordering::Relaxed);
                tracing::warn!(%error, "Heat does not let the service user list the stacks of all projects; each project is listed by itself");
            } else {
                tracing::warn!(%error, stacks = job.keys.len(), "failed to list stacks; trying again");
            }
            follower.table().not_listed(&job, why, &error.to_string(), now);
        }
    }
}

async fn count(follower: &Follower, job: ProgressJob) {
    let outcome = driver::progress(&job.session.1, &job.stack_name, &job.stack_id, &job.status).await;
    match outcome {
        Ok(seen) => follower.table().counted(job.key, seen, Instant::now()),
        // Gone, or under another name: the next list tells.
        Err(error) if error.is_not_found() => tracing::debug!(%error, "a stack has no resources to count"),
        Err(error) => {
            tracing::debug!(%error, "failed to count the resources of a stack");
            follower.table().not_counted(&job, failure(&error, 1));
        }
    }
}

/// Why a request about so many stacks failed.
fn failure(error: &CloudError, stacks: usize) -> ListFailure {
    // Keystone's 400 at a login is no word about the request.
    let is_unauthorized = error.is_unauthorized();
    if stacks > FLOOR && !is_unauthorized && error.status().is_some_and(|status| TOO_LONG.contains(&status)) {
        return ListFailure::TooLong;
    }
    let is_refusal = is_unauthorized || error.status() == Some(403);
    if is_refusal && !error.retry_may_help() { ListFailure::Refused } else { ListFailure::Trouble }
}
