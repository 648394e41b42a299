//! Bugs on purpose, so that it can be shown that the simulation finds them. There are none in a release build, and none on a thread that
//! nobody planted one on.

use std::cell::Cell;

/// A classic mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Whoever writes to an operation puts back what he read when he claimed it.
    LostUpdate,
    /// Neither before an effect nor when a lease is renewed does anybody notice that the claim does not hold any more.
    MissingGuard,
    /// A ring is acknowledged before the claim is stored, and is the only way to learn of work.
    AckBeforeClaim,
    /// What is about to be made is not recorded.
    NameNotRecorded,
    /// What may have been made already is made without looking.
    DoubleApply,
    /// Each attempt gives the trustee another password.
    PasswordOfAttempt,
}

impl Bug {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::LostUpdate, Self::MissingGuard, Self::AckBeforeClaim, Self::NameNotRecorded, Self::DoubleApply, Self::PasswordOfAttempt];
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug on this thread, or takes it away.
#[cfg(debug_assertions)]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether the bug is planted on this thread. Never in a release build.
pub fn has(bug: Bug) -> bool {
    cfg!(debug_assertions) && PLANTED.get() == Some(bug)
}
