//! What there is to take: asked by each conductor again and again, of a table in which thousands of rows may be held by others.

use diesel::dsl::{exists, min, not, sql};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool};
use diesel_async::RunQueryDsl;

use crate::id::OperationId;
use crate::operation::{OperationKind, OperationState, Payload};
use crate::schema::operation;
use crate::store::StoreError;
use crate::store::connection::{Conn, on_conn};
use crate::store::recurring::Recur;

/// Operations in these states that are due, that nobody holds and that stand behind no other of their cluster, oldest due time first. (Those that
/// wait behind others may be many, and are taken when their turn comes.)
///
/// Of those that somebody has worked on ([`OperationState::Running`]) all that are held are looked at, which a fleet in flight has thousands of:
/// [`soonest`] tells at a quarter of that cost when there may be one among them.
///
/// What this version does not know is left out as [`claim`](super::claim) leaves it alone, by its kind and by its payload's version: it would come first
/// each time, and where a newer version ran before this one there may be more of it than anybody looks at.
pub async fn due(conn: &mut Conn, states: &[OperationState], at_ms: i64, limit: i64) -> Result<Vec<OperationId>, StoreError> {
    let earlier = diesel::alias!(operation as earlier);
    let (known, words) = (known_version(), states.iter().map(|state| state.as_str()));
    let ids: Vec<String> = on_conn!(conn, |c| {
        operation::table
            .select(operation::uuid)
            .filter(operation::state.eq_any(words))
            .filter(operation::due_ms.le(at_ms))
            // First of what no index tells: of a fleet in flight this leaves nearly nothing over, and to look into a payload costs ten times as much.
            .filter(operation::owner.is_null().or(operation::lease_ms.lt(at_ms)))
            .filter(
                operation::kind
                    .eq_any(OperationKind::ALL.iter().map(|k| k.as_str()))
                    .and(sql::<Bool>(&known))
                    .or(operation::deadline_ms.lt(at_ms))
                    .or(operation::cancel_ms.is_not_null()),
            )
            .filter(not(exists(
                earlier
                    .filter(earlier.field(operation::cluster_uuid).eq(operation::cluster_uuid))
                    .filter(earlier.field(operation::id).lt(operation::id))
                    .filter(earlier.field(operation::state).eq_any(OperationState::UNFINISHED)),
            )))
            .order((operation::due_ms.asc(), operation::id.asc()))
            .limit(limit)
            .recurring()
            .load(&mut **c)
            .await
    })?;
    Ok(ids.into_iter().map(OperationId::new).collect())
}

/// When the first of the operations that somebody has worked on may be taken by another, if nothing is done about it until then: the end of its
/// lease, or the time at which it is due where it was given back. None where there is no such operation.
pub async fn soonest(conn: &mut Conn) -> Result<Option<i64>, StoreError> {
    let free_ms = sql::<BigInt>("COALESCE(lease_ms, due_ms)");
    Ok(on_conn!(conn, |c| {
        operation::table
            .filter(operation::state.eq(OperationState::Running.as_str()))
            .select(min(free_ms))
            .recurring()
            .get_result(&mut **c)
            .await
    })?)
}

/// The condition that a payload is of a version that this program knows, which one that is no JSON is not.
fn known_version() -> String {
    let most = Payload::known();
    format!("CASE WHEN JSON_VALID(operation.payload) THEN JSON_EXTRACT(operation.payload, '$.version') <= {most} ELSE 0 END")
}
