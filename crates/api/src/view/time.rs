//! Timestamps as upstream prints them: `2026-03-04T05:06:07+00:00`, microseconds only when there are some.

use std::fmt;

use chrono::{Datelike, NaiveDateTime, Timelike};
use serde::{Serialize, Serializer};

/// A stored time.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub NaiveDateTime);

impl Time {
    /// Of a column that may be NULL.
    pub fn of(column: Option<NaiveDateTime>) -> Option<Self> {
        column.map(Self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (d, t) = (self.0.date(), self.0.time());
        write!(f, "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", d.year(), d.month(), d.day(), t.hour(), t.minute(), t.second())?;
        match t.nanosecond() % 1_000_000_000 / 1000 {
            0 => {}
            micros => write!(f, ".{micros:06}")?,
        }
        f.write_str("+00:00")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_shown_only_when_there_are_some() {
        let at = |text: &str| Time(text.parse().expect("a time")).to_string();
        assert_eq!(at("2026-03-04T05:06:07"), "2026-03-04T05:06:07+00:00");
        assert_eq!(at("2026-03-04T05:06:07.25"), "2026-03-04T05:06:07.250000+00:00");
    }
}
