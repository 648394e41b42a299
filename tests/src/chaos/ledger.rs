//! The users' own book of what they asked for and what they were answered: what the service says of itself is compared with it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::wish::{Makes, Wish};

/// What became of a request in the end, all its repetitions together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// With 200, 201, 202 or 204.
    Accepted,
    /// With this status, for good.
    Refused(u16),
    /// Not within the users' patience; the last thing that was heard.
    Silent(String),
}

/// One request of a user.
#[derive(Clone, Debug)]
pub struct Entry {
    pub wish: Wish,
    pub cluster: Option<String>,
    /// The operation, where the answer names it.
    pub operation: Option<String>,
    /// The ids under which the service answered, one for each attempt that had an answer.
    pub request_ids: Vec<String>,
    /// Why it was sent again, once for each time: a status with the beginning of its text, or that there was no answer.
    pub repeated: Vec<String>,
    /// When it was first sent and when it was answered for good: what it did, it did in between.
    pub sent_ms: i64,
    pub answered_ms: i64,
    pub answered: Answered,
}

impl Entry {
    /// Whether it was accepted.
    pub fn is_accepted(&self) -> bool {
        self.answered == Answered::Accepted
    }

    /// Whether an operation must have come of it.
    pub fn is_work(&self) -> bool {
        self.is_accepted() && self.wish.makes() != Makes::Nothing
    }
}

/// The book.
#[derive(Default)]
pub struct Ledger {
    entries: Mutex<Vec<Entry>>,
    accepted: AtomicUsize,
    is_closed: AtomicBool,
}

impl Ledger {
    /// Writes down a request that has its answer.
    pub fn note(&self, entry: Entry) {
        if entry.is_work() {
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// How many operations were accepted.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Enough was asked for: users ask for nothing more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether enough was asked for.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// All of it.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
