//! How long until a stack is asked for again: pure functions.

use std::time::Duration;

/// The shortest and the longest time between two looks, before jitter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub min: Duration,
    pub max: Duration,
}

/// Jitter: a share of the interval, so that stacks which began together are not asked for together for ever.
const JITTER: std::ops::Range<f64> = 0.8..1.2;
/// The longest time between two looks of somebody whom lists wake in vain again and again.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// When to list a stack again: soon while it is young or has just moved, later when it has been quiet for long; twice as long each time
/// that a list has told of something that a look did not find.
pub(super) fn list_after(bounds: Bounds, quiet: Duration, idle: u32) -> Duration {
    let usual = (quiet / 20).clamp(bounds.min, bounds.max.max(bounds.min));
    let longest = MAX_IDLE.max(usual);
    usual.saturating_mul(2u32.saturating_pow(idle.min(16))).min(longest)
}

/// When to count the resources of a stack again, which costs Heat far more than a line in a list.
pub(super) fn progress_after(bounds: Bounds, quiet: Duration) -> Duration {
    let (shortest, longest) = (bounds.min * 4, bounds.max.max(bounds.min) * 10);
    (quiet / 5).clamp(shortest, longest)
}

/// The interval with jitter; `random` is uniform in 0..1.
pub(super) fn jittered(interval: Duration, random: f64) -> Duration {
    interval.mul_f64(JITTER.start + (JITTER.end - JITTER.start) * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { min: Duration::from_secs(1), max: Duration::from_secs(3) };

    #[test]
    fn a_young_stack_is_asked_for_often_and_an_old_one_seldom() {
        let after = |age: u64| list_after(BOUNDS, Duration::from_secs(age), 0);
        assert_eq!([0, 20, 40, 60, 6000].map(after), [1, 1, 2, 3, 3].map(Duration::from_secs));
        let progress = |age: u64| progress_after(BOUNDS, Duration::from_secs(age));
        assert_eq!([0, 20, 60, 150, 6000].map(progress), [4, 4, 12, 30, 30].map(Duration::from_secs));
    }

    proptest! {
        #[test]
        fn an_interval_stays_in_its_bounds_and_grows_with_age_and_vain_wakes(
            min in 1u64..5_000, more in 0u64..60_000, age in 0u64..10_000_000, older in 0u64..10_000_000, idle in 0u32..40, random in 0.0..1.0f64,
        ) {
            let bounds = Bounds { min: Duration::from_millis(min), max: Duration::from_millis(min + more) };
            let [age, older] = [age.min(older), age.max(older)].map(Duration::from_millis);
            let after = list_after(bounds, age, idle);
            prop_assert!(after >= bounds.min && after <= bounds.max.max(MAX_IDLE));
            prop_assert!(list_after(bounds, older, idle) >= after);
            prop_assert!(list_after(bounds, age, idle + 1) >= after);
            prop_assert!(progress_after(bounds, older) >= progress_after(bounds, age));
            prop_assert!(progress_after(bounds, age) > list_after(bounds, age, 0));
            let jittered = jittered(after, random);
            prop_assert!(jittered >= after.mul_f64(0.79) && jittered <= after.mul_f64(1.21));
        }
    }
}
