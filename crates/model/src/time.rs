//! Time, always an argument of what decides something: UTC, in two resolutions.
//!
//! Upstream's tables hold DATETIME in whole seconds; ours hold milliseconds since the epoch.

use chrono::{DateTime, NaiveDateTime, Timelike, Utc};

/// Now, by the system's clock (in a [simulation](crate::simulation), by the simulated one).
pub fn now() -> DateTime<Utc> {
    crate::simulation::now().unwrap_or_else(Utc::now)
}

/// Cut to whole seconds, as upstream's columns keep it (SQLite would keep nanoseconds, MariaDB would not).
pub fn whole_seconds(at: DateTime<Utc>) -> NaiveDateTime {
    let naive = at.naive_utc();
    naive.with_nanosecond(0).unwrap_or(naive)
}

/// Milliseconds since the epoch.
pub fn millis(at: DateTime<Utc>) -> i64 {
    at.timestamp_millis()
}

/// The time that [`millis`] wrote; the first or the last that there is for one that lies beyond it.
pub fn from_millis(ms: i64) -> DateTime<Utc> {
    let farthest = if ms < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_millis(ms).unwrap_or(farthest)
}
