//! Small helpers to read what the services write: `null` where a list or text is meant, times in several forms.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::{Deserialize, Deserializer};

/// `null` reads as the default.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A time with or without a zone (then UTC); what cannot be read is nothing.
pub(crate) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.as_deref().and_then(parse_time))
}

fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .map(|t| t.with_timezone(&Utc))
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").map(|t| t.and_utc()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_zone() {
        for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000", "2026-01-02T03:04:05", "2026-01-02T04:04:05+01:00"] {
            assert_eq!(parse_time(text).map(|t| t.timestamp()), Some(1_767_323_045), "{text}");
        }
        assert_eq!(parse_time("yesterday"), None);
    }
}
