//! How long operations wait for a conductor: from when one could be claimed, which is when it was accepted, or when the last one before it on its
//! cluster ended.
//!
//! When that was stands in the table. It is read with all else that is shown, when somebody asks: a claim costs no statement more for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::operation::Operation;
use model::store::{Conn, Store, StoreError, history};
use model::time::{millis, now};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::FoundBy;

/// Upper bounds in seconds: with the doorbell milliseconds, with the scan seconds.
const BOUNDS: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];
/// Claims that are kept until somebody asks; of more the oldest are forgotten.
const KEPT: usize = 10_000;
/// Claims of which one statement reads what was before them.
const BATCH: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Heard {
    by: &'static str,
}

/// The first claim of an operation.
#[derive(Clone, Copy, Debug)]
struct First {
    /// The number of the operation's row.
    row: i64,
    accepted_ms: i64,
    claimed_ms: i64,
    by: FoundBy,
}

impl First {
    /// Seconds from when it could be claimed; `freed_ms`: when the last operation before it ended, if there was one. The clocks of conductors
    /// differ a little.
    fn waited(self, freed_ms: Option<i64>) -> f64 {
        let since = freed_ms.map_or(self.accepted_ms, |freed| freed.max(self.accepted_ms));
        (self.claimed_ms - since).max(0) as f64 / 1000.0
    }
}

/// How long operations waited.
#[derive(Clone, Debug)]
pub(super) struct OfDelays {
    delays: Family<Heard, Histogram, fn() -> Histogram>,
    /// Claims whose delay is not among these yet, in their order.
    claims: Arc<Mutex<VecDeque<First>>>,
}

impl Default for OfDelays {
    fn default() -> Self {
        Self { delays: Family::new_with_constructor(|| Histogram::new(BOUNDS)), claims: Arc::default() }
    }
}

impl OfDelays {
    pub(super) fn register_all(&self, registry: &mut Registry) {
        let help = "Time from when an operation could be claimed (accepted, and all before it on its cluster ended) to its first claim, by what \
                    found it (the doorbell's delay, or the scan's)";
        registry.register("claim_delay_seconds", help, self.delays.clone());
    }

    /// An operation was claimed for the first time.
    pub(super) fn claimed(&self, operation: &Operation, by: FoundBy) {
        let mut claims = self.claims();
        if claims.len() >= KEPT {
            claims.pop_front();
        }
        claims.push_back(First { row: operation.id, accepted_ms: operation.created_ms, claimed_ms: millis(now()), by });
    }

    /// Counts the claims since the last time. Those that could not be looked up are kept for the next.
    pub(super) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        loop {
            let some: Vec<First> = self.claims().iter().take(BATCH).copied().collect();
            if some.is_empty() {
                return Ok(());
            }
            let rows: Vec<i64> = some.iter().map(|first| first.row).collect();
            let rows = &rows;
            let freed = store.read(async |conn: &mut Conn| history::freed(conn, rows).await).await?;
            let mut claims = self.claims();
            for first in some {
                // One that was forgotten meanwhile is not counted, as those before it are not.
                if claims.front().is_some_and(|kept| kept.row == first.row) {
                    claims.pop_front();
                    let by = match first.by {
                        FoundBy::Bell => "bell",
                        FoundBy::Scan => "scan",
                    };
                    self.delays.get_or_create(&Heard { by }).observe(first.waited(freed.get(&first.row).copied()));
                }
            }
        }
    }

    fn claims(&self) -> MutexGuard<'_, VecDeque<First>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_waits_for_a_conductor_from_when_it_could_be_claimed() {
        let first = First { row: 1, accepted_ms: 10_000, claimed_ms: 12_000, by: FoundBy::Bell };
        for (freed_ms, wanted) in [(None, 2.0), (Some(5_000), 2.0), (Some(11_500), 0.5), (Some(12_100), 0.0)] {
            assert_eq!(first.waited(freed_ms), wanted, "{freed_ms:?}");
        }
    }
}
