//! Deleting a cluster, in whatever state it is: load balancers that Kubernetes made, the stacks of its groups, its own stack, volumes that
//! Kubernetes made, then trust and trustee, then the rows. The event before the end tells what became of each.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::Cluster;
use model::notification::Outcome;
use model::operation::{Ending, Leak, Progress};
use model::store::{Conn, StoreError, certificate, cluster as clusters, event, nodegroup, operation, placement, resource, rotation};

use super::{Rows, find_rows};
use crate::certificates;
use crate::context::Context;
use crate::credentials::{self, Reach, stack_owner};
use crate::driver::{self, capi_helm};
use crate::leaving::{self, REPORT};
use crate::outcome::{Failure, Turn};
use crate::stack::{self, Known, Whose};
use crate::worker::{Work, succeed};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let Some(rows) = find_rows(cx, work).await? else {
        // Removed by an attempt that did not live to settle: nothing is left to do.
        return succeed(cx, work, async |_: &mut Conn| Ok(())).await;
    };
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let (own, others) = (rows.stack(), rows.other_stacks());
    let events = stack::events(cx, work).await?;
    let has_stacks = own.may_exist || !others.is_empty();
    let are_volumes_due = leaving::are_volumes_due(&events, &rows);
    // No stack was ever made, or all that was on the way to here is seen to be gone by an attempt that did not live to settle: nothing to
    // ask the cloud, which the trust that this attempt may have removed could not do any more.
    if !has_stacks && !are_volumes_due && !rows.has_things_inside() {
        return remove(cx, work, &rows).await;
    }
    let reach = credentials::for_removal(cx, work, &rows).await?;
    // Their ports are on the network that goes with the stack.
    let looks_first = leaving::are_balancers_due(&events);
    if looks_first && let Some(turn) = leaving::load_balancers(cx, work, &rows, &reach).await? {
        return Ok(turn);
    }
    if let Some(turn) = leave_groups(cx, work, &rows, &others, &reach).await? {
        return Ok(turn);
    }
    // The groups' nodes are on the network that the cluster's stack made: it goes last.
    if own.may_exist {
        let whose = Whose::Cluster(&rows.cluster);
        if let Some(turn) = leave(cx, work, whose, &own, &reach).await? {
            return Ok(turn);
        }
        // Before the trust goes.
        stack::gone(cx, work, whose, &own).await?;
        return Ok(Turn::NOW);
    }
    if !looks_first
        && leaving::are_balancers_due_again(&events, &rows)
        && let Some(turn) = leaving::load_balancers(cx, work, &rows, &reach).await?
    {
        return Ok(turn);
    }
    // No server holds them any more.
    if are_volumes_due && let Some(turn) = leaving::volumes(cx, work, &rows, &reach).await? {
        return Ok(turn);
    }
    remove(cx, work, &rows).await
}

/// As [`stack::leave`], whoever's rights there are.
///
/// The service sees a stack of another project by its id only: of one whose id is not known it must be told by Heat that there is none.
pub(crate) async fn leave(cx: &Context, work: &Work, whose: Whose<'_>, known: &Known, reach: &Reach) -> Result<Option<Turn>, Failure> {
    let mut known = known.clone();
    if reach.is_service && known.handle.id.is_none() {
        // Before the look, as in [`stack::leave`].
        let is_settled = known.is_settled(cx, work);
        known.handle.id = driver::find_anywhere(&known.handle, &reach.session).await?;
        if known.handle.id.is_none() {
            return if is_settled { Ok(None) } else { stack::await_unclear(cx, work).await.map(Some) };
        }
    }
    stack::leave(cx, work, whose, &known, &reach.session).await
}

/// One step for every stack of a group; none once all are gone.
async fn leave_groups(cx: &Context, work: &Work, rows: &Rows, others: &[Known], reach: &Reach) -> Result<Option<Turn>, Failure> {
    let mut pause: Option<Duration> = None;
    let mut follows = Vec::new();
    for known in others {
        let whose = owner(rows, known);
        match leave(cx, work, whose, known, reach).await? {
            Some(Turn::Again { after }) => pause = Some(pause.map_or(after, |p| p.min(after))),
            Some(Turn::Follow(more)) => follows.extend(more),
            Some(turn @ (Turn::Settled | Turn::Hear { .. } | Turn::Room { .. })) => return Ok(Some(turn)),
            None => stack::gone(cx, work, whose, known).await?,
        }
    }
    Ok(match pause {
        Some(after) => Some(Turn::Again { after }),
        None => (!follows.is_empty()).then_some(Turn::Follow(follows)),
    })
}

/// Whose stack it is that is not the cluster's own.
pub(crate) fn owner<'a>(rows: &'a Rows, known: &Known) -> Whose<'a> {
    let group = rows.groups.iter().find(|g| !g.is_default() && rows.stack_of(g).handle.name == known.handle.name);
    group.map_or(Whose::Nobody(&rows.cluster), |g| Whose::Group(&rows.cluster, g))
}

/// Everything else is gone: remove trust and trustee and the stacks' owner with his key pair, then certificates that are kept outside the database, then the rows.
async fn remove(cx: &Context, work: &Work, rows: &Rows) -> Result<Turn, Failure> {
    if let Some(turn) = await_unclear(cx, work, rows).await? {
        return Ok(turn);
    }
    credentials::remove(cx, work, &rows.cluster).await?;
    let left = stack_owner::remove(cx, work, rows).await?;
    certificates::remove(cx, work, &rows.cluster).await?;
    forget(cx, work, rows, left).await
}

/// Waits for users, trusts, key pairs, credentials and certificates that were asked for without a clear answer: they may still appear, and nobody would
/// remove them then. The time counts as for stacks.
pub(crate) async fn await_unclear(cx: &Context, work: &Work, rows: &Rows) -> Result<Option<Turn>, Failure> {
    if rows.unclear.is_empty() {
        return Ok(None);
    }
    let waiting_for =
        Some("a user, a trust, a key pair, a credential or a certificate that was asked for without a clear answer".to_owned());
    work.guard(cx, &Progress { step: "credentials", waiting_for, ..Progress::default() }).await?;
    Ok(Some(Turn::Again { after: cx.settings.timing.poll_min }))
}

/// The report, and the end of the rows. `leaks`: what is known to be left; told beside that is what may still appear, and what a deletion before
/// this one has kept.
pub(crate) async fn forget(cx: &Context, work: &Work, rows: &Rows, mut leaks: Vec<Leak>) -> Result<Turn, Failure> {
    let cluster = &rows.cluster;
    let events = stack::events(cx, work).await?;
    leaks.extend(leaving::may_appear(cluster, &rows.unclear, &events, &leaks));
    leaks.extend(leaving::kept_before(&events, rows.kept_inside(), &leaks));
    let (message, details) = leaving::report(&events, leaks);
    let left = details.leaks.as_deref().unwrap_or_default();
    if !left.is_empty() {
        tracing::warn!(leaks = ?left, "a cluster is gone, and things of it are left in the cloud");
    }
    let progress = Progress { step: "report", ..Progress::default() };
    let (id, operation_id, progress) = (&cluster.cluster_id(), &work.operation.operation_id(), &progress);
    let (message, details) = (&message, &details);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            // Whoever reads on to the end of the operation has read the report.
            event::append_with(conn, operation_id, id, REPORT, message, Some(details)).await?;
            operation::finish(conn, work.claim(), id, &Ending::Succeeded).await?;
            let before = cx.outbox.look(conn, &work.operation).await?;
            remove_rows(conn, cluster).await?;
            cx.outbox.ended(conn, &work.operation, Outcome::Success, before).await
        })
        .await?;
    Ok(Turn::Settled)
}

/// Removes everything that is stored of a cluster, but what was done with it.
async fn remove_rows(conn: &mut Conn, cluster: &Cluster) -> Result<(), StoreError> {
    let id = &cluster.cluster_id();
    let mut pairs = cluster.references().all();
    pairs.extend(rotation::find(conn, id).await?.map(|rotation| rotation.references.all()).unwrap_or_default());
    certificate::delete(conn, &pairs).await?;
    rotation::end(conn, id).await?;
    placement::forget(conn, id).await?;
    resource::forget_all(conn, id).await?;
    nodegroup::delete_all(conn, id).await?;
    clusters::delete(conn, id).await
}
