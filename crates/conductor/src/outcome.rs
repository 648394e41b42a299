//! What a turn came to, and the one place where errors become outcomes.

use std::sync::Arc;
use std::time::Duration;

use model::certificate::CertificateError;
use model::certificate::keeper::KeeperError;
use model::operation::{CloudFault, OutcomeCode};
use model::seal::Unsealable;
use model::seal::vault::VaultError;
use model::store::StoreError;
use model::text::storable;
use provider_clients::{CloudError, Service, Session};
use tokio::sync::Semaphore;

use crate::credentials::UNOPENED;
use crate::driver::capi_helm::news::Listening;
use crate::plan::Seen;
use crate::stack::Told;

/// What a turn that went well came to.
pub(crate) enum Turn {
    /// Look again after a while.
    Again { after: Duration },
    /// Nothing to do until one of these stacks has moved.
    Follow(Vec<Follow>),
    /// Nothing to do until the management cluster tells of a change, or for `poll` while it cannot tell, and never longer than `at_most`.
    Hear { news: Listening, poll: Duration, at_most: Option<Duration> },
    /// Nothing can be done until one of these places is free: so many turns at most speak to one management cluster.
    Room { places: Arc<Semaphore> },
    /// The operation has ended and everything is recorded.
    Settled,
}

/// A stack that an operation waits for.
pub(crate) struct Follow {
    /// The project that it is in.
    pub project: String,
    /// What was seen of it.
    pub seen: Seen,
    /// Can see the stack, and others of its project.
    pub session: Session,
    /// Where its progress is told, and in which words.
    pub told: Told,
    /// How long until it is looked at, whether it has moved or not; none: until the operation's time is over.
    pub at_most: Option<Duration>,
}

impl Turn {
    /// At once: what the next turn needs is recorded, look at it anew.
    pub const NOW: Self = Self::Again { after: Duration::ZERO };
}

/// Why a turn went no further.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The claim no longer holds: stop without a word.
    Stale,
    /// It may go better next time; what the cloud said, if it was the cloud.
    Retry { reason: String, error: Option<Box<CloudFault>> },
    /// It will not: the operation fails.
    Final { code: OutcomeCode, reason: String, error: Option<Box<CloudFault>> },
}

impl Failure {
    /// It may go better next time.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), error: None }
    }

    /// The operation fails.
    pub fn fail(code: OutcomeCode, reason: impl Into<String>) -> Self {
        Self::Final { code, reason: reason.into(), error: None }
    }

    /// The operation fails by what Cluster API says of its cluster.
    pub fn of_cluster_api(reason: String) -> Self {
        Self::of(reason, "cluster-api", "reconcile")
    }

    /// The operation fails by what became of its stack.
    pub fn of_stack(reason: String) -> Self {
        Self::of(reason, "heat", "stack")
    }

    /// What the thing that an operation is about says of itself. A node may put any text into it, of any length: what is kept of it fits its columns.
    fn of(reason: String, service: &str, operation: &str) -> Self {
        let code = if says_quota(&reason) { OutcomeCode::Quota } else { OutcomeCode::Cloud };
        let reason = storable(&reason);
        let error = CloudFault { service: service.into(), operation: operation.into(), message: reason.clone(), ..CloudFault::default() };
        Self::Final { code, reason, error: Some(Box::new(error)) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Stale { what: "operation" } => Self::Stale,
            StoreError::Unavailable(_) | StoreError::Busy(_) => Self::retry("the database"),
            // Another row has moved on, or the database is in the middle of a fail-over: look again; the deadline bounds it.
            StoreError::Stale { .. } | StoreError::Database(_) => {
                tracing::warn!(%error, "the store failed");
                Self::retry("the database")
            }
            StoreError::Sealed(error) => error.into(),
            other => {
                tracing::error!(error = %other, "the store failed in a way that repeating will not mend");
                Self::fail(OutcomeCode::Internal, "a fault of the cluster service; its operator finds the cause in the log")
            }
        }
    }
}

/// What the cloud said, as an operation keeps it.
pub fn fault(error: &CloudError) -> CloudFault {
    CloudFault {
        service: error.service().name().to_owned(),
        operation: error.operation().to_owned(),
        status: error.status(),
        message: error.message().to_owned(),
        request_id: error.request_id().map(str::to_owned),
    }
}

impl From<CloudError> for Failure {
    fn from(error: CloudError) -> Self {
        let reason = error.to_string();
        let said = Some(Box::new(fault(&error)));
        // Its operator is about to change the token, and who waits for a cluster loses nothing by waiting.
        let is_management = error.service() == Service::ManagementCluster && error.is_unauthorized();
        if error.repeating_may_mend() || is_management {
            return Self::Retry { reason, error: said };
        }
        let code = match error.status() {
            _ if says_quota(error.message()) => OutcomeCode::Quota,
            _ if error.is_unauthorized() => OutcomeCode::Credentials,
            Some(400 | 422) => OutcomeCode::User,
            _ => OutcomeCode::Cloud,
        };
        Self::Final { code, reason, error: said }
    }
}

impl From<CertificateError> for Failure {
    fn from(error: CertificateError) -> Self {
        tracing::error!(error = %error, "failed to make or open a certificate");
        Self::fail(OutcomeCode::Internal, format!("certificates: {error}"))
    }
}

impl From<KeeperError> for Failure {
    fn from(error: KeeperError) -> Self {
        let reason = error.to_string();
        match error {
            KeeperError::Store(error) => match *error {
                StoreError::Stale { what: "operation" } => Self::Stale,
                _ => {
                    tracing::warn!(%error, "the store of certificates failed");
                    Self::retry("the database")
                }
            },
            KeeperError::Sealed(error) => error.into(),
            KeeperError::Unavailable { reason, fault } => Self::Retry { reason, error: fault },
            KeeperError::Refused { reason, fault } => Self::Final { code: OutcomeCode::Cloud, reason, error: fault },
            KeeperError::NotFound(_) | KeeperError::NoKeeper { .. } => {
                Self::fail(OutcomeCode::Internal, format!("the cluster's certificates: {reason}"))
            }
        }
    }
}

impl From<VaultError> for Failure {
    /// Keys are read at the start: repeating mends nothing.
    fn from(error: VaultError) -> Self {
        tracing::error!(%error, "a secret in the database cannot be sealed or opened");
        Self::fail(OutcomeCode::Credentials, UNOPENED)
    }
}

impl From<Unsealable> for Failure {
    fn from(error: Unsealable) -> Self {
        Self::fail(OutcomeCode::Credentials, error.to_string())
    }
}

/// Whether the cloud's words speak of a limit the user's project has reached.
fn says_quota(message: &str) -> bool {
    let lower = message.to_lowercase();
    lower.contains("quota") || lower.contains("limit exceeded") || lower.contains("no more ip addresses")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stack_says_of_itself_fits_the_columns_whatever_a_node_has_put_into_it() {
        let long = format!("{} {}", "\u{1}\u{1f600}".repeat(60_000), "Quota exceeded for instances");
        for failure in [Failure::of_stack(long.clone()), Failure::of_cluster_api(long)] {
            let Failure::Final { code: OutcomeCode::Quota, reason, error: Some(error) } = failure else { panic!("another failure") };
            let column = serde_json::to_string(&*error).expect("plain data");
            assert!(column.len() < 32_768 && reason == error.message && !reason.is_empty(), "{}", column.len());
        }
    }
}
