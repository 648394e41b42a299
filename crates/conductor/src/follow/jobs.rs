//! What the follower asks Heat for: requests to be sent, and why one fails.

use std::sync::Arc;

use provider_clients::Session;
use tokio::time::Instant;

/// A list request to be sent.
pub(super) struct ListJob {
    /// None: of all projects.
    pub project: Option<Arc<str>>,
    /// None: the service's own.
    pub session: Option<(u64, Session)>,
    pub keys: Vec<u64>,
    pub ids: Vec<String>,
    /// When it was made.
    pub at: Instant,
}

/// Resources to be counted.
pub(super) struct ProgressJob {
    pub key: u64,
    pub project: Arc<str>,
    pub session: (u64, Session),
    pub stack_id: String,
    pub stack_name: String,
    pub status: String,
}

/// What is next.
pub(super) enum Next {
    List(ListJob),
    Progress(ProgressJob),
}

/// Why a listing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListFailure {
    /// Heat or Keystone is in trouble: later.
    Trouble,
    /// This session may not, or no longer: another one.
    Refused,
    /// The request is too long for somebody on the way: fewer stacks at once.
    TooLong,
}
