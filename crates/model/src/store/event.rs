//! Queries on `operation_event`: what happened, in order.
//!
//! A cluster's events can be read on from the last one seen: whoever appends one writes the cluster's guard row first, so that transactions
//! which append events of one cluster run one behind the other, and a smaller id never appears after a larger one was seen.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::dialect::{self, Guard};
use super::error::StoreError;
use super::operation::{CLOUD_ERROR, STEP};
use super::recurring::Recur;
use crate::id::{ClusterId, OperationId};
use crate::operation::{EventDetails, OperationEvent};
use crate::schema::{operation, operation_event};
use crate::text::storable;
use crate::time::{millis, now};

/// Kinds that tell the course of an operation: who had it, at which step it was, what failed on the way. It has the more of them the longer
/// it takes; of all others it has some for each thing that it deals with.
pub const COURSE: [&str; 4] = ["claimed", "taken_over", STEP, CLOUD_ERROR];

/// Takes the cluster's turn, which an event appended later in the transaction would take anyway. Whoever is going to lock the cluster's own
/// rows and then append does this first: a conductor appends before it writes those rows, and the two must not wait for each other.
pub async fn queue_up(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    dialect::touch_guard(conn, Guard::Events(cluster.as_str())).await
}

/// Adds an event.
pub async fn append(
    conn: &mut Conn,
    operation: &OperationId,
    cluster: &ClusterId,
    kind: &'static str,
    message: &str,
) -> Result<(), StoreError> {
    append_with(conn, operation, cluster, kind, message, None).await
}

/// Adds an event that says more than its message.
pub async fn append_with(
    conn: &mut Conn,
    operation: &OperationId,
    cluster: &ClusterId,
    kind: &'static str,
    message: &str,
    details: Option<&EventDetails>,
) -> Result<(), StoreError> {
    queue_up(conn, cluster).await?;
    append_in_turn(conn, operation, cluster, kind, message, details).await
}

/// As [`append_with`], for who has taken the cluster's turn, or has stored the cluster itself, in the same transaction.
pub(super) async fn append_in_turn(
    conn: &mut Conn,
    operation: &OperationId,
    cluster: &ClusterId,
    kind: &'static str,
    message: &str,
    details: Option<&EventDetails>,
) -> Result<(), StoreError> {
    let row = (
        operation_event::operation_uuid.eq(operation.as_str()),
        operation_event::cluster_uuid.eq(cluster.as_str()),
        operation_event::at_ms.eq(millis(now())),
        operation_event::kind.eq(kind),
        operation_event::message.eq(storable(message)),
        operation_event::details.eq(details.map(EventDetails::column)),
    );
    on_conn!(conn, |c| diesel::insert_into(operation_event::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// All events of an operation but those of its [`COURSE`], in order.
pub async fn besides_course(conn: &mut Conn, operation: &OperationId) -> Result<Vec<OperationEvent>, StoreError> {
    Ok(on_conn!(conn, |c| {
        operation_event::table
            .select(OperationEvent::as_select())
            .filter(operation_event::operation_uuid.eq(operation.as_str()))
            .filter(operation_event::kind.ne_all(COURSE))
            .order(operation_event::id.asc())
            .recurring()
            .load(&mut **c)
            .await
    })?)
}

/// All events of an operation that are of one of these kinds, in order; the code names the kinds, and few.
pub async fn of_kinds(conn: &mut Conn, operation: &OperationId, kinds: &[&str]) -> Result<Vec<OperationEvent>, StoreError> {
    Ok(on_conn!(conn, |c| {
        operation_event::table
            .select(OperationEvent::as_select())
            .filter(operation_event::operation_uuid.eq(operation.as_str()))
            .filter(operation_event::kind.eq_any(kinds))
            .order(operation_event::id.asc())
            .recurring()
            .load(&mut **c)
            .await
    })?)
}

/// The last `limit` events of an operation that are of one of these kinds, in order; the code names the kinds, and few.
pub async fn latest(conn: &mut Conn, operation: &OperationId, kinds: &[&str], limit: i64) -> Result<Vec<OperationEvent>, StoreError> {
    let mut events: Vec<OperationEvent> = on_conn!(conn, |c| {
        operation_event::table
            .select(OperationEvent::as_select())
            .filter(operation_event::operation_uuid.eq(operation.as_str()))
            .filter(operation_event::kind.eq_any(kinds))
            .order(operation_event::id.desc())
            .limit(limit)
            .recurring()
            .load(&mut **c)
            .await
    })?;
    events.reverse();
    Ok(events)
}

/// The operation on a cluster that was accepted last, of those that are kept.
pub async fn last_operation(conn: &mut Conn, cluster: &ClusterId) -> Result<Option<OperationId>, StoreError> {
    let last: Option<String> = on_conn!(conn, |c| {
        operation::table
            .select(operation::uuid)
            .filter(operation::cluster_uuid.eq(cluster.as_str()))
            .order(operation::id.desc())
            .first(&mut **c)
            .await
            .optional()
    })?;
    Ok(last.map(OperationId::new))
}

/// The number of the last event of all that are kept; 0 when there is none.
pub async fn newest(conn: &mut Conn) -> Result<i64, StoreError> {
    let last: Option<i64> = on_conn!(conn, |c| operation_event::table.select(diesel::dsl::max(operation_event::id)).first(&mut **c).await)?;
    Ok(last.unwrap_or(0))
}

/// The first `limit` events of a cluster after the one of this id (0: from the first one kept).
pub async fn of_cluster(conn: &mut Conn, cluster: &ClusterId, after: i64, limit: i64) -> Result<Vec<OperationEvent>, StoreError> {
    Ok(on_conn!(conn, |c| {
        operation_event::table
            .select(OperationEvent::as_select())
            .filter(operation_event::cluster_uuid.eq(cluster.as_str()))
            .filter(operation_event::id.gt(after))
            .order(operation_event::id.asc())
            .limit(limit)
            .load(&mut **c)
            .await
    })?)
}

/// Clusters whose events [`news`] looks for in one statement.
pub const MOST_FOLLOWED: usize = 64;

/// The first `limit` events of any of these clusters after the last one seen of each, at most [`MOST_FOLLOWED`] of them.
pub async fn news(conn: &mut Conn, seen: &[(ClusterId, i64)], limit: i64) -> Result<Vec<OperationEvent>, StoreError> {
    let Some(last) = seen.last() else { return Ok(Vec::new()) };
    // Few lengths, so that there are few statements to prepare.
    let length = [1, 8, MOST_FOLLOWED].into_iter().find(|n| *n >= seen.len()).unwrap_or(MOST_FOLLOWED);
    let padded = seen.iter().chain(std::iter::repeat(last)).take(length);
    Ok(on_conn!(conn, |c| {
        let mut query =
            operation_event::table.select(OperationEvent::as_select()).order(operation_event::id.asc()).limit(limit).into_boxed();
        for (cluster, after) in padded {
            query = query.or_filter(operation_event::cluster_uuid.eq(cluster.as_str()).and(operation_event::id.gt(*after)));
        }
        query.load(&mut **c).await
    })?)
}
