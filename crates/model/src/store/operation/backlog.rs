//! What has not ended, of more than one cluster.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::cluster::status::Concerns;
use crate::id::{ProjectId, TemplateId};
use crate::operation::{OperationKind, OperationState, Payload};
use crate::schema::operation;
use crate::store::connection::{Conn, on_conn};
use crate::store::error::StoreError;
use crate::store::recurring::Recur;

/// What is known of the unfinished operations of one state and kind.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct Unfinished {
    /// The stored words.
    pub state: String,
    pub kind: String,
    pub count: i64,
    /// When the oldest was accepted.
    pub oldest_created_ms: Option<i64>,
    /// When the lease that ends first ends, among those that are held.
    pub first_lease_ms: Option<i64>,
}

/// How many operations have not ended, by state and kind; one statement on an index, for metrics.
pub async fn unfinished_by_kind(conn: &mut Conn) -> Result<Vec<Unfinished>, StoreError> {
    use diesel::dsl::{count_star, min};
    Ok(on_conn!(conn, |c| {
        operation::table
            .group_by((operation::state, operation::kind))
            .select((operation::state, operation::kind, count_star(), min(operation::created_ms), min(operation::lease_ms)))
            .filter(operation::state.eq_any(OperationState::UNFINISHED))
            .recurring()
            .load(&mut **c)
            .await
    })?)
}

/// What the unfinished operations of a project carry that are about one group each, with the ids of their clusters. What is no payload of any
/// version is left out.
///
/// For each request where a quota of nodes holds: the database looks through what is unfinished, or through what the project ever asked for,
/// whichever is less.
pub async fn about_groups(conn: &mut Conn, project: &ProjectId) -> Result<Vec<(String, Payload)>, StoreError> {
    let kinds: Vec<&str> =
        OperationKind::ALL.iter().filter(|kind| kind.concerns() == Concerns::OneGroup).map(|kind| kind.as_str()).collect();
    let rows: Vec<(String, String)> = on_conn!(conn, |c| {
        operation::table
            .select((operation::cluster_uuid, operation::payload))
            .filter(operation::project_id.eq(&project.0))
            .filter(operation::state.eq_any(OperationState::UNFINISHED))
            .filter(operation::kind.eq_any(&kinds))
            .recurring()
            .load(&mut **c)
            .await
    })?;
    Ok(rows.into_iter().filter_map(|(cluster, payload)| Some((cluster, serde_json::from_str(&payload).ok()?))).collect())
}

/// Whether an upgrade that has not ended brings its cluster, or a group of it, to this template. Until it has, no cluster's row says so.
pub async fn is_upgraded_to(conn: &mut Conn, template: &TemplateId) -> Result<bool, StoreError> {
    let payloads: Vec<String> = on_conn!(conn, |c| {
        operation::table
            .select(operation::payload)
            .filter(operation::state.eq_any(OperationState::UNFINISHED))
            .filter(operation::kind.eq(OperationKind::ClusterUpgrade.as_str()))
            .recurring()
            .load(&mut **c)
            .await
    })?;
    let is_to_it = |text: &String| serde_json::from_str::<Payload>(text).is_ok_and(|payload| payload.template.as_ref() == Some(template));
    Ok(payloads.iter().any(is_to_it))
}
