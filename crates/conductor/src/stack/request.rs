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
    event.kind == UPDATE && event.message.split_once(' ').is_some_and(|(name, _)| name == stack)
}

/// What was asked of the stack of a name last, by these events; `tries` is how often the same was asked.
pub(crate) fn sent(cx: &Context, events: &[OperationEvent], stack: &str, tries: usize) -> Option<Sent> {
    let last = events.iter().rfind(|e| is_request(e, stack))?;
    let before = last.message.split_once(' ').map(|(_, before)| before.to_owned()).unwrap_or_default();
    Some(Sent { tries, before: Before::Changed(before), is_fresh: age(at(last)) < cx.settings.timing.settle })
}
