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

/// Digits by hand: formatting with padded fields costs ten times as much, and a list in detail has two thousand times in it.
fn digits(out: &mut [u8], mut number: u32) {
    for place in out.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl Time {
    fn write<T>(self, with: impl FnOnce(&str) -> T) -> T {
        let (d, t) = (self.0.date(), self.0.time());
        let mut text = *b"0000-00-00T00:00:00.000000+00:00";
        // Years beyond four digits do not fit the column.
        let fields = [(0..4, d.year().unsigned_abs()), (5..7, d.month()), (8..10, d.day())];
        for (range, number) in fields.into_iter().chain([(11..13, t.hour()), (14..16, t.minute()), (17..19, t.second())]) {
            digits(&mut text[range], number);
        }
        let micros = t.nanosecond() % 1_000_000_000 / 1000;
        digits(&mut text[20..26], micros);
        let end = if micros == 0 {
            text.copy_within(26.., 19);
            25
        } else {
            text.len()
        };
        with(std::str::from_utf8(&text[..end]).expect("digits and signs"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(|text| f.write_str(text))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(|text| serializer.serialize_str(text))
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
