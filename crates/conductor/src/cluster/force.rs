//! Being rid of a cluster in a bounded time, whatever the cloud says: by force, or by abandoning its stacks.
//!
//! Each thing that was made is tried to be removed (abandoned: credentials only). What could not be removed when the time is up is told in the
//! report before the operation's end, and the rows go. The time begins when a conductor takes the operation: nothing is given up untried because
//! none was there.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::Cluster;
use model::operation::{Leak, OperationKind, deadlines};
use model::resource::ResourceKind;
use model::store::{Conn, StoreError};

use super::{Rows, delete, find_rows};
use crate::certificates;
use crate::context::Context;
use crate::credentials::{self, Reach, stack_owner};
use crate::driver::capi_helm;
use crate::leaving::{self, leak};
use crate::operation::note_retry;
use crate::outcome::{Failure, Turn};
use crate::stack::{self, Known, Whose};
use crate::worker::{Work, succeed};

/// What goes before the stacks.
const BEFORE: [ResourceKind; 2] = [ResourceKind::LoadBalancer, ResourceKind::FloatingIp];
/// Why what is abandoned is left.
const ABANDONED: &str = "left alone, as was asked for";
/// Why credentials are left with a stack.
const HELD: &str = "the stacks that are left were made through it: without it Heat can neither change them nor end their deletion";
/// What Kubernetes makes.
const INSIDE: [ResourceKind; 3] = [ResourceKind::LoadBalancer, ResourceKind::FloatingIp, ResourceKind::Volume];

/// One turn. What may go better next time is tried again soon, without the growing pauses of other operations: these could last longer than
/// the time that is left for the rest.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    match attempt(cx, work).await {
        Err(Failure::Retry { reason, error }) => {
            note_retry(cx, work, &reason, error.as_deref()).await?;
            let timing = cx.settings.timing;
            Ok(Turn::Again { after: left_to_try(work).clamp(timing.poll_min, timing.poll_max.max(timing.poll_min)) })
        }
        other => other,
    }
}

async fn attempt(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let Some(rows) = find_rows(cx, work).await? else {
        return succeed(cx, work, async |_: &mut Conn| Ok(())).await;
    };
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let mut leaks = Vec::new();
    if work.operation.kind() == Some(OperationKind::ClusterAbandon) {
        let all = every_stack(&rows);
        leaks.extend(all.iter().map(|known| leak_of_stack(known, ABANDONED)));
        leaks.extend(leaving::left(cx, &rows.cluster, &INSIDE, ABANDONED).await?);
    } else if let Some(turn) = remove_things(cx, work, &rows, &mut leaks).await? {
        return Ok(turn);
    }
    if !is_over(work)
        && let Some(turn) = delete::await_unclear(cx, work, &rows).await?
    {
        return Ok(turn);
    }
    if hangs_on_trust(&rows, &leaks) {
        leaks.extend(credentials_left(cx, &rows.cluster, HELD).await?);
    } else {
        remove_credentials(cx, work, &rows.cluster, &mut leaks).await?;
    }
    remove_stack_owner(cx, work, &rows, &mut leaks).await?;
    remove_certificates(cx, work, &rows.cluster, &mut leaks).await?;
    delete::forget(cx, work, &rows, leaks).await
}

/// Whether there is a user whom the stacks belong to. One that is recorded without his id was given no roles, and has none.
fn has_owner(rows: &Rows) -> bool {
    rows.stack_owner.as_ref().is_some_and(|owner| owner.resource_id.is_some())
}

/// Whether a stack is left that belongs to nobody but the trustee: Heat's own trust hangs on the cluster's.
fn hangs_on_trust(rows: &Rows, leaks: &[Leak]) -> bool {
    !has_owner(rows) && leaks.iter().any(|leak| leak.kind == ResourceKind::Stack.as_str())
}

/// The end of an operation that can go no further: everything that is recorded may be left. The cloud is not asked any more.
pub(crate) async fn give_up(cx: &Context, work: &Work, reason: &str) -> Result<(), StoreError> {
    let Some(rows) = find_rows(cx, work).await? else {
        return stored(succeed(cx, work, async |_: &mut Conn| Ok(())).await);
    };
    let mut leaks: Vec<Leak> = if capi_helm::is_ours(&rows) {
        // It never had a stack: its `stack_id` is the name of its release.
        capi_helm::release_left(cx, &rows, reason).into_iter().collect()
    } else {
        every_stack(&rows).iter().map(|known| leak_of_stack(known, reason)).collect()
    };
    leaks.extend(leaving::left(cx, &rows.cluster, &INSIDE, reason).await?);
    leaks.extend(leaving::left(cx, &rows.cluster, &[ResourceKind::ApplicationCredential], reason).await?);
    leaks.extend(credentials_left(cx, &rows.cluster, reason).await?);
    leaks.extend(
        leaving::left(cx, &rows.cluster, &[ResourceKind::StackOwner, ResourceKind::KeyPair, ResourceKind::Certificate], reason).await?,
    );
    stored(delete::forget(cx, work, &rows, leaks).await)
}

/// What the store said; nothing else is asked where this is used.
fn stored(turn: Result<Turn, Failure>) -> Result<(), StoreError> {
    match turn {
        Ok(_) => Ok(()),
        Err(Failure::Stale) => Err(StoreError::Stale { what: "operation" }),
        Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => Err(StoreError::Unavailable(reason)),
    }
}

/// What is left of the part of the operation's time in which things are tried; the rest of it is for the end.
pub(crate) fn left_to_try(work: &Work) -> Duration {
    deadlines::time_to_try(work.operation.allowance()).saturating_sub(stack::age(work.operation.begun()))
}

/// How long an operation may wait in a row with others where it is to end in a bounded time; not at all where it asks for nothing there.
pub(crate) fn left_in_row(work: &Work) -> Option<Duration> {
    match work.operation.kind() {
        Some(OperationKind::ClusterForceDelete) => Some(left_to_try(work)),
        Some(OperationKind::ClusterAbandon) => Some(Duration::ZERO),
        _ => None,
    }
}

/// Whether it is time to be content with what was reached.
pub(crate) fn is_over(work: &Work) -> bool {
    left_to_try(work).is_zero()
}

/// The stacks of groups, then the cluster's own.
fn every_stack(rows: &Rows) -> Vec<Known> {
    let own = rows.stack();
    rows.other_stacks().into_iter().chain(own.may_exist.then_some(own)).collect()
}

/// One step for load balancers, stacks and volumes, in this order; none once each is gone or has proved to stay.
async fn remove_things(cx: &Context, work: &Work, rows: &Rows, leaks: &mut Vec<Leak>) -> Result<Option<Turn>, Failure> {
    let stacks = every_stack(rows);
    let events = stack::events(cx, work).await?;
    let are_volumes_due = leaving::are_volumes_due(&events, rows);
    if stacks.is_empty() && !are_volumes_due && !rows.has_things_inside() {
        return Ok(None);
    }
    let reach = match credentials::for_removal(cx, work, rows).await {
        Ok(reach) => reach,
        Err(failure) => {
            let reason = given_up(work, failure)?;
            leaks.extend(stacks.iter().map(|known| leak_of_stack(known, &reason)));
            leaks.extend(leaving::left(cx, &rows.cluster, &INSIDE, &reason).await?);
            return Ok(None);
        }
    };
    let looks_first = leaving::are_balancers_due(&events);
    if looks_first && let Some(turn) = step(cx, work, rows, leaving::load_balancers(cx, work, rows, &reach).await, &BEFORE, leaks).await? {
        return Ok(Some(turn));
    }
    if !stacks.is_empty()
        && let Some(turn) = remove_stacks(cx, work, rows, &stacks, &reach, leaks).await?
    {
        return Ok(Some(turn));
    }
    // Seen to be gone a moment ago: look at the rows again, for volumes.
    if leaks.is_empty() && !stacks.is_empty() {
        return Ok(Some(Turn::NOW));
    }
    if !looks_first
        && leaving::are_balancers_due_again(&events, rows)
        && let Some(turn) = step(cx, work, rows, leaving::load_balancers(cx, work, rows, &reach).await, &BEFORE, leaks).await?
    {
        return Ok(Some(turn));
    }
    if !are_volumes_due {
        return Ok(None);
    }
    step(cx, work, rows, leaving::volumes(cx, work, rows, &reach).await, &[ResourceKind::Volume], leaks).await
}

/// What a step on things that Kubernetes made came to: when it goes no further, what is recorded of them is left.
async fn step(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    came_to: Result<Option<Turn>, Failure>,
    kinds: &[ResourceKind],
    leaks: &mut Vec<Leak>,
) -> Result<Option<Turn>, Failure> {
    let reason = match came_to {
        Ok(Some(Turn::Settled)) => return Ok(Some(Turn::Settled)),
        Ok(Some(_)) if is_over(work) => "it was not gone in time".to_owned(),
        Ok(turn) => return Ok(turn),
        Err(failure) => given_up(work, failure)?,
    };
    let recorded = leaving::left(cx, &rows.cluster, kinds, &reason).await?;
    if kinds == BEFORE && recorded.is_empty() {
        // Nobody could look for them.
        let reason = format!("it cannot be told which load balancers are left: {reason}");
        leaks.push(leak(ResourceKind::LoadBalancer, "not known", None, &reason));
    }
    leaks.extend(recorded);
    Ok(None)
}

/// The reason of a failure after which there is nothing more to try, or no time.
fn given_up(work: &Work, failure: Failure) -> Result<String, Failure> {
    match failure {
        Failure::Final { reason, .. } => Ok(reason),
        Failure::Retry { reason, .. } if is_over(work) => Ok(reason),
        other => Err(other),
    }
}

/// One step for every stack; none once each is gone or has proved to stay.
async fn remove_stacks(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    stacks: &[Known],
    reach: &Reach,
    leaks: &mut Vec<Leak>,
) -> Result<Option<Turn>, Failure> {
    let mut pause: Option<Duration> = None;
    let mut trouble = None;
    for known in stacks {
        let is_own = known.handle.name == rows.stack().handle.name;
        // The groups' nodes are on the network that the cluster's stack made: it goes last.
        if is_own && (pause.is_some() || trouble.is_some()) {
            break;
        }
        match remove_stack(cx, work, rows, known, is_own, reach).await {
            Ok(None) => {}
            Ok(Some(turn @ (Turn::Settled | Turn::Hear { .. } | Turn::Room { .. }))) => return Ok(Some(turn)),
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

async fn remove_stack(cx: &Context, work: &Work, rows: &Rows, known: &Known, is_own: bool, reach: &Reach) -> Result<Option<Turn>, Failure> {
    let whose = if is_own { Whose::Cluster(&rows.cluster) } else { delete::owner(rows, known) };
    let turn = delete::leave(cx, work, whose, known, reach).await?;
    if turn.is_none() {
        stack::gone(cx, work, whose, known).await?;
    }
    Ok(turn)
}

/// Trust and trustee, each on its own: what fails for one must not keep the other.
pub(crate) async fn remove_credentials(cx: &Context, work: &Work, cluster: &Cluster, leaks: &mut Vec<Leak>) -> Result<(), Failure> {
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
        Err(Failure::Final { .. } | Failure::Retry { .. }) => leaks.extend(credentials_left(cx, cluster, &reason).await?),
    }
    Ok(())
}

/// The user whom the stacks belong to and his key pair, as long as there is time; then they are told.
async fn remove_stack_owner(cx: &Context, work: &Work, rows: &Rows, leaks: &mut Vec<Leak>) -> Result<(), Failure> {
    // Of one that is not recorded, as when our tables were made anew, nobody knows what he owns.
    let has_none = rows.stack_owner.is_some() && !has_owner(rows);
    let reason = if !has_none && leaks.iter().any(|leak| leak.kind == ResourceKind::Stack.as_str()) {
        "the stacks that are left belong to it: without it Heat can neither change them nor end their deletion".to_owned()
    } else {
        match stack_owner::remove(cx, work, rows).await {
            Ok(left) => {
                leaks.extend(left);
                return Ok(());
            }
            Err(failure) => given_up(work, failure)?,
        }
    };
    leaks.extend(leaving::left(cx, &rows.cluster, &[ResourceKind::StackOwner, ResourceKind::KeyPair], &reason).await?);
    Ok(())
}

/// Certificates that are kept outside the database, as long as there is time; then they are told.
pub(crate) async fn remove_certificates(cx: &Context, work: &Work, cluster: &Cluster, leaks: &mut Vec<Leak>) -> Result<(), Failure> {
    let reason = match certificates::remove(cx, work, cluster).await {
        Ok(()) => return Ok(()),
        Err(failure) => given_up(work, failure)?,
    };
    leaks.extend(leaving::left(cx, cluster, &[ResourceKind::Certificate], &reason).await?);
    Ok(())
}

fn leak_of_stack(known: &Known, reason: &str) -> Leak {
    let name = known.recorded_as.clone().unwrap_or_else(|| known.handle.name.clone());
    leak(ResourceKind::Stack, &name, known.handle.id.clone(), reason)
}

/// Trust and trustee that the row names, those that were announced and may have been made, and former trusts.
async fn credentials_left(cx: &Context, cluster: &Cluster, reason: &str) -> Result<Vec<Leak>, StoreError> {
    let recorded = leaving::left(cx, cluster, &[ResourceKind::Trust, ResourceKind::Trustee], reason).await?;
    let mut left = credentials_of(cluster, reason);
    left.extend(recorded.into_iter().filter(|leak| is_beside(leak, cluster)));
    Ok(left)
}

/// Whether it is not what the row names.
fn is_beside(leak: &Leak, cluster: &Cluster) -> bool {
    let is_former = leak.kind == ResourceKind::Trust.as_str() && leak.name != credentials::trustee_name(cluster);
    leak.id.is_none() || is_former
}

fn credentials_of(cluster: &Cluster, reason: &str) -> Vec<Leak> {
    let name = cluster.trustee_username.clone().unwrap_or_else(|| credentials::trustee_name(cluster));
    let of = |kind, id: &Option<String>| id.clone().map(|id| leak(kind, &name, Some(id), reason));
    [of(ResourceKind::Trust, &cluster.trust_id), of(ResourceKind::Trustee, &cluster.trustee_user_id)].into_iter().flatten().collect()
}
