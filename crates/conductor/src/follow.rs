//! Following stacks: one follower a conductor asks Heat for all stacks that operations wait for.
//!
//! An operation that waits for a stack registers what it saw of it and sleeps; it holds no permit, no session and no place in Heat's queue.
//! The follower asks for many stacks in one list request and wakes an operation only when its stack has moved, is gone, or when somebody
//! must look for himself because no session can list any more, or the lists go on failing. How often is decided in [`interval`], how much
//! at most in [`budget`] and [`places`], how many stacks a request is for in [`batch`], and who is next in [`table`]; all of them are told
//! the time and know no network.
//!
//! An operation that is woken keeps its place until its look has told it something, and goes back to it where Heat has not answered: else each
//! one that was woken during an outage would go on asking by itself, until all of them do.
//!
//! Nothing here is believed further than to wake somebody: whoever is woken looks at the stack before he decides anything. So a late, lost
//! or wrong listing (or notification) costs a look, never a wrong step.

mod announced;
mod batch;
mod budget;
mod interval;
mod jobs;
mod pause;
mod places;
mod run;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provider_clients::Session;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::plan::Seen;

pub(crate) use run::run;
use table::Table;

/// What an operation waits for.
pub(crate) struct Watch {
    /// The project whose stack it is; its stacks are listed together.
    pub project: String,
    /// The stack as it was seen last; a listing that says otherwise has moved.
    pub seen: Seen,
    /// How long the operation has been at it: the older, the less often it is asked for.
    pub age: Duration,
    /// How often in a row a list has told of something that a look did not find.
    pub idle: u32,
    /// Can list the project's stacks.
    pub session: Session,
}

/// Why somebody who waits is woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A list says that the stack has moved or is gone: look at it.
    Moved,
    /// It cannot be listed: look at it.
    Look,
    /// It is at work as before, and has come this far.
    Progress(Box<Seen>),
    /// Nobody knows: Heat does not answer, for this reason. It is asked again without anybody's doing.
    Trouble(Arc<str>),
}

/// What all parts of a conductor share of its follower.
pub(crate) struct Follower {
    table: Mutex<Table>,
    /// Somebody registered or was announced: what is next may have changed.
    changed: Notify,
    budget: Mutex<budget::Budget>,
    places: Mutex<places::Places>,
}

/// What rings for one operation. A look covers whatever progress waits to be told.
#[derive(Default)]
struct Bell {
    wake: Mutex<Option<Wake>>,
    rung: Notify,
}

impl Bell {
    fn ring(&self, wake: Wake) {
        let mut waiting = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*waiting, Some(Wake::Moved | Wake::Look)) {
            *waiting = Some(wake);
        }
        drop(waiting);
        self.rung.notify_one();
    }
}

/// The place of an operation at the follower; dropping it gives it up.
pub(crate) struct Ticket {
    follower: Arc<Follower>,
    keys: Vec<u64>,
    bell: Arc<Bell>,
}

impl Ticket {
    /// The next time that there is a reason to wake.
    pub async fn woken(&self) -> Wake {
        loop {
            self.bell.rung.notified().await;
            if let Some(wake) = self.bell.wake.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return wake;
            }
        }
    }

    /// Goes on waiting after a look that Heat has not answered: the stacks are asked for as soon as lists are sent.
    pub fn again(&self) {
        let now = Instant::now();
        let mut table = self.follower.table();
        for key in &self.keys {
            table.again(*key, now);
        }
        drop(table);
        self.follower.changed.notify_one();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.follower.table();
        for key in &self.keys {
            table.remove(*key);
        }
    }
}

impl Follower {
    /// One that asks for a stack between `poll_min` and `poll_max` apart, and spends at most `requests_per_second` on all conductors
    /// together; where that is too few for its stacks, what they need, but of all conductors `most_per_second` at most.
    pub fn new(requests_per_second: f64, most_per_second: f64, poll_min: Duration, poll_max: Duration) -> Self {
        Self {
            table: Mutex::new(Table::new(interval::Bounds { min: poll_min, max: poll_max })),
            changed: Notify::new(),
            budget: Mutex::new(budget::Budget::new(requests_per_second, most_per_second, Instant::now())),
            places: Mutex::default(),
        }
    }

    /// Registers the stacks that an operation waits for; whichever moves first wakes it.
    pub fn follow(self: &Arc<Self>, watches: Vec<Watch>) -> Ticket {
        let bell = Arc::new(Bell::default());
        let now = Instant::now();
        let mut table = self.table();
        let keys = watches.into_iter().map(|watch| table.add(watch, &bell, now)).collect();
        drop(table);
        self.changed.notify_one();
        Ticket { follower: self.clone(), keys, bell }
    }

    /// Somebody says that a stack has ended what it did: it is asked for at once if anybody waits for it, or comes to wait for it soon.
    pub fn announced(&self, stack_id: &str) {
        if self.table().hasten(stack_id, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// How many conductors are alive and share the budget.
    pub fn share_with(&self, conductors: usize) {
        self.budget().share(conductors, Instant::now());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is a place for now.
    fn room(&self) -> places::Room {
        let needed = self.table().needed();
        self.places().room(needed)
    }

    fn places(&self) -> MutexGuard<'_, places::Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self) -> MutexGuard<'_, budget::Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
