//! The time by which a run must have ended, where whoever starts it has one (`MAGNUM_TESTS_UNTIL`, seconds since 1970): what might not end by then is
//! left out, and the end says so. Nothing is, otherwise.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

const UNTIL: &str = "MAGNUM_TESTS_UNTIL";

static LEFT_OUT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether there is time for a part that takes so long at most, on the slowest machine that it was measured on.
///
/// # Errors
/// When the time is no number.
pub fn is_time_for(what: &str, longest: Duration) -> Result<bool> {
    let until = std::env::var(UNTIL).ok();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?;
    let is_time = fits(until.as_deref(), now, longest)?;
    if !is_time {
        let minutes = longest.as_secs() / 60;
        let line = format!("LEFT OUT for lack of time: {what}, which may take {minutes} minutes ({UNTIL})");
        eprintln!("{line}");
        LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
    Ok(is_time)
}

/// Refuses a time that is none, before anything has begun.
///
/// # Errors
/// As [`is_time_for`].
pub fn check() -> Result<()> {
    fits(std::env::var(UNTIL).ok().as_deref(), Duration::ZERO, Duration::ZERO).map(drop)
}

/// What was left out, in words.
pub fn left_out() -> Vec<String> {
    LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn fits(until: Option<&str>, now: Duration, longest: Duration) -> Result<bool> {
    let Some(until) = until.filter(|text| !text.is_empty()) else { return Ok(true) };
    let until: u64 = until.parse().with_context(|| format!("{UNTIL} is no number of seconds since 1970: {until}"))?;
    Ok(now + longest <= Duration::from_secs(until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_begun_only_where_it_can_end_in_time() {
        let (now, longest) = (Duration::from_secs(1_000), Duration::from_secs(60));
        for (until, wanted) in [(None, true), (Some(""), true), (Some("1060"), true), (Some("1059"), false), (Some("0"), false)] {
            assert_eq!(fits(until, now, longest).expect("a number"), wanted, "{until:?}");
        }
        assert!(fits(Some("soon"), now, longest).is_err());
    }
}
