//! Deleting a cluster, in whatever state it is: the stacks of its groups, its own stack, then trust and trustee, then the rows.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::Cluster;
use model::resource::ResourceKind;
use model::store::{Conn, StoreError, certificate, cluster as clusters, nodegroup, resource};
use provider_clients::Session;

use super::{Rows, find_rows};
use crate::context::Context;
use crate::credentials;
use crate::outcome::{Failure, Turn};
use crate::stack::{self, Known, Whose};
use crate::worker::{Work, succeed};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let Some(rows) = find_rows(cx, work).await? else {
        // Removed by an attempt that did not live to settle: nothing is left to do.
        return succeed(cx, work, async |_: &mut Conn| Ok(())).await;
    };
    let (own, others) = (rows.stack(), rows.other_stacks());
    // No stack was ever made, or all were seen to be gone by an attempt that did not live to settle: nothing to ask the cloud, which the
    // trust that this attempt may have removed could not do any more.
    if !own.may_exist && others.is_empty() {
        return remove(cx, work, &rows).await;
    }
    let session = credentials::for_existing(cx, work, &rows.cluster).await?;
    if let Some(turn) = leave_groups(cx, work, &rows, &others, &session).await? {
        return Ok(turn);
    }
    // The groups' nodes are on the network that the cluster's stack made: it goes last.
    let whose = Whose::Cluster(&rows.cluster);
    if let Some(turn) = stack::leave(cx, work, whose, &own, &session).await? {
        return Ok(turn);
    }
    // Before the trust goes.
    stack::gone(cx, work, whose, &own).await?;
    remove(cx, work, &rows).await
}

/// One step for every stack of a group; none once all are gone.
async fn leave_groups(cx: &Context, work: &Work, rows: &Rows, others: &[Known], session: &Session) -> Result<Option<Turn>, Failure> {
    let mut pause: Option<Duration> = None;
    let mut follows = Vec::new();
    for known in others {
        let whose = owner(rows, known);
        match stack::leave(cx, work, whose, known, session).await? {
            Some(Turn::Again { after }) => pause = Some(pause.map_or(after, |p| p.min(after))),
            Some(Turn::Follow(more)) => follows.extend(more),
            Some(Turn::Settled) => return Ok(Some(Turn::Settled)),
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

/// The stack is gone: remove what else was made, then the rows.
async fn remove(cx: &Context, work: &Work, rows: &Rows) -> Result<Turn, Failure> {
    credentials::remove(cx, work, &rows.cluster).await?;
    let cluster = &rows.cluster;
    succeed(cx, work, async |conn: &mut Conn| remove_rows(conn, cluster).await).await
}

/// Removes everything that is stored of a cluster, but what was done with it.
pub(crate) async fn remove_rows(conn: &mut Conn, cluster: &Cluster) -> Result<(), StoreError> {
    let id = &cluster.cluster_id();
    certificate::delete(conn, &cluster.keypair_refs()).await?;
    for kind in [ResourceKind::Stack, ResourceKind::Trust, ResourceKind::Trustee] {
        resource::forget(conn, id, kind).await?;
    }
    nodegroup::delete_all(conn, id).await?;
    clusters::delete(conn, id).await
}
