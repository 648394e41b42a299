//! A new application credential for a cluster: the caller of the request becomes the one whose rights the cluster has.
//!
//! Helm is not run: the addon provider carries the changed secret into the cluster. The former credential goes last, and one that cannot be
//! removed is told, not fatal: the cluster works with the new one.

use model::cluster::ClusterChange;
use model::nodegroup::NodegroupChange;
use model::operation::OperationState;
use model::store::{Conn, cluster as clusters};

use super::{Bench, authorities, converge, credential};
use crate::outcome::{Failure, Turn};
use crate::settle::{self, End};
use crate::worker::succeed;

/// One turn.
pub(super) async fn turn(bench: &Bench<'_>) -> Result<Turn, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    // The former credential goes at the end: not where the cluster that works with it is elsewhere.
    if credential::stored(bench).await?.is_none() {
        bench.is_the_right_one().await?;
    }
    let held = credential::ensure(bench, true).await?;
    let user = credential::session(bench, &held).info().await?.user_id.clone();
    // Their labels say whose the cluster is. While authorities are rotated each phase writes them, after what must come before.
    if user != cluster.user().0 && authorities::in_force(bench).await?.is_none() {
        converge::certificates(bench, &user, true).await?;
    }
    let left = match credential::remove_all_but(cx, work, cluster, Some(&held.id)).await {
        Ok(()) => None,
        Err(Failure::Final { reason, .. }) => Some(format!("a former application credential is left: {reason}")),
        Err(other) => return Err(other),
    };
    let change = ClusterChange { user_id: Some(Some(user)), ..ClusterChange::default() };
    let note = left.map(|text| ClusterChange { status_reason: Some(Some(text)), ..ClusterChange::default() });
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let (id, end, change, note) = (&cluster.cluster_id(), &end, &change, &note);
    succeed(cx, work, async |conn: &mut Conn| {
        clusters::record(conn, id, change).await?;
        settle::record(conn, &work.operation, end).await?;
        match note {
            Some(note) => clusters::record(conn, id, note).await,
            None => Ok(()),
        }
    })
    .await
}
