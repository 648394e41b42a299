//! What operations do with one stack, whoever owns it: make it, follow it, see it off.
//!
//! Each step writes first what it is about to do, under the operation's claim, and looks at the cloud before it acts, so that it can be cut
//! off anywhere and repeated.

mod request;
mod wait;

use std::time::Duration;

use chrono::{DateTime, Utc};
use model::cluster::{Cluster, ClusterChange};
use model::id::{NodegroupId, OperationId};
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationEvent, Progress, Thing};
use model::planted::{self, Bug};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, event, nodegroup, operation, resource};
use model::text::storable_lists;
use model::time::{from_millis, now};
use provider_clients::Session;

use crate::context::Context;
use crate::driver::{self, Handle, Stack, Target};
use crate::leaving;
use crate::outcome::{Failure, Follow, Turn};
use crate::plan::{self, DeleteStep, Observed, Seen};
use crate::room::{self, Need};
use crate::worker::Work;

pub(crate) use request::{AT_WORK, NOT_TAKEN, UPDATE, at_work_since, before, is_request, not_taken, note_not_taken, sent};
pub(crate) use wait::{Told, await_former, await_unclear, follow, follow_for, show_progress, tell, wait_for};

/// The event of a request to delete a stack.
const ASKED: &str = "stack_delete";
/// The event of one after a deletion that failed; these are counted.
const ASKED_AGAIN: &str = "stack_delete_again";

/// Whether an event tells of a request to delete a stack; its message is the stack's name.
pub(crate) fn is_request_to_delete(kind: &str) -> bool {
    kind == ASKED || kind == ASKED_AGAIN
}

/// A stack, and what is recorded about it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub handle: Handle,
    /// It was made, or may have been: its id is known, or the intention to make it is recorded.
    pub may_exist: bool,
    /// It was asked for and no clear answer is recorded: it may still appear.
    pub is_unclear: bool,
    /// Its name in the inventory.
    pub recorded_as: Option<String>,
}

impl Known {
    /// Whether "there is no such stack" can be believed yet: nothing that may have been asked is under way any more.
    pub fn is_settled(&self, cx: &Context, work: &Work) -> bool {
        !self.is_unclear || work.is_settled(cx)
    }
}

/// Whose stack a step is about: where progress is shown and the stack's id is kept.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a> {
    /// The cluster's own.
    Cluster(&'a Cluster),
    /// A group's.
    Group(&'a Cluster, &'a Nodegroup),
    /// Of a group whose row is gone.
    Nobody(&'a Cluster),
}

impl<'a> Whose<'a> {
    /// Of the stack that a group is in.
    pub fn of(cluster: &'a Cluster, group: &'a Nodegroup) -> Self {
        if group.is_default() { Self::Cluster(cluster) } else { Self::Group(cluster, group) }
    }

    /// The group, where the stack is a group's alone.
    fn group_id(self) -> Option<NodegroupId> {
        match self {
            Self::Group(_, group) => Some(group.nodegroup_id()),
            Self::Cluster(_) | Self::Nobody(_) => None,
        }
    }

    /// The cluster that it is of.
    pub fn cluster(self) -> &'a Cluster {
        match self {
            Self::Cluster(cluster) | Self::Group(cluster, _) | Self::Nobody(cluster) => cluster,
        }
    }
}

/// How long ago something was; nothing for what is to come.
pub(crate) fn age(at: DateTime<Utc>) -> Duration {
    (now() - at).to_std().unwrap_or_default()
}

/// The event of a request to make a stack.
pub(crate) const MADE: &str = "stack_create";

/// Whether what there is of a stack was left by the failed operation that this one does again: it was not made by this one.
pub(crate) async fn is_left_over(cx: &Context, work: &Work) -> Result<bool, Failure> {
    if work.payload()?.retry_of.is_none() {
        return Ok(false);
    }
    Ok(events_of(cx, &work.operation.operation_id(), &[MADE]).await?.is_empty())
}

/// One step of seeing off a stack that failed, so that it can be made anew.
pub(crate) async fn clear_away(cx: &Context, work: &Work, whose: Whose<'_>, known: &Known, session: &Session) -> Result<Turn, Failure> {
    match leave(cx, work, whose, known, session).await? {
        Some(turn) => Ok(turn),
        None => {
            gone(cx, work, whose, known).await?;
            Ok(Turn::NOW)
        }
    }
}

/// What this operation has recorded so far, in order, but for its course: all of it, for what was done counts however long ago it was. A
/// replacement of nodes records far more than could be read each turn; it asks for what it needs ([`events_of`]).
pub(crate) async fn events(cx: &Context, work: &Work) -> Result<Vec<OperationEvent>, Failure> {
    let id = &work.operation.operation_id();
    Ok(cx.store.read(async |conn: &mut Conn| event::besides_course(conn, id).await).await?)
}

/// What an operation has recorded of these kinds, in order.
pub(crate) async fn events_of(cx: &Context, id: &OperationId, kinds: &[&str]) -> Result<Vec<OperationEvent>, Failure> {
    Ok(cx.store.read(async |conn: &mut Conn| event::of_kinds(conn, id, kinds).await).await?)
}

/// Records under the claim how far an operation is, with events of their kinds and texts.
pub(crate) async fn record(cx: &Context, work: &Work, progress: &Progress, told: &[(&'static str, &str)]) -> Result<(), Failure> {
    let (operation_id, cluster_id) = (&work.operation.operation_id(), &work.operation.cluster_id());
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            for (kind, text) in told {
                event::append(conn, operation_id, cluster_id, kind, text).await?;
            }
            Ok(())
        })
        .await?;
    Ok(())
}

/// Records under the claim a list that is read again ([`listed`]), in as many events of its kind as it takes; of items without commas.
pub(crate) async fn record_list<T: AsRef<str>>(
    cx: &Context,
    work: &Work,
    progress: &Progress,
    kind: &'static str,
    items: &[T],
) -> Result<(), Failure> {
    let texts = storable_lists(items);
    let told: Vec<(&'static str, &str)> = texts.iter().map(|text| (kind, text.as_str())).collect();
    record(cx, work, progress, &told).await
}

/// The list that was recorded in events of this kind, see [`record_list`]; none when none was.
pub(crate) fn listed<'a>(events: &'a [OperationEvent], kind: &str) -> Option<Vec<&'a str>> {
    let mut told = events.iter().filter(|e| e.kind == kind).peekable();
    told.peek()?;
    Some(told.flat_map(|e| e.message.split(',')).filter(|item| !item.is_empty()).collect())
}

/// How many failed operations, each of which does the one before again, are looked through.
const LONGEST_CHAIN: usize = 50;

/// The failed operations that this one does again, the last one first: each does the next one again.
pub(crate) async fn done_again(cx: &Context, work: &Work) -> Result<Vec<OperationId>, Failure> {
    let (mut chain, mut next) = (Vec::new(), work.payload()?.retry_of);
    while let Some(failed) = next.take().filter(|_| chain.len() < LONGEST_CHAIN) {
        let row = cx.store.read(async |conn: &mut Conn| operation::find(conn, &failed).await).await?;
        next = row.and_then(|row| row.payload().ok()?.retry_of);
        chain.push(failed);
    }
    Ok(chain)
}

/// The list that the last of the operations which this one does again has recorded, where one has come so far. It may be of what is gone by now.
pub(crate) async fn listed_before(cx: &Context, work: &Work, kind: &str) -> Result<Option<Vec<String>>, Failure> {
    for failed in done_again(cx, work).await? {
        let events = events_of(cx, &failed, &[kind]).await?;
        if let Some(found) = listed(&events, kind) {
            return Ok(Some(found.into_iter().map(str::to_owned).collect()));
        }
    }
    Ok(None)
}

/// When an event happened.
pub(crate) fn at(event: &OperationEvent) -> DateTime<Utc> {
    from_millis(event.at_ms)
}

/// Minutes that a stack may take from now on, by the operation's deadline.
pub(crate) fn minutes_left(cx: &Context, work: &Work) -> u32 {
    let left = (work.operation.deadline() - now()).num_minutes().max(1);
    u32::try_from(left).unwrap_or(cx.settings.deadlines.create_minutes)
}

/// Waits where the project has no room for a new stack; none where it has.
pub(crate) async fn no_room(cx: &Context, work: &Work, session: &Session, need: &Need) -> Result<Option<Turn>, Failure> {
    match room::short(session, need, None).await {
        Some(short) => room::wait(cx, work, &events(cx, work).await?, short).await.map(Some),
        None => Ok(None),
    }
}

/// Makes a stack where the project has room for it: recorded before it is asked for, and with its id afterwards; then waits for it.
pub(crate) async fn make(
    cx: &Context,
    work: &Work,
    whose: Whose<'_>,
    verb: &str,
    target: &Target<'_>,
    stack: &Stack,
) -> Result<Turn, Failure> {
    if !work.takes_room()
        && let Some(turn) = no_room(cx, work, target.session, &stack.need()).await?
    {
        return Ok(turn);
    }
    let id = whose.cluster().cluster_id();
    let progress = Progress { step: "stack", waiting_for: Some(format!("stack {}", stack.name)), ..Progress::default() };
    let (id, progress, name, operation_id) = (&id, &progress, &stack.name, work.operation.operation_id());
    let operation_id = &operation_id;
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if !planted::has(Bug::NameNotRecorded) {
                resource::record(conn, id, ResourceKind::Stack, name, None).await?;
            }
            event::append(conn, operation_id, id, MADE, name).await
        })
        .await?;
    let made = driver::make(target, stack).await;
    work.has_asked();
    let stack_id = match made {
        Ok(id) => id,
        Err(made) => {
            if !made.is_unclear {
                // It is known that nothing was made: the next attempt need not wait for it.
                work.unannounce(cx, progress, ResourceKind::Stack, name).await?;
            }
            return Err(made.failure);
        }
    };
    let group = whose.group_id();
    let change = ClusterChange {
        stack_id: Some(Some(stack_id.clone())),
        coe_version: Some(Some(stack.kube_version.clone())),
        ..ClusterChange::default()
    };
    let of_groups = NodegroupChange { stack_id: Some(Some(stack_id.clone())), ..NodegroupChange::default() };
    let (change, of_groups, stack_id, group) = (&change, &of_groups, &stack_id, &group);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, ResourceKind::Stack, name, Some(stack_id)).await?;
            match group {
                Some(group) => nodegroup::record(conn, group, of_groups).await,
                None => {
                    nodegroup::record_all(conn, id, of_groups).await?;
                    clusters::record(conn, id, change).await
                }
            }
        })
        .await?;
    let seen = Seen::begun(stack_id.clone(), name.clone());
    Ok(Turn::Follow(vec![Follow::new(whose, verb, seen, target.session)]))
}

/// One step of seeing a stack off; none once it is gone.
pub(crate) async fn leave(cx: &Context, work: &Work, whose: Whose<'_>, known: &Known, session: &Session) -> Result<Option<Turn>, Failure> {
    // Before the look: what it was still too early to believe must not be believed because the answer was slow.
    let is_settled = known.is_settled(cx, work);
    let observed = driver::observe(&known.handle, session).await?;
    tracing::debug!(?observed, "observed");
    let asked = asked(cx, work, &observed).await?;
    let is_retry = matches!(observed, Observed::Stuck { .. });
    match plan::delete(observed, asked.tries, asked.is_due) {
        // What is seen may still be the failure before the last request.
        DeleteStep::Remove(_) | DeleteStep::Fail { .. } if is_retry && asked.is_fresh => {
            wait_for(cx, work, "the deletion of the stack").await.map(Some)
        }
        // What gave way to this operation may have asked for a stack that has not appeared yet.
        DeleteStep::Finish if !is_settled => await_unclear(cx, work).await.map(Some),
        DeleteStep::Remove(seen) => {
            ask(cx, work, whose, &seen, if is_retry { ASKED_AGAIN } else { ASKED }).await?;
            note_not_taken(cx, work, &seen, driver::remove(session, &seen).await).await?;
            Ok(Some(Turn::Again { after: cx.settings.timing.poll_min }))
        }
        DeleteStep::Wait(seen) => follow_for(cx, work, whose, "deleting", seen, session, FORGOTTEN).await.map(Some),
        DeleteStep::Finish => Ok(None),
        DeleteStep::Fail { reason } => Err(Failure::fail(model::operation::OutcomeCode::Cloud, reason)),
    }
}

/// Records that there is no stack any more.
pub(crate) async fn gone(cx: &Context, work: &Work, whose: Whose<'_>, known: &Known) -> Result<(), Failure> {
    let progress = Progress { step: "stack gone", ..Progress::default() };
    let of_cluster = ClusterChange { stack_id: Some(None), ..ClusterChange::default() };
    let of_group = NodegroupChange { stack_id: Some(None), ..NodegroupChange::default() };
    let id = whose.cluster().cluster_id();
    let name = known.recorded_as.as_ref().unwrap_or(&known.handle.name);
    let was_asked =
        events(cx, work).await?.iter().any(|e| is_request_to_delete(&e.kind) && (e.message == *name || e.message == known.handle.name));
    let thing = Thing { kind: ResourceKind::Stack.as_str().into(), name: name.clone(), id: known.handle.id.clone() };
    let thing = &thing;
    let (id, progress, of_cluster, of_group, group) = (&id, &progress, &of_cluster, &of_group, &whose.group_id());
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if !was_asked {
                leaving::tell_gone(conn, work, whose.cluster(), thing).await?;
            }
            resource::forget_one(conn, id, ResourceKind::Stack, name).await?;
            match (whose, group) {
                (Whose::Cluster(_), _) => {
                    // Whoever comes after this operation, should it end before it has looked for them, knows that by nothing else.
                    leaving::volumes_are_unseen(conn, id).await?;
                    clusters::record(conn, id, of_cluster).await
                }
                (_, Some(group)) => nodegroup::record(conn, group, of_group).await,
                (_, None) => Ok(()),
            }
        })
        .await?;
    Ok(())
}

/// A request to delete a stack that is this old is made once more: the engine that was at it may have died, and no other goes on with it.
const FORGOTTEN: Duration = Duration::from_secs(20 * 60);

/// What this operation has already asked of Heat for a stack whose deletion failed, or is under way.
#[derive(Default)]
struct Asked {
    tries: usize,
    /// The last request is too young for what is seen to be its outcome.
    is_fresh: bool,
    /// There is none, or it may be forgotten.
    is_due: bool,
}

async fn asked(cx: &Context, work: &Work, observed: &Observed) -> Result<Asked, Failure> {
    let (Observed::Stuck { seen, .. } | Observed::Leaving(seen)) = observed else { return Ok(Asked::default()) };
    let mut events = events(cx, work).await?;
    events.retain(|e| e.message == seen.stack_name && (is_request_to_delete(&e.kind) || e.kind == NOT_TAKEN));
    let is_again = |place: usize| events[..place].last().is_some_and(|e| e.kind == ASKED_AGAIN);
    let came_to_nothing = |(place, e): &(usize, &OperationEvent)| e.kind == NOT_TAKEN && is_again(*place);
    let vain = events.iter().enumerate().filter(came_to_nothing).count();
    let tries = events.iter().filter(|e| e.kind == ASKED_AGAIN).count().saturating_sub(vain);
    let is_fresh = events.last().is_some_and(|e| age(at(e)) < cx.settings.timing.settle);
    // One that came to an error, too: what is being deleted may have been taken by it, and begins anew each time it is asked.
    let is_due = events.last().is_none_or(|e| age(at(e)) >= FORGOTTEN);
    Ok(Asked { tries, is_fresh, is_due })
}

async fn ask(cx: &Context, work: &Work, whose: Whose<'_>, seen: &Seen, event_kind: &'static str) -> Result<(), Failure> {
    let progress = Progress { step: "stack", waiting_for: Some(seen.waiting_for()), done: 0, total: seen.total };
    let (operation_id, cluster_id) = (work.operation.operation_id(), whose.cluster().cluster_id());
    let (operation_id, cluster_id, progress) = (&operation_id, &cluster_id, &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, cluster_id, ResourceKind::Stack, &seen.stack_name, Some(&seen.stack_id)).await?;
            event::append(conn, operation_id, cluster_id, event_kind, &seen.stack_name).await
        })
        .await?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
