//! Which reconciler serves which operation.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::cluster::status::{Rest, settle};
use model::nodegroup::NodegroupChange;
use model::operation::{Ending, OperationKind, OperationState, OutcomeCode, Progress};
use model::store::{Conn, StoreError, cluster as clusters, nodegroup, operation};

use crate::cluster::{create, delete};
use crate::context::Context;
use crate::outcome::{Failure, Turn};
use crate::worker::Work;

/// One turn of the operation's reconciler.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    match work.operation.kind() {
        Some(OperationKind::ClusterCreate) => create::turn(cx, work).await,
        Some(OperationKind::ClusterDelete) => delete::turn(cx, work).await,
        Some(
            kind @ (OperationKind::ClusterUpdate
            | OperationKind::ClusterResize
            | OperationKind::ClusterUpgrade
            | OperationKind::NodegroupCreate
            | OperationKind::NodegroupUpdate
            | OperationKind::NodegroupDelete
            | OperationKind::CaRotate
            | OperationKind::CredentialRotate),
        ) => Err(Failure::fail(OutcomeCode::Invalid, format!("the cluster's driver does not support {}", kind.phrase()))),
        // Never claimed (see `model::store::operation::claim`).
        None => Err(Failure::Stale),
    }
}

/// Says, on the operation and in the cluster's `status_reason`, that a step failed and will be tried again.
pub(crate) async fn note_retry(cx: &Context, work: &Work, reason: &str) -> Result<(), StoreError> {
    let progress = Progress { step: "retrying", waiting_for: Some(reason.to_owned()), ..Progress::default() };
    let change = ClusterChange { status_reason: Some(Some(format!("trying again: {reason}"))), ..ClusterChange::default() };
    let cluster = work.operation.cluster_id();
    let (cluster, progress, change) = (&cluster, &progress, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            match clusters::record(conn, cluster, change).await {
                Err(StoreError::Stale { .. }) => Ok(()),
                other => other,
            }
        })
        .await
}

/// Ends an operation badly: outcome, status and reason of the cluster and its groups, in one transaction.
pub(crate) async fn fail(cx: &Context, work: &Work, code: OutcomeCode, reason: &str) -> Result<(), StoreError> {
    let cluster = work.operation.cluster_id();
    let status = work.operation.kind().and_then(|kind| settle(kind, OperationState::Failed, Rest::default()));
    let ending = Ending::Failed { code, reason: reason.to_owned() };
    let (ending, cluster) = (&ending, &cluster);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::finish(conn, &work.claim, cluster, ending).await?;
            let Some(status) = status else { return Ok(()) };
            let text = Some(reason.to_owned());
            nodegroup::record_all(conn, cluster, &NodegroupChange::status(status, text.clone())).await?;
            match clusters::record(conn, cluster, &ClusterChange::status(status, text)).await {
                // Somebody removed the row behind our back: the operation must end all the same.
                Err(StoreError::Stale { .. }) => Ok(()),
                other => other,
            }
        })
        .await
}
