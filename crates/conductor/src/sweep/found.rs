//! Clusters that say that they are being changed, and of which no operation tells: another service began it, and was stopped in the middle.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use model::store::{Conn, found};
use model::time::now;
use tokio::time::Instant;

use super::{BATCH, Sweep};
use crate::outcome::Failure;

/// Clusters taken up by one sweep at most; the rest waits for the next.
const MOST: usize = 1000;

/// Clusters whose time had not come when they were seen, each with its status, and since when they are seen in it.
pub(super) type Early = BTreeMap<(String, String), Instant>;

impl Sweep<'_> {
    /// Stores operations for them; whoever scans next finds these. What was written only just may have somebody at it still, in the middle of
    /// several writes: it is looked at again soon. Then it need not have rested, for an agent may report its health all the time.
    pub(super) async fn unattended(&mut self) -> Result<(), Failure> {
        let deadlines = self.cx.settings.deadlines;
        let quiet = super::quiet(self.cx);
        let before = (now() - TimeDelta::from_std(quiet).unwrap_or(TimeDelta::MAX)).naive_utc();
        let known = std::mem::take(self.early);
        let (mut after, mut taken) = (0, 0);
        while taken < MOST {
            let page = self.cx.store.read(async |conn: &mut Conn| found::unattended(conn, after, BATCH as i64).await).await?;
            let Some(last) = page.last() else { break };
            after = last.row;
            for one in &page {
                let key = (one.cluster.to_string(), one.status.clone());
                let since = known.get(&key).copied().unwrap_or_else(Instant::now);
                if one.written.is_some_and(|written| written > before) && since.elapsed() < quiet {
                    self.early.insert(key, since);
                    continue;
                }
                self.guard().await?;
                let id = &one.cluster;
                let stored = self.cx.store.write(async |conn: &mut Conn| found::take_up(conn, id, &deadlines).await).await?;
                if !stored.is_empty() {
                    tracing::info!(cluster.id = %id, operations = stored.len(), "took up what another service left in progress");
                    taken += 1;
                }
            }
        }
        Ok(())
    }
}
