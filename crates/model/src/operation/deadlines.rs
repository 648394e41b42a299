//! How long operations may take.

use std::time::Duration;

use super::OperationKind;

/// From the acceptance of an operation to its latest end, as far as the service is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Minutes, when the cluster's creator named none (`[cluster_heat] create_timeout`).
    pub create_minutes: u32,
    /// Minutes for whatever deletes.
    pub delete_minutes: u32,
    /// For what ends in a bounded time whatever the cloud says (`[operations] force_delete_seconds`).
    pub force_delete: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { create_minutes: 60, delete_minutes: 60, force_delete: Duration::from_secs(600) }
    }
}

impl Deadlines {
    /// How long an operation may take: what deletes, as long as the service is told; all others, as long as the cluster's creation may
    /// (`create_timeout` of its row, in minutes).
    pub fn of(&self, kind: OperationKind, create_timeout: Option<i32>) -> Duration {
        let minutes = match (kind, create_timeout) {
            (OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon, _) => return self.force_delete,
            (OperationKind::ClusterDelete | OperationKind::NodegroupDelete, _) => self.delete_minutes,
            (_, Some(minutes)) if minutes > 0 => minutes.unsigned_abs(),
            _ => self.create_minutes,
        };
        Duration::from_secs(60 * u64::from(minutes))
    }
}
