//! What is thrown away once it is old: finished operations with their events, and the answers to requests that carried a key.
//!
//! In small pieces, each a transaction of its own: any number of conductors may do it at once, and none holds up the work.

use diesel::dsl::{exists, not};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::dialect::AsUpstreams;
use super::error::StoreError;
use crate::operation::OperationState;
use crate::schema::{cluster, event_guard, idempotency_key, operation, operation_event};
use crate::time::{millis, now};

/// Removes up to `limit` operations that ended before the given time, with their events; how many it was.
///
/// Of a cluster that is still there the newest stays, for what is told of a cluster at rest is told as an event of that one, and so does the
/// newest failed one: it may be done again. So does one that gave way to another and is still held: that one must not begin before its
/// holder has let go, or his lease is over.
pub async fn remove_operations(conn: &mut Conn, ended_before_ms: i64, limit: i64) -> Result<usize, StoreError> {
    let failed = [OperationState::Failed, OperationState::Cancelled].map(OperationState::as_str);
    let newer = diesel::alias!(operation as newer);
    let those = || {
        newer.filter(newer.field(operation::cluster_uuid).eq(operation::cluster_uuid)).filter(newer.field(operation::id).gt(operation::id))
    };
    let (has_newer, has_newer_failed) = (exists(those()), exists(those().filter(newer.field(operation::state).eq_any(failed))));
    let is_there = || exists(cluster::table.filter(cluster::uuid.eq(AsUpstreams(operation::cluster_uuid))));
    let old: Vec<(String, String)> = on_conn!(conn, |c| {
        operation::table
            .select((operation::uuid, operation::cluster_uuid))
            .filter(operation::finished_ms.lt(ended_before_ms))
            .filter(operation::owner.is_null().or(operation::lease_ms.lt(millis(now()))))
            .filter(not(is_there()).or(has_newer))
            .filter(not(is_there()).or(not(operation::state.eq_any(failed))).or(has_newer_failed))
            .order((operation::finished_ms.asc(), operation::id.asc()))
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    if old.is_empty() {
        return Ok(0);
    }
    let ids: Vec<&str> = old.iter().map(|(uuid, _)| uuid.as_str()).collect();
    let clusters: Vec<&str> = old.iter().map(|(_, cluster)| cluster.as_str()).collect();
    on_conn!(conn, |c| {
        diesel::delete(operation_event::table.filter(operation_event::operation_uuid.eq_any(&ids))).execute(&mut **c).await?;
        diesel::delete(operation::table.filter(operation::uuid.eq_any(&ids))).execute(&mut **c).await?;
        // Of clusters of which nothing more is told. One that appends an event at this moment makes its row anew.
        let told: Vec<String> = operation::table
            .select(operation::cluster_uuid)
            .filter(operation::cluster_uuid.eq_any(&clusters))
            .distinct()
            .load(&mut **c)
            .await?;
        let forgotten: Vec<&str> = clusters.iter().copied().filter(|id| !told.iter().any(|t| t == id)).collect();
        diesel::delete(event_guard::table.filter(event_guard::cluster_uuid.eq_any(&forgotten))).execute(&mut **c).await?;
    });
    Ok(old.len())
}

/// Removes up to `limit` answers that were kept before the given time; how many it was.
pub async fn remove_keys(conn: &mut Conn, made_before_ms: i64, limit: i64) -> Result<usize, StoreError> {
    Ok(on_conn!(conn, |c| {
        let old: Vec<i64> = idempotency_key::table
            .select(idempotency_key::id)
            .filter(idempotency_key::created_ms.lt(made_before_ms))
            .order(idempotency_key::created_ms.asc())
            .limit(limit)
            .load(&mut **c)
            .await?;
        if old.is_empty() {
            return Ok(0);
        }
        diesel::delete(idempotency_key::table.filter(idempotency_key::id.eq_any(old))).execute(&mut **c).await?
    }))
}
