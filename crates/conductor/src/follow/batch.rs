//! How many stacks are asked for in one request: as many as pass whatever stands in front of Heat.
//!
//! Who finds a request too long may say so, or just drop it. The latter is told from a Heat that is away by shorter requests, which do well
//! while longer ones fail.

use std::time::Duration;

use tokio::time::Instant;

/// Stacks asked for in one request. Heat takes request lines of 50,000 bytes, but what stands in front of it often takes 8,190 (Apache;
/// nginx 8 KiB). With an id of 40 bytes each (`id=`, the uuid, `&`), all other parameters and the path `/v1/<project>/stacks` the line is
/// 7,687 bytes long: 503 are left for a longer path. More than a page of the client (200 items) would make two requests of each list.
pub(super) const BATCH: usize = 190;
/// So few are never too many: the line has some 900 bytes, and gunicorn, which takes the shortest lines, takes 4,094.
pub(super) const FLOOR: usize = 20;
/// Until more are tried again; twice as long each time that they were too many.
const FIRST_WAIT: Duration = Duration::from_secs(300);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How often a shorter request has to do well after a longer one has failed until the longer one is taken for too long: once is what it looks
/// like when Heat comes back.
const PROOFS: u32 = 2;

/// Stacks in a request: [`BATCH`], or fewer once somebody in front of Heat has found one too long.
#[derive(Debug)]
pub(super) struct Batch {
    size: usize,
    wait: Duration,
    /// When more may be tried.
    larger_at: Option<Instant>,
}

impl Batch {
    pub fn new() -> Self {
        Self { size: BATCH, wait: FIRST_WAIT, larger_at: None }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// A request for so many is too long. Several as long as this one may be under way: together they halve it once.
    pub fn too_long(&mut self, stacks: usize, now: Instant) {
        let size = (stacks / 2).max(FLOOR);
        if size >= self.size {
            return;
        }
        self.size = size;
        self.larger_at = Some(now + self.wait);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        tracing::warn!(stacks, size, "a request for so many stacks is too long for somebody in front of Heat; asking for fewer at once");
    }

    /// A request for so many did well: after a while more are tried, a quarter at a time.
    pub fn did_well(&mut self, stacks: usize, now: Instant) {
        if stacks < self.size || self.size == BATCH || self.larger_at.is_some_and(|at| at > now) {
            return;
        }
        self.size = (self.size + self.size / 4).min(BATCH);
        if self.size == BATCH {
            self.wait = FIRST_WAIT;
        }
        self.larger_at = Some(now + self.wait);
        tracing::info!(size = self.size, "asking Heat for more stacks at once again");
    }
}

/// Whether it is their length for which the requests of one group fail, though nobody says so.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Stacks in the shortest request that has failed since one as long did well, of those that are longer than [`FLOOR`].
    failed: Option<usize>,
    /// Whether none has done well since.
    is_fresh: bool,
    /// How often a shorter one did well after that.
    proofs: u32,
}

impl Doubt {
    /// A request for so many failed for an untold reason.
    pub fn failed(&mut self, stacks: usize) {
        if stacks > FLOOR {
            self.failed = Some(self.failed.map_or(stacks, |known| known.min(stacks)));
            self.is_fresh = true;
        } else {
            // Not for its length.
            self.proofs = 0;
        }
    }

    /// A request for so many did well. How many are too many, once that is proved.
    pub fn did_well(&mut self, stacks: usize) -> Option<usize> {
        let failed = self.failed?;
        if stacks >= failed {
            *self = Self::default();
            return None;
        }
        if std::mem::take(&mut self.is_fresh) {
            self.proofs += 1;
        }
        if self.proofs < PROOFS {
            return None;
        }
        *self = Self::default();
        Some(failed)
    }

    /// Whether a short request would tell more than one as long as usual, after so many failures in a row.
    pub fn wants_short(&self, failures: u32) -> bool {
        self.is_fresh && (failures > 1 || self.proofs > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_halved_once_never_below_the_floor_and_grows_back_slowly() {
        let start = Instant::now();
        let mut batch = Batch::new();
        for _ in 0..3 {
            batch.too_long(BATCH, start);
        }
        assert_eq!(batch.size(), BATCH / 2);
        batch.too_long(30, start);
        batch.too_long(FLOOR + 1, start);
        assert_eq!(batch.size(), FLOOR);
        // Not at once, and not for a request that was not full.
        batch.did_well(FLOOR, start + FIRST_WAIT);
        assert_eq!(batch.size(), FLOOR);
        let mut now = start + LONGEST_WAIT;
        batch.did_well(FLOOR - 1, now);
        assert_eq!(batch.size(), FLOOR);
        let mut sizes = Vec::new();
        while batch.size() < BATCH {
            batch.did_well(batch.size(), now);
            batch.did_well(batch.size(), now + Duration::from_secs(1));
            sizes.push(batch.size());
            now += LONGEST_WAIT;
        }
        assert_eq!(sizes, [25, 31, 38, 47, 58, 72, 90, 112, 140, 175, 190]);
    }

    #[test]
    fn more_are_tried_the_less_often_the_more_often_they_were_too_many() {
        let mut now = Instant::now();
        let mut batch = Batch::new();
        let mut waits = Vec::new();
        for _ in 0..6 {
            let size = batch.size();
            batch.too_long(size, now);
            let (begun, less) = (now, batch.size());
            while batch.size() == less {
                now += Duration::from_secs(60);
                batch.did_well(less, now);
            }
            waits.push((now - begun).as_secs() / 60);
        }
        assert_eq!(waits[..3], [5, 10, 20]);
        assert_eq!(waits[5], 60);
    }

    #[test]
    fn a_heat_that_comes_back_proves_nothing() {
        let mut doubt = Doubt::default();
        for _ in 0..3 {
            for _ in 0..3 {
                doubt.failed(BATCH);
            }
            assert!(doubt.wants_short(3));
            doubt.failed(FLOOR);
            assert_eq!(doubt.did_well(FLOOR), None);
            assert!(!doubt.wants_short(0));
            assert_eq!(doubt.did_well(BATCH), None);
        }
    }

    #[test]
    fn short_requests_that_do_well_while_long_ones_fail_prove_that_these_are_too_long() {
        let mut doubt = Doubt::default();
        doubt.failed(BATCH);
        assert!(!doubt.wants_short(1), "the first failure may be anybody's");
        doubt.failed(BATCH);
        assert!(doubt.wants_short(2));
        assert_eq!(doubt.did_well(FLOOR), None);
        assert_eq!(doubt.did_well(FLOOR), None, "one failure is proved once");
        doubt.failed(BATCH - 1);
        assert!(doubt.wants_short(1), "it has looked like that before");
        assert_eq!(doubt.did_well(FLOOR), Some(BATCH - 1));
        assert!(!doubt.wants_short(2));
    }

    #[test]
    fn what_fails_although_it_is_short_does_not_fail_for_its_length() {
        let mut doubt = Doubt::default();
        doubt.failed(BATCH);
        assert_eq!(doubt.did_well(FLOOR), None);
        doubt.failed(BATCH);
        doubt.failed(FLOOR);
        assert_eq!(doubt.did_well(FLOOR), None);
    }
}
