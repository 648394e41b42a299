//! Which stacks Heat has announced lately, for who comes to wait only after it was said.
//!
//! An operation looks at its stack before it registers. What ends between the two is announced when nobody waits for it, or while the place of
//! before that look is still there; and what was seen says that the stack is at work.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A look at a large stack, whose resources are counted in it, takes so long at most, as a rule. What was announced before is for the lists to find.
const LASTS: Duration = Duration::from_secs(30);
/// So many are kept: Heat tells of all stacks that there are, and of those nested in them.
const MOST: usize = 1000;

/// What was announced, the latest last.
#[derive(Debug, Default)]
pub(super) struct Announced(VecDeque<(Instant, Box<str>)>);

impl Announced {
    /// A stack was announced now.
    pub fn note(&mut self, stack_id: &str, now: Instant) {
        self.forget_old(now);
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, stack_id.into()));
    }

    /// Whether a stack was announced lately. Told once: who is asked for it comes back after that look, perhaps, and need not be hurried again.
    pub fn take(&mut self, stack_id: &str, now: Instant) -> bool {
        self.forget_old(now);
        let before = self.0.len();
        self.0.retain(|(_, known)| **known != *stack_id);
        self.0.len() < before
    }

    fn forget_old(&mut self, now: Instant) {
        while self.0.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= LASTS) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_announced_is_told_once_and_neither_long_after_nor_in_any_number() {
        let start = Instant::now();
        let mut announced = Announced::default();
        for _ in 0..2 {
            announced.note("twice", start);
        }
        announced.note("once", start);
        assert!(announced.take("twice", start) && !announced.take("twice", start) && !announced.take("never", start));
        assert!(!announced.take("once", start + LASTS) && announced.0.is_empty());
        for number in 0..2 * MOST {
            announced.note(&number.to_string(), start);
        }
        assert_eq!(announced.0.len(), MOST);
        assert!(announced.take("1000", start) && !announced.take("999", start));
    }
}
