//! Queries on `operation_event`: what happened, in order.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::id::{ClusterId, OperationId};
use crate::operation::OperationEvent;
use crate::schema::operation_event;
use crate::text::storable;
use crate::time::{millis, now};

/// Adds an event.
pub async fn append(
    conn: &mut Conn,
    operation: &OperationId,
    cluster: &ClusterId,
    kind: &'static str,
    message: &str,
) -> Result<(), StoreError> {
    let row = (
        operation_event::operation_uuid.eq(operation.as_str()),
        operation_event::cluster_uuid.eq(cluster.as_str()),
        operation_event::at_ms.eq(millis(now())),
        operation_event::kind.eq(kind),
        operation_event::message.eq(storable(message)),
    );
    on_conn!(conn, |c| diesel::insert_into(operation_event::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// The first `limit` events of an operation.
pub async fn of_operation(conn: &mut Conn, operation: &OperationId, limit: i64) -> Result<Vec<OperationEvent>, StoreError> {
    Ok(on_conn!(conn, |c| {
        operation_event::table
            .select(OperationEvent::as_select())
            .filter(operation_event::operation_uuid.eq(operation.as_str()))
            .order(operation_event::id.asc())
            .limit(limit)
            .load(&mut **c)
            .await
    })?)
}
