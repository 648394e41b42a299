//! A pool of connections that knows which event loop each connection belongs to.
//!
//! The socket of an asynchronous connection is watched by the event loop of the runtime it was opened in, and the API has one runtime for
//! each worker. A connection that is borrowed from another runtime works, but each of its answers first wakes the wrong thread, which then
//! wakes the right one, and waits while that thread is busy with a long page. So the pool lends what was opened here, opens more while it
//! may, and lends across only then. (No pool for each runtime: they could not share one limit.)

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel_async::{AsyncConnection, TransactionManager};
use futures::future::BoxFuture;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::StoreError;

#[cfg(test)]
mod tests;

/// A connection that lay idle for longer than this is asked whether it still lives before it is lent: without it a pool never recovers from
/// a restart of the database, and with a question before every query each request would pay a round trip.
const TRUSTED: Duration = Duration::from_millis(500);
/// A connection that nobody needed for this long is closed when another one comes back: what a burst opened costs memory on both sides.
const IDLE: Duration = Duration::from_secs(120);

/// How much of a pool is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Connections that exist, idle or on loan.
    pub open: usize,
    /// Connections on loan, or promised to somebody who waits for one to be made.
    pub lent: usize,
    /// The most that may be on loan.
    pub max: usize,
}

/// What the pool needs of a connection.
pub(super) trait Pooled: AsyncConnection + Send + 'static {
    /// Asks the database whether the connection lives. Only asked of connections that lay idle.
    fn check(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Opens connections; handed out again and again.
type Open<C> = Box<dyn Fn() -> BoxFuture<'static, Result<C, StoreError>> + Send + Sync>;

pub(super) struct Pool<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    open: Open<C>,
    /// One permit for each connection that may be on loan.
    permits: Arc<Semaphore>,
    max: usize,
    timeout: Duration,
    state: Mutex<State<C>>,
}

struct State<C> {
    /// Oldest return first.
    idle: Vec<Idle<C>>,
    /// Connections that exist, idle or on loan.
    count: usize,
}

struct Idle<C> {
    conn: C,
    home: Id,
    since: Instant,
}

/// What is found when a connection is wanted.
enum Seat<C> {
    Taken(Idle<C>),
    MayOpen,
}

impl<C: Pooled> Pool<C> {
    /// Opens nothing yet. `timeout` bounds the wait for a connection, and the making of one.
    pub(super) fn new(max: usize, timeout: Duration, open: Open<C>) -> Self {
        let max = max.max(1);
        let state = Mutex::new(State { idle: Vec::with_capacity(max), count: 0 });
        Self { shared: Arc::new(Shared { open, permits: Arc::new(Semaphore::new(max)), max, timeout, state }) }
    }

    /// Connections to the same database, so many at most, for which nobody of this pool waits.
    pub(super) fn aside(&self, max: usize) -> Self {
        let shared = self.shared.clone();
        Self::new(max, self.shared.timeout, Box::new(move || (shared.open)()))
    }

    /// How much of it is in use at this moment.
    pub(super) fn usage(&self) -> PoolUse {
        let shared = &self.shared;
        PoolUse { open: shared.state().count, lent: shared.max - shared.permits.available_permits(), max: shared.max }
    }

    /// A connection that lives, as far as can be known.
    pub(super) async fn get(&self) -> Result<Loan<C>, StoreError> {
        let shared = &self.shared;
        let home = Handle::current().id();
        let deadline = tokio::time::Instant::now() + shared.timeout;
        let late = |what: &str| StoreError::Unavailable(format!("no {what} in {} s", shared.timeout.as_secs()));
        let permit = tokio::time::timeout_at(deadline, shared.permits.clone().acquire_owned())
            .await
            .map_err(|_| late("connection was free"))?
            .map_err(|_| StoreError::Unavailable("the pool is closed".into()))?;
        loop {
            match shared.seat(home) {
                Seat::Taken(Idle { mut conn, home, since }) => {
                    // Until it has answered it is nobody's: whoever gives up meanwhile leaves an answer on it that the next one would take for his.
                    let mut place = Place { shared, is_filled: false };
                    let is_trusted = since.elapsed() < TRUSTED;
                    if !is_trusted {
                        match tokio::time::timeout_at(deadline, conn.check()).await {
                            Ok(Ok(())) => {}
                            Ok(Err(_)) => continue,
                            // The others may live: they are left to whoever has time to ask them.
                            Err(_) => return Err(late("connection answered")),
                        }
                    }
                    place.is_filled = true;
                    return Ok(Loan { conn: Some(conn), home, shared: shared.clone(), _permit: Some(permit) });
                }
                Seat::MayOpen => {
                    let mut place = Place { shared, is_filled: false };
                    let conn = tokio::time::timeout_at(deadline, (shared.open)()).await.map_err(|_| late("connection was made"))??;
                    place.is_filled = true;
                    return Ok(Loan { conn: Some(conn), home, shared: shared.clone(), _permit: Some(permit) });
                }
            }
        }
    }
}

impl<C> Shared<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        // Nothing that can panic happens under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of this event loop that came back last, else the right to open one, else that of another event loop. Whoever asks
    /// holds a permit, so when no more may be opened one is idle.
    fn seat(&self, home: Id) -> Seat<C> {
        let mut state = self.state();
        let own = state.idle.iter().rposition(|idle| idle.home == home);
        let at = match own {
            Some(at) => Some(at),
            None if state.count < self.max => None,
            None => state.idle.len().checked_sub(1),
        };
        match at {
            Some(at) => Seat::Taken(state.idle.remove(at)),
            None => {
                state.count += 1;
                Seat::MayOpen
            }
        }
    }
}

/// The place of one connection; given back when it cannot be lent after all, or whoever wanted it gives up.
struct Place<'a, C> {
    shared: &'a Shared<C>,
    is_filled: bool,
}

impl<C> Drop for Place<'_, C> {
    fn drop(&mut self) {
        if !self.is_filled {
            self.shared.state().count -= 1;
        }
    }
}

/// A connection on loan; goes back when dropped. One dropped inside a transaction is thrown away.
pub struct Loan<C: AsyncConnection> {
    conn: Option<C>,
    home: Id,
    shared: Arc<Shared<C>>,
    /// Given back last.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<C: AsyncConnection> Loan<C> {
    /// Throws the connection away instead of putting it back.
    pub(super) fn discard(mut self) {
        if self.conn.take().is_some() {
            self.shared.state().count -= 1;
        }
    }
}

impl<C: AsyncConnection> Drop for Loan<C> {
    fn drop(&mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        let is_good = !std::thread::panicking() && !C::TransactionManager::is_broken_transaction_manager(&mut conn);
        let now = Instant::now();
        let mut state = self.shared.state();
        if is_good {
            state.idle.push(Idle { conn, home: self.home, since: now });
        } else {
            state.count -= 1;
        }
        let old = match state.idle.first() {
            Some(first) if now.duration_since(first.since) > IDLE => {
                state.count -= 1;
                Some(state.idle.remove(0))
            }
            _ => None,
        };
        // Closing may take a while: not under the lock.
        drop(state);
        drop(old);
    }
}

impl<C: AsyncConnection> Deref for Loan<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.conn.as_ref().expect("taken only by value or on drop")
    }
}

impl<C: AsyncConnection> DerefMut for Loan<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.conn.as_mut().expect("taken only by value or on drop")
    }
}
