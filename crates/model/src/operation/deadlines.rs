//! How long operations may take.

use std::time::Duration;

use super::OperationKind;

/// From the beginning of an operation to its latest end, as far as the service is configured. What it waits before that, for those ahead of it
/// on its cluster or for a conductor, takes nothing from its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Minutes, when the cluster's creator named none (`[cluster_heat] create_timeout`).
    pub create_minutes: u32,
    /// Minutes for whatever deletes.
    pub delete_minutes: u32,
    /// For what ends in a bounded time whatever the cloud says (`[operations] force_delete_seconds`).
    pub force_delete: Duration,
    /// What may be waited for before an operation that does another again asks for anything (`[operations] settle_seconds`).
    pub settle: Duration,
}

/// Longer than any operation may take, whatever was asked for: a thousand years, whose end can still be told.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 86_400);

impl Default for Deadlines {
    fn default() -> Self {
        Self { create_minutes: 60, delete_minutes: 60, force_delete: Duration::from_secs(600), settle: Duration::from_secs(30) }
    }
}

impl Deadlines {
    /// How long an operation may take: what deletes, as long as the service is told; all others, as long as the cluster's creation may
    /// (`create_timeout` of its row, in minutes).
    pub fn of(&self, kind: OperationKind, create_timeout: Option<i32>) -> Duration {
        let minutes = match (kind, create_timeout) {
            (OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon, _) => return self.force_delete,
            (OperationKind::ClusterDelete | OperationKind::NodegroupDelete, _) => self.delete_minutes,
            (_, Some(minutes)) if minutes > 0 => minutes.unsigned_abs(),
            _ => self.create_minutes,
        };
        Duration::from_secs(60 * u64::from(minutes)).min(LONGEST)
    }

    /// How long an operation of this `kind` may take that does another again, which had `allowance`: no less, for it may be one of many steps, and
    /// what is waited for before the first of them is not taken from it.
    pub fn again(&self, kind: OperationKind, create_timeout: Option<i32>, allowance: Duration) -> Duration {
        let wait = if kind.removal().is_some() { Duration::ZERO } else { self.settle };
        allowance.max(self.of(kind, create_timeout) + wait)
    }
}

/// How long an operation may take of so many steps, each of which may take as long as `one`.
pub fn of_steps(one: Duration, steps: u32) -> Duration {
    one.saturating_mul(steps).min(LONGEST)
}

/// The part of a forced deletion's time in which things are tried; what is left of it is for the end.
pub fn time_to_try(all: Duration) -> Duration {
    all / 4 * 3
}

/// The shortest time that a forced deletion may be given. What was asked of the cloud without a clear answer may appear for `settle` after nobody
/// works on the cluster any more, which is so when the `lease` of whoever did is over: before that nothing is seen to be gone.
pub fn least_force_delete(settle: Duration, lease: Duration) -> Duration {
    Duration::from_secs(settle.saturating_add(lease).as_secs().saturating_mul(4).div_ceil(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{from_millis, millis, now};

    #[test]
    fn an_end_that_is_far_away_can_be_told_however_many_steps_there_are() {
        let one = Deadlines::default().of(OperationKind::ClusterUpgrade, Some(i32::MAX));
        for all in [one, of_steps(one, 64), of_steps(one, u32::MAX)] {
            let end = millis(now()) + i64::try_from(all.as_millis()).expect("it fits");
            assert!(from_millis(end) > now() && millis(from_millis(end)) == end, "{all:?}");
        }
        assert_eq!(of_steps(Duration::from_secs(60), 3), Duration::from_secs(180));
        assert!(from_millis(i64::MAX) > now() && from_millis(i64::MIN) < now());
    }

    #[test]
    fn the_shortest_forced_deletion_tries_until_nothing_can_appear_any_more() {
        let seconds = Duration::from_secs;
        for (settle, lease) in [(30, 10), (0, 2), (1, 4), (2, 4), (15, 10), (299, 60)] {
            let least = least_force_delete(seconds(settle), seconds(lease));
            assert!(time_to_try(least) >= seconds(settle + lease), "{settle} {lease}: {least:?}");
            assert!(time_to_try(least - seconds(1)) < seconds(settle + lease), "{settle} {lease}: {least:?} is not the shortest");
        }
        assert_eq!(least_force_delete(seconds(30), seconds(10)), seconds(54));
    }

    #[test]
    fn only_what_ends_in_a_bounded_time_has_the_time_of_a_forced_deletion() {
        let deadlines = Deadlines { create_minutes: 60, delete_minutes: 50, force_delete: Duration::from_secs(54), ..Deadlines::default() };
        for kind in [OperationKind::ClusterForceDelete, OperationKind::ClusterAbandon] {
            assert_eq!(deadlines.of(kind, Some(5)), Duration::from_secs(54), "{kind:?}");
        }
        assert_eq!(deadlines.of(OperationKind::ClusterDelete, Some(5)), Duration::from_secs(3000));
    }

    #[test]
    fn what_is_done_again_has_its_time_after_the_wait_and_no_more_each_time() {
        let seconds = Duration::from_secs;
        let deadlines = Deadlines { settle: seconds(45), ..Deadlines::default() };
        let again = |kind, allowance| deadlines.again(kind, Some(1), seconds(allowance));
        assert_eq!(again(OperationKind::ClusterUpgrade, 60), seconds(105));
        assert_eq!(again(OperationKind::ClusterUpgrade, 105), seconds(105));
        assert_eq!(again(OperationKind::ClusterUpgrade, 4000), seconds(4000));
        // It waits for nothing of the one before.
        assert_eq!(again(OperationKind::ClusterForceDelete, 60), seconds(600));
    }
}
