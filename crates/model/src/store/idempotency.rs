//! Queries on `idempotency_key`: requests that a client may repeat without having them done twice.
//!
//! A key is held by one request at a time. The transaction that stores what the request asks for also stores its answer, and fails when the
//! key has got another holder: so the work and the answer are there together, or neither is.

use std::time::Duration;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::recurring::Recur;
use crate::schema::idempotency_key;

/// How long an answer is kept for its key.
pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

const STALE: StoreError = StoreError::Stale { what: "idempotency key" };

/// A request with a key.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The project of the caller (or himself, when he has none): keys of others are no concern of his.
    pub project: String,
    pub key: String,
    /// What is asked, and by whom, in a hash.
    pub fingerprint: String,
    /// This one attempt.
    pub holder: String,
}

/// A stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub status: u16,
    pub location: Option<String>,
    pub body: String,
}

/// What there is under a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Held {
    /// It is ours now: do the work.
    Ours,
    /// The same request was done: this was its answer.
    Done(Stored),
    /// The same request is being worked on.
    AtWork,
    /// Another request has the key.
    Other,
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = idempotency_key)]
struct Row {
    id: i64,
    fingerprint: String,
    holder: String,
    status: Option<i32>,
    location: Option<String>,
    body: Option<String>,
    created_ms: i64,
}

/// Takes the key for this request. One whose holder has been silent for longer than `at_work` changes hands.
///
/// # Errors
/// [`StoreError::Stale`] when another request was faster: look again.
pub async fn hold(conn: &mut Conn, new: &Keyed, at_ms: i64, at_work: Duration) -> Result<Held, StoreError> {
    let found: Option<Row> = on_conn!(conn, |c| {
        idempotency_key::table
            .select(Row::as_select())
            .filter(idempotency_key::project_id.eq(&new.project))
            .filter(idempotency_key::key.eq(&new.key))
            .first(&mut **c)
            .await
            .optional()
    })?;
    let millis = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    let Some(row) = found else {
        let values = (
            idempotency_key::project_id.eq(&new.project),
            idempotency_key::key.eq(&new.key),
            idempotency_key::fingerprint.eq(&new.fingerprint),
            idempotency_key::holder.eq(&new.holder),
            idempotency_key::created_ms.eq(at_ms),
        );
        let made = on_conn!(conn, |c| diesel::insert_into(idempotency_key::table).values(values).execute(&mut **c).await);
        return match made.map_err(StoreError::from) {
            Ok(_) => Ok(Held::Ours),
            Err(StoreError::Duplicate { .. }) => Err(STALE),
            Err(error) => Err(error),
        };
    };
    let age = at_ms.saturating_sub(row.created_ms);
    if age < millis(KEPT) {
        if row.fingerprint != new.fingerprint {
            return Ok(Held::Other);
        }
        if let (Some(status), Some(body)) = (row.status, row.body) {
            return Ok(Held::Done(Stored { status: u16::try_from(status).unwrap_or(500), location: row.location, body }));
        }
        if age < millis(at_work) {
            return Ok(Held::AtWork);
        }
    }
    let rows = on_conn!(conn, |c| {
        diesel::update(idempotency_key::table.filter(idempotency_key::id.eq(row.id)).filter(idempotency_key::holder.eq(&row.holder)))
            .set((
                idempotency_key::fingerprint.eq(&new.fingerprint),
                idempotency_key::holder.eq(&new.holder),
                idempotency_key::status.eq(None::<i32>),
                idempotency_key::location.eq(None::<String>),
                idempotency_key::body.eq(None::<String>),
                idempotency_key::created_ms.eq(at_ms),
            ))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(STALE) } else { Ok(Held::Ours) }
}

/// Stores the answer; to be called in the transaction that does what was asked for.
///
/// # Errors
/// [`StoreError::Stale`] when the key has got another holder: nothing may be done then.
pub async fn keep(conn: &mut Conn, held: &Keyed, answer: &Stored) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(
            idempotency_key::table
                .filter(idempotency_key::project_id.eq(&held.project))
                .filter(idempotency_key::key.eq(&held.key))
                .filter(idempotency_key::holder.eq(&held.holder)),
        )
        .set((
            idempotency_key::status.eq(Some(i32::from(answer.status))),
            idempotency_key::location.eq(&answer.location),
            idempotency_key::body.eq(Some(&answer.body)),
        ))
        .recurring()
        .execute(&mut **c)
        .await
    })?;
    if rows == 0 { Err(STALE) } else { Ok(()) }
}

/// Lets go of a key whose request did nothing: it may be tried again. One that was answered stays.
pub async fn release(conn: &mut Conn, held: &Keyed) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::delete(
            idempotency_key::table
                .filter(idempotency_key::project_id.eq(&held.project))
                .filter(idempotency_key::key.eq(&held.key))
                .filter(idempotency_key::holder.eq(&held.holder))
                .filter(idempotency_key::status.is_null()),
        )
        .execute(&mut **c)
        .await
    })?;
    Ok(())
}
