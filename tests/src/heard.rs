//! What the product has told somebody, kept until its world ends: only then all is known that nobody may be told.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many bytes are kept of one listener; what came first goes first.
const MOST: usize = 8 * 1024 * 1024;

/// The listeners that are no world's own, by what the product calls them: a topic, an address.
static LISTENERS: Mutex<BTreeMap<String, Arc<Heard>>> = Mutex::new(BTreeMap::new());

/// What one listener was told, each text once.
#[derive(Default)]
pub struct Heard(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// With what each is.
    texts: VecDeque<(&'static str, String)>,
    size: usize,
    hasher: RandomState,
    known: HashSet<u64>,
}

impl Heard {
    /// What a listener hears whom the product calls so.
    pub fn of(listener: &str) -> Arc<Self> {
        listeners().entry(listener.to_owned()).or_default().clone()
    }

    /// The same, if there is such a listener.
    pub fn by(listener: &str) -> Option<Arc<Self>> {
        listeners().get(listener).cloned()
    }

    /// Keeps what was told, and what it is.
    pub fn keep(&self, what: &'static str, text: &str) {
        let mut kept = self.kept();
        let hash = kept.hasher.hash_one(text);
        // The same answer comes to every look of somebody who waits.
        if !kept.known.insert(hash) {
            return;
        }
        kept.size += text.len();
        kept.texts.push_back((what, text.to_owned()));
        while kept.size > MOST
            && let Some((_, gone)) = kept.texts.pop_front()
        {
            kept.size -= gone.len();
        }
    }

    /// All that is kept, with what each is.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        self.kept().texts.iter().cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listeners() -> MutexGuard<'static, BTreeMap<String, Arc<Heard>>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_kept_once_and_the_first_goes_when_it_is_too_much() {
        let heard = Heard::of("a listener of this test");
        let long = "x".repeat(MOST / 2);
        for text in ["one", "one", &long, "two"] {
            heard.keep("a word", text);
        }
        let lengths = |heard: &Heard| heard.texts().iter().map(|(_, text)| text.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&heard), [3, MOST / 2, 3]);
        heard.keep("a word", &"y".repeat(MOST / 2));
        assert_eq!(lengths(&heard), [3, MOST / 2]);
        assert_eq!(lengths(&Heard::by("a listener of this test").expect("known")), [3, MOST / 2]);
        assert!(Heard::by("nobody").is_none());
    }
}
