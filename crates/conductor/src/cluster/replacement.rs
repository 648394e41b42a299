//! Nodes of a stack are replaced by new ones, a few at a time; what for, the caller knows.
//!
//! Masters go one by one, workers by batches: new nodes are made first, they see off as many old ones (from inside the cluster: see
//! `driver/heat/scripts/succession.sh`) before they report ready, then those are taken away. The stack's own parameters tell how far it is
//! (`plan/roll.rs`).

mod failed;
pub(super) mod sizes;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use chrono::DateTime;
use model::cluster::Cluster;
use model::id::NodegroupId;
use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OutcomeCode, Progress};
use model::store::{Conn, event};
use model::text::storable;
use model::time::now;
use provider_clients::Session;

use crate::context::Context;
use crate::driver::{Missing, NewNodes, PoolKind, Succession, Target};
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Before, Observed, Replacement, RollStep, Seen, Sent, UpdateStep};
use crate::stack::{self, Whose};
use crate::worker::Work;
use crate::{certificates, driver};

/// The event of a step, in words.
const STEP: &str = "node_replacement";

/// Events looked through for what was asked last: a large group has more steps than could be read each turn.
const EVENTS: i64 = 100;
/// How the words of a step begin with which members are given up.
const GIVEN_UP: &str = "given up: ";

/// The kinds of these events: of others there may be any number between them.
const STEPS: [&str; 4] = [STEP, stack::UPDATE, stack::NOT_TAKEN, stack::AT_WORK];

/// How much longer a stack may be at work than Heat was given for it. Heat ends by itself what takes longer, as long as somebody is at work
/// on it: where a heat-engine has died in the middle nobody is, and Heat says for ever that it is at work.
const SLACK: Duration = Duration::from_secs(15 * 60);

/// What a user can do about it.
const WAY_OUT: &str = "the nodes of this cluster cannot be replaced: upstream's driver or an early release made its stack. Make a new cluster \
    and move the workload; resize, nodegroups, health and deletion go on working";

/// A replacement of nodes of one stack.
pub(crate) struct Replacing<'a> {
    pub whose: Whose<'a>,
    /// What is replaced, in this order, with the group whose nodes they are, as it will be.
    pub pools: Vec<(PoolKind, &'a Nodegroup)>,
    /// What else is in the stack, and is not touched. The stack fails at those of it, too, that did not become nodes.
    pub beside: Option<(PoolKind, &'a Nodegroup)>,
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
    /// Members for which Heat is to wait no longer: they are given up.
    excused: Vec<Missing>,
}

impl<'a> Todo<'a> {
    /// A step after others of its pool; these members are excused with it.
    fn of((kind, group): (PoolKind, &'a Nodegroup), step: RollStep, excused: Vec<Missing>) -> Self {
        Self { words: words(&group.name, &step), pool: (kind, group), step, begins: false, excused }
    }

    /// Whom the new workers of this step replace, whom masters have to see off for it; masters do it themselves.
    fn succession<'s>(&'s self, seen: &'s Seen) -> Option<Succession<'s>> {
        match (self.pool.0, &self.step) {
            (PoolKind::Workers, RollStep::Add { newcomers, replaces, .. }) if !replaces.is_empty() => {
                Some(Succession { stack: &seen.stack_name, replaces, newcomers: *newcomers })
            }
            _ => None,
        }
    }
}

/// What is sent with a step.
pub(crate) struct Made {
    pub new: NewNodes,
    minutes: u32,
    /// The API is behind a load balancer.
    is_balanced: bool,
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
    let events = cx.store.read(async |conn: &mut Conn| event::latest(conn, id, &STEPS, EVENTS).await).await?;
    let is_broken = matches!(observed, Observed::Broken { .. });
    let todo = match observed.at_rest() {
        Some(seen) => {
            let sizes = match sizes::kept(cx, work, replacing, seen).await? {
                ControlFlow::Continue(sizes) => sizes,
                ControlFlow::Break(turn) => return Ok(Next::Turn(turn)),
            };
            let kinds: Vec<PoolKind> = replacing.all().map(|(kind, _)| kind).collect();
            let missing = if is_broken { driver::missing(session, seen, &kinds).await? } else { Vec::new() };
            let awaited = missing.iter().find(|m| m.is_awaited);
            if let Some(awaited) = awaited.filter(|_| may_be_at_work(cx, replacing.whose.cluster(), seen)) {
                // Heat takes a stack for failed when one of its resources is; what it does with those, too, is to be seen first.
                let what = format!("node {} of stack {}, which has failed", awaited.number, seen.stack_name);
                return stack::wait_for(cx, work, &what).await.map(Next::Turn);
            }
            match failed::to_be_given_up(session, replacing, seen, &missing).await? {
                Some(todo) => Some(todo),
                None => first_undone(work, replacing, &sizes, session, seen, is_broken).await?,
            }
        }
        None => None,
    };
    let sent = observed.seen().and_then(|seen| sent(cx, &events, &seen.stack_name, todo.as_ref()));
    match plan::change(observed, todo.is_none(), sent.as_ref()) {
        UpdateStep::Make => Err(Failure::fail(OutcomeCode::Cloud, "the stack is gone")),
        UpdateStep::Wait(seen) => {
            let left = wait_of(cx, work, &events, replacing.whose.cluster(), &seen).await?;
            let verb = replacing.verb(&seen);
            stack::follow_for(cx, work, replacing.whose, &verb, seen, session, left).await.map(Next::Turn)
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
    let minutes = stack::minutes_left(cx, work).min(minutes_of_step(cx, target.cluster));
    let material = certificates::material(cx, target.cluster).await?;
    let facts = driver::facts_of_more(&cx.settings, cx.store.vault(), target, todo.pool.0, seen).await?;
    let succession = todo.succession(seen);
    let terms = (replacing.generation, minutes);
    let new = driver::new_nodes(&cx.settings, target, todo.pool, &facts, &material, terms, succession.as_ref())?;
    Ok(Made { new, minutes, is_balanced: target.cluster.master_lb_enabled() })
}

/// Asks the stack for the next step, recorded first.
pub(crate) async fn send(cx: &Context, work: &Work, session: &Session, seen: &Seen, todo: &Todo<'_>, made: &Made) -> Result<Turn, Failure> {
    let waiting_for = Some(format!("the change of stack {}", seen.stack_name));
    let progress = Progress { step: "replacement", waiting_for, ..Progress::default() };
    if !todo.excused.is_empty() {
        work.guard(cx, &progress).await?;
        if !driver::excuse(session, seen, &todo.excused).await? {
            return Ok(Turn::Again { after: cx.settings.timing.poll_min });
        }
    }
    if made.is_balanced && todo.pool.0 == PoolKind::Masters {
        // Before the step is recorded: while the load balancer is being changed it takes no other change, and nothing was asked of the stack.
        work.guard(cx, &progress).await?;
        driver::leave_api(session, seen, &todo.step).await?;
    }
    stack::record(cx, work, &progress, &[(STEP, &todo.words), (stack::UPDATE, &stack::before(seen))]).await?;
    let asked = driver::replace(session, seen, todo.pool.0, &todo.step, &made.new, made.minutes).await;
    stack::note_not_taken(cx, work, seen, asked).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

impl<'a> Replacing<'a> {
    /// All pools of the stack, first those that are replaced.
    fn all(&self) -> impl Iterator<Item = (PoolKind, &'a Nodegroup)> {
        self.pools.iter().copied().chain(self.beside)
    }

    fn wanted(&self, kind: PoolKind, group: &Nodegroup, sizes: &BTreeMap<NodegroupId, i32>) -> Replacement {
        // Etcd changes by one member at a time.
        let batch = if kind == PoolKind::Masters { 1 } else { self.batch };
        let count = sizes.get(&group.nodegroup_id()).copied().unwrap_or_else(|| group.node_count());
        Replacement { generation: self.generation.to_owned(), count, batch }
    }

    /// What is told while the stack is at work.
    fn verb(&self, seen: &Seen) -> String {
        let left = |kind: PoolKind| {
            let pool = self.pools.iter().find(|(other, _)| *other == kind).and_then(|_| kind.of(seen));
            pool.filter(|pool| pool.is_of(self.generation)).map(|pool| pool.former.len())
        };
        let progress = match (left(PoolKind::Masters), left(PoolKind::Workers)) {
            (_, Some(left)) => format!("{left} workers left to replace"),
            (Some(left), None) => format!("{left} masters left to replace"),
            (None, None) => "beginning".to_owned(),
        };
        format!("{} ({progress})", self.aim)
    }
}

/// A step has as long as the making of the cluster had.
fn minutes_of_step(cx: &Context, cluster: &Cluster) -> u32 {
    let whole = cluster.create_timeout.and_then(|minutes| u32::try_from(minutes).ok()).filter(|minutes| *minutes > 0);
    whole.unwrap_or(cx.settings.deadlines.create_minutes)
}

/// How much longer a stack at work is waited for. The operation's deadline is that of all its steps together; this is the one of a step.
///
/// What somebody else is found to have asked has as much time, from then on, as a step of ours.
///
/// # Errors
/// When its time is over.
async fn wait_of(cx: &Context, work: &Work, events: &[OperationEvent], cluster: &Cluster, seen: &Seen) -> Result<Duration, Failure> {
    let since = match stack::at_work_since(events, seen) {
        Some(since) => since,
        None => {
            let progress = Progress { step: "stack", waiting_for: Some(seen.waiting_for()), done: seen.done, total: seen.total };
            stack::record(cx, work, &progress, &[(stack::AT_WORK, &stack::before(seen))]).await?;
            now()
        }
    };
    time_left(seen, stack::age(since), minutes_of_step(cx, cluster)).map_err(Failure::of_stack)
}

/// Whether Heat may still be at work on parts of a stack of which it says that it failed: no longer than on the whole.
fn may_be_at_work(cx: &Context, cluster: &Cluster, seen: &Seen) -> bool {
    let longest = Duration::from_secs(60 * u64::from(minutes_of_step(cx, cluster))) + SLACK;
    DateTime::parse_from_rfc3339(&seen.changed).is_ok_and(|since| stack::age(since.to_utc()) < longest)
}

/// What is left to a stack that has been at work for so long, of which Heat was given so many minutes.
///
/// # Errors
/// What to tell when nothing is.
fn time_left(seen: &Seen, waited: Duration, minutes: u32) -> Result<Duration, String> {
    let longest = Duration::from_secs(60 * u64::from(minutes)) + SLACK;
    if waited < longest {
        return Ok(longest - waited);
    }
    let (name, status, waited) = (&seen.stack_name, &seen.status, waited.as_secs() / 60);
    Err(format!(
        "heat: stack {name} has been {status} for {waited} minutes and was given {minutes}: nobody is at work on it any more, as after the end \
         of a heat-engine. What was replaced stays so; have the operator of the cloud end it (heat-manage reset_stack_status), then retry"
    ))
}

async fn first_undone<'a>(
    work: &Work,
    replacing: &Replacing<'a>,
    sizes: &BTreeMap<NodegroupId, i32>,
    session: &Session,
    seen: &Seen,
    is_broken: bool,
) -> Result<Option<Todo<'a>>, Failure> {
    for (kind, group) in replacing.pools.iter().copied() {
        let Some(pool) = kind.of(seen) else { continue };
        let members = failed::numbers(session, seen, kind).await?;
        // A list that does not go with the stack that it is of is of another moment: what it says is gone would not be replaced.
        if !is_broken && i32::try_from(members.len()) != Ok(pool.count) {
            let (listed, count) = (members.len(), pool.count);
            return Err(Failure::retry(format!("Heat lists {listed} nodes of {} and says that there are {count}", group.name)));
        }
        let (begins, wanted) = (!pool.is_of(replacing.generation), replacing.wanted(kind, group, sizes));
        let step = match plan::next_replacement(pool, &members, &wanted) {
            RollStep::Done if !is_broken => continue,
            // What the stack failed at is tried again before anything else: what was to come first may not be there.
            _ if is_broken && !begins => RollStep::Done,
            // A resize takes workers away; of masters those that failed are seen off by the next in any case.
            step if kind == PoolKind::Workers && plan::is_overfull(&step, &wanted) => {
                return Err(Failure::fail(OutcomeCode::User, failed::overfull(&group.name, &step, wanted.count)));
            }
            step => step,
        };
        tracing::debug!(operation = %work.operation.uuid, ?kind, ?step, "replacement");
        return Ok(Some(Todo { begins, ..Todo::of((kind, group), step, Vec::new()) }));
    }
    Ok(None)
}

fn words(group: &str, step: &RollStep) -> String {
    match step {
        RollStep::Add { count, replaces, .. } if replaces.is_empty() => format!("{group}: {count} nodes, new ones are of the new kind"),
        RollStep::Add { count, replaces, .. } => format!("{group}: {count} nodes, new ones replace {}", replaces.join(", ")),
        RollStep::Remove { count, numbers } => format!("{group}: {count} nodes, without {}", numbers.join(", ")),
        RollStep::GiveUp { numbers, .. } => {
            format!("{GIVEN_UP}{group}: {} did not become nodes, others take their place", numbers.join(", "))
        }
        RollStep::Discard { count, numbers, .. } => format!("{group}: {count} nodes, without {}, which never joined", numbers.join(", ")),
        RollStep::Done => format!("{group}: once more what failed"),
    }
}

/// What was asked of the stack last, and how often the step that comes now.
///
/// A step that is followed by another one was taken, whatever the stack's clock says: it counts whole seconds, and steps may be shorter.
fn sent(cx: &Context, events: &[OperationEvent], stack: &str, todo: Option<&Todo<'_>>) -> Option<Sent> {
    // As they were stored.
    let words = todo.map(|todo| storable(&todo.words));
    let is_same = |e: &OperationEvent| words.as_ref() == Some(&e.message);
    let steps = events.iter().enumerate().rev().filter(|(_, e)| e.kind == STEP).take_while(|(_, e)| is_same(e));
    let (tries, first) = steps.fold((0, events.len()), |(tries, _), (place, _)| (tries + 1, place));
    let sent = stack::sent(cx, events, stack, usize::saturating_sub(tries, stack::not_taken(&events[first..], stack)))?;
    // Each step is recorded just before its request.
    let last = events.windows(2).rfind(|pair| stack::is_request(&pair[1], stack)).map(|pair| &pair[0]);
    // It fails, as the stack did before: what comes next has not been asked for.
    if last.is_some_and(|step| step.kind == STEP && step.message.starts_with(GIVEN_UP) && !is_same(step)) {
        return None;
    }
    let was_taken = todo.is_some() && last.is_some_and(|step| step.kind == STEP && !is_same(step));
    Some(if was_taken { Sent { before: Before::Taken, ..sent } } else { sent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_at_work_has_the_time_that_heat_was_given_and_a_little_more_and_then_it_is_told_by_name() {
        let seen = Seen { stack_name: "blue-1".into(), status: "UPDATE_IN_PROGRESS".into(), ..Seen::default() };
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!(time_left(&seen, Duration::ZERO, 60), Ok(minutes(60) + SLACK));
        assert_eq!(time_left(&seen, minutes(74), 60), Ok(minutes(1)));
        let told = time_left(&seen, minutes(76), 60).expect_err("its time is over");
        for word in ["blue-1", "UPDATE_IN_PROGRESS", "76 minutes", "given 60"] {
            assert!(told.contains(word), "{told}");
        }
        assert!(time_left(&seen, minutes(76), 90).is_ok(), "what the creator of the cluster gave it");
    }
}
