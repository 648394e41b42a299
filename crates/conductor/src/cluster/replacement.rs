//! Nodes of a stack are replaced by new ones, a few at a time; what for, the caller knows.
//!
//! Masters go one by one, workers by batches: new nodes are made first, they see off as many old ones (from inside the cluster: see
//! `driver/heat/scripts/succession.sh`) before they report ready, then those are taken away. The stack's own parameters tell how far it is
//! (`plan/roll.rs`).

use std::collections::HashMap;

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OutcomeCode, Progress};
use model::store::{Conn, event};
use provider_clients::Session;

use crate::context::Context;
use crate::driver::{NewNodes, PoolKind, Target};
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Before, Observed, Replacement, RollStep, Seen, Sent, UpdateStep};
use crate::stack::{self, Whose};
use crate::worker::Work;
use crate::{certificates, driver};

/// The event of a step, in words.
const STEP: &str = "node_replacement";

/// The event of how many nodes a group has while its nodes are replaced; its text is the group's uuid and the number. The row says it only
/// until a request for another size is accepted, which then waits behind this operation and is not its to fulfil.
const SIZE: &str = "nodes_kept";

/// Events looked through for what was asked last: a large group has more steps than could be read each turn.
const EVENTS: i64 = 200;

/// What a user can do about it.
const WAY_OUT: &str = "the nodes of this cluster cannot be replaced: upstream's driver or an early release made its stack. Make a new cluster \
    and move the workload; resize, nodegroups, health and deletion go on working";

/// A replacement of nodes of one stack.
pub(crate) struct Replacing<'a> {
    pub whose: Whose<'a>,
    /// What is replaced, in this order, with the group whose nodes they are, as it will be.
    pub pools: Vec<(PoolKind, &'a Nodegroup)>,
    pub generation: &'a str,
    /// Workers replaced at once.
    pub batch: i32,
    /// What is told of it.
    pub aim: &'a str,
}

/// What comes next.
pub(crate) enum Next<'a> {
    /// The stack is at work, or about to be.
    Turn(Turn),
    /// Every node is of the generation.
    Done(Seen),
    /// The stack is at rest, and this is to be asked of it.
    Send(Todo<'a>, Seen),
}

/// A pool that is not wholly of the wanted generation, and what to do about it.
pub(crate) struct Todo<'a> {
    pool: (PoolKind, &'a Nodegroup),
    step: RollStep,
    /// In words; the same for the same step.
    words: String,
    /// It is the first step for its pool.
    pub begins: bool,
}

/// What is sent with a step.
pub(crate) struct Made {
    pub new: NewNodes,
    minutes: u32,
}

/// Refuses a stack whose nodes cannot be replaced.
pub(crate) fn check(seen: &Seen, pools: &[(PoolKind, &Nodegroup)]) -> Result<(), Failure> {
    let can_be = pools.iter().all(|(kind, _)| kind.of(seen).is_some());
    if can_be { Ok(()) } else { Err(Failure::fail(OutcomeCode::User, WAY_OUT)) }
}

/// Looks what comes next.
pub(crate) async fn next<'a>(
    cx: &Context,
    work: &Work,
    session: &Session,
    observed: Observed,
    replacing: &Replacing<'a>,
) -> Result<Next<'a>, Failure> {
    tracing::debug!(?observed, "observed");
    if let Some(seen) = observed.seen() {
        check(seen, &replacing.pools)?;
    }
    let id = &work.operation.operation_id();
    let events = cx.store.read(async |conn: &mut Conn| event::latest(conn, id, EVENTS).await).await?;
    let is_broken = matches!(observed, Observed::Broken { .. });
    let sizes = sizes(&stack::events(cx, work).await?);
    let todo = match observed.at_rest() {
        Some(seen) => {
            let unknown: Vec<String> = replacing.unknown(work, &sizes, seen)?;
            if !unknown.is_empty() {
                let told: Vec<(&'static str, &str)> = unknown.iter().map(|text| (SIZE, text.as_str())).collect();
                stack::record(cx, work, &Progress { step: "replacement", ..Progress::default() }, &told).await?;
                return Ok(Next::Turn(Turn::NOW));
            }
            first_undone(work, replacing, &sizes, session, seen, is_broken).await?
        }
        None => None,
    };
    let sent = observed.seen().and_then(|seen| sent(cx, &events, &seen.stack_name, todo.as_ref()));
    match plan::change(observed, todo.is_none(), sent.as_ref()) {
        UpdateStep::Make => Err(Failure::fail(OutcomeCode::Cloud, "the stack is gone")),
        UpdateStep::Wait(seen) => {
            let verb = replacing.verb(&seen);
            stack::follow(cx, work, replacing.whose, &verb, seen, session).await.map(Next::Turn)
        }
        UpdateStep::WaitForBeginning(seen) => {
            stack::wait_for(cx, work, &format!("the change of stack {}", seen.stack_name)).await.map(Next::Turn)
        }
        UpdateStep::Finish(seen) => Ok(Next::Done(seen)),
        UpdateStep::Fail { reason, .. } => Err(Failure::of_stack(reason)),
        UpdateStep::Send(seen) => match todo {
            Some(todo) => Ok(Next::Send(todo, seen)),
            None => Err(Failure::retry("there is nothing to change, and the stack is not at rest")),
        },
    }
}

/// Computes what the nodes of a pool are made of from now on; `seen` is the stack that they are in.
pub(crate) async fn prepare(
    cx: &Context,
    work: &Work,
    target: &Target<'_>,
    replacing: &Replacing<'_>,
    (todo, seen): (&Todo<'_>, &Seen),
) -> Result<Made, Failure> {
    // A step has as long as the making of the cluster had.
    let whole = target.cluster.create_timeout.and_then(|minutes| u32::try_from(minutes).ok()).filter(|minutes| *minutes > 0);
    let minutes = stack::minutes_left(cx, work).min(whole.unwrap_or(cx.settings.deadlines.create_minutes));
    let material = certificates::material(cx, target.cluster).await?;
    let facts = driver::facts_of_more(&cx.settings, cx.store.vault(), target, todo.pool.0, seen).await?;
    let new = driver::new_nodes(&cx.settings, target, todo.pool, &facts, &material, (replacing.generation, minutes))?;
    Ok(Made { new, minutes })
}

/// Asks the stack for the next step, recorded first.
pub(crate) async fn send(cx: &Context, work: &Work, session: &Session, seen: &Seen, todo: &Todo<'_>, made: &Made) -> Result<Turn, Failure> {
    let waiting_for = Some(format!("the change of stack {}", seen.stack_name));
    let progress = Progress { step: "replacement", waiting_for, ..Progress::default() };
    stack::record(cx, work, &progress, &[(STEP, &todo.words), (stack::UPDATE, &stack::before(seen))]).await?;
    driver::replace(session, seen, todo.pool.0, &todo.step, &made.new, made.minutes).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

impl Replacing<'_> {
    fn wanted(&self, kind: PoolKind, group: &Nodegroup, sizes: &HashMap<String, i32>) -> Replacement {
        // Etcd changes by one member at a time.
        let batch = if kind == PoolKind::Masters { 1 } else { self.batch };
        let count = sizes.get(&group.uuid).copied().unwrap_or_else(|| group.node_count());
        Replacement { generation: self.generation.to_owned(), count, batch }
    }

    /// What is to be recorded of groups whose size is not: what the row said when the request was accepted. What the stack says is more where an
    /// earlier replacement was cut off between a batch's coming and its predecessors' going.
    fn unknown(&self, work: &Work, sizes: &HashMap<String, i32>, seen: &Seen) -> Result<Vec<String>, Failure> {
        let unknown: Vec<_> = self.pools.iter().filter(|(_, group)| !sizes.contains_key(&group.uuid)).collect();
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let known = work.payload()?.before.unwrap_or_default().sizes;
        // Of a request that an earlier version accepted: what the stack says as long as nothing of it was replaced.
        let of_stack = |kind: PoolKind| match kind {
            PoolKind::Workers if kind.of(seen).is_some_and(|pool| pool.generation != self.generation) => seen.workers.count,
            _ => None,
        };
        let size = |kind: PoolKind, group: &Nodegroup| {
            known.get(&group.nodegroup_id()).copied().or_else(|| of_stack(kind)).unwrap_or_else(|| group.node_count())
        };
        Ok(unknown.into_iter().map(|(kind, group)| format!("{} {}", group.uuid, size(*kind, group))).collect())
    }

    /// What is told while the stack is at work.
    fn verb(&self, seen: &Seen) -> String {
        let left = |kind: PoolKind| {
            let pool = self.pools.iter().find(|(other, _)| *other == kind).and_then(|_| kind.of(seen));
            pool.filter(|pool| pool.generation == self.generation).map(|pool| pool.former.len())
        };
        let progress = match (left(PoolKind::Masters), left(PoolKind::Workers)) {
            (_, Some(left)) => format!("{left} workers left to replace"),
            (Some(left), None) => format!("{left} masters left to replace"),
            (None, None) => "beginning".to_owned(),
        };
        format!("{} ({progress})", self.aim)
    }
}

/// The sizes that were recorded, by the group's uuid.
fn sizes(events: &[OperationEvent]) -> HashMap<String, i32> {
    let read = |event: &OperationEvent| {
        let (group, count) = event.message.split_once(' ')?;
        Some((group.to_owned(), count.parse().ok()?))
    };
    events.iter().filter(|event| event.kind == SIZE).filter_map(read).collect()
}

async fn first_undone<'a>(
    work: &Work,
    replacing: &Replacing<'a>,
    sizes: &HashMap<String, i32>,
    session: &Session,
    seen: &Seen,
    is_broken: bool,
) -> Result<Option<Todo<'a>>, Failure> {
    for (kind, group) in replacing.pools.iter().copied() {
        let Some(pool) = kind.of(seen) else { continue };
        let members: Vec<String> = driver::members(session, seen, kind).await?.into_iter().map(|m| m.number).collect();
        // A list that does not go with the stack that it is of is of another moment: what it says is gone would not be replaced.
        if !is_broken && i32::try_from(members.len()) != Ok(pool.count) {
            let (listed, count) = (members.len(), pool.count);
            return Err(Failure::retry(format!("Heat lists {listed} nodes of {} and says that there are {count}", group.name)));
        }
        let wanted = replacing.wanted(kind, group, sizes);
        let begins = pool.generation != wanted.generation;
        let step = match plan::next_replacement(pool, &members, &wanted) {
            RollStep::Done if !is_broken => continue,
            // What the stack failed at is tried again before anything else: what was to come first may not be there.
            _ if is_broken && !begins => RollStep::Done,
            step => step,
        };
        tracing::debug!(operation = %work.operation.uuid, ?kind, ?step, "replacement");
        return Ok(Some(Todo { words: words(&group.name, &step), pool: (kind, group), step, begins }));
    }
    Ok(None)
}

fn words(group: &str, step: &RollStep) -> String {
    match step {
        RollStep::Add { count, replaces, .. } if replaces.is_empty() => format!("{group}: {count} nodes, new ones are of the new kind"),
        RollStep::Add { count, replaces, .. } => format!("{group}: {count} nodes, new ones replace {}", replaces.join(", ")),
        RollStep::Remove { count, numbers } => format!("{group}: {count} nodes, without {}", numbers.join(", ")),
        RollStep::Done => format!("{group}: once more what failed"),
    }
}

/// What was asked of the stack last, and how often the step that comes now.
///
/// A step that is followed by another one was taken, whatever the stack's clock says: it counts whole seconds, and steps may be shorter.
fn sent(cx: &Context, events: &[OperationEvent], stack: &str, todo: Option<&Todo<'_>>) -> Option<Sent> {
    let is_same = |e: &OperationEvent| todo.is_some_and(|todo| e.message == todo.words);
    let tries = events.iter().rev().filter(|e| e.kind == STEP).take_while(|e| is_same(e)).count();
    let sent = stack::sent(cx, events, stack, tries)?;
    // Each step is recorded just before its request.
    let last = events.windows(2).rfind(|pair| stack::is_request(&pair[1], stack)).map(|pair| &pair[0]);
    let was_taken = todo.is_some() && last.is_some_and(|step| step.kind == STEP && !is_same(step));
    Some(if was_taken { Sent { before: Before::Taken, ..sent } } else { sent })
}
