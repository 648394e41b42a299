//! Clusters that say that they are being changed, and of which no operation tells: another service began it, and was stopped in the middle.

use chrono::TimeDelta;
use model::store::{Conn, found};
use model::time::now;

use super::{BATCH, Sweep};
use crate::outcome::Failure;

/// Clusters taken up by one sweep at most; the rest waits for the next.
const MOST: usize = 1000;

impl Sweep<'_> {
    /// Stores operations for them; whoever scans next finds these. What was written only just may have somebody at it still, in the middle of
    /// several writes: it is looked at again soon.
    pub(super) async fn unattended(&mut self) -> Result<(), Failure> {
        let deadlines = self.cx.settings.deadlines;
        let quiet = TimeDelta::from_std(super::quiet(self.cx)).unwrap_or(TimeDelta::MAX);
        let before = (now() - quiet).naive_utc();
        let (mut after, mut taken) = (0, 0);
        while taken < MOST {
            let page = self.cx.store.read(async |conn: &mut Conn| found::unattended(conn, after, BATCH as i64).await).await?;
            let Some(last) = page.last() else { break };
            after = last.row;
            for one in &page {
                if one.written.is_some_and(|written| written > before) {
                    self.is_too_early = true;
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
