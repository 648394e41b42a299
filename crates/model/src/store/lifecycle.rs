//! Accepting a lifecycle request on a cluster that exists: status guard, statuses and operation, for use inside one transaction.

mod kept;

use std::collections::{BTreeMap, BTreeSet};

use super::connection::Conn;
use super::error::StoreError;
use super::scope::Scope;
use super::{cluster as clusters, event, nodegroup, operation, template};
use crate::cluster::Cluster;
use crate::cluster::status::{self, Begin, Concerns, Status, begin, begin_group};
use crate::id::{ClusterId, NodegroupId, OperationId, ProjectId};
use crate::nodegroup::{DEFAULT_WORKER, Nodegroup, NodegroupChange};
use crate::operation::{Before, NewOperation, Operation, OperationKind, Payload};

/// What was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The row as it was before.
    pub cluster: Cluster,
    /// The group that the operation is about, as it was before; none when it is about the whole cluster, or about a group that the caller
    /// inserts in the same transaction.
    pub group: Option<Nodegroup>,
    /// The operation of the request.
    pub operation: OperationId,
    /// The one that does its work, to be rung for: its own, or one that was there before it, beside which nothing is to be done.
    pub at_work: OperationId,
    /// Whether the operation of the request was stored now.
    pub is_new: bool,
}

impl Accepted {
    /// Whether the request is work of its own, and the caller changes the rest with it; no: it is being done already, with something else or as it is.
    pub fn is_to_be_done(&self) -> bool {
        self.is_new && self.at_work == self.operation
    }
}

/// Begins an operation: locks the cluster's row, asks the table of the status module, moves the statuses of cluster and groups, stores the
/// operation (which supersedes what it must). Must come first in its transaction, so that of two requests the second sees the first. What
/// else the request changes (sizes, bounds, a new group's row) the caller writes in the same transaction.
///
/// # Errors
/// [`StoreError::NotFound`] when the scope sees no such cluster, the cluster has no such group, or the template of an upgrade has gone,
/// [`StoreError::Refused`].
pub async fn accept(conn: &mut Conn, scope: &Scope, new: &NewOperation) -> Result<Accepted, StoreError> {
    let id = &new.cluster;
    event::queue_up(conn, id).await?;
    clusters::touch(conn, id).await?;
    if let Some(wanted) = &new.payload.template {
        // A write, so that a change of the template and an upgrade to it exclude each other: what is read of it at each step stays the same. And before the
        // first reading, whose moment is that of all others on MariaDB.
        template::touch(conn, wanted).await?;
    }
    let cluster = clusters::fetch(conn, scope, id).await?;
    let unfinished = operation::unfinished(conn, id).await?;
    let kinds: Vec<OperationKind> = unfinished.iter().filter_map(Operation::kind).collect();
    let decided = match new.payload.retry_of {
        Some(_) => status::retry(cluster.status(), &kinds, new.kind)?,
        None => begin(cluster.status(), &kinds, new.kind).map_err(StoreError::Refused)?,
    };
    // The one that the table decides by.
    let last = unfinished.iter().rfind(|o| o.kind().is_some());
    let is_unknown = |o: &Operation| o.understood().is_none();
    // One that goes further does what is asked and more: it is not to give way to less.
    let decides = last.is_some_and(|o| is_unknown(o) && o.kind().and_then(OperationKind::removal) <= new.kind.removal());
    let decided = status::beside_unknown(decided, new.kind, unfinished.iter().any(is_unknown), decides);
    let stored = |operation: &Operation| operation.operation_id();
    let next = match (decided, last) {
        (Begin::Coalesce, Some(last)) => {
            let by = stored(last);
            let (operation, is_new) =
                if last.kind() == Some(new.kind) { (by.clone(), false) } else { operation::join(conn, new, &by).await? };
            return Ok(Accepted { cluster, group: None, operation, at_work: by, is_new });
        }
        // Cannot be: only unfinished work is joined.
        (Begin::Coalesce, None) => return Err(StoreError::Stale { what: "cluster" }),
        (Begin::Start(next) | Begin::Supersede(next), _) => next,
    };
    let group = concerned(conn, new).await?;
    let before = before(conn, &cluster, group.as_ref(), new.kind, &unfinished).await?;
    if let Some(group) = &group {
        match begin_group(group.status(), new.kind).map_err(StoreError::Refused)? {
            Begin::Start(next) | Begin::Supersede(next) => {
                nodegroup::record(conn, &group.nodegroup_id(), &NodegroupChange::status(next, None)).await?;
            }
            Begin::Coalesce => {
                // One that is to be cancelled ends without having removed the group: nothing may be left to it.
                let same = unfinished.iter().rfind(|o| o.kind() == Some(new.kind) && is_about(o, group) && o.cancel_ms.is_none());
                // A status without an operation is upstream's, or of a database that lost a commit: the work is stored anew.
                if let Some(same) = same {
                    return Ok(Accepted {
                        operation: stored(same),
                        at_work: stored(same),
                        cluster,
                        group: Some(group.clone()),
                        is_new: false,
                    });
                }
            }
        }
    }
    clusters::begin(conn, id, cluster.status.as_deref(), next).await?;
    if new.kind.concerns() == Concerns::AllGroups {
        nodegroup::record_all(conn, id, &NodegroupChange::status(next, None)).await?;
    }
    if matches!(decided, Begin::Supersede(_)) {
        say_most(conn, id, &unfinished).await?;
        operation::supersede(conn, id, &new.id).await?;
    }
    let may_make = new.kind == OperationKind::NodegroupUpdate && may_make(&new.payload, group.as_ref(), before.as_ref(), &unfinished);
    let version = if may_make { new.payload.version.max(Payload::MAKING) } else { new.payload.version };
    let mut payload = Payload { version, before, ..new.payload.clone() };
    if new.kind.replaces_nodes() {
        payload.sizes.clear();
        for (group, count) in kept::by_failed(conn, new).await? {
            payload.keep(group, count);
        }
    }
    let wanted = match &new.payload.template {
        Some(wanted) => template::with_uuid(conn, wanted.as_str()).await?,
        None => None,
    };
    if let Some(wanted) = wanted {
        payload.go_by(wanted.fingerprint(), &new.id);
    }
    operation::insert(conn, &NewOperation { payload, ..new.clone() }).await?;
    Ok(Accepted { cluster, group, operation: new.id.clone(), at_work: new.id.clone(), is_new: true })
}

/// Whether an update of a group may have to make it or mend it: it waits for the group's making, or for whoever makes it after that has failed, or
/// it failed itself and is done again.
fn may_make(payload: &Payload, group: Option<&Nodegroup>, before: Option<&Before>, unfinished: &[Operation]) -> bool {
    let Some(group) = group.filter(|group| !group.is_default()) else { return false };
    let was = before.and_then(|before| before.group(&group.nodegroup_id()));
    payload.retry_of.is_some()
        || matches!(was, Some(Status::CreateInProgress | Status::CreateFailed))
        || unfinished.iter().any(|o| o.kind() == Some(OperationKind::NodegroupCreate) && is_about(o, group))
}

/// The group of an operation that is about one; none for a group whose row is yet to be inserted.
async fn concerned(conn: &mut Conn, new: &NewOperation) -> Result<Option<Nodegroup>, StoreError> {
    let is_yet_to_be = new.kind == OperationKind::NodegroupCreate && new.payload.retry_of.is_none();
    if new.kind.concerns() != Concerns::OneGroup || is_yet_to_be {
        return Ok(None);
    }
    let ident = new.payload.nodegroup.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
    nodegroup::fetch_in_cluster(conn, &new.cluster, ident).await.map(Some)
}

/// Whether an operation is about one group, whichever that is.
fn is_about_one(operation: &Operation) -> bool {
    operation.kind().map(OperationKind::concerns) == Some(Concerns::OneGroup)
}

/// Whether an operation is about this one group, by its payload or as the default of those that name none.
pub fn is_about(operation: &Operation, group: &Nodegroup) -> bool {
    is_about_one(operation) && operation.payload().is_ok_and(|payload| names(&payload, group))
}

/// Whether this is the group that an operation about one group is about; `payload` is the operation's.
fn names(payload: &Payload, group: &Nodegroup) -> bool {
    match &payload.nodegroup {
        Some(named) => named.as_str() == group.uuid,
        None => group.name == DEFAULT_WORKER,
    }
}

/// The most nodes that a group has or may come to have while the operations about it are unfinished that carry these payloads: of what its row
/// says, what they want, and what was before them. Whichever of them is cancelled or fails, the row says no more than that afterwards, but for
/// nodes that were seen beside those, as a replacement that was cut off leaves them.
fn most_nodes<'a>(group: &Nodegroup, about: impl Iterator<Item = &'a Payload>) -> i32 {
    about.filter_map(Payload::most_nodes).fold(group.node_count(), Ord::max)
}

/// The most nodes that a group may be left with by an operation of which nobody knows what it asks; none where it is not about the group, or
/// tells of none. The row may say more or less: it says what the last of those wants that wait.
pub fn most_left(ended: &Operation, group: &Nodegroup) -> Option<i32> {
    ended.payload().ok().filter(|_| is_about(ended, group))?.most_nodes()
}

/// Nodes of a project's groups that count beside those that their rows say, by group; only groups that have such. A row says what is wished
/// from the moment of the request, but fewer nodes are there when the operation has ended, and if it is cancelled or fails there may never be.
pub(super) async fn beyond_rows(conn: &mut Conn, project: &ProjectId) -> Result<BTreeMap<NodegroupId, i64>, StoreError> {
    let carried = operation::about_groups(conn, project).await?;
    let clusters: BTreeSet<&str> = carried.iter().map(|(cluster, _)| cluster.as_str()).collect();
    let clusters: Vec<&str> = clusters.into_iter().collect();
    let beyond = |group: Nodegroup| {
        let about = carried.iter().filter(|(cluster, payload)| *cluster == group.cluster_id && names(payload, &group));
        let most = most_nodes(&group, about.map(|(_, payload)| payload));
        Some((group.nodegroup_id(), i64::from(most) - i64::from(group.node_count()))).filter(|(_, more)| *more > 0)
    };
    Ok(nodegroup::of_clusters(conn, &clusters).await?.into_iter().filter_map(beyond).collect())
}

/// Has the rows of groups say the most nodes that they may have, when the operations about them give way: how far those came nobody says any
/// more, and fewer nodes in the row would be nodes that a quota does not see.
async fn say_most(conn: &mut Conn, cluster: &ClusterId, unfinished: &[Operation]) -> Result<(), StoreError> {
    let carried: Vec<Payload> = unfinished.iter().filter(|o| is_about_one(o)).filter_map(|o| o.payload().ok()).collect();
    if carried.is_empty() {
        return Ok(());
    }
    for group in nodegroup::of_cluster(conn, cluster).await? {
        let most = most_nodes(&group, carried.iter().filter(|payload| names(payload, &group)));
        if most > group.node_count() {
            let change = NodegroupChange { node_count: Some(most), ..NodegroupChange::default() };
            nodegroup::record(conn, &group.nodegroup_id(), &change).await?;
        }
    }
    Ok(())
}

/// What is put back when the request is cancelled before it has begun. Behind others it is what was there before all of them; each that ends
/// puts its own end in that place ([`rebase`]).
pub(super) async fn before(
    conn: &mut Conn,
    cluster: &Cluster,
    group: Option<&Nodegroup>,
    kind: OperationKind,
    unfinished: &[Operation],
) -> Result<Option<Before>, StoreError> {
    let first = |fits: &dyn Fn(&Operation) -> bool| unfinished.iter().find(|o| fits(o)).and_then(|o| o.payload().ok());
    // Removals that give way to this one before anybody has begun them (who begins one meanwhile has it not give way): all is as it was before
    // the first of them.
    let is_untouched = |o: &Operation| o.started_ms.is_none() && o.kind().and_then(OperationKind::removal).is_some();
    if kind.removal().is_some()
        && unfinished.iter().all(is_untouched)
        && let Some(before) = first(&|_| true).and_then(|payload| payload.before)
    {
        return Ok(Some(before));
    }
    let mut kept = Before { status: cluster.status.clone(), ..Before::default() };
    if kind.removal().is_none()
        && let Some(earlier) = first(&|_| true).and_then(|payload| payload.before)
    {
        kept.status = earlier.status;
    }
    match (kind.concerns(), group) {
        (Concerns::AllGroups, _) => {
            let groups = nodegroup::of_cluster(conn, &cluster.cluster_id()).await?;
            let known = groups.into_iter().filter_map(|g| Some((g.nodegroup_id(), g.status?)));
            kept.groups = known.take(Before::MOST_GROUPS).collect();
        }
        (Concerns::OneGroup, Some(group)) => {
            match first(&|o| is_about(o, group)).and_then(|payload| Some((payload.before?, payload.node_count))) {
                // A group that is being made was of no size before: the one that it is made with.
                Some((earlier, made_with)) => (kept.groups, kept.node_count) = (earlier.groups, earlier.node_count.or(made_with)),
                None => {
                    kept.groups = group.status.clone().map(|word| (group.nodegroup_id(), word)).into_iter().collect();
                    kept.node_count = Some(group.node_count());
                }
            }
        }
        (Concerns::OneGroup, None) | (Concerns::NoGroup, _) => {}
    }
    if kind.replaces_nodes() {
        let groups = nodegroup::of_cluster(conn, &cluster.cluster_id()).await?;
        let known = groups.into_iter().map(|g| (g.nodegroup_id(), g.node_count()));
        kept.sizes = known.take(Before::MOST_GROUPS).collect();
    }
    Ok(Some(kept))
}

/// What an operation leaves, for those that wait behind it: they put this back when they are cancelled.
pub struct Left<'a> {
    /// The status of the cluster if nothing waited.
    pub status: Option<Status>,
    /// The group that it was about, with the status that it would have and its size if that is known.
    pub group: Option<(&'a Nodegroup, Option<Status>, Option<i32>)>,
}

/// Has the operations that wait on a cluster behind another one know what that left; `ended` is that one. Where none of those that wait for its
/// group wants a size, the group's row says what was left.
///
/// Only those that it tells something new are written, with all that is in their payloads. Those of a later version too: [`Before`] means the same
/// in all of them, and whoever understands them may find nobody who knows any more what was left.
pub async fn rebase(conn: &mut Conn, ended: &Operation, left: &Left<'_>) -> Result<(), StoreError> {
    let mut behind = operation::unfinished(conn, &ended.cluster_id()).await?;
    behind.retain(|waiting| waiting.id > ended.id);
    for waiting in &behind {
        let Ok(carried) = waiting.payload() else { continue };
        let mut payload = carried.clone();
        let Some(before) = &mut payload.before else { continue };
        if let Some(status) = left.status {
            before.status = Some(status.as_str().to_owned());
        }
        if let Some((group, status, count)) = &left.group
            && is_about(waiting, group)
        {
            if let Some(status) = status {
                before.groups.insert(group.nodegroup_id(), status.as_str().to_owned());
            }
            before.node_count = count.or(before.node_count);
        }
        if payload != carried {
            operation::record_payload(conn, waiting, &payload).await?;
        }
    }
    match left.group {
        Some((group, _, Some(count))) => say_left(conn, &behind, group, count).await,
        Some((_, _, None)) | None => Ok(()),
    }
}

/// Has the row of a group say how many nodes an operation left that has ended, where others wait for the group and none of them wants a size.
/// The row tells the wish of the one that has ended, and nobody would write another number: neither who is cancelled that never asked for one,
/// nor who ends well and has not looked for it. If fewer nodes were wished for than are left, a quota would not see the rest.
async fn say_left(conn: &mut Conn, behind: &[Operation], group: &Nodegroup, count: i32) -> Result<(), StoreError> {
    let wishes: Vec<Option<i32>> =
        behind.iter().filter(|o| is_about(o, group)).map(|o| o.payload().ok().and_then(|payload| payload.node_count)).collect();
    if wishes.is_empty() || wishes.iter().any(Option::is_some) {
        return Ok(());
    }
    let change = NodegroupChange { node_count: Some(count), ..NodegroupChange::default() };
    match nodegroup::record(conn, &group.nodegroup_id(), &change).await {
        // Somebody removed the row behind our back: the operation must end all the same.
        Err(StoreError::Stale { what: "nodegroup" }) => Ok(()),
        other => other,
    }
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
    let about_group =
        |o: &Operation| group.is_some_and(|group| is_about(o, group) || o.kind().map(OperationKind::concerns) == Some(Concerns::AllGroups));
    Ok(Waiting { on_cluster: !others.is_empty(), on_group: others.iter().any(about_group) })
}

/// The size that the last unfinished operation about a group wants for it that wants one, and the status of the group while the last of them
/// waits; `besides` does not count.
pub async fn wanted(conn: &mut Conn, group: &Nodegroup, besides: &OperationId) -> Result<(Option<i32>, Option<Status>), StoreError> {
    let cluster = ClusterId::new(group.cluster_id.clone());
    let others = operation::unfinished(conn, &cluster).await?;
    let about = || others.iter().filter(|o| o.uuid != besides.as_str() && is_about(o, group));
    let size = about().filter_map(|o| o.payload().ok()?.node_count).next_back();
    Ok((size, about().next_back().and_then(Operation::kind).map(status::group_at_work)))
}

/// Whether a status says that a group has failed.
pub fn has_failed(group: &Nodegroup) -> bool {
    group.status().is_some_and(Status::is_failed)
}
