//! The one place that asks what time it is, and the time formats of the services.
//!
//! Nothing runs in the background: each request looks at the clock once and brings the cloud up to that moment.

use std::{cell::Cell, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

/// A moment, as every part of the simulator sees it.
pub(crate) type Moment = DateTime<Utc>;

thread_local! {
    /// The time on a thread that has a cloud in the same process.
    static SET: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// The present moment.
pub(crate) fn now() -> Moment {
    SET.get().unwrap_or_else(Utc::now)
}

/// Sets the clock of this thread, or gives it back the system's.
pub(crate) fn set(moment: Option<Moment>) {
    SET.set(moment);
}

/// A duration as calendar arithmetic wants it; very long ones are cut to a hundred years.
pub(crate) fn delta(duration: Duration) -> TimeDelta {
    let longest = TimeDelta::days(36_500);
    TimeDelta::from_std(duration).map_or(longest, |delta| delta.min(longest))
}

/// `2026-01-01T00:00:00.000000Z`, the format of Keystone.
pub(crate) fn precise(moment: Moment) -> String {
    moment.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// `2026-01-01T00:00:00Z`, the format of Heat, Nova and most others.
pub(crate) fn whole(moment: Moment) -> String {
    moment.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads a time as clients write it; `None` when it is no time.
pub(crate) fn parse(text: &str) -> Option<Moment> {
    DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.to_utc())
}
