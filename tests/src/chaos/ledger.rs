//! The users' own book of what they asked for and what they were answered: what the service says of itself is compared with it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What became of a request in the end, all its repetitions together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// With 201, 202 or 204.
    Accepted,
    /// With this status, for good.
    Refused(u16),
    /// Not within the users' patience; the last thing that was heard.
    Silent(String),
}

/// One request of a user.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The word of the operation's kind; none for a retry (its kind is that of the failed operation) and for what makes no operation.
    pub kind: Option<&'static str>,
    /// What was asked for, in words.
    pub what: &'static str,
    pub cluster: Option<String>,
    /// The operation, where the answer names it.
    pub operation: Option<String>,
    /// The ids under which the service answered, one for each attempt that had an answer.
    pub request_ids: Vec<String>,
    /// Why it was sent again, once for each time: a status with the beginning of its text, or that there was no answer.
    pub repeated: Vec<String>,
    pub answered: Answered,
}

impl Entry {
    /// Whether an operation must have come of it.
    pub fn is_work(&self) -> bool {
        self.answered == Answered::Accepted && self.what != CANCEL
    }
}

/// The one request that makes no operation.
pub const CANCEL: &str = "cancel";
/// The request whose operation is of the kind of another.
pub const RETRY: &str = "retry";

/// The book.
#[derive(Default)]
pub struct Ledger {
    entries: Mutex<Vec<Entry>>,
    accepted: AtomicUsize,
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

    /// All of it.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
