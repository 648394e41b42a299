//! The part of the table about ways out: doing a failed operation again, and ending one before its end.

use super::{Begin, Status};
use crate::operation::{OperationKind, OperationState};

/// A way out that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoExit {
    /// Nothing has failed that could be done again in this state.
    #[error("there is no failed operation that could be done again while the cluster is {}", .0.map_or("(none)", Status::as_str))]
    NothingFailed(Option<Status>),
    /// A retry would be behind something else.
    #[error("{0} is unfinished on the cluster: wait for its end, or cancel it, and retry then")]
    Busy(&'static str),
    /// No operation is unfinished.
    #[error("no operation of the cluster is unfinished: there is nothing to cancel")]
    NothingUnfinished,
    /// Nobody here knows what is put back when it is cancelled, or what doing it again asks.
    #[error("the operation is of a newer version of this service: ask there, or remove the cluster")]
    Newer,
    /// What was named has ended.
    #[error("the operation has ended: it is {}", .0.as_str())]
    Ended(OperationState),
    /// What removes things cannot be stopped half way.
    #[error("{0} has begun, and cannot be cancelled any more")]
    Begun(&'static str),
}

/// What a request to cancel an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Nobody has worked on it: it ends at once.
    End,
    /// Somebody works on it, or has: he is told, and nothing else begins before he has let go.
    Tell,
    /// He has been told already.
    Told,
}

/// Whether an operation of this kind that ended so may be done again on a cluster in `current`.
pub fn may_retry(current: Option<Status>, kind: OperationKind, end: OperationState) -> bool {
    let has_failed = match end {
        // Of one that gave way to a removal which was cancelled before it had begun: where that was not, the status is the removal's.
        OperationState::Failed | OperationState::Superseded => true,
        // What was to be made is in a failed status; whatever else was cancelled before it began has left no trace.
        OperationState::Cancelled => matches!(kind, OperationKind::ClusterCreate | OperationKind::NodegroupCreate),
        OperationState::Queued | OperationState::Running | OperationState::Succeeded => false,
    };
    let Some(current) = current else { return false };
    has_failed && current == kind.deed().failed()
}

/// Whether [`may_retry`] says so, or may come to: in whatever status the operation leaves the cluster that is at work on it.
pub fn may_come_to_retry(current: Option<Status>, kind: OperationKind, end: OperationState) -> bool {
    let is_at_work = current.is_some_and(Status::is_in_progress);
    may_retry(if is_at_work { Some(kind.deed().failed()) } else { current }, kind, end)
}

/// Whether an operation of the kind `done` that went well has done the work of an earlier one of the kind `failed` about the same group, or about
/// none. An update of a group changes no node of it, and may leave it as broken as it was: it only does the work of another one, and that of
/// the making of its group, which it makes where that has failed. The work of a rotation of authorities only another one does.
pub fn mends(done: OperationKind, failed: OperationKind) -> bool {
    let is_update = done == OperationKind::NodegroupUpdate;
    let is_done_by_it = matches!(failed, OperationKind::NodegroupUpdate | OperationKind::NodegroupCreate);
    let is_of_authorities = failed == OperationKind::CaRotate && done != failed;
    done.concerns() == failed.concerns() && (!is_update || is_done_by_it) && !is_of_authorities
}

/// What doing a failed operation of `kind` again does, while operations of the kinds `unfinished` have not ended. It begins alone: behind
/// others its wish may be overtaken.
pub fn retry(current: Option<Status>, unfinished: &[OperationKind], kind: OperationKind) -> Result<Begin, NoExit> {
    if let Some(busy) = unfinished.first() {
        return Err(NoExit::Busy(busy.phrase()));
    }
    if !may_retry(current, kind, OperationState::Failed) {
        return Err(NoExit::NothingFailed(current));
    }
    Ok(Begin::Start(kind.deed().at_work()))
}

/// What cancelling an operation of `kind` in `state` does; `is_told`: its end was asked for before.
pub fn cancel(kind: OperationKind, state: OperationState, is_told: bool) -> Result<Cancel, NoExit> {
    match state {
        OperationState::Queued => Ok(Cancel::End),
        OperationState::Running if kind.removal().is_some() => Err(NoExit::Begun(kind.phrase())),
        OperationState::Running if is_told => Ok(Cancel::Told),
        OperationState::Running => Ok(Cancel::Tell),
        OperationState::Succeeded | OperationState::Failed | OperationState::Superseded | OperationState::Cancelled => {
            Err(NoExit::Ended(state))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKING: [OperationKind; 2] = [OperationKind::ClusterCreate, OperationKind::NodegroupCreate];

    #[test]
    fn every_failed_operation_can_be_done_again_in_the_status_it_left_and_in_no_other() {
        for kind in OperationKind::ALL.iter().copied() {
            let left = super::super::settle(kind, OperationState::Failed, super::super::Rest::default());
            for status in Status::ALL.iter().copied().map(Some).chain([None]) {
                let expected = status == left;
                assert_eq!(may_retry(status, kind, OperationState::Failed), expected, "{kind:?} in {status:?}");
                let is_at_work = status.is_some_and(Status::is_in_progress);
                let may_come = may_come_to_retry(status, kind, OperationState::Failed);
                assert_eq!(may_come, expected || is_at_work, "{kind:?} in {status:?}");
                let begun = retry(status, &[], kind);
                assert_eq!(begun.is_ok(), expected, "{kind:?} in {status:?}");
                if let Ok(begun) = begun {
                    assert!(matches!(begun, Begin::Start(next) if next.as_str().ends_with("_IN_PROGRESS")));
                }
                for other in OperationKind::ALL {
                    assert_eq!(retry(status, &[*other], kind), Err(NoExit::Busy(other.phrase())));
                }
                for end in OperationState::ALL {
                    let is_open = match end {
                        OperationState::Failed | OperationState::Superseded => true,
                        OperationState::Cancelled => MAKING.contains(&kind),
                        _ => false,
                    };
                    assert_eq!(may_retry(status, kind, end), is_open && expected, "{kind:?} {end:?} in {status:?}");
                }
            }
        }
    }

    #[test]
    fn what_went_well_does_the_work_of_what_failed_but_an_update_of_a_group_only_that_of_updates_and_of_its_making() {
        use OperationKind::{CaRotate, ClusterResize, ClusterUpgrade, CredentialRotate, NodegroupCreate, NodegroupDelete, NodegroupUpdate};
        for failed in [ClusterResize, ClusterUpgrade, NodegroupCreate, NodegroupUpdate, NodegroupDelete] {
            assert!(mends(ClusterResize, failed), "{failed:?}");
            assert_eq!(mends(NodegroupUpdate, failed), [NodegroupCreate, NodegroupUpdate].contains(&failed), "{failed:?}");
            // What is about another group, or about none.
            assert!(!mends(CaRotate, failed) && !mends(failed, CaRotate), "{failed:?}");
        }
        assert!(mends(CaRotate, CredentialRotate) && mends(CaRotate, CaRotate) && !mends(CredentialRotate, CaRotate));
    }

    #[test]
    fn what_waits_ends_at_once_what_runs_is_told_once_and_a_removal_that_has_begun_goes_on() {
        for kind in OperationKind::ALL.iter().copied() {
            for state in OperationState::ALL {
                for is_told in [false, true] {
                    let expected = match (state, kind.removal(), is_told) {
                        (OperationState::Queued, _, _) => Ok(Cancel::End),
                        (OperationState::Running, Some(_), _) => Err(NoExit::Begun(kind.phrase())),
                        (OperationState::Running, None, true) => Ok(Cancel::Told),
                        (OperationState::Running, None, false) => Ok(Cancel::Tell),
                        (ended, _, _) => Err(NoExit::Ended(ended)),
                    };
                    assert_eq!(cancel(kind, state, is_told), expected, "{kind:?} {state:?}");
                }
            }
        }
    }
}
