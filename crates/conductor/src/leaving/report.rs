//! What the deletion of a cluster tells at its end: removed, found gone, left behind and why.
//!
//! It is read out of what the operation has recorded before each effect, so that a report after a takeover is as whole as any.

use model::operation::{EventDetails, Leak, OperationEvent, Thing};
use model::resource::ResourceKind;

use crate::stack;

/// The event that says what was left.
pub(crate) const REPORT: &str = "leak_report";
/// The event of a thing that is about to be removed.
pub(crate) const REMOVE: &str = "remove";
/// The event of a thing that was to be removed and was not there any more.
pub(crate) const FOUND_GONE: &str = "found_gone";
/// The event of a thing that is not to be removed.
pub(crate) const KEEP: &str = "keep";

/// Characters of a reason in the report at most.
const REASON: usize = 300;

/// Something that is left.
pub(crate) fn leak(kind: ResourceKind, name: &str, id: Option<String>, reason: &str) -> Leak {
    Leak { kind: kind.as_str().into(), name: name.into(), id, reason: reason.chars().take(REASON).collect() }
}

/// The message and the details of the report, from what an operation has recorded and what it knows to be left beside that.
pub(crate) fn report(events: &[OperationEvent], leaks: Vec<Leak>) -> (String, EventDetails) {
    let mut removed: Vec<Thing> = Vec::new();
    let mut gone: Vec<Thing> = Vec::new();
    let mut kept: Vec<Leak> = Vec::new();
    for event in events {
        match event.kind.as_str() {
            KEEP => kept.extend(event.details().leaks.unwrap_or_default()),
            FOUND_GONE => gone.extend(event.details().thing),
            kind if kind == REMOVE || stack::is_request_to_delete(kind) => {
                let thing = asked_for(event);
                // What made it stay at one look need not be so at the next one.
                kept.retain(|leak| !thing.as_ref().is_some_and(|thing| is_leak_of(leak, thing)));
                removed.extend(thing);
            }
            _ => {}
        }
    }
    let mut left = leaks;
    left.extend(kept);
    // Asked for once and not there then: somebody else had removed it. Asked for again, because what came of the first time was not
    // recorded: it was ours to remove.
    gone.retain(|thing| asked(&removed, thing) < 2);
    removed.retain(|thing| !gone.iter().any(|other| is_same(thing, other)));
    let is_left = |thing: &Thing| left.iter().any(|leak| is_leak_of(leak, thing));
    removed.retain(|thing| !is_left(thing));
    gone.retain(|thing| !is_left(thing));
    let (removed, gone) = (once(removed), once(gone));
    let message = match &left[..] {
        [] => "nothing is known to be left in the cloud".to_owned(),
        [one] => format!("left in the cloud: {} {}: {}", one.kind, one.name, one.reason),
        many => format!("left in the cloud: {} things", many.len()),
    };
    (message, EventDetails { removed: Some(removed), gone: Some(gone), leaks: Some(left), ..EventDetails::default() })
}

fn asked_for(event: &OperationEvent) -> Option<Thing> {
    if event.kind == REMOVE {
        return event.details().thing;
    }
    Some(Thing { kind: ResourceKind::Stack.as_str().into(), name: event.message.clone(), id: None })
}

fn is_leak_of(leak: &Leak, thing: &Thing) -> bool {
    leak.kind == thing.kind && (leak.name == thing.name || (leak.id.is_some() && leak.id == thing.id))
}

fn is_same(one: &Thing, other: &Thing) -> bool {
    one.kind == other.kind && (one.name == other.name || (one.id.is_some() && one.id == other.id))
}

fn asked(removed: &[Thing], thing: &Thing) -> usize {
    removed.iter().filter(|other| is_same(thing, other)).count()
}

fn once(things: Vec<Thing>) -> Vec<Thing> {
    let mut kept: Vec<Thing> = Vec::new();
    for thing in things {
        if asked(&kept, &thing) == 0 {
            kept.push(thing);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::tests as events;

    fn thing(name: &str) -> Thing {
        Thing { kind: ResourceKind::LoadBalancer.as_str().into(), name: name.into(), id: Some(format!("id of {name}")) }
    }

    fn event(kind: &str, name: &str) -> OperationEvent {
        let leaks = (kind == KEEP).then(|| vec![leak(ResourceKind::Volume, name, None, "kept")]);
        let details = EventDetails { thing: (kind != KEEP).then(|| thing(name)), leaks, ..EventDetails::default() };
        OperationEvent { details: Some(details.column()), ..events::event(kind, name) }
    }

    fn names(things: Option<Vec<Thing>>) -> Vec<String> {
        things.unwrap_or_default().into_iter().map(|thing| thing.name).collect()
    }

    #[test]
    fn a_report_tells_removed_gone_and_left_apart() {
        let events = [
            event("accepted", "x"),
            event(REMOVE, "once"),
            event(REMOVE, "twice"),
            event(REMOVE, "twice"),
            event(REMOVE, "stays"),
            event(FOUND_GONE, "absent"),
            event(KEEP, "data"),
            event("stack_delete", "blue-1234"),
        ];
        let (message, details) = report(&events, vec![leak(ResourceKind::LoadBalancer, "stays", None, "octavia does not answer")]);
        assert_eq!(message, "left in the cloud: 2 things");
        assert_eq!(names(details.removed), ["once", "twice", "blue-1234"]);
        assert_eq!(names(details.gone), ["absent"]);
        let left: Vec<_> = details.leaks.unwrap_or_default().into_iter().map(|l| (l.name, l.reason)).collect();
        assert_eq!(left, [("stays".into(), "octavia does not answer".into()), ("data".to_owned(), "kept".to_owned())]);
    }

    #[test]
    fn what_was_asked_for_once_and_was_not_there_was_gone_and_what_was_asked_for_again_was_removed() {
        let (_, details) = report(&[event(REMOVE, "a"), event(FOUND_GONE, "a")], Vec::new());
        assert_eq!((names(details.removed), names(details.gone)), (vec![], vec!["a".to_owned()]));
        let (message, details) = report(&[event(REMOVE, "a"), event(REMOVE, "a"), event(FOUND_GONE, "a")], Vec::new());
        assert_eq!((names(details.removed), names(details.gone)), (vec!["a".to_owned()], vec![]));
        assert_eq!(message, "nothing is known to be left in the cloud");
    }

    #[test]
    fn what_was_to_stay_at_one_look_and_went_at_the_next_is_not_left() {
        let kept = |kind: &str| {
            let leaks = vec![leak(ResourceKind::LoadBalancer, "a", Some("id of a".to_owned()), "kept")];
            OperationEvent {
                details: Some(EventDetails { leaks: Some(leaks), ..EventDetails::default() }.column()),
                ..events::event(kind, "a")
            }
        };
        let (message, details) = report(&[kept(KEEP), event(REMOVE, "a")], Vec::new());
        assert_eq!((message.as_str(), names(details.removed)), ("nothing is known to be left in the cloud", vec!["a".to_owned()]));
        let (_, details) = report(&[event(REMOVE, "a"), kept(KEEP)], Vec::new());
        assert_eq!((details.leaks.map_or(0, |left| left.len()), names(details.removed)), (1, vec![]));
    }
}
