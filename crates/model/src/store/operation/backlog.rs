//! What has not ended, in numbers.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::operation::OperationState;
use crate::schema::operation;
use crate::store::connection::{Conn, on_conn};
use crate::store::error::StoreError;

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
            .load(&mut **c)
            .await
    })?)
}
