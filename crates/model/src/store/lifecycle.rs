//! Accepting a lifecycle request on a cluster that exists: status guard, statuses and operation, for use inside one transaction.

use super::connection::Conn;
use super::error::StoreError;
use super::scope::Scope;
use super::{cluster as clusters, nodegroup, operation};
use crate::cluster::Cluster;
use crate::cluster::status::{Begin, Concerns, Status, begin, begin_group};
use crate::id::{ClusterId, NodegroupId, OperationId};
use crate::nodegroup::{DEFAULT_WORKER, Nodegroup, NodegroupChange};
use crate::operation::{NewOperation, Operation, OperationKind};

/// What was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The row as it was before.
    pub cluster: Cluster,
    /// The group that the operation is about, as it was before; none when it is about the whole cluster, or about a group that the caller
    /// inserts in the same transaction.
    pub group: Option<Nodegroup>,
    /// What to ring for.
    pub operation: OperationId,
    /// False when the same work was stored already: the caller changes nothing else then.
    pub is_new: bool,
}

/// Begins an operation: locks the cluster's row, asks the table of the status module, moves the statuses of cluster and groups, stores the
/// operation (which supersedes what it must). Must come first in its transaction, so that of two requests the second sees the first. What
/// else the request changes (sizes, bounds, a new group's row) the caller writes in the same transaction.
///
/// # Errors
/// [`StoreError::NotFound`] when the scope sees no such cluster or the cluster has no such group, [`StoreError::Refused`].
pub async fn accept(conn: &mut Conn, scope: &Scope, new: &NewOperation) -> Result<Accepted, StoreError> {
    let id = &new.cluster;
    clusters::touch(conn, id).await?;
    let cluster = clusters::fetch(conn, scope, id).await?;
    let unfinished = operation::unfinished(conn, id).await?;
    let kinds: Vec<OperationKind> = unfinished.iter().filter_map(Operation::kind).collect();
    let decided = begin(cluster.status(), &kinds, new.kind).map_err(StoreError::Refused)?;
    let stored = |operation: &Operation| operation.operation_id();
    let next = match (decided, unfinished.last()) {
        (Begin::Coalesce, Some(last)) => {
            return Ok(Accepted { cluster, group: None, operation: stored(last), is_new: false });
        }
        // Cannot be: only unfinished work is joined.
        (Begin::Coalesce, None) => return Err(StoreError::Stale { what: "cluster" }),
        (Begin::Start(next) | Begin::Supersede(next), _) => next,
    };
    let group = concerned(conn, new).await?;
    if let Some(group) = &group {
        match begin_group(group.status(), new.kind).map_err(StoreError::Refused)? {
            Begin::Start(next) | Begin::Supersede(next) => {
                nodegroup::record(conn, &group.nodegroup_id(), &NodegroupChange::status(next, None)).await?;
            }
            Begin::Coalesce => {
                let same = unfinished.iter().rfind(|o| o.kind() == Some(new.kind) && is_about(o, &group.nodegroup_id()));
                // A status without an operation is upstream's, or of a database that lost a commit: the work is stored anew.
                if let Some(same) = same {
                    return Ok(Accepted { operation: stored(same), cluster, group: Some(group.clone()), is_new: false });
                }
            }
        }
    }
    clusters::begin(conn, id, cluster.status.as_deref(), next).await?;
    if new.kind.concerns() == Concerns::AllGroups {
        nodegroup::record_all(conn, id, &NodegroupChange::status(next, None)).await?;
    }
    if matches!(decided, Begin::Supersede(_)) {
        operation::supersede(conn, id, &new.id).await?;
    }
    operation::insert(conn, new).await?;
    Ok(Accepted { cluster, group, operation: new.id.clone(), is_new: true })
}

/// The group of an operation that is about one; none for a group whose row is yet to be inserted.
async fn concerned(conn: &mut Conn, new: &NewOperation) -> Result<Option<Nodegroup>, StoreError> {
    if new.kind.concerns() != Concerns::OneGroup || new.kind == OperationKind::NodegroupCreate {
        return Ok(None);
    }
    let ident = new.payload.nodegroup.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
    nodegroup::fetch_in_cluster(conn, &new.cluster, ident).await.map(Some)
}

fn is_about(operation: &Operation, group: &NodegroupId) -> bool {
    operation.payload().is_ok_and(|p| p.nodegroup.as_ref() == Some(group))
}

/// What is left to do on a cluster besides an operation that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Other operations on the cluster are unfinished.
    pub on_cluster: bool,
    /// Other operations about the same group are unfinished.
    pub on_group: bool,
}

/// What waits beside the given operation, which has just ended or is about to; `group` is the group it was about.
pub async fn waiting(conn: &mut Conn, cluster: &ClusterId, ending: &OperationId, group: Option<&Nodegroup>) -> Result<Waiting, StoreError> {
    let others: Vec<Operation> = operation::unfinished(conn, cluster).await?.into_iter().filter(|o| o.uuid != ending.as_str()).collect();
    let about_group = |o: &Operation| match (o.kind().map(OperationKind::concerns), group) {
        (Some(Concerns::OneGroup), Some(group)) => match o.payload().ok().and_then(|p| p.nodegroup) {
            Some(named) => named == group.nodegroup_id(),
            None => group.name == DEFAULT_WORKER,
        },
        (Some(Concerns::AllGroups), Some(_)) => true,
        _ => false,
    };
    Ok(Waiting { on_cluster: !others.is_empty(), on_group: others.iter().any(about_group) })
}

/// Whether a status says that a group has failed.
pub fn has_failed(group: &Nodegroup) -> bool {
    group.status().is_some_and(Status::is_failed)
}
