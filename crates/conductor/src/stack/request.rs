//! Requests to change a stack, as events tell of them.

use model::operation::OperationEvent;

use super::{age, at};
use crate::context::Context;
use crate::plan::{Before, Seen, Sent};

/// The event of a request to change a stack; its text is [`before`].
pub(crate) const UPDATE: &str = "stack_update";

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
    let (last, before) = events.iter().rev().find_map(|event| Some((event, asked_before(event, stack)?)))?;
    Some(Sent { tries, before: Before::Changed(before.to_owned()), is_fresh: age(at(last)) < cx.settings.timing.settle })
}
