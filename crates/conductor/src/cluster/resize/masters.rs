//! Masters that did not become nodes, in a stack whose workers are to be more or fewer.
//!
//! A rotation or an upgrade that failed at a master leaves a stack that fails at it whatever it is asked. So that workers need not wait until that is
//! done again, the master is passed by, in the two steps of a replacement (`cluster/replacement/failed.rs`): it becomes a former member first, and only
//! then Heat is told to wait for it no longer. It stays, and whoever replaces masters next sees it off, as if this operation had not been.

use model::operation::{OperationEvent, OutcomeCode, Progress};
use provider_clients::Session;

use super::stays;
use crate::context::Context;
use crate::driver::{self, Missing, PoolKind};
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Pool, RollStep, Seen, UPDATE_TRIES};
use crate::stack;
use crate::worker::Work;

/// The event of masters that are about to become former members; its text is their numbers. The request is the next event.
const PASSED_BY: &str = "masters_passed_by";

/// One step of passing by the masters at which a stack has failed; none when Heat waits for none of them any more.
pub(super) async fn pass_by(
    cx: &Context,
    work: &Work,
    session: &Session,
    seen: &Seen,
    events: &[OperationEvent],
) -> Result<Option<Turn>, Failure> {
    let Some(pool) = PoolKind::Masters.of(seen).filter(|_| is_left_by_change(&seen.status)) else { return Ok(None) };
    let mut failed = driver::missing(session, seen, &[PoolKind::Masters]).await?;
    failed.retain(|m| !m.is_awaited);
    if failed.is_empty() || !leaves_any(pool, &failed) {
        return Ok(None);
    }
    // What made them may have asked for more, which says again who is a former member.
    if !work.is_settled(cx) {
        return stack::wait_for(cx, work, &stays(seen)).await.map(Some);
    }
    let waiting_for = Some(format!("the change of stack {}", seen.stack_name));
    let progress = Progress { step: "stack", waiting_for, ..Progress::default() };
    let again = Turn::Again { after: cx.settings.timing.poll_min };
    if let Some(RollStep::GiveUp { numbers, generation }) = plan::give_up(pool, failed.iter().map(|m| m.number.clone())) {
        let list = numbers.join(", ");
        if tries(events) >= UPDATE_TRIES {
            let text = format!("heat: stack {} does not take note that masters {list} did not become nodes", seen.stack_name);
            return Err(Failure::fail(OutcomeCode::Cloud, text));
        }
        let minutes = stack::minutes_left(cx, work);
        stack::record(cx, work, &progress, &[(PASSED_BY, &list), (stack::UPDATE, &stack::before(seen))]).await?;
        driver::give_up(session, seen, PoolKind::Masters, &numbers, &generation, minutes).await?;
        return Ok(Some(again));
    }
    work.guard(cx, &progress).await?;
    let is_known = driver::excuse(session, seen, &failed).await?;
    Ok((!is_known).then_some(again))
}

/// How often masters were to become former members.
pub(super) fn tries(events: &[OperationEvent]) -> usize {
    events.iter().filter(|e| e.kind == PASSED_BY).count()
}

/// Whether nothing else was asked of the stack since.
pub(super) fn are_last(events: &[OperationEvent]) -> bool {
    let requests: Vec<&str> = events.iter().map(|e| e.kind.as_str()).filter(|kind| [PASSED_BY, stack::UPDATE].contains(kind)).collect();
    requests.ends_with(&[PASSED_BY, stack::UPDATE])
}

/// What is told of masters that were passed by.
pub(super) async fn note(session: &Session, seen: &Seen) -> Result<Option<String>, Failure> {
    let passed: Vec<String> = driver::excused(session, seen, PoolKind::Masters).await?.into_iter().map(|m| m.number).collect();
    Ok((!passed.is_empty()).then(|| {
        let list = passed.join(", ");
        format!("masters {list} did not become nodes; the upgrade or rotation that they were made for, asked for again, has others come")
    }))
}

/// Whether a stack failed at a change: one that failed while it was made is of no cluster that could be resized.
fn is_left_by_change(status: &str) -> bool {
    status.ends_with("_FAILED") && !status.starts_with("CREATE_")
}

/// Whether a master is left when these are passed by. Without any the cluster is none, and nothing else may say so.
fn leaves_any(pool: &Pool, failed: &[Missing]) -> bool {
    i32::try_from(failed.len()).is_ok_and(|failed| failed < pool.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::tests as events;

    fn event(kind: &str) -> OperationEvent {
        events::event(kind, "")
    }

    #[test]
    fn a_request_after_the_passing_by_of_masters_is_told_from_it() {
        let mut events = vec![event("accepted"), event(PASSED_BY), event(stack::UPDATE)];
        assert_eq!((tries(&events), are_last(&events)), (1, true));
        events.push(event("operation_step"));
        assert!(are_last(&events));
        events.push(event(stack::UPDATE));
        assert_eq!((tries(&events), are_last(&events)), (1, false));
        assert!(!are_last(&[event(stack::UPDATE)]) && !are_last(&[]));
    }

    #[test]
    fn masters_are_passed_by_where_a_change_failed_and_others_are_left() {
        for (status, is) in [("UPDATE_FAILED", true), ("CREATE_FAILED", false), ("UPDATE_COMPLETE", false), ("ROLLBACK_COMPLETE", false)] {
            assert_eq!(is_left_by_change(status), is, "{status}");
        }
        let master = |number: &str| Missing { kind: PoolKind::Masters, number: number.into(), is_awaited: false, is_absent: false };
        let pool = |count: i32| Pool { count, ..Pool::default() };
        assert!(leaves_any(&pool(2), &[master("1")]));
        assert!(!leaves_any(&pool(1), &[master("0")]) && !leaves_any(&pool(2), &[master("0"), master("1")]));
    }
}
