//! The words of upstream for what a cluster or a nodegroup is at.

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
    /// Whether something is being done, by its word.
    pub fn is_in_progress(self) -> bool {
        matches!(self, Self::CreateInProgress | Self::UpdateInProgress | Self::DeleteInProgress | Self::RollbackInProgress)
    }

    /// Whether the API shows `faults` for it.
    pub fn is_failed(self) -> bool {
        matches!(self, Self::CreateFailed | Self::UpdateFailed | Self::DeleteFailed | Self::RollbackFailed | Self::ResumeFailed)
    }
}
