//! An operation: the record of one accepted lifecycle request, from its acceptance to its end.
//!
//! The row is the work; a message on the queue only says that there is some. Whoever works on it holds a lease and a generation
//! ([`Claim`]), and every write must match both.

pub mod deadlines;
mod outcome;
mod payload;
mod steps;

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};

pub use deadlines::Deadlines;
pub use outcome::{CloudFault, Fault, LastCloudError, OutcomeCode};
pub use payload::{Before, Payload};
pub use steps::{STEPS, StepLimits};

use crate::id::{ClusterId, OperationId, ProjectId, UserId};
use crate::schema::{operation, operation_event};
use crate::time::from_millis;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// What is to be done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OperationKind { $($(#[$doc])* $name),+ }

        impl OperationKind {
            /// Every kind this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Every word.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The stored word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// The kind of a stored word; none for a word of a newer version.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$name),)+ _ => None }
            }
        }
    };
}

kinds!(
    ClusterCreate = "cluster_create",
    ClusterDelete = "cluster_delete",
    /// As a delete, but ends in a bounded time whatever the cloud says, and tells what it left.
    ClusterForceDelete = "cluster_force_delete",
    /// Forgets the cluster and leaves its stacks alone.
    ClusterAbandon = "cluster_abandon",
    /// A new size of the default worker group by PATCH (rest-api.md 5.5).
    ClusterUpdate = "cluster_update",
    /// A new size of any worker group, and which nodes go (rest-api.md 5.7).
    ClusterResize = "cluster_resize",
    ClusterUpgrade = "cluster_upgrade",
    NodegroupCreate = "nodegroup_create",
    /// New bounds, node labels or taints (rest-api.md 6.4).
    NodegroupUpdate = "nodegroup_update",
    NodegroupDelete = "nodegroup_delete",
    CaRotate = "ca_rotate",
    CredentialRotate = "credential_rotate",
);

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationState {
    /// Accepted, nobody works on it yet.
    Queued,
    /// Somebody has worked on it; whether somebody does now, the lease tells.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended with an outcome code and a reason.
    Failed,
    /// Gave way to a later operation.
    Superseded,
    /// Ended on request before anybody had worked on it.
    Cancelled,
}

impl OperationState {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Superseded => "SUPERSEDED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// The state of a stored word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|state| state.as_str() == word)
    }

    /// Every state.
    pub const ALL: [Self; 6] = [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Superseded, Self::Cancelled];

    /// Every word.
    pub const WORDS: &'static [&'static str] = &["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "SUPERSEDED", "CANCELLED"];

    /// The words of operations that have not ended.
    pub const UNFINISHED: [&'static str; 2] = ["QUEUED", "RUNNING"];
}

/// The due time of what may begin at once. No clock is in it: where that of who claims is behind that of who has stored it, what was rung for would
/// be left to the next scan.
pub const AT_ONCE: i64 = 0;

/// A row of our `operation` table.
#[derive(Clone, Queryable, Selectable)]
#[diesel(table_name = operation)]
pub struct Operation {
    pub id: i64,
    pub uuid: String,
    pub kind: String,
    pub cluster_uuid: String,
    pub project_id: String,
    pub user_id: String,
    pub request_id: Option<String>,
    pub state: String,
    pub step: String,
    pub waiting_for: Option<String>,
    pub attempt: i32,
    pub generation: i32,
    pub owner: Option<String>,
    pub lease_ms: Option<i64>,
    pub due_ms: i64,
    pub deadline_ms: i64,
    pub progress_done: i32,
    pub progress_total: i32,
    pub outcome_code: Option<String>,
    pub outcome_reason: Option<String>,
    pub payload: String,
    pub sealed_token: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub finished_ms: Option<i64>,
    /// When somebody took it for the first time.
    pub started_ms: Option<i64>,
    /// When its end was asked for while somebody worked on it.
    pub cancel_ms: Option<i64>,
    /// A [`LastCloudError`].
    pub cloud_error: Option<String>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation")
            .field("uuid", &self.uuid)
            .field("kind", &self.kind)
            .field("cluster", &self.cluster_uuid)
            .field("state", &self.state)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Operation {
    /// Its id.
    pub fn operation_id(&self) -> OperationId {
        OperationId::new(self.uuid.clone())
    }

    /// The cluster it works on.
    pub fn cluster_id(&self) -> ClusterId {
        ClusterId::new(self.cluster_uuid.clone())
    }

    /// The kind; none for a kind of a newer version, which must be left alone.
    pub fn kind(&self) -> Option<OperationKind> {
        OperationKind::parse(&self.kind)
    }

    /// When it must have ended; of one that nobody has taken yet, if it were taken when it was accepted.
    pub fn deadline(&self) -> DateTime<Utc> {
        from_millis(self.deadline_ms)
    }

    /// When it was accepted.
    pub fn created(&self) -> DateTime<Utc> {
        from_millis(self.created_ms)
    }

    /// When its time began: when somebody took it for the first time. As long as nobody has, when it was accepted.
    pub fn begun(&self) -> DateTime<Utc> {
        from_millis(self.begun_ms())
    }

    fn begun_ms(&self) -> i64 {
        self.started_ms.unwrap_or(self.created_ms)
    }

    /// Where it stands; none for a word of a newer version.
    pub fn state(&self) -> Option<OperationState> {
        OperationState::parse(&self.state)
    }

    /// Why it failed; none unless it did.
    pub fn outcome(&self) -> Option<OutcomeCode> {
        self.outcome_code.as_deref().and_then(OutcomeCode::parse)
    }

    /// The last call to the cloud that failed.
    pub fn last_cloud_error(&self) -> Option<LastCloudError> {
        self.cloud_error.as_deref().and_then(|text| serde_json::from_str(text).ok())
    }

    /// What the request carried beyond the cluster's row.
    pub fn payload(&self) -> Result<Payload, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }

    /// How long it may take at most once it has begun.
    pub fn allowance(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.deadline_ms.saturating_sub(self.begun_ms())).unwrap_or_default())
    }

    /// The kind, if this version of the program knows what the operation asks.
    pub fn understood(&self) -> Option<OperationKind> {
        self.kind().filter(|_| self.payload().is_ok_and(|payload| payload.version <= Payload::known()))
    }
}

/// What the API stores together with the rows a request changes.
#[derive(Clone)]
pub struct NewOperation {
    pub id: OperationId,
    pub kind: OperationKind,
    pub cluster: ClusterId,
    pub project: ProjectId,
    pub user: UserId,
    pub request_id: Option<String>,
    /// From its beginning, when somebody takes it for the first time, to its latest end.
    pub deadline: Duration,
    pub payload: Payload,
    /// The caller's token, sealed (see [`crate::seal`]); wiped once a trust exists or the operation has ended.
    pub sealed_token: Option<String>,
}

/// The right to work on an operation: held by `owner`, valid while the row's generation is still this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub operation: OperationId,
    /// The number of its row.
    pub row: i64,
    pub owner: String,
    pub generation: i32,
    /// Whether the lease of an earlier owner had run out.
    pub taken_over: bool,
}

/// What came of an attempt to claim.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours; the row as it now stands.
    Ours(Box<Operation>, Claim),
    /// Nothing to do (now): no such operation, ended, held by somebody, not due yet, or behind an earlier one.
    NotNow,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Succeeded,
    Failed { code: OutcomeCode, reason: String },
}

impl Ending {
    /// The state it leads to.
    pub fn state(&self) -> OperationState {
        match self {
            Self::Succeeded => OperationState::Succeeded,
            Self::Failed { .. } => OperationState::Failed,
        }
    }
}

/// A row of our `operation_event` table: what happened, in order.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = operation_event)]
pub struct OperationEvent {
    pub id: i64,
    pub operation_uuid: String,
    pub cluster_uuid: String,
    pub at_ms: i64,
    pub kind: String,
    pub message: String,
    /// JSON, by kind of event; see [`EventDetails`].
    pub details: Option<String>,
}

impl OperationEvent {
    /// When it happened.
    pub fn at(&self) -> DateTime<Utc> {
        from_millis(self.at_ms)
    }

    /// What it says beyond its message.
    pub fn details(&self) -> EventDetails {
        self.details.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// What an event says beyond its message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDetails {
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// The id of his request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// A call to the cloud that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CloudFault>,
    /// A thing in the cloud that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thing: Option<Thing>,
    /// What was removed from the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<Thing>>,
    /// What was to be removed and was gone already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Vec<Thing>>,
    /// What was left in the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaks: Option<Vec<Leak>>,
}

/// Bytes of an event's details at most; the column holds 64 KiB.
const MOST_DETAILS: usize = 60_000;

impl EventDetails {
    /// As it is stored: of lists that are too long, only the beginning; what was left is cut last.
    pub fn column(&self) -> String {
        let mut kept = self.clone();
        loop {
            let text = serde_json::to_string(&kept).expect("details are plain data");
            let is_too_long = text.len() > MOST_DETAILS;
            match (&mut kept.removed, &mut kept.gone, &mut kept.leaks) {
                (Some(things), ..) | (_, Some(things), _) if is_too_long && !things.is_empty() => things.truncate(things.len() / 2),
                (.., Some(leaks)) if is_too_long && !leaks.is_empty() => leaks.truncate(leaks.len() / 2),
                _ => return text,
            }
        }
    }
}

/// Something of a cluster in the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thing {
    /// The word of a [`crate::resource::ResourceKind`].
    pub kind: String,
    pub name: String,
    /// Its id; none when it is not known.
    pub id: Option<String>,
}

/// Something of a cluster that stays in the cloud when the cluster is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// The word of a [`crate::resource::ResourceKind`].
    pub kind: String,
    pub name: String,
    /// Its id; none when it is not known, or when it may not even be there.
    pub id: Option<String>,
    /// Why it was left.
    pub reason: String,
}

/// How far an operation has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The step at work, a short word: one of [`STEPS`].
    pub step: &'static str,
    /// What is waited for, in words for the user.
    pub waiting_for: Option<String>,
    /// Cloud resources complete.
    pub done: i32,
    /// Cloud resources in all (0: not known).
    pub total: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_words_of_their_own_that_fit_the_column() {
        for kind in OperationKind::ALL {
            assert_eq!(OperationKind::parse(kind.as_str()), Some(*kind));
            assert!(kind.as_str().len() <= 32);
        }
        assert_eq!(OperationKind::parse("cluster_freeze"), None);
    }

    #[test]
    fn details_fit_their_column_and_read_back() {
        let leak = Leak { kind: "heat_stack".into(), name: "n".repeat(255), id: None, reason: "\u{e9}".repeat(500) };
        let details = EventDetails { leaks: Some(vec![leak; 300]), ..EventDetails::default() };
        let text = details.column();
        assert!(text.len() <= MOST_DETAILS);
        let read: EventDetails = serde_json::from_str(&text).unwrap();
        assert!(read.leaks.is_some_and(|leaks| leaks.len() > 10));
    }

    #[test]
    fn states_have_words_of_their_own() {
        assert_eq!(OperationState::ALL.map(OperationState::as_str), OperationState::WORDS);
        for state in OperationState::ALL {
            assert_eq!(OperationState::parse(state.as_str()), Some(state));
            assert!(state.as_str().len() <= 16);
        }
    }
}
