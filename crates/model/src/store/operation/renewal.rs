//! Many leases are lengthened at once, past rows that somebody has locked.
//!
//! A statement that comes to a locked row waits, and keeps what it has locked before: in the database also when whoever asked has given up,
//! until `innodb_lock_wait_timeout`. So one row that stays locked would take with it all those that were read before it, in whatever pieces
//! they are asked for again. It is passed over and named instead, and may be waited for alone.

use std::collections::HashSet;

use diesel::dsl;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Integer, Text};
use diesel_async::{AsyncMysqlConnection, RunQueryDsl};

use crate::operation::{Claim, OperationState};
use crate::planted::{self, Bug};
use crate::schema::operation;
use crate::store::StoreError;
use crate::store::connection::{Conn, on_conn};

/// Of claims whose leases were to be lengthened, those whose were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// They do not hold any more, or the end of their operations was asked for: stop before the next effect.
    pub gone: Vec<Claim>,
    /// They hold, but somebody has their rows locked.
    pub locked: Vec<Claim>,
}

/// Lengthens the leases of many claims of one owner. A row that is locked is waited for when it is the only one.
///
/// Claims of one operation are told apart: of an operation that its owner has lost and taken again before he let go of it, he has two.
///
/// # Errors
/// Nothing is known then: a lease may or may not have been lengthened.
pub async fn renew(conn: &mut Conn, owner: &str, claims: &[&Claim], lease_ms: i64) -> Result<Renewed, StoreError> {
    if claims.is_empty() {
        return Ok(Renewed::default());
    }
    // Its text is long, and hardly ever needed for many.
    let held = || {
        operation::table
            .filter(dsl::sql::<Bool>(&these(claims)))
            .filter(operation::owner.eq(owner))
            .filter(operation::state.eq(OperationState::Running.as_str()))
            .filter(operation::cancel_ms.is_null())
    };
    let free = match conn {
        Conn::Mysql(c) if claims.len() > 1 => Some(renew_free(c, owner, claims, lease_ms).await?),
        // SQLite locks the whole file.
        _ => None,
    };
    let rows = match &free {
        Some(free) => free.len(),
        None => on_conn!(conn, |c| diesel::update(held()).set(operation::lease_ms.eq(lease_ms)).execute(&mut **c).await)?,
    };
    if rows == claims.len() || planted::has(Bug::MissingGuard) {
        return Ok(Renewed::default());
    }
    // In the same transaction, and read after all of them were come to: what is not held now is not held any more.
    let kept: Vec<(i64, i32)> = on_conn!(conn, |c| held().select((operation::id, operation::generation)).load(&mut **c).await)?;
    let kept: Held = kept.into_iter().collect();
    let mut renewed = Renewed::default();
    for claim in claims {
        let key = key(claim);
        if !kept.contains(&key) {
            renewed.gone.push((*claim).clone());
        } else if free.as_ref().is_some_and(|free| !free.contains(&key)) {
            renewed.locked.push((*claim).clone());
        }
    }
    Ok(renewed)
}

/// Rows of operations, each with the generation by which it is held.
type Held = HashSet<(i64, i32)>;

fn key(claim: &Claim) -> (i64, i32) {
    (claim.row, claim.generation)
}

/// Rows are come to by their own keys: a small table would be read from one end to the other, past everybody's locks.
const BY_ROW: &str = "FORCE INDEX (PRIMARY)";
/// Servers that cannot pass over locked rows (MariaDB before 10.6, MySQL before 8.0.1) read comments, and wait.
const SKIP_LOCKED: &str = "/*M!100600 SKIP LOCKED *//*!80001 SKIP LOCKED */";

#[derive(QueryableByName)]
struct Free {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Integer)]
    generation: i32,
}

/// Lengthens the leases that are held and whose rows nobody has locked, and names them. Waits for nobody: what it writes it has locked itself.
async fn renew_free(conn: &mut AsyncMysqlConnection, owner: &str, claims: &[&Claim], lease_ms: i64) -> Result<Held, StoreError> {
    // Generations are compared here: thousands of leases are renewed every few seconds, and with them the statements would be twice as long.
    let wanted: Held = claims.iter().map(|claim| key(claim)).collect();
    let all = listed(claims.iter().map(|claim| claim.row));
    let sql = format!(
        "SELECT id, generation FROM operation {BY_ROW} WHERE {all} AND owner = ? AND state = ? AND cancel_ms IS NULL \
         FOR UPDATE {SKIP_LOCKED}"
    );
    let lock = diesel::sql_query(sql).bind::<Text, _>(owner).bind::<Text, _>(OperationState::Running.as_str());
    let free: Vec<Free> = lock.load(&mut *conn).await?;
    let free: Held = free.into_iter().map(|row| (row.id, row.generation)).filter(|key| wanted.contains(key)).collect();
    if !free.is_empty() {
        // Locked until the end of the transaction, so that each is still of its generation.
        let ours = listed(free.iter().map(|(id, _)| *id));
        let sql = format!("UPDATE operation {BY_ROW} SET lease_ms = ? WHERE {ours}");
        diesel::sql_query(sql).bind::<BigInt, _>(lease_ms).execute(&mut *conn).await?;
    }
    Ok(free)
}

/// The condition that matches rows by their numbers, of which there are some; in the text of the statement, see [`many`](crate::store::many).
fn listed(rows: impl Iterator<Item = i64>) -> String {
    let rows: Vec<String> = rows.map(|id| id.to_string()).collect();
    format!("id IN ({})", rows.join(","))
}

/// The condition that matches the rows of claims, of which there are some, as long as their generation stands; as [`listed`].
fn these(claims: &[&Claim]) -> String {
    let each: Vec<String> = claims.iter().map(|claim| format!("(id = {} AND generation = {})", claim.row, claim.generation)).collect();
    format!("({})", each.join(" OR "))
}
