//! Queries on `notification`, the outbox.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::scope::Scope;
use super::{cluster as clusters, nodegroup, operation};
use crate::id::ClusterId;
use crate::notification::{Message, Outcome, Subject, message};
use crate::operation::Operation;
use crate::schema::notification;
use crate::time::{millis, now};

/// A row of the outbox.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = notification)]
pub struct Waiting {
    pub id: i64,
    /// The message id.
    pub uuid: String,
    pub priority: String,
    /// JSON text.
    pub body: String,
    pub created_ms: i64,
}

/// Puts a message into the outbox; part of the transaction of the change that it tells of.
pub async fn insert(conn: &mut Conn, message: &Message) -> Result<(), StoreError> {
    let row = (
        notification::uuid.eq(&message.uuid),
        notification::priority.eq(message.priority.as_str()),
        notification::body.eq(message.body.to_string()),
        notification::created_ms.eq(millis(now())),
    );
    on_conn!(conn, |c| diesel::insert_into(notification::table).values(row).execute(&mut **c).await)?;
    Ok(())
}

/// Tells, as `publisher`, of the end of what was begun and gave way to an operation; part of the transaction in which that begins, or ends before it has.
pub async fn tell_superseded(conn: &mut Conn, by: &Operation, publisher: &str) -> Result<(), StoreError> {
    let superseded = operation::superseded(conn, by).await?;
    if superseded.is_empty() {
        return Ok(());
    }
    let Some(subject) = subject(conn, &by.cluster_id()).await? else { return Ok(()) };
    for message in superseded.iter().filter_map(|ended| message(ended, Outcome::Failure, &subject, publisher, now())) {
        insert(conn, &message).await?;
    }
    Ok(())
}

/// The cluster as a message shows it at this moment; none when its row is gone.
pub async fn subject(conn: &mut Conn, cluster: &ClusterId) -> Result<Option<Subject>, StoreError> {
    let Some(cluster) = clusters::find(conn, &Scope::All, cluster).await? else { return Ok(None) };
    let groups = nodegroup::of_cluster(conn, &cluster.cluster_id()).await?;
    Ok(Some(Subject { cluster, groups }))
}

/// Whether nothing waits.
pub async fn is_empty(conn: &mut Conn) -> Result<bool, StoreError> {
    let first: Option<i64> = on_conn!(conn, |c| notification::table.select(notification::id).first(&mut **c).await.optional())?;
    Ok(first.is_none())
}

/// The messages that were written first.
pub async fn first(conn: &mut Conn, limit: i64) -> Result<Vec<Waiting>, StoreError> {
    Ok(on_conn!(conn, |c| {
        notification::table.select(Waiting::as_select()).order(notification::id.asc()).limit(limit).load(&mut **c).await
    })?)
}

/// Of the first `limit` messages those that were written before. What is looked through is read by its number, and nothing is locked: of the
/// time of writing there is no index, and a statement that removed by it would lock all messages, and the end of the table, to which others
/// write in the transactions of their changes.
pub async fn late(conn: &mut Conn, before_ms: i64, limit: i64) -> Result<Vec<i64>, StoreError> {
    let first: Vec<(i64, i64)> = on_conn!(conn, |c| {
        notification::table
            .select((notification::id, notification::created_ms))
            .order(notification::id.asc())
            .limit(limit)
            .load(&mut **c)
            .await
    })?;
    Ok(first.into_iter().filter(|(_, created_ms)| *created_ms < before_ms).map(|(id, _)| id).collect())
}

/// Removes messages that were told, or are to be told no more.
pub async fn remove(conn: &mut Conn, ids: &[i64]) -> Result<(), StoreError> {
    on_conn!(conn, |c| diesel::delete(notification::table.filter(notification::id.eq_any(ids))).execute(&mut **c).await)?;
    Ok(())
}
