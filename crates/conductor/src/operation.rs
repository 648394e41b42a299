//! Which reconciler serves which operation.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::cluster::status::{Concerns, Rest, Status, settle, settle_group};
use model::id::NodegroupId;
use model::nodegroup::{DEFAULT_WORKER, Nodegroup, NodegroupChange};
use model::notification::Outcome;
use model::operation::{Before, CloudFault, Ending, OperationKind, OperationState, OutcomeCode, Payload};
use model::store::lifecycle::{self, Left};
use model::store::{Conn, Scope, StoreError, cluster as clusters, event, exit, nodegroup, operation};

use crate::cluster::{create, delete, force, resize, rotate, rotate_ca, upgrade};
use crate::context::Context;
use crate::cure;
use crate::driver::capi_helm;
use crate::outcome::{Failure, Turn};
use crate::settle::End;
use crate::stack;
use crate::worker::{Size, Work};

/// One turn of the operation's reconciler.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    // Whoever held it has let go; nothing of it may begin any more.
    if work.operation.cancel_ms.is_some() {
        return Err(Failure::fail(OutcomeCode::Cancelled, exit::REASON));
    }
    // Claimed when its time is over, never to be worked on (see `model::store::operation::claim`).
    let Some(kind) = work.operation.understood() else { return Err(Failure::Stale) };
    if let Some(turn) = await_former(cx, work, kind).await? {
        return Ok(turn);
    }
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

/// Of an operation that does again what failed: the turn that waits until nothing can be on its way any more that the failed one has asked the
/// cloud for. What came late would undo what this one does, as an earlier step of a replacement of nodes or an earlier password. None once that
/// is so, and of any other operation. One that has asked for something itself has waited before, whoever worked on it then.
async fn await_former(cx: &Context, work: &Work, kind: OperationKind) -> Result<Option<Turn>, Failure> {
    if work.is_alone() || !comes_after_former(kind, &work.payload()?) {
        return Ok(None);
    }
    let is_alone = work.is_settled(cx) || cx.store.read(async |conn: &mut Conn| has_asked(conn, work).await).await?;
    if !is_alone {
        return stack::await_former(cx, work).await.map(Some);
    }
    work.finds_itself_alone();
    Ok(None)
}

/// Whether requests of a failed operation may stand in the way of this one, which does it again: by its payload, or as a rotation on a cluster
/// that was left failed, which goes on with what was cut off, and replaces nodes of the same stack. Nothing that comes late gives back what is
/// being removed: a removal waits by itself for what may yet appear.
fn comes_after_former(kind: OperationKind, payload: &Payload) -> bool {
    let is_rotation = matches!(kind, OperationKind::CaRotate | OperationKind::CredentialRotate);
    let was_left = payload.before.as_ref().and_then(Before::status) == Some(Status::UpdateFailed);
    (payload.retry_of.is_some() && kind.removal().is_none()) || (is_rotation && was_left)
}

/// Says, on the operation and in the cluster's `status_reason`, that a step failed and will be tried again.
pub(crate) async fn note_retry(cx: &Context, work: &Work, reason: &str, error: Option<&CloudFault>) -> Result<(), StoreError> {
    let change = ClusterChange { status_reason: Some(Some(format!("trying again: {reason}"))), ..ClusterChange::default() };
    let cluster = work.operation.cluster_id();
    let (cluster, change) = (&cluster, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::note_failure(conn, work.claim(), reason, error).await?;
            match clusters::record(conn, cluster, change).await {
                Err(StoreError::Stale { .. }) => Ok(()),
                other => other,
            }
        })
        .await
}

/// Ends an operation badly: outcome, status and reason of the cluster and of the groups it concerns, in one transaction. Returns the outcome that
/// is recorded; none where it ended well after all.
///
/// What is to end in a bounded time whatever the cloud says ends well, and tells what it left.
pub(crate) async fn fail(
    cx: &Context,
    work: &Work,
    code: OutcomeCode,
    reason: &str,
    error: Option<&CloudFault>,
) -> Result<Option<OutcomeCode>, StoreError> {
    if matches!(work.operation.kind(), Some(OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon)) {
        return force::give_up(cx, work, reason).await.map(|()| None);
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
                operation::note_cloud_error(conn, work.claim(), error).await?;
            }
            operation::finish(conn, work.claim(), cluster, ending).await?;
            match work.operation.understood().map(OperationKind::concerns) {
                Some(Concerns::AllGroups) => fail_all(conn, work, reason).await?,
                Some(Concerns::OneGroup | Concerns::NoGroup) => fail_one(conn, work, reason).await?,
                None => give_up(conn, work, reason).await?,
            }
            cx.outbox.ended(conn, &work.operation, Outcome::Failure, None).await
        })
        .await?;
    Ok(Some(code))
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
/// that wait. These put back, if they are cancelled, what it has left: a failure.
async fn give_up(conn: &mut Conn, work: &Work, reason: &str) -> Result<(), StoreError> {
    let (cluster, ended) = (work.operation.cluster_id(), work.operation.operation_id());
    let text = || Some(reason.to_owned());
    for group in nodegroup::of_cluster(conn, &cluster).await? {
        let Some(status) = group.status().and_then(Status::given_up) else { continue };
        let most = lifecycle::most_left(&work.operation, &group);
        if lifecycle::waiting(conn, &cluster, &ended, Some(&group)).await?.on_group {
            // Where it is of a kind that is known. What is in progress else may be no more than that the others wait.
            let kind = work.operation.kind().filter(|_| lifecycle::is_about(&work.operation, &group));
            let status = kind.and_then(|kind| settle_group(kind, OperationState::Failed, None));
            let left = Left { status: None, group: Some((&group, status, most)) };
            lifecycle::rebase(conn, &work.operation, &left).await?;
        } else {
            let node_count = most.filter(|most| *most > group.node_count());
            let change = NodegroupChange { node_count, ..NodegroupChange::status(status, text()) };
            nodegroup::record(conn, &group.nodegroup_id(), &change).await?;
        }
    }
    let row = clusters::find(conn, &Scope::All, &cluster).await?;
    let Some(status) = row.and_then(|row| row.status()).and_then(Status::given_up) else { return Ok(()) };
    if lifecycle::waiting(conn, &cluster, &ended, None).await?.on_cluster {
        return lifecycle::rebase(conn, &work.operation, &Left { status: Some(status), group: None }).await;
    }
    clusters::record(conn, &cluster, &ClusterChange::status(status, text())).await
}

/// Whether anything that changes the size of a group may have been asked of the cloud, by whoever worked on the operation: each such request is
/// recorded before.
async fn has_asked(conn: &mut Conn, work: &Work) -> Result<bool, StoreError> {
    let requests = [stack::MADE, stack::UPDATE, capi_helm::ASKED];
    Ok(!event::latest(conn, &work.operation.operation_id(), &requests, 1).await?.is_empty())
}

/// The size that is written of a group which nobody has seen at rest since the operation began to change it: the most nodes that it may have, for
/// a quota must not give away what is there. `has_asked`: the cloud may have been asked for what is wanted.
fn most_left(payload: &Payload, has_asked: bool, seen: Option<Size>) -> Option<i32> {
    let before = payload.before.as_ref().and_then(|before| before.node_count);
    let wanted = payload.node_count.filter(|_| has_asked);
    let asked = seen.map(|size| match size {
        Size::Is(count) | Size::Asked(count) => count,
    });
    before.max(wanted).max(asked)
}

/// The size that an operation that ends badly leaves its group with: the one that the cloud has, not the one that was wished for. Nothing to
/// reserve: until now the quota has counted the larger of the two.
async fn size_left(conn: &mut Conn, work: &Work, payload: &Payload, group: &Nodegroup) -> Result<Option<i32>, StoreError> {
    match work.seen_size() {
        Some(Size::Is(count)) => Ok(Some(count)),
        seen => Ok(most_left(payload, has_asked(conn, work).await?, seen).max(size_kept(conn, work, group).await?)),
    }
}

/// The size that a group keeps whose nodes this operation replaces, if it came to decide it: since it was claimed, perhaps.
async fn size_kept(conn: &mut Conn, work: &Work, group: &Nodegroup) -> Result<Option<i32>, StoreError> {
    let row = operation::find(conn, &work.operation.operation_id()).await?;
    let payload = row.and_then(|row| row.payload().ok()).unwrap_or_default();
    Ok(payload.sizes.get(&group.nodegroup_id()).copied())
}

async fn fail_one(conn: &mut Conn, work: &Work, reason: &str) -> Result<(), StoreError> {
    let about_one = work.operation.kind().map(OperationKind::concerns) == Some(Concerns::OneGroup);
    let payload = work.operation.payload().unwrap_or_default();
    let ident = payload.nodegroup.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
    let group = match about_one {
        true => nodegroup::find_in_cluster(conn, &work.operation.cluster_id(), ident).await?,
        false => None,
    };
    let node_count = match &group {
        Some(group) => size_left(conn, work, &payload, group).await?,
        None => None,
    };
    let facts = NodegroupChange { node_count, ..NodegroupChange::default() };
    let end = End { state: OperationState::Failed, group: group.as_ref(), facts, reason: Some(reason) };
    crate::settle::record(conn, &work.operation, &end).await
}

#[cfg(test)]
mod tests {
    use model::id::OperationId;

    use super::*;

    #[test]
    fn what_does_a_failed_operation_again_waits_for_its_requests_unless_it_removes_the_cluster() {
        let again = Payload::default().again(OperationId::generate());
        let on = |status: Status| {
            let before = Before { status: Some(status.as_str().to_owned()), ..Before::default() };
            Payload { before: Some(before), ..Payload::default() }
        };
        for kind in OperationKind::ALL.iter().copied() {
            use OperationKind::{CaRotate, ClusterAbandon, ClusterDelete, ClusterForceDelete, CredentialRotate};
            let removes = matches!(kind, ClusterDelete | ClusterForceDelete | ClusterAbandon);
            assert_eq!(comes_after_former(kind, &again), !removes, "{kind:?}");
            let rotates = matches!(kind, CaRotate | CredentialRotate);
            assert_eq!(comes_after_former(kind, &on(Status::UpdateFailed)), rotates, "{kind:?}");
            assert!(!comes_after_former(kind, &on(Status::UpdateComplete)), "{kind:?}");
            assert!(!comes_after_former(kind, &Payload::default()), "{kind:?}");
        }
    }

    #[test]
    fn where_nobody_knows_how_many_nodes_there_are_the_most_that_may_be_count() {
        let payload = |before: Option<i32>, wanted: Option<i32>| {
            let before = Some(Before { node_count: before, ..Before::default() });
            Payload { node_count: wanted, before, ..Payload::default() }
        };
        for (before, wanted, has_asked, seen, most) in [
            // Nobody has asked for anything: the group is what it was.
            (Some(10), Some(3), false, None, Some(10)),
            (Some(3), Some(10), false, None, Some(3)),
            // Somebody has, and who comes after him knows no more.
            (Some(10), Some(3), true, None, Some(10)),
            (Some(3), Some(10), true, None, Some(10)),
            // A stack that failed says what it was asked for.
            (Some(10), Some(3), true, Some(Size::Asked(3)), Some(10)),
            (Some(10), Some(3), false, Some(Size::Asked(12)), Some(12)),
            // A group that was to be made, and one that was only to be looked at.
            (None, Some(4), true, None, Some(4)),
            (None, Some(4), false, None, None),
            (Some(2), None, true, None, Some(2)),
        ] {
            assert_eq!(most_left(&payload(before, wanted), has_asked, seen), most, "{before:?} {wanted:?} {has_asked} {seen:?}");
        }
    }
}
