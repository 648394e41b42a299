//! Faults of single calls: a simulator has been told of them, and some call will meet them, or none will.

use super::kinds::What;

struct Waiting {
    what: What,
    at: &'static str,
    /// It is met once so many calls of this name were made.
    due: usize,
}

/// The faults of one simulator that wait.
#[derive(Default)]
pub struct Faults {
    waiting: Vec<Waiting>,
}

impl Faults {
    /// Whether one waits at this call: a second one could be hidden behind it.
    pub fn wait_at(&self, at: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting.at == at)
    }

    /// How many of this kind wait.
    pub fn count(&self, what: What) -> usize {
        self.waiting.iter().filter(|waiting| waiting.what == what).count()
    }

    /// One more, which meets the `nth` call from now on; `made` of this name have been made.
    pub fn add(&mut self, what: What, at: &'static str, nth: u32, made: usize) {
        self.waiting.push(Waiting { what, at, due: made + nth as usize });
    }

    /// Those that were met, by how many calls of each name were made; they wait no more.
    pub fn met(&mut self, calls: impl Fn(&str) -> usize) -> Vec<What> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (met, waiting): (Vec<_>, Vec<_>) = all.partition(|waiting| waiting.due <= calls(waiting.at));
        self.waiting = waiting;
        met.into_iter().map(|waiting| waiting.what).collect()
    }

    /// The simulator was told to forget all of them.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::Manner;
    use super::*;

    #[test]
    fn a_fault_counts_once_its_call_was_made() {
        let what = What::CloudCall(Manner::Fails);
        let mut faults = Faults::default();
        faults.add(what, "heat.stack_show", 2, 5);
        assert!(faults.wait_at("heat.stack_show") && !faults.wait_at("heat.stack_list"));
        assert_eq!((faults.met(|_| 6), faults.count(what)), (vec![], 1));
        assert_eq!((faults.met(|_| 7), faults.count(what)), (vec![what], 0));
        faults.add(what, "heat.stack_show", 1, 7);
        faults.clear();
        assert!(faults.met(|_| 100).is_empty());
    }
}
