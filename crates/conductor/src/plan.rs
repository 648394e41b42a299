//! Deciding: pure functions from what was observed to the one thing to do next, with its reason.

use std::time::Duration;

/// What was seen in the cloud. After a failed call it is `Unknown` until seen again; it is never taken for a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// There is no such stack.
    Absent,
    /// A stack of this name exists that we did not make for this cluster.
    Foreign { reason: String },
    /// Being made or changed.
    Building(Seen),
    /// Complete.
    Ready(Seen),
    /// Failed while being made or changed.
    Broken { seen: Seen, reason: String },
    /// Being deleted.
    Leaving(Seen),
    /// Failed while being deleted.
    Stuck { seen: Seen, reason: String },
}

/// A stack that was seen, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub stack_id: String,
    pub stack_name: String,
    /// Resources complete (or gone, while leaving).
    pub done: i32,
    pub total: i32,
    /// Names of resources at work, a few.
    pub busy: Vec<String>,
}

impl Seen {
    /// What is waited for, in words.
    pub fn waiting_for(&self) -> String {
        match &self.busy[..] {
            [] => format!("stack {}", self.stack_name),
            names => format!("{} of stack {}", names.join(", "), self.stack_name),
        }
    }
}

/// The next thing to do for a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CreateStep {
    Make,
    Wait(Seen),
    Finish(Seen),
    Fail { seen: Option<Seen>, reason: String },
}

/// The next thing to do for a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeleteStep {
    Remove(Seen),
    Wait(Seen),
    Finish,
    Fail { reason: String },
}

/// Requests to delete one stack that ended in DELETE_FAILED before the operation fails: most such failures are races inside the cloud
/// that a second request survives.
pub(crate) const DELETE_TRIES: usize = 3;

/// Decides for a create.
pub(crate) fn create(observed: Observed) -> CreateStep {
    match observed {
        Observed::Absent => CreateStep::Make,
        Observed::Building(seen) => CreateStep::Wait(seen),
        // The name is taken by a stack on its way out: wait until it is gone, then make ours.
        Observed::Leaving(seen) => CreateStep::Wait(seen),
        Observed::Ready(seen) => CreateStep::Finish(seen),
        Observed::Broken { seen, reason } | Observed::Stuck { seen, reason } => CreateStep::Fail { seen: Some(seen), reason },
        Observed::Foreign { reason } => CreateStep::Fail { seen: None, reason },
    }
}

/// Decides for a delete; `tries` is how often this operation has asked for the deletion.
pub(crate) fn delete(observed: Observed, tries: usize) -> DeleteStep {
    match observed {
        // A foreign stack is not ours to remove: as far as this cluster goes there is none.
        Observed::Absent | Observed::Foreign { .. } => DeleteStep::Finish,
        Observed::Building(seen) | Observed::Ready(seen) | Observed::Broken { seen, .. } => DeleteStep::Remove(seen),
        Observed::Leaving(seen) => DeleteStep::Wait(seen),
        Observed::Stuck { seen, .. } if tries < DELETE_TRIES => DeleteStep::Remove(seen),
        Observed::Stuck { reason, .. } => DeleteStep::Fail { reason },
    }
}

/// When to look again: soon while the stack is young, seldom when it is old, never outside the bounds. Jitter is the caller's.
pub(crate) fn next_look(age: Duration, min: Duration, max: Duration) -> Duration {
    (age / 20).clamp(min, max.max(min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen { stack_id: "s".into(), stack_name: "blue-1".into(), done: 1, total: 3, busy: vec!["kube_masters".into()] }
    }

    fn all() -> Vec<Observed> {
        let reason = String::from("no");
        vec![
            Observed::Absent,
            Observed::Foreign { reason: reason.clone() },
            Observed::Building(seen()),
            Observed::Ready(seen()),
            Observed::Broken { seen: seen(), reason: reason.clone() },
            Observed::Leaving(seen()),
            Observed::Stuck { seen: seen(), reason },
        ]
    }

    #[test]
    fn a_create_makes_a_stack_only_when_none_is_there() {
        for observed in all() {
            let makes = create(observed.clone()) == CreateStep::Make;
            assert_eq!(makes, observed == Observed::Absent, "{observed:?}");
        }
    }

    #[test]
    fn a_delete_never_touches_a_foreign_stack_and_gives_up_only_after_tries() {
        assert_eq!(delete(Observed::Foreign { reason: String::new() }, 0), DeleteStep::Finish);
        for tries in 0..DELETE_TRIES {
            assert!(matches!(delete(Observed::Stuck { seen: seen(), reason: "x".into() }, tries), DeleteStep::Remove(_)));
        }
        assert!(matches!(delete(Observed::Stuck { seen: seen(), reason: "x".into() }, DELETE_TRIES), DeleteStep::Fail { .. }));
        for observed in all() {
            if !matches!(observed, Observed::Stuck { .. }) {
                assert!(!matches!(delete(observed, 99), DeleteStep::Fail { .. }));
            }
        }
    }

    #[test]
    fn looks_grow_rarer_with_age_within_bounds() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(next_look(Duration::ZERO, min, max), min);
        assert_eq!(next_look(Duration::from_secs(60), min, max), Duration::from_secs(3));
        assert_eq!(next_look(Duration::from_secs(3600), min, max), max);
    }
}
