//! Taking up what another service left in progress: clusters that say so of themselves, and of which no operation tells.

use chrono::NaiveDateTime;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::collation::AsOurs;
use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::named::has_uuid;
use super::recurring::Recur;
use super::scope::Scope;
use super::{cluster as clusters, event, lifecycle, nodegroup, operation};
use crate::cluster::status::{MOST_UNFINISHED, Status, taken_up};
use crate::id::{ClusterId, OperationId};
use crate::operation::{Deadlines, NewOperation, OperationState, Payload};
use crate::schema::{cluster, operation as operations};

/// The event of having taken up what was found.
const TAKEN_UP: &str = "taken_up";

/// A cluster in progress with no unfinished operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unattended {
    /// The row's own id.
    pub row: i32,
    pub cluster: ClusterId,
    /// The stored word.
    pub status: String,
    /// When its row was last written (UTC); none when nobody knows.
    pub written: Option<NaiveDateTime>,
}

/// Clusters in progress with no unfinished operation, in the order of their rows, those behind `after` only.
pub async fn unattended(conn: &mut Conn, after: i32, limit: i64) -> Result<Vec<Unattended>, StoreError> {
    let in_progress: Vec<&str> = Status::ALL.iter().filter(|s| s.is_in_progress()).map(|s| s.as_str()).collect();
    let unfinished = operations::table
        .filter(operations::cluster_uuid.eq(AsOurs(cluster::uuid)))
        .filter(operations::state.eq_any(OperationState::UNFINISHED));
    type Row = (i32, String, Option<String>, Option<NaiveDateTime>, Option<NaiveDateTime>);
    let found: Vec<Row> = on_conn!(conn, |c| {
        cluster::table
            .select((cluster::id, cluster::uuid, cluster::status, cluster::created_at, cluster::updated_at))
            .filter(cluster::id.gt(after))
            .filter(has_uuid!(cluster))
            .filter(cluster::status.eq_any(in_progress))
            .filter(diesel::dsl::not(diesel::dsl::exists(unfinished)))
            .order(cluster::id.asc())
            .limit(limit)
            .recurring()
            .load(&mut **c)
            .await
    })?;
    let unattended = |(row, id, status, created, updated): Row| {
        let (cluster, written) = (ClusterId::new(id), created.max(updated));
        Unattended { row, cluster, status: status.unwrap_or_default(), written }
    };
    Ok(found.into_iter().map(unattended).collect())
}

/// Stores the operations that go on with what a cluster was found in; their ids. None when it is at rest by now, is gone, or somebody else
/// has taken it up. The first statement queues up behind whoever begins anything on the cluster.
pub async fn take_up(conn: &mut Conn, id: &ClusterId, deadlines: &Deadlines) -> Result<Vec<OperationId>, StoreError> {
    event::queue_up(conn, id).await?;
    let Some(row) = clusters::find(conn, &Scope::All, id).await? else { return Ok(Vec::new()) };
    let groups = nodegroup::of_cluster(conn, id).await?;
    let Some(status) = row.status() else { return Ok(Vec::new()) };
    if !operation::unfinished(conn, id).await?.is_empty() {
        return Ok(Vec::new());
    }
    let mut stored = Vec::new();
    for found in taken_up(status, row.stack_id.as_deref(), &groups).into_iter().take(MOST_UNFINISHED) {
        let group = groups.iter().find(|g| found.group.as_ref().is_some_and(|id| g.uuid == id.as_str()));
        let before = lifecycle::before(conn, &row, group, found.kind, &[]).await?;
        let new = NewOperation {
            id: OperationId::generate(),
            kind: found.kind,
            cluster: id.clone(),
            project: row.project(),
            user: row.user(),
            request_id: None,
            deadline: deadlines.of(found.kind, row.create_timeout),
            payload: Payload { nodegroup: found.group, as_found: true, before, ..Payload::default() },
            sealed_token: None,
        };
        operation::insert(conn, &new).await?;
        let text = format!("found {} with no operation of this service: what was begun elsewhere is gone on with", status.as_str());
        event::append(conn, &new.id, id, TAKEN_UP, &text).await?;
        stored.push(new.id);
    }
    Ok(stored)
}
