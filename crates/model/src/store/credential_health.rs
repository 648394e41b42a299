//! Queries on what `cluster_health` has of credentials: whose turn it is to look whether a cluster's login and certificates still serve, and
//! what the last look saw.
//!
//! A look is claimed as one at health is: by moving the due time. Clusters that an operation works on are not looked at, for it may be about
//! to replace what would be tried; they stay due.

use diesel::dsl::{count, count_star, exists, min, not};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::collation::AsUpstreams;
use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::health::{self, Look};
use super::recurring::Recur;
use super::scope::Scope;
use super::{cluster as clusters, event};
use crate::cluster::Cluster;
use crate::cluster::status::Status;
use crate::id::ClusterId;
use crate::schema::{cluster, cluster_health};

/// Clusters that nobody works on and that are to stay.
const AT_REST: [Status; 12] = [
    Status::CreateComplete,
    Status::CreateFailed,
    Status::UpdateComplete,
    Status::UpdateFailed,
    Status::ResumeComplete,
    Status::ResumeFailed,
    Status::RestoreComplete,
    Status::RollbackComplete,
    Status::RollbackFailed,
    Status::SnapshotComplete,
    Status::CheckComplete,
    Status::AdoptComplete,
];
/// Those whose end is coming: what is left of their credentials is nobody's concern.
const LEAVING: [Status; 3] = [Status::DeleteInProgress, Status::DeleteFailed, Status::DeleteComplete];

/// The event of credentials that have stopped to work, or work again.
pub const EVENT: &str = "credentials_health";

/// What is known of a cluster's credentials and certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = cluster_health)]
pub struct Known {
    /// When they were looked at; none: not yet.
    #[diesel(column_name = credentials_seen_ms)]
    pub seen_ms: Option<i64>,
    /// Why nobody can log in with the credentials; none: one can, or there are none.
    #[diesel(column_name = credentials_error)]
    pub error: Option<String>,
    /// When the first of the certificates ends.
    #[diesel(column_name = certificates_end_ms)]
    pub end_ms: Option<i64>,
}

/// How the credentials of all clusters stand, those that are being deleted left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub working: i64,
    pub broken: i64,
    /// Nobody has looked yet.
    pub unseen: i64,
    /// When the first certificate of all ends.
    pub end_ms: Option<i64>,
}

/// Takes up clusters that are new, at most `limit` at a time: their first look is due at `first_due`, which is asked for each, so that the
/// looks at a fleet do not come all at once; `health_due_ms` is when their health is looked at, where that is done.
pub async fn enrol(conn: &mut Conn, health_due_ms: i64, first_due: impl Fn() -> i64, limit: i64) -> Result<(), StoreError> {
    health::enrol_those(conn, &AT_REST, health_due_ms, limit).await?;
    let new: Vec<String> = on_conn!(conn, |c| {
        cluster_health::table
            .select(cluster_health::cluster_uuid)
            .filter(cluster_health::credentials_due_ms.is_null())
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    for uuid in new {
        let row = cluster_health::table.filter(cluster_health::cluster_uuid.eq(uuid)).filter(cluster_health::credentials_due_ms.is_null());
        let change = cluster_health::credentials_due_ms.eq(Some(first_due()));
        on_conn!(conn, |c| diesel::update(row).set(change).recurring().execute(&mut **c).await)?;
    }
    Ok(())
}

/// Claims a look at clusters that are due, at most `limit`, with what is known of each.
pub async fn claim(conn: &mut Conn, look: &Look, limit: i64) -> Result<Vec<(Cluster, Known)>, StoreError> {
    let is_at_rest = exists(
        cluster::table
            .filter(cluster::uuid.eq(AsUpstreams(cluster_health::cluster_uuid)))
            .filter(cluster::status.eq_any(AT_REST.map(Status::as_str))),
    );
    let is_due = || cluster_health::credentials_due_ms.le(look.at_ms);
    let due: Vec<String> = on_conn!(conn, |c| {
        cluster_health::table
            .select(cluster_health::cluster_uuid)
            .filter(is_due())
            .filter(is_at_rest)
            .order(cluster_health::credentials_due_ms.asc())
            .limit(limit)
            .recurring()
            .load(&mut **c)
            .await
    })?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    on_conn!(conn, |c| {
        diesel::update(cluster_health::table.filter(cluster_health::cluster_uuid.eq_any(&due)).filter(is_due()))
            .set((cluster_health::credentials_owner.eq(Some(&look.owner)), cluster_health::credentials_due_ms.eq(Some(look.due_ms))))
            .execute(&mut **c)
            .await
    })?;
    let ours: Vec<(String, Known)> = on_conn!(conn, |c| {
        cluster_health::table
            .select((cluster_health::cluster_uuid, Known::as_select()))
            .filter(cluster_health::cluster_uuid.eq_any(&due))
            .filter(cluster_health::credentials_owner.eq(&look.owner))
            .filter(cluster_health::credentials_due_ms.eq(look.due_ms))
            .load(&mut **c)
            .await
    })?;
    let ids: Vec<&str> = ours.iter().map(|(uuid, _)| uuid.as_str()).collect();
    let rows: Vec<Cluster> =
        on_conn!(conn, |c| { cluster::table.select(Cluster::as_select()).filter(cluster::uuid.eq_any(ids)).load(&mut **c).await })?;
    let known = |row: &Cluster| ours.iter().find(|(uuid, _)| *uuid == row.uuid).map(|(_, known)| known.clone()).unwrap_or_default();
    Ok(rows.into_iter().map(|row| (known(&row), row)).map(|(known, row)| (row, known)).collect())
}

/// Writes down what was seen of a cluster as it was when it was claimed, with an event where there is something to tell and an operation is
/// kept to which it can be added. False when something has begun on the cluster meanwhile: nothing is written, and it is due again.
///
/// # Errors
/// [`StoreError::Stale`] when the look is no longer ours, or the cluster is gone.
pub async fn record(conn: &mut Conn, look: &Look, seen: &Cluster, known: &Known, told: Option<&str>) -> Result<bool, StoreError> {
    let id = &seen.cluster_id();
    if told.is_some() {
        event::queue_up(conn, id).await?;
    }
    let now = match clusters::fetch(conn, &Scope::All, id).await {
        Err(StoreError::NotFound { .. }) => return Err(stale()),
        found => found?,
    };
    let is_as_seen = (&now.trust_id, &now.trustee_password, &now.stack_id) == (&seen.trust_id, &seen.trustee_password, &seen.stack_id);
    let holds = is_as_seen && now.status().is_some_and(|status| AT_REST.contains(&status));
    let ours = cluster_health::table
        .filter(cluster_health::cluster_uuid.eq(id.as_str()))
        .filter(cluster_health::credentials_owner.eq(&look.owner))
        .filter(cluster_health::credentials_due_ms.eq(look.due_ms));
    let no_one = cluster_health::credentials_owner.eq(None::<String>);
    let rows = if holds {
        let change = (
            no_one,
            cluster_health::credentials_seen_ms.eq(known.seen_ms),
            cluster_health::credentials_error.eq(&known.error),
            cluster_health::certificates_end_ms.eq(known.end_ms),
        );
        on_conn!(conn, |c| diesel::update(ours).set(change).recurring().execute(&mut **c).await)?
    } else {
        let change = (no_one, cluster_health::credentials_due_ms.eq(Some(look.at_ms)));
        on_conn!(conn, |c| diesel::update(ours).set(change).recurring().execute(&mut **c).await)?
    };
    if rows == 0 {
        return Err(stale());
    }
    if let Some(told) = told.filter(|_| holds)
        && let Some(operation) = event::last_operation(conn, id).await?
    {
        event::append_in_turn(conn, &operation, id, EVENT, told, None).await?;
    }
    Ok(holds)
}

fn stale() -> StoreError {
    StoreError::Stale { what: "look at a cluster's credentials" }
}

/// The cluster has been given new credentials: they are looked at as soon as nobody works on it any more.
pub async fn renewed(conn: &mut Conn, id: &ClusterId, at_ms: i64) -> Result<(), StoreError> {
    let row =
        cluster_health::table.filter(cluster_health::cluster_uuid.eq(id.as_str())).filter(cluster_health::credentials_due_ms.is_not_null());
    on_conn!(conn, |c| diesel::update(row).set(cluster_health::credentials_due_ms.eq(Some(at_ms))).recurring().execute(&mut **c).await)?;
    Ok(())
}

/// Counts.
pub async fn summary(conn: &mut Conn) -> Result<Summary, StoreError> {
    let stays = exists(
        cluster::table
            .filter(cluster::uuid.eq(AsUpstreams(cluster_health::cluster_uuid)))
            .filter(not(cluster::status.eq_any(LEAVING.map(Status::as_str)))),
    );
    let counts = (
        count_star(),
        count(cluster_health::credentials_seen_ms),
        count(cluster_health::credentials_error),
        min(cluster_health::certificates_end_ms),
    );
    let (all, seen, broken, end_ms): (i64, i64, i64, Option<i64>) =
        on_conn!(conn, |c| cluster_health::table.filter(stays).select(counts).recurring().get_result(&mut **c).await)?;
    Ok(Summary { working: seen - broken, broken, unseen: all - seen, end_ms })
}
