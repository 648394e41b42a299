//! What happens to conductors, and when.

use std::time::Duration;

use model::random::range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It dies where it stands, and is started again.
    Crash,
    /// It is told to stop, and dies at the latest when it is started again.
    Stop,
    /// It stands still, longer than its lease as a rule.
    Pause,
    CutStore,
    CutCloud,
    /// The cloud takes seconds for whatever it asks.
    SlowCloud,
    /// No ring reaches anybody.
    Silence,
    /// Somebody sets its clock.
    SetClock,
}

pub struct Trouble {
    pub at: Duration,
    pub conductor: usize,
    pub what: What,
    pub lasts: Duration,
}

/// The troubles of a seed, in order.
pub fn draw(end: Duration, conductors: usize) -> Vec<Trouble> {
    let end_ms = u64::try_from(end.as_millis()).expect("short");
    let mut troubles = Vec::new();
    for (what, most, longest_ms) in [
        (What::Crash, 8, 15_000),
        (What::Stop, 2, 30_000),
        (What::Pause, 4, 30_000),
        (What::CutStore, 4, 20_000),
        (What::CutCloud, 3, 30_000),
        (What::SlowCloud, 2, 30_000),
        (What::Silence, 1, 60_000),
        (What::SetClock, 3, 2),
    ] {
        for _ in 0..range(0..=most) {
            troubles.push(Trouble {
                at: Duration::from_millis(range(0..end_ms)),
                conductor: range(0..conductors),
                what,
                lasts: Duration::from_millis(range(1..longest_ms)),
            });
        }
    }
    troubles.sort_by_key(|t| t.at);
    troubles
}
