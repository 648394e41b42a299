//! How long the stacks of a group are left alone after their listing has failed.

use std::time::Duration;

use tokio::time::Instant;

use super::batch::{Doubt, FLOOR};
use super::interval::jittered;

/// The longest pause of a project whose listing fails.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// How long listing is left alone after failures.
#[derive(Debug, Default)]
pub(super) struct Pause {
    failures: u32,
    until: Option<Instant>,
    /// When a failure was counted last. What was under way then may fail, too, and is the same trouble.
    counted: Option<Instant>,
    doubt: Doubt,
}

/// A failure among others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// How many there are in a row.
    pub in_a_row: u32,
    /// Whether this one made one more of them.
    pub is_new: bool,
}

impl Pause {
    /// The moment, or the end of the pause where that is later.
    pub fn end(&self, moment: Instant) -> Instant {
        self.until.map_or(moment, |until| until.max(moment))
    }

    pub fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// No failure, and yet nothing is to be done before then.
    pub fn rest(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Stacks in the next request, of usually so many.
    pub fn batch(&self, usual: usize) -> usize {
        if self.doubt.wants_short(self.failures) { usual.min(FLOOR) } else { usual }
    }

    /// A request for so many stacks did well. How many are too many, where that is proved by it.
    pub fn did_well(&mut self, stacks: usize) -> Option<usize> {
        (self.failures, self.until, self.counted) = (0, None, None);
        self.doubt.did_well(stacks)
    }

    /// A request for so many stacks failed that was sent then; the first pause is of twice the least length.
    pub fn failed(&mut self, stacks: usize, sent: Instant, least: Duration, now: Instant) -> Counted {
        self.doubt.failed(stacks);
        let is_new = self.counted.is_none_or(|counted| sent >= counted);
        if is_new {
            self.failures += 1;
            self.counted = Some(now);
            let length = least.saturating_mul(2u32.saturating_pow(self.failures.min(16))).min(MAX_BACKOFF);
            self.until = Some(now + jittered(length, model::random::range(0.0..1.0)));
        }
        Counted { in_a_row: self.failures, is_new }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_fail_together_are_one_failure() {
        let (start, least) = (Instant::now(), Duration::from_secs(1));
        let mut pause = Pause::default();
        for late in 0..30 {
            pause.failed(190, start, least, start + Duration::from_secs(1 + late));
        }
        assert!(pause.is_over(start + Duration::from_secs(5)), "{pause:?}");
        let again = start + Duration::from_secs(40);
        assert_eq!(pause.failed(190, again, least, again), Counted { in_a_row: 2, is_new: true });
        assert_eq!(pause.failed(190, start, least, again), Counted { in_a_row: 2, is_new: false });
        assert_eq!(pause.did_well(20), None);
        assert!(pause.is_over(again));
        assert_eq!(pause.failed(190, again, least, again), Counted { in_a_row: 1, is_new: true });
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let (mut now, mut pause, mut lengths) = (Instant::now(), Pause::default(), Vec::new());
        for _ in 0..20 {
            pause.failed(190, now, Duration::from_secs(1), now);
            let next = pause.end(now);
            lengths.push(next - now);
            now = next;
        }
        assert!(lengths[0] < lengths[2] && lengths[2] < lengths[4], "{lengths:?}");
        assert!(lengths[10..].iter().all(|length| (MAX_BACKOFF.mul_f64(0.79)..=MAX_BACKOFF.mul_f64(1.21)).contains(length)), "{lengths:?}");
    }
}
