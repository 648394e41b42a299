//! Ways out: ending an operation before its end, and finding the failed one that is to be done again. For use inside one transaction.

use super::connection::Conn;
use super::error::StoreError;
use super::lifecycle::{self, Left, Waiting};
use super::scope::Scope;
use super::{cluster as clusters, event, history, nodegroup, notification, operation};
use crate::cluster::ClusterChange;
use crate::cluster::status::{self, Cancel, Concerns, NoExit, Rest, Status, settle, settle_group};
use crate::id::{ClusterId, NodegroupId, OperationId};
use crate::nodegroup::{DEFAULT_WORKER, Nodegroup, NodegroupChange};
use crate::operation::{Before, EventDetails, Operation, OperationKind, OperationState};

/// What is said of an operation that was cancelled.
pub const REASON: &str = "cancelled on request";

/// What was cancelled.
#[derive(Debug)]
pub struct Cancelled {
    /// The operation.
    pub operation: OperationId,
    /// What to ring for: the operation itself, for whoever is to end it, or the next one in line.
    pub ring: Option<OperationId>,
}

/// Cancels the named operation of a cluster, or the oldest that is unfinished. Others are told of what that bears on as `publisher`, if they are to be told.
///
/// # Errors
/// [`StoreError::NotFound`] for what the scope does not see, [`StoreError::NoExit`], [`StoreError::Stale`] when somebody has taken it
/// meanwhile.
pub async fn cancel(
    conn: &mut Conn,
    scope: &Scope,
    cluster: &ClusterId,
    named: Option<&OperationId>,
    by: &EventDetails,
    publisher: Option<&str>,
) -> Result<Cancelled, StoreError> {
    event::queue_up(conn, cluster).await?;
    clusters::touch(conn, cluster).await?;
    clusters::fetch(conn, scope, cluster).await?;
    let unfinished = operation::unfinished(conn, cluster).await?;
    let found = match named {
        Some(id) => {
            let row = operation::find(conn, id).await?.filter(|row| row.cluster_uuid == cluster.as_str());
            row.ok_or_else(|| StoreError::NotFound { what: "operation", key: id.to_string() })?
        }
        None => unfinished.first().cloned().ok_or(NoExit::NothingUnfinished)?,
    };
    // Of a kind that this program does not know nobody here knows what rows would say; of all others [`Before`] tells, whatever version they are of.
    let (Some(kind), Some(state)) = (found.kind(), found.state()) else {
        return Err(found.state().filter(|_| found.finished_ms.is_some()).map_or(NoExit::Newer, NoExit::Ended).into());
    };
    let id = found.operation_id();
    match status::cancel(kind, state, found.cancel_ms.is_some())? {
        Cancel::Told => Ok(Cancelled { ring: Some(id.clone()), operation: id }),
        Cancel::Tell => {
            operation::ask_to_cancel(conn, &found, by).await?;
            Ok(Cancelled { ring: Some(id.clone()), operation: id })
        }
        Cancel::End => {
            operation::cancel(conn, &found, REASON, by).await?;
            put_back(conn, &found, kind).await?;
            // Nobody will begin it, who would tell of them. Last, so that others are told of the cluster as it stays.
            if let Some(publisher) = publisher {
                notification::tell_superseded(conn, &found, publisher).await?;
            }
            let next = unfinished.iter().map(Operation::operation_id).find(|other| *other != id);
            Ok(Cancelled { operation: id, ring: next })
        }
    }
}

/// Has rows say what they said before a request that was cancelled before it had begun, or what those that still wait want.
async fn put_back(conn: &mut Conn, cancelled: &Operation, kind: OperationKind) -> Result<(), StoreError> {
    let cluster = cancelled.cluster_id();
    let payload = cancelled.payload().unwrap_or_default();
    let before = payload.before.clone().unwrap_or_default();
    let named = payload.nodegroup.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
    let group = match kind.concerns() {
        Concerns::OneGroup => nodegroup::find_in_cluster(conn, &cluster, named).await?,
        Concerns::AllGroups | Concerns::NoGroup => None,
    };
    let waiting = lifecycle::waiting(conn, &cluster, &cancelled.operation_id(), group.as_ref()).await?;
    match kind.concerns() {
        Concerns::AllGroups => put_groups_back(conn, &cluster, kind, &before).await?,
        Concerns::OneGroup => {
            if let Some(group) = &group {
                put_group_back(conn, cancelled, kind, group, &before, waiting).await?;
            }
        }
        Concerns::NoGroup => {}
    }
    let groups = nodegroup::of_cluster(conn, &cluster).await?;
    let failed = groups.iter().find(|g| lifecycle::has_failed(g));
    let rest = Rest { others_wait: waiting.on_cluster, other_group_failed: failed.is_some(), before: before.status() };
    let Some(next) = settle(kind, OperationState::Cancelled, rest) else { return Ok(()) };
    let reason = next.is_failed().then(|| match failed {
        Some(group) if kind.concerns() == Concerns::OneGroup => {
            format!("{}: {}", group.name, group.status_reason.as_deref().unwrap_or("failed"))
        }
        _ => REASON.to_owned(),
    });
    clusters::record(conn, &cluster, &ClusterChange::status(next, reason)).await
}

async fn put_groups_back(conn: &mut Conn, cluster: &ClusterId, kind: OperationKind, before: &Before) -> Result<(), StoreError> {
    for group in nodegroup::of_cluster(conn, cluster).await? {
        let id = group.nodegroup_id();
        // A group that was not kept, or had no status, follows its cluster.
        if let Some(next) = settle_group(kind, OperationState::Cancelled, before.group(&id).or(before.status())) {
            let reason = next.is_failed().then(|| REASON.to_owned());
            nodegroup::record(conn, &id, &NodegroupChange::status(next, reason)).await?;
        }
    }
    Ok(())
}

async fn put_group_back(
    conn: &mut Conn,
    cancelled: &Operation,
    kind: OperationKind,
    group: &Nodegroup,
    before: &Before,
    waiting: Waiting,
) -> Result<(), StoreError> {
    let id = group.nodegroup_id();
    let is_found = cancelled.payload().is_ok_and(|payload| payload.as_found);
    // What was found at work has failed; of a group that had no status nobody has said that it is not well.
    let was = before.group(&id).or_else(|| group.status().filter(|_| is_found)).unwrap_or(Status::UpdateComplete);
    let mut change = NodegroupChange::default();
    if waiting.on_group {
        // The size that is still wanted: that of the last wish left; and what is still being done.
        let (size, status) = lifecycle::wanted(conn, group, &cancelled.operation_id()).await?;
        change = NodegroupChange { node_count: size, status: status.map(|s| s.as_str().to_owned()), ..change };
        if kind == OperationKind::NodegroupCreate {
            // Those that wait for its making were accepted when there was nothing to put back yet.
            let left = Left { status: None, group: Some((group, settle_group(kind, OperationState::Cancelled, None), None)) };
            lifecycle::rebase(conn, cancelled, &left).await?;
        }
    } else if let Some(next) = settle_group(kind, OperationState::Cancelled, Some(was)) {
        change = NodegroupChange::status(next, next.is_failed().then(|| REASON.to_owned()));
    }
    let is_size = matches!(kind, OperationKind::ClusterResize | OperationKind::ClusterUpdate);
    if is_size && change.node_count.is_none() {
        // Nothing to reserve: the quota has counted it all the time (`lifecycle::beyond_rows`).
        change.node_count = before.node_count;
    }
    nodegroup::record(conn, &id, &change).await?;
    if is_found && group.is_default() {
        give_twins_up(conn, cancelled, group).await?;
    }
    Ok(())
}

/// Upstream's upgrade says of both default groups that they are being changed, and what was taken up is about one.
async fn give_twins_up(conn: &mut Conn, cancelled: &Operation, group: &Nodegroup) -> Result<(), StoreError> {
    let (cluster, id) = (cancelled.cluster_id(), cancelled.operation_id());
    let groups = nodegroup::of_cluster(conn, &cluster).await?;
    for twin in groups.iter().filter(|twin| twin.is_default() && twin.uuid != group.uuid) {
        let is_waited_for = lifecycle::waiting(conn, &cluster, &id, Some(twin)).await?.on_group;
        if let Some(next) = twin.status().and_then(Status::given_up).filter(|_| !is_waited_for) {
            nodegroup::record(conn, &twin.nodegroup_id(), &NodegroupChange::status(next, Some(REASON.to_owned()))).await?;
        }
    }
    Ok(())
}

/// The last failed operation of a cluster that can be done again: not one whose work a later one has done.
///
/// # Errors
/// [`StoreError::NoExit`] when there is none, or when its state does not allow it.
pub async fn last_failed(conn: &mut Conn, scope: &Scope, cluster: &ClusterId) -> Result<Operation, StoreError> {
    let row = clusters::fetch(conn, scope, cluster).await?;
    if let Some(busy) = operation::unfinished(conn, cluster).await?.iter().find_map(Operation::kind) {
        return Err(NoExit::Busy(busy.phrase()).into());
    }
    // What went well since.
    let mut done: Vec<About> = Vec::new();
    for (found, state, about) in ended(conn, cluster).await? {
        if state == OperationState::Succeeded {
            done.push(about);
        } else if status::may_retry(row.status(), about.kind, state) && !about.is_mended_by(&done) {
            // Doing an older one again would undo what came since.
            return found.understood().map(|_| found).ok_or_else(|| NoExit::Newer.into());
        }
    }
    Err(NoExit::NothingFailed(row.status()).into())
}

/// The oldest operation of a cluster, by its number, that [`last_failed`] may yet come to name: while the cluster is in `status`, or has come to
/// what is at work on it leads to. Of several about the same thing that is the newest, which stands for those before it.
pub(super) async fn first_to_retry(conn: &mut Conn, cluster: &ClusterId, status: Option<Status>) -> Result<Option<i64>, StoreError> {
    // Nothing is read of the many that are well.
    if status.is_none_or(Status::is_complete) {
        return Ok(None);
    }
    let mut first = None;
    let mut done: Vec<About> = Vec::new();
    for (found, state, about) in ended(conn, cluster).await? {
        if state == OperationState::Succeeded {
            done.push(about);
        } else if status::may_come_to_retry(status, about.kind, state) && !about.is_mended_by(&done) {
            first = Some(found.id);
            // Whoever does this one again does theirs.
            done.push(about);
        }
    }
    Ok(first)
}

/// What an operation does, and the group that it is about (none: the cluster as a whole).
struct About {
    kind: OperationKind,
    group: Option<NodegroupId>,
    /// It looks what becomes of another service's change of the default groups.
    is_of_both: bool,
}

impl About {
    /// Whether its work is done by one of these, which came after it. One of ours does that in one group.
    fn is_mended_by(&self, later: &[Self]) -> bool {
        let does_all = |by: &Self| by.is_of_both || !self.is_of_both;
        later.iter().any(|by| by.group == self.group && does_all(by) && status::mends(by.kind, self.kind))
    }
}

/// The last operations of a cluster that have ended, the newest first, those left out of which this version does not know what they are about.
/// Of some it may know that and not understand them.
async fn ended(conn: &mut Conn, cluster: &ClusterId) -> Result<Vec<(Operation, OperationState, About)>, StoreError> {
    // Whoever names no group means this one.
    let usual = nodegroup::find_in_cluster(conn, cluster, DEFAULT_WORKER).await?.map(|group| group.nodegroup_id());
    let finished = history::finished(conn, cluster, history::LOOKED_THROUGH).await?;
    let about = |found: Operation| {
        let (kind, state, payload) = (found.kind()?, found.state()?, found.payload().ok()?);
        let named = payload.nodegroup;
        let group = if kind.concerns() == Concerns::OneGroup { named.or_else(|| usual.clone()) } else { None };
        let is_of_both = payload.as_found && kind == OperationKind::ClusterResize && group == usual;
        // It had begun long before it was found: it has left a trace, and who does it again looks what has become of it.
        let state = if is_of_both && state == OperationState::Cancelled { OperationState::Failed } else { state };
        Some((found, state, About { kind, group, is_of_both }))
    };
    Ok(finished.into_iter().filter_map(about).collect())
}
