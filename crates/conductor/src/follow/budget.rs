//! How many requests per second the follower may send: a token bucket whose rate is this conductor's share of the whole.
//!
//! The share is the whole divided by the conductors alive, so that Heat sees the same number of requests however many there are. Who
//! follows more stacks than his share asks for in time takes what they need, up to his share of the most that may be sent. Each stack is
//! asked for by one conductor, so what all of them need together is the same however many there are, too.

use std::time::Duration;

use tokio::time::Instant;

/// A share is never less: a deployment with more conductors than requests per second still follows its stacks.
const LEAST: f64 = 0.2;
/// Seconds of the rate that may be saved up.
const BURST: f64 = 1.0;

/// A bucket of requests.
#[derive(Debug)]
pub(super) struct Budget {
    /// Requests per second of all conductors together.
    whole: f64,
    /// The same at most, where stacks need more.
    peak: f64,
    conductors: f64,
    /// Requests per second that the stacks of this one need.
    needed: f64,
    tokens: f64,
    at: Instant,
}

impl Budget {
    /// A full one, of a conductor that is alone.
    pub fn new(whole: f64, peak: f64, now: Instant) -> Self {
        let mut budget = Self { whole, peak, conductors: 1.0, needed: 0.0, tokens: 0.0, at: now };
        budget.tokens = budget.most();
        budget
    }

    /// There are so many conductors, this one included.
    pub fn share(&mut self, conductors: usize, now: Instant) {
        self.refill(now);
        self.conductors = conductors.max(1) as f64;
        self.tokens = self.tokens.min(self.most());
    }

    /// Takes one request; the stacks need so many per second.
    ///
    /// # Errors
    /// How long until there is one.
    pub fn take(&mut self, needed: f64, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        self.needed = needed;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / self.rate()).max(Duration::from_millis(1)))
    }

    /// Requests per second of this one.
    fn rate(&self) -> f64 {
        let [usual, most] = [self.whole, self.peak].map(|of_all| of_all / self.conductors);
        usual.max(self.needed.min(most)).max(LEAST)
    }

    fn most(&self) -> f64 {
        (self.rate() * BURST).max(1.0)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate()).min(self.most());
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Requests sent within so many seconds by somebody who always wants to, and whose stacks need so many per second.
    fn sent(budget: &mut Budget, needed: f64, start: Instant, seconds: u64) -> u32 {
        let (mut now, end, mut count) = (start, start + Duration::from_secs(seconds), 0);
        while now < end {
            match budget.take(needed, now) {
                Ok(()) => count += 1,
                Err(wait) => now += wait,
            }
        }
        count
    }

    proptest! {
        #[test]
        fn all_conductors_together_send_the_same_however_many_they_are(
            whole in 2.0..40.0f64, peak in 1.0..160.0f64, needed in 0.0..200.0f64, conductors in 1usize..10,
        ) {
            let start = Instant::now();
            let total: u32 = (0..conductors)
                .map(|_| {
                    let mut budget = Budget::new(whole, peak, start);
                    budget.share(conductors, start);
                    sent(&mut budget, needed / conductors as f64, start, 60)
                })
                .sum();
            let rate = whole.max(needed.min(peak));
            // What may be saved up comes once.
            let most = rate.max(LEAST * conductors as f64) * 61.0 + 2.0 * conductors as f64;
            prop_assert!(f64::from(total) <= most, "{total} > {most}");
            prop_assert!(f64::from(total) >= rate * 58.0 - conductors as f64, "{total}");
        }

        #[test]
        fn the_most_is_not_exceeded_by_a_conductor_that_has_all_the_stacks(
            whole in 2.0..40.0f64, more in 0.0..120.0f64, needed in 0.0..400.0f64, conductors in 1usize..10,
        ) {
            let start = Instant::now();
            let total: u32 = (0..conductors)
                .map(|number| {
                    let mut budget = Budget::new(whole, whole + more, start);
                    budget.share(conductors, start);
                    sent(&mut budget, if number == 0 { needed } else { 0.0 }, start, 60)
                })
                .sum();
            prop_assert!(f64::from(total) <= (whole + more) * 61.0 + 2.0 * conductors as f64, "{total}");
        }
    }

    #[test]
    fn a_share_that_shrinks_takes_effect_at_once() {
        let start = Instant::now();
        let mut budget = Budget::new(20.0, 20.0, start);
        budget.share(10, start);
        let count = sent(&mut budget, 0.0, start, 10);
        assert!((19..=23).contains(&count), "{count}");
    }
}
