//! Queries on `cluster_health`: whose turn it is to look at the health of which cluster, and when an agent in it last spoke for itself.
//!
//! A look is claimed for many clusters in one statement, by moving their due time: until then nobody else looks. The row of the cluster is
//! written only when its health has changed.

use diesel::dsl::{exists, not};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::cluster as clusters;
use super::collation::{AsOurs, AsUpstreams};
use super::connection::{Conn, on_conn};
use super::dialect::upsert;
use super::error::StoreError;
use super::named::has_uuid;
use super::recurring::Recur;
use crate::cluster::status::Status;
use crate::cluster::{Cluster, ClusterChange};
use crate::id::ClusterId;
use crate::schema::{capi_placement, cluster, cluster_health};

/// Clusters that have a control plane, or may have one: upstream's list, and those whose change has failed or was taken back. What is not looked at
/// goes on showing the health that it had once.
const LOOKED_AT: [Status; 8] = [
    Status::CreateComplete,
    Status::UpdateComplete,
    Status::UpdateInProgress,
    Status::UpdateFailed,
    Status::RollbackInProgress,
    Status::RollbackComplete,
    Status::RollbackFailed,
    Status::DeleteFailed,
];

/// The right to say how clusters are: held by `owner` until `due_ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub owner: String,
    /// When it was claimed.
    pub at_ms: i64,
    /// When the next look is due.
    pub due_ms: i64,
}

/// Makes rows for clusters that have none, first due at `due_ms`, and removes those of clusters that are gone; at most `limit` of each.
pub async fn enrol(conn: &mut Conn, due_ms: i64, limit: i64) -> Result<(), StoreError> {
    enrol_those(conn, &LOOKED_AT, due_ms, limit).await
}

/// As [`enrol`], for clusters of these statuses.
pub(super) async fn enrol_those(conn: &mut Conn, statuses: &[Status], due_ms: i64, limit: i64) -> Result<(), StoreError> {
    let words = statuses.iter().map(|status| status.as_str());
    let new: Vec<String> = on_conn!(conn, |c| {
        cluster::table
            .select(cluster::uuid)
            .filter(has_uuid!(cluster))
            .filter(cluster::status.eq_any(words))
            .filter(not(exists(cluster_health::table.filter(cluster_health::cluster_uuid.eq(AsOurs(cluster::uuid))))))
            .limit(limit)
            .recurring()
            .load(&mut **c)
            .await
    })?;
    let gone: Vec<String> = on_conn!(conn, |c| {
        cluster_health::table
            .select(cluster_health::cluster_uuid)
            .filter(not(exists(cluster::table.filter(cluster::uuid.eq(AsUpstreams(cluster_health::cluster_uuid))))))
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    if !gone.is_empty() {
        let rows = cluster_health::table.filter(cluster_health::cluster_uuid.eq_any(&gone));
        on_conn!(conn, |c| diesel::delete(rows).execute(&mut **c).await)?;
    }
    for uuid in new {
        insert(conn, &ClusterId::new(uuid), due_ms).await?;
    }
    Ok(())
}

/// What came of claiming looks.
#[derive(Default)]
pub struct Due {
    /// The clusters to look at.
    pub clusters: Vec<Cluster>,
    /// So many were due as could be claimed at once: there may be more.
    pub may_be_more: bool,
}

/// Claims a look at clusters that are due, at most `limit`; those that an agent has spoken for since `reported_ms` wait for their next turn.
/// Clusters on the management clusters of the names `busy` are left to others, and stay due.
pub async fn claim(conn: &mut Conn, look: &Look, reported_ms: i64, limit: i64, busy: &[&str]) -> Result<Due, StoreError> {
    let is_on_busy = exists(
        capi_placement::table
            .filter(capi_placement::cluster_uuid.eq(cluster_health::cluster_uuid))
            .filter(capi_placement::management_cluster.eq_any(busy)),
    );
    let due: Vec<String> = on_conn!(conn, |c| {
        cluster_health::table
            .select(cluster_health::cluster_uuid)
            .filter(cluster_health::due_ms.le(look.at_ms))
            .filter(not(is_on_busy))
            .order(cluster_health::due_ms.asc())
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    if due.is_empty() {
        return Ok(Due::default());
    }
    let may_be_more = i64::try_from(due.len()).is_ok_and(|found| found >= limit);
    on_conn!(conn, |c| {
        diesel::update(
            cluster_health::table.filter(cluster_health::cluster_uuid.eq_any(&due)).filter(cluster_health::due_ms.le(look.at_ms)),
        )
        .set((cluster_health::owner.eq(Some(&look.owner)), cluster_health::due_ms.eq(look.due_ms)))
        .execute(&mut **c)
        .await
    })?;
    let silent = cluster_health::reported_ms.is_null().or(cluster_health::reported_ms.lt(reported_ms)).assume_not_null();
    let ours: Vec<String> = on_conn!(conn, |c| {
        cluster_health::table
            .select(cluster_health::cluster_uuid)
            .filter(cluster_health::cluster_uuid.eq_any(&due))
            .filter(cluster_health::owner.eq(&look.owner))
            .filter(cluster_health::due_ms.eq(look.due_ms))
            .filter(silent)
            .load(&mut **c)
            .await
    })?;
    let clusters: Vec<Cluster> = on_conn!(conn, |c| {
        cluster::table
            .select(Cluster::as_select())
            .filter(cluster::uuid.eq_any(&ours))
            .filter(cluster::status.eq_any(LOOKED_AT.map(Status::as_str)))
            .load(&mut **c)
            .await
    })?;
    Ok(Due { clusters, may_be_more })
}

/// Gives up looks that were claimed and could not begin: they are due again at `due_ms`.
pub async fn put_off(conn: &mut Conn, look: &Look, ids: &[&str], due_ms: i64) -> Result<(), StoreError> {
    let ours = cluster_health::table
        .filter(cluster_health::cluster_uuid.eq_any(ids))
        .filter(cluster_health::owner.eq(&look.owner))
        .filter(cluster_health::due_ms.eq(look.due_ms));
    on_conn!(conn, |c| diesel::update(ours).set(cluster_health::due_ms.eq(due_ms)).execute(&mut **c).await)?;
    Ok(())
}

/// Writes down what was seen.
///
/// # Errors
/// [`StoreError::Stale`] when the look is no longer ours, or an agent has spoken since it began, or the cluster is gone.
pub async fn record(conn: &mut Conn, look: &Look, id: &ClusterId, change: &ClusterChange) -> Result<(), StoreError> {
    let ours = cluster_health::table
        .filter(cluster_health::cluster_uuid.eq(id.as_str()))
        .filter(cluster_health::owner.eq(&look.owner))
        .filter(cluster_health::due_ms.eq(look.due_ms))
        .filter(cluster_health::reported_ms.is_null().or(cluster_health::reported_ms.lt(look.at_ms)).assume_not_null());
    let rows = on_conn!(conn, |c| diesel::update(ours).set(cluster_health::owner.eq(None::<String>)).recurring().execute(&mut **c).await)?;
    if rows == 0 {
        return Err(StoreError::Stale { what: "look at a cluster's health" });
    }
    clusters::record(conn, id, change).await
}

/// An agent in the cluster has reported its health: nobody else looks for a while.
pub async fn reported(conn: &mut Conn, id: &ClusterId, at_ms: i64) -> Result<(), StoreError> {
    let reported = || cluster_health::reported_ms.eq(Some(at_ms));
    let row = (cluster_health::cluster_uuid.eq(id.as_str()), cluster_health::due_ms.eq(at_ms), reported());
    upsert!(conn, cluster_health, cluster_health::cluster_uuid, row, reported());
    Ok(())
}

/// Somebody else may have inserted it meanwhile, which is as good.
async fn insert(conn: &mut Conn, id: &ClusterId, due_ms: i64) -> Result<(), StoreError> {
    let row = (cluster_health::cluster_uuid.eq(id.as_str()), cluster_health::due_ms.eq(due_ms));
    match on_conn!(conn, |c| diesel::insert_into(cluster_health::table).values(row).execute(&mut **c).await).map_err(StoreError::from) {
        Ok(_) | Err(StoreError::Duplicate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
