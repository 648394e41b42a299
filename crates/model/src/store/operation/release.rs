//! The end of a hold, by who has it.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::operation::Claim;
use crate::schema::operation;
use crate::store::StoreError;
use crate::store::connection::{Conn, on_conn};
use crate::store::recurring::Recur;

/// Gives an operation back, due at `due_ms`, whoever may take it next. Also ends the hold on one that was superseded meanwhile; gives
/// nothing back that somebody else holds by now.
pub async fn release(conn: &mut Conn, claim: &Claim, due_ms: i64) -> Result<(), StoreError> {
    on_conn!(conn, |c| {
        // The owner is the whole process: what it has claimed anew meanwhile has another generation and stays. Whoever ends an operation behind its holder's
        // back makes the generation one more, whatever the holder had: of one that was claimed anew before that this claim ends no hold.
        diesel::update(
            operation::table.filter(operation::uuid.eq(claim.operation.as_str())).filter(operation::owner.eq(&claim.owner)).filter(
                operation::generation
                    .eq(claim.generation)
                    .or(operation::finished_ms.is_not_null().and(operation::generation.eq(claim.generation + 1))),
            ),
        )
        .set((operation::owner.eq(None::<String>), operation::lease_ms.eq(None::<i64>), operation::due_ms.eq(due_ms)))
        .recurring()
        .execute(&mut **c)
        .await
    })?;
    Ok(())
}
