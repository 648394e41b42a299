//! Faults that a test names: which call, which time, and what goes wrong.
//!
//! A fault never changes what the cloud would have done; it only keeps the call from it or the answer from the caller.

use std::{collections::HashMap, time::Duration};

/// Something that goes wrong at a named call.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The call: `heat.stack_create`, or all of a service with `heat.any`, or all calls with `*.any`.
    pub at: String,
    /// Which call from the injection on, counted from 1; 0 is every call.
    pub nth: u32,
    /// What goes wrong.
    pub how: How,
}

/// What goes wrong at a call.
#[derive(Clone, Debug)]
pub enum How {
    /// Answer this status with this message, in the error form of the service, and do nothing.
    Status(u16, String),
    /// Do what was asked, then close the connection without an answer.
    AcceptThenLose,
    /// Close the connection before doing anything.
    Refuse,
    /// Wait, then go on as usual.
    Slow(Duration),
    /// Answer 401 as if the token were unknown.
    Unauthorized,
    /// Wait until the test lets go ([`crate::Cloud::let_go`]), then go on as usual: a call that is late.
    Hold,
    /// Do what was asked, and answer when the test lets go.
    ActThenHold,
}

/// The faults that wait and the calls that were made.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    waiting: Vec<Waiting>,
    calls: HashMap<&'static str, usize>,
    effects: Vec<&'static str>,
}

#[derive(Debug)]
struct Waiting {
    fault: Fault,
    seen: u32,
}

impl Faults {
    /// Adds a fault; its count starts now.
    pub(crate) fn inject(&mut self, fault: Fault) {
        self.waiting.push(Waiting { fault, seen: 0 });
    }

    /// Forgets the faults that name a call so, not the counts.
    pub(crate) fn clear_at(&mut self, at: &str) {
        self.waiting.retain(|waiting| waiting.fault.at != at);
    }

    /// Forgets every fault, not the counts.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// How often the calls named by `at` were made.
    pub(crate) fn calls(&self, at: &str) -> usize {
        self.calls.iter().filter(|(operation, _)| names(at, operation)).map(|(_, count)| count).sum()
    }

    /// Notes that a call which changes something was carried out.
    pub(crate) fn note_effect(&mut self, operation: &'static str) {
        self.effects.push(operation);
    }

    /// The calls that changed something, in their order.
    pub(crate) fn effects(&self) -> &[&'static str] {
        &self.effects
    }

    /// Counts a call and says what goes wrong with it: the oldest fault that is due. Every fault that names the call counts it.
    pub(crate) fn meet(&mut self, operation: &'static str) -> Option<How> {
        *self.calls.entry(operation).or_default() += 1;
        let mut due: Option<How> = None;
        for waiting in &mut self.waiting {
            if !names(&waiting.fault.at, operation) {
                continue;
            }
            waiting.seen = waiting.seen.saturating_add(1);
            let is_due = waiting.fault.nth == 0 || waiting.seen == waiting.fault.nth;
            if is_due && due.is_none() {
                due = Some(waiting.fault.how.clone());
            }
        }
        let how = due?;
        self.waiting.retain(|waiting| waiting.fault.nth == 0 || waiting.seen < waiting.fault.nth);
        Some(how)
    }
}

fn names(at: &str, operation: &str) -> bool {
    if at == operation || at == "*.any" {
        return true;
    }
    let service = operation.split('.').next().unwrap_or_default();
    at.strip_suffix(".any") == Some(service)
}

#[cfg(test)]
mod tests {
    use super::{Fault, Faults, How};

    fn fault(at: &str, nth: u32) -> Fault {
        Fault { at: at.to_owned(), nth, how: How::Refuse }
    }

    #[test]
    fn a_fault_meets_only_its_nth_call() {
        let mut faults = Faults::default();
        faults.inject(fault("heat.stack_create", 2));
        let met: Vec<bool> = (0..4).map(|_| faults.meet("heat.stack_create").is_some()).collect();
        assert_eq!(met, [false, true, false, false]);
        assert_eq!(faults.calls("heat.any"), 4);
    }

    #[test]
    fn a_fault_with_nth_zero_meets_every_call_of_its_service() {
        let mut faults = Faults::default();
        faults.inject(fault("heat.any", 0));
        assert!(faults.meet("heat.stack_show").is_some());
        assert!(faults.meet("heat.stack_list").is_some());
        assert!(faults.meet("nova.flavor_list").is_none());
        faults.clear();
        assert!(faults.meet("heat.stack_show").is_none());
    }
}
