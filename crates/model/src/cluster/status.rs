//! The state machine of clusters and nodegroups: the words, which operation may begin in which state, and where its outcome leads.
//!
//! No other file compares statuses to decide whether something is allowed. Both functions are exhaustive on purpose: a new operation or
//! status must be answered here before the program compiles.

use crate::operation::{OperationKind, OperationState};

macro_rules! statuses {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// Status words of upstream (database.md 5.1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Status { $($name),+ }

        impl Status {
            /// Every status.
            pub const ALL: &'static [Status] = &[$(Status::$name),+];

            /// Every word.
            pub const WORDS: &'static [&'static str] = &[$($text),+];

            /// The stored and printed word.
            pub fn as_str(self) -> &'static str {
                match self { $(Status::$name => $text),+ }
            }

            /// The status of a stored word; none for a word outside the enumeration.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Status::$name),)+ _ => None }
            }
        }
    };
}

statuses!(
    CreateInProgress = "CREATE_IN_PROGRESS",
    CreateFailed = "CREATE_FAILED",
    CreateComplete = "CREATE_COMPLETE",
    UpdateInProgress = "UPDATE_IN_PROGRESS",
    UpdateFailed = "UPDATE_FAILED",
    UpdateComplete = "UPDATE_COMPLETE",
    DeleteInProgress = "DELETE_IN_PROGRESS",
    DeleteFailed = "DELETE_FAILED",
    DeleteComplete = "DELETE_COMPLETE",
    ResumeComplete = "RESUME_COMPLETE",
    ResumeFailed = "RESUME_FAILED",
    RestoreComplete = "RESTORE_COMPLETE",
    RollbackInProgress = "ROLLBACK_IN_PROGRESS",
    RollbackFailed = "ROLLBACK_FAILED",
    RollbackComplete = "ROLLBACK_COMPLETE",
    SnapshotComplete = "SNAPSHOT_COMPLETE",
    CheckComplete = "CHECK_COMPLETE",
    AdoptComplete = "ADOPT_COMPLETE",
);

impl Status {
    /// Whether the API shows `faults` for it.
    pub fn is_failed(self) -> bool {
        matches!(self, Self::CreateFailed | Self::UpdateFailed | Self::DeleteFailed | Self::RollbackFailed | Self::ResumeFailed)
    }
}

/// What accepting a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Store the operation and move the cluster to this status.
    Start(Status),
    /// The same work is already stored and unfinished: accept without storing it again.
    Coalesce,
    /// As `Start`, and whatever else is unfinished on the cluster gives way.
    Supersede(Status),
}

/// The request is refused in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster in state {} cannot begin {}", .status.map_or("(none)", Status::as_str), .kind.as_str())]
pub struct Refused {
    pub status: Option<Status>,
    pub kind: OperationKind,
}

/// Whether `kind` may begin on a cluster in `current` (none: the row does not exist yet), while `unfinished` is the kind of an operation
/// that has not ended.
pub fn begin(current: Option<Status>, unfinished: Option<OperationKind>, kind: OperationKind) -> Result<Begin, Refused> {
    match (kind, current, unfinished) {
        (OperationKind::ClusterCreate, None, None) => Ok(Begin::Start(Status::CreateInProgress)),
        (OperationKind::ClusterCreate, status, _) => Err(Refused { status, kind }),
        // Delete is accepted in every state; a second one adds nothing while the first is at work.
        (OperationKind::ClusterDelete, _, Some(OperationKind::ClusterDelete)) => Ok(Begin::Coalesce),
        (OperationKind::ClusterDelete, _, Some(OperationKind::ClusterCreate)) => Ok(Begin::Supersede(Status::DeleteInProgress)),
        (OperationKind::ClusterDelete, _, None) => Ok(Begin::Start(Status::DeleteInProgress)),
    }
}

/// The status in which an ended operation leaves its cluster; none when the row goes or when another operation has taken over.
pub fn settle(kind: OperationKind, end: OperationState) -> Option<Status> {
    match (kind, end) {
        (_, OperationState::Queued | OperationState::Running | OperationState::Superseded) => None,
        (OperationKind::ClusterCreate, OperationState::Succeeded) => Some(Status::CreateComplete),
        (OperationKind::ClusterCreate, OperationState::Failed) => Some(Status::CreateFailed),
        (OperationKind::ClusterDelete, OperationState::Succeeded) => None,
        (OperationKind::ClusterDelete, OperationState::Failed) => Some(Status::DeleteFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_and_fit_the_column() {
        for s in Status::ALL {
            assert_eq!(Status::parse(s.as_str()), Some(*s));
            assert!(s.as_str().len() <= 20);
        }
        assert_eq!(Status::parse("PAUSED"), None);
    }

    #[test]
    fn delete_begins_in_every_state_and_create_only_without_a_row() {
        let states = Status::ALL.iter().copied().map(Some).chain([None]);
        for status in states {
            for unfinished in [None, Some(OperationKind::ClusterCreate), Some(OperationKind::ClusterDelete)] {
                let delete = begin(status, unfinished, OperationKind::ClusterDelete).expect("delete is never refused");
                match unfinished {
                    None => assert_eq!(delete, Begin::Start(Status::DeleteInProgress)),
                    Some(OperationKind::ClusterCreate) => assert_eq!(delete, Begin::Supersede(Status::DeleteInProgress)),
                    Some(OperationKind::ClusterDelete) => assert_eq!(delete, Begin::Coalesce),
                }
                let create = begin(status, unfinished, OperationKind::ClusterCreate);
                assert_eq!(create.is_ok(), status.is_none() && unfinished.is_none());
            }
        }
    }

    #[test]
    fn a_failed_operation_always_leaves_a_failed_status() {
        for kind in [OperationKind::ClusterCreate, OperationKind::ClusterDelete] {
            assert!(settle(kind, OperationState::Failed).is_some_and(Status::is_failed));
            assert_eq!(settle(kind, OperationState::Superseded), None);
        }
    }
}
