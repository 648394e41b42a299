//! The end of an operation on a cluster that stays: what it leaves in the rows of its group and of the cluster.

use model::cluster::ClusterChange;
use model::cluster::status::{Rest, Status, settle as cluster_status, settle_group};
use model::id::ClusterId;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{Operation, OperationKind, OperationState};
use model::store::{Conn, StoreError, cluster as clusters, lifecycle, nodegroup, rotation};

/// What is told of a cluster at rest whose rotation was cut off.
const HALF_ROTATED: &str = "a rotation of the cluster's certificate authorities is not at its end: ask for it again";

/// How an operation ended, for the rows.
pub(crate) struct End<'a> {
    pub state: OperationState,
    /// The group that it was about.
    pub group: Option<&'a Nodegroup>,
    /// What is known of that group now; a status given here is put in place of the usual one.
    pub facts: NodegroupChange,
    /// Why it failed, or what is to be told though it did not.
    pub reason: Option<&'a str>,
}

/// Writes it, in the transaction that ends the operation.
///
/// A group that another operation is waiting for keeps status and size, which belong to that one's wish. The cluster is sound again only
/// when nothing waits and no group has failed.
pub(crate) async fn record(conn: &mut Conn, operation: &Operation, end: &End<'_>) -> Result<(), StoreError> {
    let Some(kind) = operation.kind() else { return Ok(()) };
    let id = operation.cluster_id();
    let waiting = lifecycle::waiting(conn, &id, &operation.operation_id(), end.group).await?;
    let payload = operation.payload().unwrap_or_default();
    let as_found = payload.as_found;
    if let Some(group) = end.group {
        // Another service does not always say of a group that it changes it: one that was at rest has not become anything.
        let is_unmoved = as_found && end.state == OperationState::Succeeded && !is_in_progress(group);
        record_group(conn, kind, end, group, waiting.on_group || is_unmoved).await?;
        if as_found && group.is_default() {
            record_twin(conn, kind, end, (group, payload.retry_of.is_some())).await?;
        }
    }
    if waiting.on_cluster {
        let facts = &end.facts;
        let own = facts.status.as_deref().and_then(Status::parse).or_else(|| settle_group(kind, end.state, None));
        let alone = cluster_status(kind, end.state, Rest::default());
        let left = lifecycle::Left { status: alone, group: end.group.map(|group| (group, own, facts.node_count)) };
        lifecycle::rebase(conn, operation, &left).await?;
    }
    let failed = nodegroup::of_cluster(conn, &id).await?.into_iter().find(lifecycle::has_failed);
    let rest = Rest { others_wait: waiting.on_cluster, other_group_failed: failed.is_some(), before: None };
    let Some(status) = cluster_status(kind, end.state, rest) else { return Ok(()) };
    let named = |group: &Nodegroup, text: &str| format!("{}: {text}", group.name);
    // What has failed comes first.
    let told = end.reason.filter(|_| end.state != OperationState::Succeeded || status != Status::UpdateFailed);
    // Nodes of a rotation that was cut off are of two generations, and nothing else would say so once another operation has ended well.
    let is_sound = end.state == OperationState::Succeeded && status != Status::UpdateFailed;
    let half = if is_sound { rotation::find(conn, &id).await?.map(|_| HALF_ROTATED) } else { None };
    let reason = match (told, status) {
        (Some(reason), _) => {
            let own = end.group.map_or_else(|| reason.to_owned(), |g| named(g, reason));
            Some(match half {
                Some(half) => format!("{own}; {half}"),
                None => own,
            })
        }
        (None, Status::UpdateFailed) => failed.as_ref().map(|g| named(g, g.status_reason.as_deref().unwrap_or("failed"))),
        (None, _) => half.map(str::to_owned),
    };
    gone_is_fine(clusters::record(conn, &id, &ClusterChange::status(status, reason)).await)
}

async fn record_group(
    conn: &mut Conn,
    kind: OperationKind,
    end: &End<'_>,
    group: &Nodegroup,
    is_waited_for: bool,
) -> Result<(), StoreError> {
    if (kind, end.state) == (OperationKind::NodegroupDelete, OperationState::Succeeded) {
        return nodegroup::delete(conn, &group.nodegroup_id()).await;
    }
    let mut change = end.facts.clone();
    if is_waited_for {
        (change.status, change.status_reason, change.node_count) = (None, Some(None), None);
    } else if change.status.is_none() {
        change.status = settle_group(kind, end.state, None).map(|s| s.as_str().to_owned());
        change.status_reason = Some(end.reason.map(str::to_owned));
    }
    gone_is_fine(nodegroup::record(conn, &group.nodegroup_id(), &change).await)
}

/// Upstream's upgrade says of both default groups that they are being changed, and one stack tells of both. `is_again`: that was looked at before,
/// and had not come to a good end.
async fn record_twin(conn: &mut Conn, kind: OperationKind, end: &End<'_>, (group, is_again): (&Nodegroup, bool)) -> Result<(), StoreError> {
    let Some(status) = settle_group(kind, end.state, None) else { return Ok(()) };
    let change = NodegroupChange::status(status, end.reason.map(str::to_owned));
    for twin in nodegroup::of_cluster(conn, &ClusterId::new(group.cluster_id.clone())).await? {
        let is_about_it = is_in_progress(&twin) || (is_again && twin.status().is_some_and(Status::is_failed));
        if twin.is_default() && twin.uuid != group.uuid && is_about_it {
            gone_is_fine(nodegroup::record(conn, &twin.nodegroup_id(), &change).await)?;
        }
    }
    Ok(())
}

fn is_in_progress(group: &Nodegroup) -> bool {
    group.status().is_some_and(Status::is_in_progress)
}

/// Somebody removed the row behind our back: the operation must end all the same.
fn gone_is_fine(result: Result<(), StoreError>) -> Result<(), StoreError> {
    match result {
        Err(StoreError::Stale { what: "cluster" | "nodegroup" }) => Ok(()),
        other => other,
    }
}
