//! Steps that have a time of their own in some seeds, and whether one has outlived it.

use model::operation::{Operation, STEPS, StepLimits};
use model::store::operation::{ENDED, STEP};
use model::store::{Conn, Store, StoreError, event};

/// A seed in which steps are bounded.
pub const BOUNDED: u64 = 4;

/// How long the operator lets steps take in a seed. Longer than it takes until what was asked for without a clear answer cannot appear any more.
pub fn limits(seed: u64) -> StepLimits {
    let text = if seed % 7 == BOUNDED { "stack:60" } else { "" };
    StepLimits::read(text).expect("a step that there is")
}

/// How much later than at its deadline a step may end, in milliseconds: all conductors may be dead, or stand still, or be cut off from the store at
/// that moment, and again when they come back.
pub const UNSEEN_MS: i64 = 150_000;

/// Steps of these operations that ended so much later than they should have, and those that nobody can bound, in words.
///
/// # Errors
/// What the store says.
pub async fn broken(store: &Store, rows: &[Operation], limits: &StepLimits, unseen_ms: i64) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for row in rows {
        let id = &row.operation_id();
        let events = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &[STEP, ENDED]).await).await?;
        for (at, step) in events.iter().enumerate().filter(|(_, event)| event.kind == STEP) {
            let (kind, word) = (row.kind(), step.message.as_str());
            if !STEPS.contains(&word) {
                found.push(format!("{} {id} came to {word}, which is not among the steps", row.kind));
            }
            let end = limits.end_ms(kind, word, step.at_ms, row.deadline_ms);
            let next = events.get(at + 1).filter(|_| limits.of(kind, word).is_some());
            if let Some(late) = next.map(|next| next.at_ms - end).filter(|late| *late > unseen_ms) {
                found.push(format!("step {word} of {} {id} ended {late} ms after its deadline", row.kind));
            }
        }
    }
    Ok(found)
}
