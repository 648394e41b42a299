//! Whether others were told: of each operation of which anything is told its beginning and its end, once.

use std::collections::BTreeMap;

use model::notification::{Outcome, action, message_id};
use model::operation::{Operation, OperationState};
use model::store::{Conn, Store, StoreError, notification};

/// The messages that wait in the outbox: how many there are of each id.
pub async fn waiting(store: &Store) -> Result<BTreeMap<String, usize>, StoreError> {
    let rows = store.read(async |conn: &mut Conn| notification::first(conn, i64::MAX).await).await?;
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        *told.entry(row.uuid).or_default() += 1;
    }
    Ok(told)
}

/// What was told of those of these operations that have ended, and should not have been, or was not, in words. `told` are messages by their ids.
pub fn odd(told: &BTreeMap<String, usize>, operations: &[Operation]) -> Vec<String> {
    let mut odd = Vec::new();
    for operation in operations {
        let Some(kind) = operation.kind().filter(|_| operation.finished_ms.is_some()) else { continue };
        let was_begun = operation.started_ms.is_some();
        let ended = if operation.state == OperationState::Succeeded.as_str() { Outcome::Success } else { Outcome::Failure };
        for outcome in [Outcome::Pending, Outcome::Success, Outcome::Failure] {
            let is_due = was_begun && action(kind, outcome).is_some() && (outcome == Outcome::Pending || outcome == ended);
            let ids = (0..=operation.generation).map(|generation| message_id(&operation.uuid, generation, outcome));
            let times: usize = ids.filter_map(|id| told.get(&id)).sum();
            if times != usize::from(is_due) {
                let (kind, uuid, state) = (&operation.kind, &operation.uuid, &operation.state);
                odd.push(format!("{kind} {uuid} is {state} and was told {} {times} times", outcome.as_str()));
            }
        }
    }
    odd
}
