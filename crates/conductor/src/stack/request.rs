//! Requests to change a stack, as events tell of them.

use chrono::{DateTime, Utc};
use model::operation::{OperationEvent, Progress};

use super::{age, at, record};
use crate::context::Context;
use crate::outcome::Failure;
use crate::plan::{Before, Seen, Sent};
use crate::worker::Work;

/// The event of a request to change a stack; its text is [`before`].
pub(crate) const UPDATE: &str = "stack_update";

/// The event of a stack that was found at work on what the operation did not ask for; its text is [`before`], by which another change is
/// told from this one.
pub(crate) const AT_WORK: &str = "stack_at_work";

/// The event of a request to change or delete a stack that Heat refused for now, or did not answer; its text is the stack's name. Such a request is
/// not one that came to nothing, of which there may be only a few.
pub(crate) const NOT_TAKEN: &str = "stack_request_not_taken";

/// Records that a request came to an error which repeating it may mend.
pub(crate) async fn note_not_taken(cx: &Context, work: &Work, seen: &Seen, asked: Result<(), Failure>) -> Result<(), Failure> {
    if matches!(asked, Err(Failure::Retry { .. })) {
        let progress = Progress { step: "stack", waiting_for: Some(seen.waiting_for()), done: 0, total: seen.total };
        record(cx, work, &progress, &[(NOT_TAKEN, &seen.stack_name)]).await?;
    }
    asked
}

/// How many of these requests Heat has not taken, by what is told of a stack of a name.
pub(crate) fn not_taken<'a>(events: impl IntoIterator<Item = &'a OperationEvent>, stack: &str) -> usize {
    events.into_iter().filter(|e| e.kind == NOT_TAKEN && e.message == stack).count()
}

/// The stack, and when it had been changed before the request, as the cloud says it.
pub(crate) fn before(seen: &Seen) -> String {
    format!("{} {}", seen.stack_name, seen.changed)
}

/// Whether an event tells of a request to change the stack of a name.
pub(crate) fn is_request(event: &OperationEvent, stack: &str) -> bool {
    asked_before(event, stack).is_some()
}

/// Of a request to change the stack of a name: when the stack had been changed before it.
fn asked_before<'a>(event: &'a OperationEvent, stack: &str) -> Option<&'a str> {
    let (name, before) = event.message.split_once(' ').filter(|_| event.kind == UPDATE)?;
    (name == stack).then_some(before)
}

/// What was asked of the stack of a name last, by these events; `tries` is how often the same was asked.
pub(crate) fn sent(cx: &Context, events: &[OperationEvent], stack: &str, tries: usize) -> Option<Sent> {
    let (place, before) = events.iter().enumerate().rev().find_map(|(place, event)| Some((place, asked_before(event, stack)?)))?;
    // One that nobody answered may be carried out until so long after it was given up.
    let last = events[place..].iter().rfind(|e| e.kind == NOT_TAKEN && e.message == stack).unwrap_or(&events[place]);
    Some(Sent { tries, before: Before::Changed(before.to_owned()), is_fresh: age(at(last)) < cx.settings.timing.settle })
}

/// Since when a stack has been at work: since the operation's last request, where that was for this stack, else since it was found so. None
/// where that is to be recorded yet.
pub(crate) fn at_work_since(events: &[OperationEvent], seen: &Seen) -> Option<DateTime<Utc>> {
    let asked = events.iter().rfind(|e| e.kind == UPDATE).filter(|e| is_request(e, &seen.stack_name));
    let found = || events.iter().rfind(|e| e.kind == AT_WORK && e.message == before(seen));
    asked.or_else(found).map(at)
}

#[cfg(test)]
mod tests {
    use model::time::from_millis;

    use super::*;
    use crate::stack::tests as events;

    fn event(at_ms: i64, kind: &str, message: &str) -> OperationEvent {
        OperationEvent { at_ms, ..events::event(kind, message) }
    }

    fn seen(name: &str, changed: &str) -> Seen {
        Seen { stack_name: name.into(), changed: changed.into(), ..Seen::default() }
    }

    #[test]
    fn a_request_that_heat_did_not_take_is_told_by_the_stacks_name() {
        let events = [event(1, UPDATE, "blue "), event(2, NOT_TAKEN, "blue"), event(3, UPDATE, "blue "), event(4, NOT_TAKEN, "green")];
        assert_eq!((not_taken(&events, "blue"), not_taken(&events[2..], "blue"), not_taken(&events, "green")), (1, 0, 1));
    }

    #[test]
    fn a_stack_is_at_work_since_it_was_asked_or_since_somebody_else_was_found_to_have_asked_it() {
        let since = |events: &[OperationEvent], name: &str, changed: &str| at_work_since(events, &seen(name, changed));
        let mut events = vec![event(1, UPDATE, "blue "), event(2, "node_replacement", "x"), event(3, UPDATE, "blue t1")];
        assert_eq!(since(&events, "blue", "t2"), Some(from_millis(3)));
        assert_eq!(since(&events, "green", "t2"), None);
        events.push(event(4, UPDATE, "green t2"));
        // What it was asked has ended, for another one was asked since: somebody else is at it, and has not used up its time.
        assert_eq!(since(&events, "blue", "t5"), None);
        events.push(event(5, AT_WORK, "blue t5"));
        assert_eq!(since(&events, "blue", "t5"), Some(from_millis(5)));
        assert_eq!(since(&events, "blue", "t6"), None, "another change");
        assert_eq!(since(&events, "green", "t3"), Some(from_millis(4)));
    }
}
