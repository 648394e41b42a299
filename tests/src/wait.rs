//! Waiting for a condition, with a deadline, never for a time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything may take that has no deadline of its own. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Before the next look for what passes.
const PASSING: Duration = Duration::from_millis(1);
/// Before the next look, soon after the first one.
const SOON: Duration = Duration::from_millis(40);
/// Before the next look for what lasts, at most.
const RARELY: Duration = Duration::from_millis(200);

/// Looks until there is something to see.
///
/// # Errors
/// When the deadline passes; the text says what was waited for and, if `look` says so, what was seen last.
pub async fn until<T>(what: &str, patience: Duration, look: impl AsyncFnMut() -> Result<Seen<T>>) -> Result<T> {
    looking(what, patience, SOON, look).await
}

/// Looks for what lasts once it is there: the longer it takes, the less often. Each look costs those who are waited for something, too.
///
/// # Errors
/// As [`until`].
pub async fn until_lasting<T>(what: &str, patience: Duration, look: impl AsyncFnMut() -> Result<Seen<T>>) -> Result<T> {
    looking(what, patience, RARELY, look).await
}

/// Looks for what passes, at once and again and again: a look must cost next to nothing.
///
/// # Errors
/// As [`until`].
pub async fn until_passing<T>(what: &str, patience: Duration, look: impl AsyncFnMut() -> Result<Seen<T>>) -> Result<T> {
    looking(what, patience, PASSING, look).await
}

/// Looks with growing pauses between, up to the longest.
async fn looking<T>(what: &str, patience: Duration, longest: Duration, mut look: impl AsyncFnMut() -> Result<Seen<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        let instead = match look().await? {
            Seen::Yes(value) => return Ok(value),
            Seen::Instead(text) => text,
        };
        if start.elapsed() > patience {
            bail!("waited {} s for {what}; last seen: {instead}", patience.as_secs());
        }
        tokio::time::sleep((start.elapsed() / 4).clamp(SOON.min(longest), longest)).await;
    }
}

/// What one look found.
pub enum Seen<T> {
    /// What was waited for.
    Yes(T),
    /// Something else, in words.
    Instead(String),
}

impl<T> Seen<T> {
    /// The value if there is one.
    pub fn from_option(value: Option<T>, otherwise: &str) -> Self {
        match value {
            Some(value) => Self::Yes(value),
            None => Self::Instead(otherwise.to_owned()),
        }
    }
}

impl Seen<()> {
    /// Whether it holds.
    pub fn when(holds: bool, otherwise: impl FnOnce() -> String) -> Self {
        if holds { Self::Yes(()) } else { Self::Instead(otherwise()) }
    }
}
