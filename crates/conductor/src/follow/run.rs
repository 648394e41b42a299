//! The follower at work: takes what is next, within the budget, a few requests at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provider_clients::{CloudError, Session};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Follower;
use super::table::{ListFailure, ListJob, Next, ProgressJob};
use crate::context::Context;
use crate::driver;

/// Requests under way at once.
const PARALLEL: usize = 8;
/// The longest sleep: whatever is due in a table that nobody changes is found after it at the latest.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Follows until the conductor stops. Requests under way then are dropped: they only read.
pub(crate) async fn run(cx: Arc<Context>) {
    let follower = cx.follower.clone();
    // Of all projects at once, where the configuration says so and Heat allows it.
    let all: Arc<AtomicBool> = Arc::new(AtomicBool::new(cx.service.is_some()));
    let places = Arc::new(Semaphore::new(PARALLEL));
    let mut requests = JoinSet::new();
    let follow = async {
        loop {
            while let Some(ended) = requests.try_join_next() {
                if let Err(error) = ended {
                    tracing::error!(%error, "a request of the follower ended badly");
                }
            }
            let Ok(place) = places.clone().acquire_owned().await else { return };
            // The token first: what is most urgent is decided when there is one.
            if let Some(moment) = idle_until(&follower, all.load(Ordering::Relaxed)) {
                drop(place);
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
            let next = follower.table().next(Instant::now(), all.load(Ordering::Relaxed));
            let (follower, service, all) = (follower.clone(), cx.service.clone(), all.clone());
            match next {
                Some(Next::List(job)) => {
                    requests.spawn(async move {
                        list(&follower, service, &all, job).await;
                        drop(place);
                        follower.changed.notify_one();
                    });
                }
                Some(Next::Progress(job)) => {
                    requests.spawn(async move {
                        count(&follower, job).await;
                        drop(place);
                        follower.changed.notify_one();
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

/// When there may be something to do; none when there is now.
fn idle_until(follower: &Follower, all: bool) -> Option<Instant> {
    let now = Instant::now();
    let moment = follower.table().next_moment(all).unwrap_or(now + LONGEST_SLEEP);
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
            let why = failure(&error);
            if is_of_all && why == ListFailure::Refused {
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
    let now = Instant::now();
    match outcome {
        Ok(seen) => follower.table().counted(job.key, seen, now),
        // Gone, or under another name: the next list tells.
        Err(error) if error.is_not_found() => tracing::debug!(%error, "a stack has no resources to count"),
        Err(error) => {
            tracing::debug!(%error, "failed to count the resources of a stack");
            follower.table().not_counted(&job, failure(&error), now);
        }
    }
}

fn failure(error: &CloudError) -> ListFailure {
    if error.status() == Some(414) {
        return ListFailure::TooLong;
    }
    let is_refusal = error.is_unauthorized() || error.status() == Some(403);
    if is_refusal && !error.retry_may_help() { ListFailure::Refused } else { ListFailure::Trouble }
}
