//! What is done to operations by others than those who hold them: the API's requests. Each is guarded by the row as it was seen.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::{ENDED, STALE, event, unfinished, without_password};
use crate::id::{ClusterId, OperationId};
use crate::operation::{EventDetails, NewOperation, Operation, OperationKind, OperationState, OutcomeCode, Payload};
use crate::schema::operation;
use crate::store::StoreError;
use crate::store::connection::{Conn, on_conn};
use crate::store::recurring::Recur;
use crate::text::storable;
use crate::time::{millis, now};

/// The row as it was seen, if it is still in that state and of that generation.
macro_rules! as_seen {
    ($seen:expr) => {
        operation::table
            .filter(operation::uuid.eq(&$seen.uuid))
            .filter(operation::generation.eq($seen.generation))
            .filter(operation::state.eq(&$seen.state))
    };
}

/// Changes what a request carries, of an operation that nobody works on yet.
///
/// # Errors
/// [`StoreError::Stale`] when it was taken or has ended meanwhile.
pub async fn record_payload(conn: &mut Conn, seen: &Operation, payload: &Payload) -> Result<(), StoreError> {
    let text = serde_json::to_string(payload).expect("a payload is plain data");
    let rows = on_conn!(conn, |c| { diesel::update(as_seen!(seen)).set(operation::payload.eq(text)).recurring().execute(&mut **c).await })?;
    if rows == 0 { Err(STALE) } else { Ok(()) }
}

/// Ends an operation that nobody has worked on.
///
/// # Errors
/// [`StoreError::Stale`] when it was taken or has ended meanwhile.
pub async fn cancel(conn: &mut Conn, seen: &Operation, reason: &str, by: &EventDetails) -> Result<(), StoreError> {
    end(conn, seen, OperationState::Cancelled, Some(OutcomeCode::Cancelled), reason).await?;
    event::append_with(conn, &seen.operation_id(), &seen.cluster_id(), ENDED, reason, Some(by)).await
}

/// Asks for the end of an operation that somebody works on, or has worked on: whoever holds it can write nothing more, lets go, and the next
/// one to take it ends it.
///
/// # Errors
/// [`StoreError::Stale`] when it has been taken over or has ended meanwhile.
pub async fn ask_to_cancel(conn: &mut Conn, seen: &Operation, by: &EventDetails) -> Result<(), StoreError> {
    let at = millis(now());
    let rows = on_conn!(conn, |c| {
        diesel::update(as_seen!(seen))
            .set((operation::cancel_ms.eq(Some(at)), operation::updated_ms.eq(at)))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 {
        return Err(STALE);
    }
    event::append_with(conn, &seen.operation_id(), &seen.cluster_id(), "cancel_asked", "its end was asked for", Some(by)).await
}

/// Ends every unfinished operation of a cluster in favour of `by`. Whoever works on one keeps his lease until he notices (his next write
/// is stale) or until it runs out; `by` cannot be claimed before.
pub async fn supersede(conn: &mut Conn, cluster: &ClusterId, by: &OperationId) -> Result<(), StoreError> {
    for found in unfinished(conn, cluster).await? {
        if found.uuid == by.as_str() {
            continue;
        }
        give_way(conn, &found, by, &gave_way_to(by)).await?;
    }
    Ok(())
}

/// Stores a request that asks for less than `by`, which is unfinished, or for a part of it. It ends at once in its favour, so that it can be seen what was
/// not done should `by` be cancelled or fail; nothing of it is ever done again ([`crate::store::history::finished`]), by no earlier release either
/// ([`Payload::JOINED`]). Asked for once more, it is the one that there is. Returns its id, and whether it was stored now.
pub async fn join(conn: &mut Conn, new: &NewOperation, by: &OperationId) -> Result<(OperationId, bool), StoreError> {
    let reason = joined(by);
    let there: Vec<Operation> = on_conn!(conn, |c| {
        operation::table
            .select(Operation::as_select())
            .filter(operation::cluster_uuid.eq(new.cluster.as_str()))
            .filter(operation::state.eq(OperationState::Superseded.as_str()))
            .filter(operation::kind.eq(new.kind.as_str()))
            .filter(operation::outcome_reason.eq(&reason))
            .recurring()
            .load(&mut **c)
            .await
    })?;
    let same = there.iter().find(|found| found.payload().is_ok_and(|payload| payload.nodegroup == new.payload.nodegroup));
    if let Some(same) = same {
        return Ok((same.operation_id(), false));
    }
    let payload = Payload { version: Payload::JOINED, ..new.payload.clone() };
    super::insert(conn, &NewOperation { payload, ..new.clone() }).await?;
    let stored = super::find(conn, &new.id).await?.ok_or(STALE)?;
    give_way(conn, &stored, by, &reason).await?;
    Ok((new.id.clone(), true))
}

async fn give_way(conn: &mut Conn, seen: &Operation, by: &OperationId, reason: &str) -> Result<(), StoreError> {
    end(conn, seen, OperationState::Superseded, None, reason).await?;
    event::append(conn, &seen.operation_id(), &seen.cluster_id(), "superseded", by.as_str()).await
}

fn gave_way_to(by: &OperationId) -> String {
    format!("superseded by {by}")
}

/// What the reason of an operation begins with that was superseded by one that was there before it ([`join`]).
pub const JOINED: &str = "superseded at once by ";

fn joined(by: &OperationId) -> String {
    format!("{JOINED}{by}")
}

/// The operations that somebody had begun and that gave way to `by`, or to one that itself gave way to `by` before anybody had begun it; in order
/// of acceptance. Only operations that remove a cluster have any.
pub async fn superseded(conn: &mut Conn, by: &Operation) -> Result<Vec<Operation>, StoreError> {
    if by.kind().and_then(OperationKind::removal).is_none() {
        return Ok(Vec::new());
    }
    let mut latest_first: Vec<Operation> = on_conn!(conn, |c| {
        operation::table
            .select(Operation::as_select())
            .filter(operation::cluster_uuid.eq(&by.cluster_uuid))
            .filter(operation::state.eq(OperationState::Superseded.as_str()))
            .order(operation::id.desc())
            .recurring()
            .load(&mut **c)
            .await
    })?;
    let mut reasons = vec![gave_way_to(&by.operation_id())];
    // What gave way to another was accepted before it.
    latest_first.retain(|found| {
        let is_one = found.outcome_reason.as_ref().is_some_and(|reason| reasons.contains(reason));
        if is_one && found.started_ms.is_none() {
            reasons.push(gave_way_to(&found.operation_id()));
        }
        is_one && found.started_ms.is_some()
    });
    latest_first.reverse();
    Ok(latest_first)
}

/// Ends an operation of which its holder, if it has one, is not asked; a higher generation shuts him out.
async fn end(conn: &mut Conn, seen: &Operation, state: OperationState, code: Option<OutcomeCode>, reason: &str) -> Result<(), StoreError> {
    let at = millis(now());
    let rows = on_conn!(conn, |c| {
        diesel::update(as_seen!(seen))
            .set((
                operation::state.eq(state.as_str()),
                operation::generation.eq(seen.generation + 1),
                operation::payload.eq(without_password()),
                operation::sealed_token.eq(None::<String>),
                operation::outcome_code.eq(code.map(OutcomeCode::as_str)),
                operation::outcome_reason.eq(Some(storable(reason))),
                operation::updated_ms.eq(at),
                operation::finished_ms.eq(Some(at)),
            ))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(STALE) } else { Ok(()) }
}
