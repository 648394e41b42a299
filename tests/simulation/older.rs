//! A conductor of an earlier release beside those of this one, as during a rolling upgrade: what it does not understand it leaves to them.

use model::id::OperationId;
use model::operation::{Operation, OperationState, Payload};
use model::store::{Conn, Store, StoreError, event};

use crate::ends::Ends;

/// The conductor that is of an earlier release, in some seeds.
pub const NUMBER: usize = 0;

/// What becomes of an operation that it must leave to others.
pub const LEFT: (&str, &str) = ("later release", "DONE");

/// The latest version of payloads that it understands.
const KNOWN: u32 = Payload::VERSION;

/// Whether there is one in a seed: with every plan of the users, which go by tens of seeds.
pub fn is_there(seed: u64) -> bool {
    seed % 7 == 3
}

/// The latest version of payloads that a conductor understands in a seed; none: all of this release's.
pub fn known(seed: u64, number: usize) -> Option<u32> {
    (number == NUMBER && is_there(seed)).then_some(KNOWN)
}

/// Operations that it took though it does not understand them, in words, and how many of these it left to others who did them. It may end what has
/// had its time, or is to be cancelled: that takes no understanding.
///
/// # Errors
/// What the store says.
pub async fn taken(store: &Store, rows: &[Operation]) -> Result<(Vec<String>, Ends), StoreError> {
    let (mut found, mut left) = (Vec::new(), Ends::default());
    for row in rows.iter().filter(|row| row.payload().is_ok_and(|payload| payload.version > KNOWN)) {
        let id = &OperationId::new(row.uuid.clone());
        let claims = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &["claimed", "taken_over"]).await).await?;
        let by_it = claims.iter().filter(|claim| claim.message.starts_with(&format!("conductor-{NUMBER}-")));
        let too_early = by_it.filter(|claim| row.cancel_ms.is_none() && claim.at_ms < row.deadline_ms);
        found.extend(too_early.map(|claim| format!("{} {id} was taken by {}, which does not understand it", row.kind, claim.message)));
        if row.state() == Some(OperationState::Succeeded) {
            left.note(LEFT.0, LEFT.1);
        }
    }
    Ok((found, left))
}
