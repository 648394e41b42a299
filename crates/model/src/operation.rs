//! An operation: the record of one accepted lifecycle request, from its acceptance to its end.
//!
//! The row is the work; a message on the queue only says that there is some. Whoever works on it holds a lease and a generation
//! ([`Claim`]), and every write must match both.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, NodegroupId, OperationId, ProjectId, TemplateId, UserId};
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
        }
    }

    /// The words of operations that have not ended.
    pub const UNFINISHED: [&'static str; 2] = ["QUEUED", "RUNNING"];
}

/// Why an operation failed, in a word that programs can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeCode {
    /// The deadline passed.
    Timeout,
    /// The cloud refused for lack of quota.
    Quota,
    /// The request cannot be carried out as it is (the user can mend it).
    Invalid,
    /// The cloud failed, or refused for a reason of its own.
    Cloud,
    /// What was delegated to us no longer works (expired token, removed trust).
    Credentials,
    /// A fault of this service.
    Internal,
}

impl OutcomeCode {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Quota => "quota",
            Self::Invalid => "invalid",
            Self::Cloud => "cloud",
            Self::Credentials => "credentials",
            Self::Internal => "internal",
        }
    }
}

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

    /// When it must have ended.
    pub fn deadline(&self) -> DateTime<Utc> {
        from_millis(self.deadline_ms)
    }

    /// When it was accepted.
    pub fn created(&self) -> DateTime<Utc> {
        from_millis(self.created_ms)
    }

    /// What the request carried beyond the cluster's row.
    pub fn payload(&self) -> Result<Payload, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }
}

/// What a request carries beyond the row it concerns; `version` grows when its meaning changes, and fields that are not given read as
/// nothing asked (rows of older versions have `{"version":1}` only).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    pub version: u32,
    /// The group that the request is about; none: the default worker group, or the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodegroup: Option<NodegroupId>,
    /// The wanted size of that group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i32>,
    /// The nodes that go first: Nova server ids, member numbers or addresses, as the user named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_to_remove: Vec<String>,
    /// The template to upgrade to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateId>,
    /// Nodes upgraded at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_batch_size: Option<i32>,
    /// Whether the cloud shall go back to the state before when the change fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback: bool,
    /// The trace of the request (W3C `traceparent`), which the work on the operation goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl Payload {
    /// The version this program writes.
    pub const VERSION: u32 = 1;
}

impl Default for Payload {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            nodegroup: None,
            node_count: None,
            nodes_to_remove: Vec::new(),
            template: None,
            max_batch_size: None,
            rollback: false,
            traceparent: None,
        }
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
    /// From acceptance to the latest end.
    pub deadline: Duration,
    pub payload: Payload,
    /// The caller's token, sealed (see [`crate::seal`]); wiped once a trust exists or the operation has ended.
    pub sealed_token: Option<String>,
}

/// The right to work on an operation: held by `owner`, valid while the row's generation is still this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub operation: OperationId,
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
}

/// How far an operation has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The step at work, a short word.
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
    fn a_payload_of_an_older_row_reads_and_nothing_asked_is_not_written() {
        assert_eq!(serde_json::from_str::<Payload>(r#"{"version":1}"#).unwrap(), Payload::default());
        assert_eq!(serde_json::to_string(&Payload::default()).unwrap(), r#"{"version":1}"#);
        let resize = Payload {
            nodegroup: Some(NodegroupId::generate()),
            node_count: Some(3),
            nodes_to_remove: vec!["a".into()],
            rollback: true,
            ..Payload::default()
        };
        assert_eq!(serde_json::from_str::<Payload>(&serde_json::to_string(&resize).unwrap()).unwrap(), resize);
    }
}
