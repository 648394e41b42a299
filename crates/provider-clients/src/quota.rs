//! How much of something a project may have.

use serde::Deserialize;

/// An answer of services that tell limits as Nova does.
#[derive(Deserialize)]
pub(crate) struct LimitsAnswer<T> {
    pub limits: Limits<T>,
}

#[derive(Deserialize)]
pub(crate) struct Limits<T> {
    pub absolute: T,
}

/// A limit, and what of it is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// None where there is no limit, or none is told.
    pub most: Option<u64>,
    pub used: u64,
}

impl Limit {
    /// As the services write it: what is below zero is no limit.
    pub(crate) fn told(most: i64, used: i64) -> Self {
        Self { most: u64::try_from(most).ok(), used: u64::try_from(used).unwrap_or(0) }
    }

    /// What is left; none where there is no limit.
    pub fn left(&self) -> Option<u64> {
        self.most.map(|most| most.saturating_sub(self.used))
    }
}
