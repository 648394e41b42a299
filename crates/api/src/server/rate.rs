//! How often a project may ask: a bucket for each project, in this process. Off unless the operator sets a rate.
//!
//! Buckets that are full again are forgotten, so that memory follows the projects that ask now, not all that ever did.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::error::ApiError;
use crate::identity::Caller;

/// Requests between two clean-ups.
const CLEAN_UP_EVERY: u32 = 1024;

/// What a project may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests a second in the long run.
    pub per_second: f64,
    /// Requests at once after a pause.
    pub burst: NonZeroU32,
}

/// Counts requests.
pub struct Limiter {
    buckets: RateLimiter<String, HashMapStateStore<String>, DefaultClock>,
    clock: DefaultClock,
    asked: AtomicU32,
}

impl Limiter {
    /// A limiter, or none for a rate that limits nothing.
    pub fn new(rate: Rate) -> Option<Self> {
        let pause = Duration::try_from_secs_f64(1.0 / rate.per_second).ok()?;
        let quota = Quota::with_period(pause)?.allow_burst(rate.burst);
        Some(Self { buckets: RateLimiter::hashmap(quota), clock: DefaultClock::default(), asked: AtomicU32::new(0) })
    }

    /// Counts one request of a caller; refuses it when he has none left. Callers without project count by user.
    pub fn count(&self, caller: &Caller) -> Result<(), ApiError> {
        let key = caller.project_id.as_ref().map_or(&caller.user_id.0, |project| &project.0);
        if self.asked.fetch_add(1, Ordering::Relaxed) % CLEAN_UP_EVERY == CLEAN_UP_EVERY - 1 {
            self.buckets.retain_recent();
            self.buckets.shrink_to_fit();
        }
        self.buckets.check_key(key).map_err(|not_until| {
            let wait = not_until.wait_time_from(self.clock.now());
            // Whole seconds, rounded up: a client that comes back after them is served.
            ApiError::TooOften { retry_after: wait.as_secs() + u64::from(wait.subsec_nanos() > 0) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::caller;

    fn rate(per_second: f64, burst: u32) -> Rate {
        Rate { per_second, burst: NonZeroU32::new(burst).expect("a burst") }
    }

    #[test]
    fn a_project_has_a_burst_and_others_are_not_held_up_by_it() {
        let limiter = Limiter::new(rate(0.1, 3)).expect("a limiter");
        let (noisy, also_noisy, quiet) = (caller("p1", "u1", &[]), caller("p1", "u2", &[]), caller("p2", "u1", &[]));
        for who in [&noisy, &also_noisy, &noisy] {
            limiter.count(who).expect("within the burst");
        }
        for who in [&noisy, &also_noisy] {
            match limiter.count(who) {
                Err(ApiError::TooOften { retry_after }) => assert!((1..=10).contains(&retry_after), "{retry_after}"),
                other => panic!("{other:?}"),
            }
        }
        limiter.count(&quiet).expect("another project");
    }

    #[test]
    fn buckets_that_are_full_again_are_forgotten() {
        let limiter = Limiter::new(rate(1e9, 1)).expect("a limiter");
        for number in 0..10 * CLEAN_UP_EVERY {
            let _ = limiter.count(&caller(&format!("p{number}"), "u", &[]));
        }
        assert!(limiter.buckets.len() <= CLEAN_UP_EVERY as usize, "{}", limiter.buckets.len());
    }

    #[test]
    fn a_rate_that_limits_nothing_makes_no_limiter() {
        for per_second in [0.0, -1.0, f64::INFINITY] {
            assert!(Limiter::new(rate(per_second, 1)).is_none(), "{per_second}");
        }
    }
}
