//! What is thrown away once it is old: finished operations with their events, and the answers to requests that carried a key.
//!
//! In small pieces, each a transaction of its own: any number of conductors may do it at once, and none holds up the work.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::schema::{event_guard, idempotency_key, operation, operation_event};

/// Operations that have ended long ago. The newest failed one of a cluster that is still there stays: it may be done again.
const OLD: &str = "SELECT o.uuid AS uuid, o.cluster_uuid AS cluster_uuid FROM operation o WHERE o.finished_ms < ? AND NOT ( \
     o.state IN ('FAILED', 'CANCELLED') AND EXISTS (SELECT 1 FROM cluster c WHERE c.uuid = o.cluster_uuid) AND NOT EXISTS ( \
     SELECT 1 FROM operation n WHERE n.cluster_uuid = o.cluster_uuid AND n.id > o.id AND n.state IN ('FAILED', 'CANCELLED'))) \
     ORDER BY o.finished_ms LIMIT ?";

#[derive(QueryableByName)]
struct Old {
    #[diesel(sql_type = Text)]
    uuid: String,
    #[diesel(sql_type = Text)]
    cluster_uuid: String,
}

/// Removes up to `limit` operations that ended before the given time, with their events; how many it was.
pub async fn remove_operations(conn: &mut Conn, ended_before_ms: i64, limit: i64) -> Result<usize, StoreError> {
    let query = diesel::sql_query(OLD).bind::<BigInt, _>(ended_before_ms).bind::<BigInt, _>(limit);
    let old: Vec<Old> = on_conn!(conn, |c| query.load(&mut **c).await)?;
    if old.is_empty() {
        return Ok(0);
    }
    let ids: Vec<&str> = old.iter().map(|o| o.uuid.as_str()).collect();
    let clusters: Vec<&str> = old.iter().map(|o| o.cluster_uuid.as_str()).collect();
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
