//! Queries on `operation`: the record of work, and who may work on it.

mod backlog;
mod due;
mod release;
mod renewal;
mod unheld;

use diesel::dsl::{self, sql};
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::event;
use super::recurring::Recur;
pub use backlog::{Unfinished, about_groups, is_upgraded_to, unfinished_by_kind};
pub use due::{due, soonest};
pub use release::release;
pub use renewal::{Renewed, renew};
pub use unheld::{JOINED, ask_to_cancel, cancel, join, record_payload, supersede, superseded};

use crate::id::{ClusterId, OperationId};
use crate::operation::{
    AT_ONCE, Claim, Claimed, CloudFault, Ending, EventDetails, LastCloudError, NewOperation, Operation, OperationState, OutcomeCode,
    Payload, Progress,
};
use crate::planted::{self, Bug};
use crate::schema::operation;
use crate::text::storable;
use crate::time::{millis, now};

const STALE: StoreError = StoreError::Stale { what: "operation" };

/// Stores an accepted request, due at once. Its cluster is stored in the same transaction, or its turn has been taken
/// ([`event::queue_up`]).
pub async fn insert(conn: &mut Conn, new: &NewOperation) -> Result<(), StoreError> {
    let at = millis(now());
    let deadline = at.saturating_add(i64::try_from(new.deadline.as_millis()).unwrap_or(i64::MAX));
    let row = (
        operation::uuid.eq(new.id.as_str()),
        operation::kind.eq(new.kind.as_str()),
        operation::cluster_uuid.eq(new.cluster.as_str()),
        operation::project_id.eq(&new.project.0),
        operation::user_id.eq(&new.user.0),
        operation::request_id.eq(&new.request_id),
        operation::state.eq(OperationState::Queued.as_str()),
        operation::step.eq("accepted"),
        operation::attempt.eq(0),
        operation::generation.eq(1),
        operation::due_ms.eq(AT_ONCE),
        operation::deadline_ms.eq(deadline),
        operation::progress_done.eq(0),
        operation::progress_total.eq(0),
        operation::payload.eq(serde_json::to_string(&new.payload).expect("a payload is plain data")),
        operation::sealed_token.eq(&new.sealed_token),
        operation::created_ms.eq(at),
        operation::updated_ms.eq(at),
    );
    on_conn!(conn, |c| diesel::insert_into(operation::table).values(row).execute(&mut **c).await)?;
    let by = EventDetails { user: Some(new.user.clone()), request_id: new.request_id.clone(), ..EventDetails::default() };
    event::append_in_turn(conn, &new.id, &new.cluster, "accepted", new.kind.as_str(), Some(&by)).await
}

/// The operation with this uuid.
pub async fn find(conn: &mut Conn, id: &OperationId) -> Result<Option<Operation>, StoreError> {
    Ok(on_conn!(conn, |c| {
        operation::table.select(Operation::as_select()).filter(operation::uuid.eq(id.as_str())).first(&mut **c).await.optional()
    })?)
}

/// Operations of a cluster that have not ended, in order of acceptance.
pub async fn unfinished(conn: &mut Conn, cluster: &ClusterId) -> Result<Vec<Operation>, StoreError> {
    Ok(on_conn!(conn, |c| {
        operation::table
            .select(Operation::as_select())
            .filter(operation::cluster_uuid.eq(cluster.as_str()))
            .filter(operation::state.eq_any(OperationState::UNFINISHED))
            .order(operation::id.asc())
            .recurring()
            .load(&mut **c)
            .await
    })?)
}

/// Takes an operation for `owner` until `lease_ms`, if it is due, free (or its lease has run out) and nothing earlier on its cluster is
/// unfinished or still held.
///
/// "Still held" matters for operations that were superseded: whoever worked on one may be in the middle of a call to the cloud, and the
/// operation that took over must not look at the cloud before that call has ended, or its lease has.
///
/// The time that an operation has begins when it is taken for the first time: one that waited for those ahead of it, or for a conductor, is
/// tried all the same, however late. Later claims change nothing of it.
pub async fn claim(conn: &mut Conn, id: &OperationId, owner: &str, at_ms: i64, lease_ms: i64) -> Result<Claimed, StoreError> {
    let Some(found) = find(conn, id).await? else { return Ok(Claimed::NotNow) };
    if found.finished_ms.is_some() || found.due_ms > at_ms {
        return Ok(Claimed::NotNow);
    }
    let ahead: i64 = on_conn!(conn, |c| {
        operation::table
            .filter(operation::cluster_uuid.eq(&found.cluster_uuid))
            .filter(operation::id.lt(found.id))
            .filter(
                operation::state
                    .eq_any(OperationState::UNFINISHED)
                    .or(operation::owner.is_not_null().and(operation::lease_ms.ge(at_ms)).assume_not_null()),
            )
            .count()
            .recurring()
            .get_result(&mut **c)
            .await
    })?;
    if ahead > 0 {
        return Ok(Claimed::NotNow);
    }
    let deadline_ms = match (found.started_ms, found.understood()) {
        (Some(_), _) => found.deadline_ms,
        (None, Some(_)) => at_ms.saturating_add(found.deadline_ms.saturating_sub(found.created_ms)),
        (None, None) => deadline_untaken(conn, &found).await?,
    };
    // What a newer version accepted is left to that version's conductors, which run beside this one during a rolling upgrade. When its time
    // is over none of them runs any more, and ending it takes no understanding.
    if found.understood().is_none() && deadline_ms >= at_ms && found.cancel_ms.is_none() {
        return Ok(Claimed::NotNow);
    }
    let rows = on_conn!(conn, |c| {
        diesel::update(
            operation::table
                .filter(operation::uuid.eq(id.as_str()))
                .filter(operation::generation.eq(found.generation))
                .filter(operation::state.eq_any(OperationState::UNFINISHED))
                .filter(operation::owner.is_null().or(operation::lease_ms.lt(at_ms))),
        )
        .set((
            operation::owner.eq(owner),
            operation::lease_ms.eq(lease_ms),
            operation::generation.eq(found.generation + 1),
            operation::attempt.eq(found.attempt + 1),
            operation::state.eq(OperationState::Running.as_str()),
            operation::started_ms.eq(found.started_ms.or(Some(at_ms))),
            operation::deadline_ms.eq(deadline_ms),
            operation::updated_ms.eq(at_ms),
        ))
        .recurring()
        .execute(&mut **c)
        .await
    })?;
    if rows == 0 {
        return Ok(Claimed::NotNow);
    }
    let taken_over = found.owner.is_some();
    let claim = Claim { operation: id.clone(), row: found.id, owner: owner.to_owned(), generation: found.generation + 1, taken_over };
    let kind = if taken_over { "taken_over" } else { "claimed" };
    event::append(conn, id, &found.cluster_id(), kind, owner).await?;
    let row = find(conn, id).await?.ok_or(STALE)?;
    Ok(Claimed::Ours(Box::new(row), claim))
}

/// The deadline of an operation that nobody who understands it has taken: its time counts from when those before it had ended, for nobody may
/// be there to begin it.
async fn deadline_untaken(conn: &mut Conn, found: &Operation) -> Result<i64, StoreError> {
    let freed: Option<i64> = on_conn!(conn, |c| {
        operation::table
            .filter(operation::cluster_uuid.eq(&found.cluster_uuid))
            .filter(operation::id.lt(found.id))
            .select(dsl::max(operation::finished_ms))
            .first(&mut **c)
            .await
    })?;
    let waited = freed.map_or(0, |freed| freed.saturating_sub(found.created_ms).max(0));
    Ok(found.deadline_ms.saturating_add(waited))
}

/// The rows a claim still holds, also one whose end was asked for: it can be ended, and nothing else.
macro_rules! owned {
    ($claim:expr) => {
        operation::table
            .filter(operation::uuid.eq($claim.operation.as_str()))
            .filter(operation::generation.eq($claim.generation))
            .filter(operation::owner.eq(&$claim.owner))
            .filter(operation::state.eq(OperationState::Running.as_str()))
    };
}

/// The rows a claim still holds and may go on with.
macro_rules! held {
    ($claim:expr) => {
        owned!($claim).filter(operation::cancel_ms.is_null())
    };
}

/// Records how far the work has come; also the guard that every transaction of a conductor begins with. A new step is an event.
///
/// # Errors
/// [`StoreError::Stale`].
pub async fn record(conn: &mut Conn, claim: &Claim, progress: &Progress) -> Result<(), StoreError> {
    if planted::has(Bug::LostUpdate) {
        write_back(conn, claim).await?;
    }
    let set = (
        operation::waiting_for.eq(progress.waiting_for.as_deref().map(storable)),
        operation::progress_done.eq(progress.done),
        operation::progress_total.eq(progress.total),
        operation::updated_ms.eq(millis(now())),
    );
    // Most of the time the step is the same: one statement then.
    let rows = on_conn!(conn, |c| {
        diesel::update(held!(claim).filter(operation::step.eq(progress.step))).set(set.clone()).recurring().execute(&mut **c).await
    })?;
    if rows > 0 {
        return Ok(());
    }
    let rows = on_conn!(conn, |c| {
        diesel::update(held!(claim)).set((set, operation::step.eq(progress.step))).recurring().execute(&mut **c).await
    })?;
    if rows == 0 {
        return if planted::has(Bug::MissingGuard) { Ok(()) } else { Err(STALE) };
    }
    let cluster = cluster_of(conn, &claim.operation).await?;
    event::append(conn, &claim.operation, &cluster, STEP, progress.step).await
}

/// The lost update of [`Bug::LostUpdate`]: what was read when the operation was claimed is put over whatever others wrote since.
async fn write_back(conn: &mut Conn, claim: &Claim) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        diesel::update(operation::table.filter(operation::uuid.eq(claim.operation.as_str())))
            .set((
                operation::owner.eq(&claim.owner),
                operation::generation.eq(claim.generation),
                operation::state.eq(OperationState::Running.as_str()),
            ))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    Ok(())
}

/// The event of a step that begins; its message is the step.
pub const STEP: &str = "step";
/// The event of a call to the cloud that failed, unless it fails as the one before it did.
pub const CLOUD_ERROR: &str = "cloud_error";

async fn cluster_of(conn: &mut Conn, id: &OperationId) -> Result<ClusterId, StoreError> {
    find(conn, id).await?.map(|row| row.cluster_id()).ok_or(STALE)
}

/// Changes what an operation carries that one holds.
///
/// # Errors
/// [`StoreError::Stale`].
pub async fn carry(conn: &mut Conn, claim: &Claim, payload: &Payload) -> Result<(), StoreError> {
    let set = operation::payload.eq(serde_json::to_string(payload).expect("a payload is plain data"));
    let rows = on_conn!(conn, |c| diesel::update(held!(claim)).set(set).recurring().execute(&mut **c).await)?;
    if rows == 0 { Err(STALE) } else { Ok(()) }
}

/// Records that a step failed and will be tried again, and what the cloud said. The step stays what it is.
///
/// # Errors
/// [`StoreError::Stale`].
pub async fn note_failure(conn: &mut Conn, claim: &Claim, waiting_for: &str, error: Option<&CloudFault>) -> Result<(), StoreError> {
    let set = (operation::waiting_for.eq(Some(storable(waiting_for))), operation::updated_ms.eq(millis(now())));
    let rows = on_conn!(conn, |c| diesel::update(held!(claim)).set(set).recurring().execute(&mut **c).await)?;
    if rows == 0 {
        return Err(STALE);
    }
    match error {
        Some(error) => note_cloud_error(conn, claim, error).await,
        None => Ok(()),
    }
}

/// Records what the cloud said of a call that failed. The claim must have been checked in the same transaction.
pub async fn note_cloud_error(conn: &mut Conn, claim: &Claim, error: &CloudFault) -> Result<(), StoreError> {
    let row = find(conn, &claim.operation).await?.ok_or(STALE)?;
    let last = LastCloudError::after(row.last_cloud_error(), error.clone(), millis(now()));
    let text = serde_json::to_string(&last).expect("an error is plain data");
    let id = claim.operation.as_str();
    on_conn!(conn, |c| {
        diesel::update(operation::table.filter(operation::uuid.eq(id)))
            .set(operation::cloud_error.eq(Some(text)))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if !last.is_news() {
        return Ok(());
    }
    let details = EventDetails { error: Some(error.clone()), ..EventDetails::default() };
    event::append_with(conn, &claim.operation, &row.cluster_id(), CLOUD_ERROR, &error.message, Some(&details)).await
}

/// Wipes the caller's token: what it was kept for is done.
pub async fn forget_token(conn: &mut Conn, claim: &Claim) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| diesel::update(held!(claim))
        .set(operation::sealed_token.eq(None::<String>))
        .recurring()
        .execute(&mut **c)
        .await)?;
    if rows == 0 { Err(STALE) } else { Ok(()) }
}

/// What an operation carries once it has ended: without the password that it has drawn ([`Payload::sealed_password`]), which whoever does it again draws anew.
/// A payload that is no JSON, or has none, stays as it is.
fn without_password() -> SqlLiteral<Text> {
    sql::<Text>(
        "CASE WHEN operation.payload LIKE '%\"sealed_password\"%' AND JSON_VALID(operation.payload) \
         THEN JSON_REMOVE(operation.payload, '$.sealed_password') ELSE operation.payload END",
    )
}

/// The event of the end of an operation.
pub const ENDED: &str = "ended";

/// Ends the operation. One whose end was asked for can only end as cancelled.
///
/// # Errors
/// [`StoreError::Stale`].
pub async fn finish(conn: &mut Conn, claim: &Claim, cluster: &ClusterId, ending: &Ending) -> Result<(), StoreError> {
    if planted::has(Bug::LostUpdate) {
        write_back(conn, claim).await?;
    }
    let at = millis(now());
    let (code, reason) = match ending {
        Ending::Succeeded => (None, None),
        Ending::Failed { code, reason } => (Some(code.as_str()), Some(reason.as_str())),
    };
    let is_cancelled = matches!(ending, Ending::Failed { code: OutcomeCode::Cancelled, .. });
    let rows = on_conn!(conn, |c| {
        diesel::update(owned!(claim).filter(operation::cancel_ms.is_null().or(is_cancelled.into_sql::<diesel::sql_types::Bool>())))
            .set((
                operation::state.eq(ending.state().as_str()),
                operation::waiting_for.eq(None::<String>),
                operation::outcome_code.eq(code),
                operation::outcome_reason.eq(reason.map(storable)),
                operation::payload.eq(without_password()),
                operation::sealed_token.eq(None::<String>),
                operation::owner.eq(None::<String>),
                operation::lease_ms.eq(None::<i64>),
                operation::updated_ms.eq(at),
                operation::finished_ms.eq(Some(at)),
            ))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 {
        return Err(STALE);
    }
    event::append(conn, &claim.operation, cluster, ENDED, reason.unwrap_or("succeeded")).await
}
