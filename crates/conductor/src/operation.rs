//! Which reconciler serves which operation.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::cluster::status::{Concerns, Rest, Status, settle};
use model::id::NodegroupId;
use model::nodegroup::{DEFAULT_WORKER, NodegroupChange};
use model::notification::Outcome;
use model::operation::{CloudFault, Ending, OperationKind, OperationState, OutcomeCode};
use model::store::{Conn, Scope, StoreError, cluster as clusters, event, exit, lifecycle, nodegroup, operation};

use crate::cluster::{create, delete, force, resize, rotate, rotate_ca, upgrade};
use crate::context::Context;
use crate::cure;
use crate::outcome::{Failure, Turn};
use crate::settle::End;
use crate::worker::Work;

/// One turn of the operation's reconciler.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    // Whoever held it has let go; nothing of it may begin any more.
    if work.operation.cancel_ms.is_some() {
        return Err(Failure::fail(OutcomeCode::Cancelled, exit::REASON));
    }
    // Claimed when its time is over, never to be worked on (see `model::store::operation::claim`).
    let Some(kind) = work.operation.understood() else { return Err(Failure::Stale) };
    match kind {
        OperationKind::ClusterCreate => create::turn(cx, work).await,
        OperationKind::ClusterDelete => delete::turn(cx, work).await,
        OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon => force::turn(cx, work).await,
        OperationKind::ClusterUpdate | OperationKind::ClusterResize => resize::turn(cx, work).await,
        OperationKind::NodegroupCreate => crate::nodegroup::create::turn(cx, work).await,
        OperationKind::NodegroupUpdate => crate::nodegroup::update::turn(cx, work).await,
        OperationKind::NodegroupDelete => crate::nodegroup::delete::turn(cx, work).await,
        OperationKind::CredentialRotate => rotate::turn(cx, work).await,
        OperationKind::ClusterUpgrade => upgrade::turn(cx, work).await,
        OperationKind::CaRotate => rotate_ca::turn(cx, work).await,
    }
}

/// Says, on the operation and in the cluster's `status_reason`, that a step failed and will be tried again.
pub(crate) async fn note_retry(cx: &Context, work: &Work, reason: &str, error: Option<&CloudFault>) -> Result<(), StoreError> {
    let change = ClusterChange { status_reason: Some(Some(format!("trying again: {reason}"))), ..ClusterChange::default() };
    let cluster = work.operation.cluster_id();
    let (cluster, change) = (&cluster, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::note_failure(conn, &work.claim, reason, error).await?;
            match clusters::record(conn, cluster, change).await {
                Err(StoreError::Stale { .. }) => Ok(()),
                other => other,
            }
        })
        .await
}

/// Ends an operation badly: outcome, status and reason of the cluster and of the groups it concerns, in one transaction.
///
/// What is to end in a bounded time whatever the cloud says ends well, and tells what it left.
pub(crate) async fn fail(cx: &Context, work: &Work, code: OutcomeCode, reason: &str, error: Option<&CloudFault>) -> Result<(), StoreError> {
    if matches!(work.operation.kind(), Some(OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon)) {
        return force::give_up(cx, work, reason).await;
    }
    let cluster = work.operation.cluster_id();
    let reason = &*error.map_or_else(|| reason.to_owned(), |_| cure::told(reason));
    let ending = Ending::Failed { code, reason: reason.to_owned() };
    let (ending, cluster) = (&ending, &cluster);
    cx.store
        .write(async |conn: &mut Conn| {
            // First of all: a request that is being accepted is seen then, with what it has changed.
            event::queue_up(conn, cluster).await?;
            // Before the last event; nothing of it is stored when the claim turns out not to hold.
            if let Some(error) = error {
                operation::note_cloud_error(conn, &work.claim, error).await?;
            }
            operation::finish(conn, &work.claim, cluster, ending).await?;
            match work.operation.understood().map(OperationKind::concerns) {
                Some(Concerns::AllGroups) => fail_all(conn, work, reason).await?,
                Some(Concerns::OneGroup | Concerns::NoGroup) => fail_one(conn, work, reason).await?,
                None => give_up(conn, work, reason).await?,
            }
            cx.outbox.ended(conn, &work.operation, Outcome::Failure, None).await
        })
        .await
}

async fn fail_all(conn: &mut Conn, work: &Work, reason: &str) -> Result<(), StoreError> {
    let cluster = work.operation.cluster_id();
    let status = work.operation.kind().and_then(|kind| settle(kind, OperationState::Failed, Rest::default()));
    let Some(status) = status else { return Ok(()) };
    let text = Some(reason.to_owned());
    nodegroup::record_all(conn, &cluster, &NodegroupChange::status(status, text.clone())).await?;
    match clusters::record(conn, &cluster, &ClusterChange::status(status, text)).await {
        // Somebody removed the row behind our back: the operation must end all the same.
        Err(StoreError::Stale { .. }) => Ok(()),
        other => other,
    }
}

/// The end of an operation of which this version does not know what it asks: what is in progress has failed, but for what others are about
/// that wait.
async fn give_up(conn: &mut Conn, work: &Work, reason: &str) -> Result<(), StoreError> {
    let (cluster, ended) = (work.operation.cluster_id(), work.operation.operation_id());
    let text = || Some(reason.to_owned());
    for group in nodegroup::of_cluster(conn, &cluster).await? {
        let Some(status) = group.status().and_then(Status::given_up) else { continue };
        if !lifecycle::waiting(conn, &cluster, &ended, Some(&group)).await?.on_group {
            nodegroup::record(conn, &group.nodegroup_id(), &NodegroupChange::status(status, text())).await?;
        }
    }
    if lifecycle::waiting(conn, &cluster, &ended, None).await?.on_cluster {
        return Ok(());
    }
    let row = clusters::find(conn, &Scope::All, &cluster).await?;
    match row.and_then(|row| row.status()).and_then(Status::given_up) {
        Some(status) => clusters::record(conn, &cluster, &ClusterChange::status(status, text())).await,
        None => Ok(()),
    }
}

/// Whether anything that changes the size of a group may have been asked of the cloud, by whoever worked on the operation.
async fn has_asked(conn: &mut Conn, work: &Work) -> Result<bool, StoreError> {
    let steps = event::of_kinds(conn, &work.operation.operation_id(), &[operation::STEP]).await?;
    Ok(steps.iter().any(|e| !matches!(e.message.as_str(), "nodes" | "name" | "found" | "stack_owner" | "quota")))
}

async fn fail_one(conn: &mut Conn, work: &Work, reason: &str) -> Result<(), StoreError> {
    let about_one = work.operation.kind().map(OperationKind::concerns) == Some(Concerns::OneGroup);
    let named = work.operation.payload().ok().and_then(|p| p.nodegroup);
    let ident = named.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
    let group = match about_one {
        true => nodegroup::find_in_cluster(conn, &work.operation.cluster_id(), ident).await?,
        false => None,
    };
    // The size that the cloud has, not the one that was wished for. Nothing to reserve: until now the quota has counted the larger of the two.
    let node_count = match work.seen_workers() {
        None if !has_asked(conn, work).await? => work.operation.payload().ok().and_then(|p| p.before).and_then(|before| before.node_count),
        seen => seen,
    };
    let facts = NodegroupChange { node_count, ..NodegroupChange::default() };
    let end = End { state: OperationState::Failed, group: group.as_ref(), facts, reason: Some(reason) };
    crate::settle::record(conn, &work.operation, &end).await
}
