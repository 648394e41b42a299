//! The clocks of machines: each is off by something, goes a little too fast or too slow, and may be set while it goes.
//!
//! The time of a lease is no clock's but the conductors' own: whoever claims or renews writes by his when it ends, whoever takes over compares
//! that with his, and between the two anybody's may be set. So all of them must agree at all times to within a quarter of a lease, which NTP
//! is to see to (`docs/architecture.md`). Everything within that is the seed's.

use std::time::Duration;

use chrono::TimeDelta;
use model::random::range;

/// The most that two clocks differ by, whenever each of them is read: a quarter of a lease, less a moment, for two conductors run one after the
/// other.
const SKEW_MS: i64 = 1_800;
/// How far a clock is off at most.
const FARTHEST: TimeDelta = TimeDelta::milliseconds(SKEW_MS / 2);
/// The most microseconds that a clock gains or loses in a second: more than NTP allows itself, so that it comes to something within minutes.
const FASTEST: i64 = 20_000;

/// One of them.
pub struct Clock {
    ahead: TimeDelta,
    /// Microseconds gained in a second.
    gain: i64,
}

impl Clock {
    /// Any clock.
    pub fn draw() -> Self {
        Self { ahead: anything(), gain: range(-FASTEST..=FASTEST) }
    }

    /// How far it is ahead of the true time.
    pub fn ahead(&self) -> TimeDelta {
        self.ahead
    }

    /// So much time passes; at the end of what is allowed it is turned.
    pub fn go(&mut self, passed: Duration) {
        let ms = i64::try_from(passed.as_millis()).expect("short");
        self.ahead += TimeDelta::microseconds(ms * self.gain / 1_000);
        if self.ahead > FARTHEST {
            (self.ahead, self.gain) = (FARTHEST, -self.gain);
        } else if self.ahead < -FARTHEST {
            (self.ahead, self.gain) = (-FARTHEST, -self.gain);
        }
    }

    /// Somebody sets it, forwards or back.
    pub fn set(&mut self) {
        self.ahead = anything();
    }
}

fn anything() -> TimeDelta {
    TimeDelta::milliseconds(range(-SKEW_MS / 2..=SKEW_MS / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_wrong_and_agree_as_well_as_leases_need_it() {
        let mut clocks: Vec<Clock> = (0..50).map(|_| Clock::draw()).collect();
        let begin: Vec<TimeDelta> = clocks.iter().map(Clock::ahead).collect();
        for second in 0..600 {
            for clock in &mut clocks {
                clock.go(Duration::from_secs(1));
                if second % 100 == 0 {
                    clock.set();
                }
                assert!(clock.ahead().abs() <= FARTHEST, "{:?}", clock.ahead());
            }
        }
        assert!(clocks.iter().zip(begin).any(|(clock, begin)| (clock.ahead() - begin).abs() > FARTHEST));
    }
}
