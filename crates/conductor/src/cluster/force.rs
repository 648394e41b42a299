//! Being rid of a cluster in a bounded time, whatever the cloud says: by force, or by abandoning its stacks.
//!
//! Each thing that was made is tried to be removed (abandoned: credentials only). What could not be removed when the time is up is told in a
//! report, the last event of the operation, and the rows go.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::Cluster;
use model::operation::{EventDetails, Leak, OperationKind};
use model::resource::ResourceKind;
use model::store::{Conn, StoreError, event};
use provider_clients::Session;

use super::{Rows, delete, find_rows};
use crate::context::Context;
use crate::credentials;
use crate::operation::note_retry;
use crate::outcome::{Failure, Turn};
use crate::stack::{self, Known, Whose};
use crate::worker::{Work, succeed};

/// The event that says what was left.
const REPORT: &str = "leak_report";
/// Characters of a reason in the report at most.
const REASON: usize = 300;

/// One turn. What may go better next time is tried again soon, without the growing pauses of other operations: these could last longer than
/// the time that is left for the rest.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    match attempt(cx, work).await {
        Err(Failure::Retry { reason, error }) => {
            note_retry(cx, work, &reason, error.as_deref()).await?;
            let left = time_to_try(work).saturating_sub(stack::age(work.operation.created()));
            let timing = cx.settings.timing;
            Ok(Turn::Again { after: left.clamp(timing.poll_min, timing.poll_max.max(timing.poll_min)) })
        }
        other => other,
    }
}

async fn attempt(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let Some(rows) = find_rows(cx, work).await? else {
        return succeed(cx, work, async |_: &mut Conn| Ok(())).await;
    };
    let mut leaks = Vec::new();
    if work.operation.kind() == Some(OperationKind::ClusterAbandon) {
        let all = every_stack(&rows);
        leaks.extend(all.iter().map(|known| leak_of_stack(known, "left alone, as was asked for")));
    } else if let Some(turn) = remove_stacks(cx, work, &rows, &mut leaks).await? {
        return Ok(turn);
    }
    remove_credentials(cx, work, &rows.cluster, &mut leaks).await?;
    forget(cx, work, &rows.cluster, &leaks).await
}

/// The end of an operation that can go no further: everything that is recorded may be left. The cloud is not asked any more.
pub(crate) async fn give_up(cx: &Context, work: &Work, reason: &str) -> Result<(), StoreError> {
    let Some(rows) = find_rows(cx, work).await? else {
        return stored(succeed(cx, work, async |_: &mut Conn| Ok(())).await);
    };
    let mut leaks: Vec<Leak> = every_stack(&rows).iter().map(|known| leak_of_stack(known, reason)).collect();
    leaks.extend(credentials_of(&rows.cluster, reason));
    stored(forget(cx, work, &rows.cluster, &leaks).await)
}

/// What the store said; nothing else is asked where this is used.
fn stored(turn: Result<Turn, Failure>) -> Result<(), StoreError> {
    match turn {
        Ok(_) => Ok(()),
        Err(Failure::Stale) => Err(StoreError::Stale { what: "operation" }),
        Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => Err(StoreError::Unavailable(reason)),
    }
}

/// The part of the operation's time in which things are tried; what is left of it is for the end.
fn time_to_try(work: &Work) -> Duration {
    let all = work.operation.deadline_ms - work.operation.created_ms;
    Duration::from_millis(u64::try_from(all / 4 * 3).unwrap_or_default())
}

/// Whether it is time to be content with what was reached.
fn is_over(work: &Work) -> bool {
    stack::age(work.operation.created()) >= time_to_try(work)
}

/// The stacks of groups, then the cluster's own.
fn every_stack(rows: &Rows) -> Vec<Known> {
    let own = rows.stack();
    rows.other_stacks().into_iter().chain(own.may_exist.then_some(own)).collect()
}

/// One step for every stack; none once each is gone or has proved to stay.
async fn remove_stacks(cx: &Context, work: &Work, rows: &Rows, leaks: &mut Vec<Leak>) -> Result<Option<Turn>, Failure> {
    let stacks = every_stack(rows);
    if stacks.is_empty() {
        return Ok(None);
    }
    let session = match credentials::for_existing(cx, work, &rows.cluster).await {
        Ok(session) => session,
        Err(Failure::Final { reason, .. }) => {
            leaks.extend(stacks.iter().map(|known| leak_of_stack(known, &reason)));
            return Ok(None);
        }
        Err(Failure::Retry { reason, .. }) if is_over(work) => {
            leaks.extend(stacks.iter().map(|known| leak_of_stack(known, &reason)));
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let mut pause: Option<Duration> = None;
    let mut trouble = None;
    for known in &stacks {
        let is_own = known.handle.name == rows.stack().handle.name;
        // The groups' nodes are on the network that the cluster's stack made: it goes last.
        if is_own && (pause.is_some() || trouble.is_some()) {
            break;
        }
        match remove_stack(cx, work, rows, known, is_own, &session).await {
            Ok(None) => {}
            Ok(Some(Turn::Settled)) => return Ok(Some(Turn::Settled)),
            Ok(Some(Turn::Again { .. } | Turn::Follow(_))) if is_over(work) => {
                leaks.push(leak_of_stack(known, "it was not gone in time"));
            }
            Ok(Some(Turn::Again { after })) => pause = Some(pause.map_or(after, |p| p.min(after))),
            // Looked at by this operation itself: it must not rest longer than its time lasts.
            Ok(Some(Turn::Follow(_))) => pause = Some(pause.map_or(cx.settings.timing.poll_min, |p| p.min(cx.settings.timing.poll_min))),
            Err(Failure::Final { reason, .. }) => leaks.push(leak_of_stack(known, &reason)),
            Err(Failure::Retry { reason, .. }) if is_over(work) => leaks.push(leak_of_stack(known, &reason)),
            Err(failure @ Failure::Retry { .. }) => trouble = Some(failure),
            Err(Failure::Stale) => return Err(Failure::Stale),
        }
    }
    match (trouble, pause) {
        (Some(failure), _) => Err(failure),
        (None, pause) => Ok(pause.map(|after| Turn::Again { after })),
    }
}

async fn remove_stack(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    known: &Known,
    is_own: bool,
    session: &Session,
) -> Result<Option<Turn>, Failure> {
    let whose = if is_own { Whose::Cluster(&rows.cluster) } else { delete::owner(rows, known) };
    let turn = stack::leave(cx, work, whose, known, session).await?;
    if turn.is_none() {
        stack::gone(cx, work, whose, known).await?;
    }
    Ok(turn)
}

/// Trust and trustee, each on its own: what fails for one must not keep the other.
async fn remove_credentials(cx: &Context, work: &Work, cluster: &Cluster, leaks: &mut Vec<Leak>) -> Result<(), Failure> {
    let reason = match credentials::remove(cx, work, cluster).await {
        Ok(()) => return Ok(()),
        Err(Failure::Final { reason, .. }) => reason,
        Err(Failure::Retry { reason, .. }) if is_over(work) => reason,
        Err(other) => return Err(other),
    };
    // Without the trustee the trust is of no use to anybody.
    let without_trust = Cluster { trust_id: None, ..cluster.clone() };
    match credentials::remove(cx, work, &without_trust).await {
        Ok(()) => {}
        Err(Failure::Stale) => return Err(Failure::Stale),
        Err(Failure::Final { .. } | Failure::Retry { .. }) => leaks.extend(credentials_of(cluster, &reason)),
    }
    Ok(())
}

fn leak_of_stack(known: &Known, reason: &str) -> Leak {
    let name = known.recorded_as.clone().unwrap_or_else(|| known.handle.name.clone());
    leak(ResourceKind::Stack, &name, known.handle.id.clone(), reason)
}

fn credentials_of(cluster: &Cluster, reason: &str) -> Vec<Leak> {
    let name = cluster.trustee_username.clone().unwrap_or_else(|| credentials::trustee_name(cluster));
    let of = |kind, id: &Option<String>| id.clone().map(|id| leak(kind, &name, Some(id), reason));
    [of(ResourceKind::Trust, &cluster.trust_id), of(ResourceKind::Trustee, &cluster.trustee_user_id)].into_iter().flatten().collect()
}

fn leak(kind: ResourceKind, name: &str, id: Option<String>, reason: &str) -> Leak {
    Leak { kind: kind.as_str().into(), name: name.into(), id, reason: reason.chars().take(REASON).collect() }
}

/// The report, and the end of the rows.
async fn forget(cx: &Context, work: &Work, cluster: &Cluster, leaks: &[Leak]) -> Result<Turn, Failure> {
    let message = match leaks {
        [] => "nothing is known to be left in the cloud".to_owned(),
        [one] => format!("left in the cloud: {} {}: {}", one.kind, one.name, one.reason),
        many => format!("left in the cloud: {} things", many.len()),
    };
    if !leaks.is_empty() {
        tracing::warn!(?leaks, "a cluster is forgotten, and things of it are left in the cloud");
    }
    let details = EventDetails { leaks: Some(leaks.to_vec()), ..EventDetails::default() };
    let (id, operation) = (&cluster.cluster_id(), &work.operation.operation_id());
    let (message, details) = (&message, &details);
    succeed(cx, work, async |conn: &mut Conn| {
        event::append_with(conn, operation, id, REPORT, message, Some(details)).await?;
        delete::remove_rows(conn, cluster).await
    })
    .await
}
