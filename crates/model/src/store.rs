//! The only door to the database.
//!
//! [`Store::read`] lends a connection; [`Store::write`] runs one transaction and repeats it when the database says that it lost a race
//! (deadlock, Galera certification). The closure is handed the connection and nothing that reaches the network, so that no cloud call can
//! hide inside a transaction.
//!
//! The truth is MariaDB; SQLite serves the one-process installation. Query functions live in one file a noun, take the connection first,
//! and never fetch one themselves. `fetch` must exist, `find` may not, `list` pages.

pub mod adoption;
pub mod beside;
pub mod certificate;
pub mod clock;
pub mod cluster;
mod collation;
mod connection;
pub mod credential_health;
mod dialect;
mod error;
pub mod event;
pub mod exit;
pub mod federation;
pub mod found;
mod gate;
pub mod health;
pub mod history;
pub mod housekeeping;
pub mod idempotency;
pub mod lifecycle;
mod many;
pub mod migrate;
mod named;
pub mod nodegroup;
pub mod nodes;
pub mod notification;
pub mod operation;
pub mod page;
pub mod placement;
mod pool;
pub mod quota;
mod recurring;
pub mod resource;
pub mod rotation;
pub mod scope;
pub mod sealing;
pub mod service;
pub mod task;
pub mod template;

pub use connection::{Conn, DatabaseUrl, StoreOptions, StoreTls};
pub use error::StoreError;
pub use gate::Gate;
pub use page::{Page, SortDir};
pub use pool::PoolUse;
pub use scope::Scope;

use std::sync::Arc;
use std::time::Duration;

use connection::Db;

use crate::seal::vault::Vault;

/// Tries of one transaction that the database made give way, the first included.
const WRITE_TRIES: u32 = 8;
/// Tries of one read, the first included: a lost connection is replaced once.
const READ_TRIES: u32 = 2;
/// How long one attempt of a query or transaction may take.
const ATTEMPT: Duration = Duration::from_secs(15);

/// A handle on the database; cheap to clone.
#[derive(Clone)]
pub struct Store {
    db: Arc<Db>,
    /// What stands between this handle and the database; nothing outside of simulations.
    gate: Option<Arc<dyn Gate>>,
    vault: Arc<Vault>,
}

impl Store {
    /// Opens the pool. Does not connect: a database that is down is found by the first query.
    ///
    /// # Errors
    /// [`StoreError::Config`] for a URL or a CA bundle that cannot be used.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let vault = options.vault.clone();
        Ok(Self { db: Arc::new(Db::open(options)?), gate: None, vault })
    }

    /// The same database, reached through a gate.
    pub fn behind(&self, gate: Arc<dyn Gate>) -> Self {
        Self { gate: Some(gate), ..self.clone() }
    }

    /// The same database by connections of its own, so many at most: for what must not wait behind everything else. They are not counted in
    /// [`Self::pool_use`]. SQLite has one connection, which is shared.
    pub fn aside(&self, connections: usize) -> Self {
        let db = self.db.aside(connections).map_or_else(|| self.db.clone(), Arc::new);
        Self { db, ..self.clone() }
    }

    /// What seals and opens the secrets in the rows.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// How much of the pool of connections is in use.
    pub fn pool_use(&self) -> PoolUse {
        self.db.usage()
    }

    /// Lends a connection for reading. A connection that turns out to be lost is replaced once.
    #[expect(clippy::manual_async_fn, reason = "an async fn could not promise that its future is Send")]
    pub fn read<'a, T, F>(&'a self, query: F) -> impl Future<Output = Result<T, StoreError>> + Send + 'a
    where
        for<'c> F:
            AsyncFn(&'c mut Conn) -> Result<T, StoreError> + Query<&'c mut Conn, Result<T, StoreError>, Answer: Send> + Send + Sync + 'a,
        T: Send + 'a,
    {
        async move {
            gate::enter(self.gate.as_ref()).await?;
            let mut tries = 1;
            loop {
                let mut conn = Lent::new(self.db.get().await?);
                match within(query.answer(conn.get())).await {
                    Err(error) if error.is_connection_lost() => {
                        conn.discard();
                        if tries == READ_TRIES {
                            return Err(error);
                        }
                        tries += 1;
                    }
                    result => {
                        conn.give_back();
                        return gate::leave(self.gate.as_ref(), result).await;
                    }
                }
            }
        }
    }

    /// Runs `change` in one transaction: all of it is stored, or nothing. It may run more than once, so it must do nothing but query.
    ///
    /// # Errors
    /// What `change` returned (nothing was stored), [`StoreError::Busy`] when the database made it give way each time, or
    /// [`StoreError::Unavailable`]; after a lost connection during commit it is not known whether the change was stored.
    pub fn write<'a, T, F>(&'a self, change: F) -> impl Future<Output = Result<T, StoreError>> + Send + 'a
    where
        for<'c> F:
            AsyncFn(&'c mut Conn) -> Result<T, StoreError> + Query<&'c mut Conn, Result<T, StoreError>, Answer: Send> + Send + Sync + 'a,
        T: Send + 'a,
    {
        self.transact(End::Commit, change)
    }

    /// As [`Self::write`], to an end of the caller's choice.
    ///
    /// # Errors
    /// As [`Self::write`].
    #[expect(clippy::manual_async_fn, reason = "an async fn could not promise that its future is Send")]
    pub fn transact<'a, T, F>(&'a self, end: End, change: F) -> impl Future<Output = Result<T, StoreError>> + Send + 'a
    where
        for<'c> F:
            AsyncFn(&'c mut Conn) -> Result<T, StoreError> + Query<&'c mut Conn, Result<T, StoreError>, Answer: Send> + Send + Sync + 'a,
        T: Send + 'a,
    {
        async move {
            gate::enter(self.gate.as_ref()).await?;
            let mut tries = 1;
            loop {
                let mut conn = Lent::new(self.db.get().await?);
                let result = within(transaction(&change, end, conn.get())).await;
                match &result {
                    Err(Cut::Unbegun(error)) if error.is_connection_lost() && tries < WRITE_TRIES => conn.discard(),
                    Err(Cut::Unbegun(StoreError::Busy(_)) | Cut::Begun(StoreError::Busy(_))) if tries < WRITE_TRIES => {
                        conn.give_back();
                        tokio::time::sleep(Duration::from_millis(u64::from(crate::random::range(5..20 * tries)))).await;
                    }
                    Err(Cut::Unbegun(error) | Cut::Begun(error)) if error.is_connection_lost() => {
                        conn.discard();
                        return result.map_err(Cut::into_error);
                    }
                    _ => {
                        conn.give_back();
                        return gate::leave(self.gate.as_ref(), result.map_err(Cut::into_error)).await;
                    }
                }
                tries += 1;
            }
        }
    }
}

/// How a transaction ends whose statements went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// What it did is stored.
    Commit,
    /// Nothing is: it was to be seen whether it could be done.
    RollBack,
}

/// Where a transaction was cut short.
enum Cut {
    /// Before anything was done: it may be repeated on another connection.
    Unbegun(StoreError),
    /// Afterwards.
    Begun(StoreError),
}

impl Cut {
    fn into_error(self) -> StoreError {
        match self {
            Self::Unbegun(error) | Self::Begun(error) => error,
        }
    }
}

impl From<StoreError> for Cut {
    fn from(error: StoreError) -> Self {
        Self::Begun(error)
    }
}

async fn transaction<T, F>(change: &F, end: End, conn: &mut Conn) -> Result<T, Cut>
where
    for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, StoreError> + Query<&'r mut Conn, Result<T, StoreError>, Answer: Send> + Send + Sync,
{
    conn.begin().await.map_err(Cut::Unbegun)?;
    let changed = change.answer(conn).await;
    if changed.is_ok() && end == End::Commit {
        conn.commit().await?;
    } else if let Err(broken) = conn.rollback().await {
        // A connection that cannot roll back is broken, which the pool sees.
        tracing::debug!(error = %broken, "failed to roll back");
    }
    changed.map_err(Cut::Begun)
}

/// Bounds one attempt: a database host that vanished without a word must not hold a worker until TCP gives up.
async fn within<T, E: From<StoreError>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match tokio::time::timeout(ATTEMPT, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable(format!("no answer in {} s", ATTEMPT.as_secs())).into()),
    }
}

/// A connection on loan. One whose borrower was dropped in the middle of a query is thrown away: on SQLite the query still runs on its
/// thread, and lending the connection again would fail.
struct Lent(Option<Conn>);

impl Lent {
    fn new(conn: Conn) -> Self {
        Self(Some(conn))
    }

    fn get(&mut self) -> &mut Conn {
        self.0.as_mut().expect("given back or discarded only by value")
    }

    fn give_back(mut self) {
        drop(self.0.take());
    }

    fn discard(self) {
        drop(self);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            conn.discard();
        }
    }
}

/// An async closure that can be called again and whose future may move between threads.
///
/// Only a bound: `AsyncFn` alone cannot say that its future is `Send`. Implemented by every `async |conn| …` that borrows what it needs
/// (not `async move`, whose future would borrow from the closure itself).
pub trait Query<A, R>: Fn(A) -> Self::Answer {
    /// The closure's future.
    type Answer: Future<Output = R>;

    /// Calls it.
    fn answer(&self, argument: A) -> Self::Answer;
}

impl<F, A, Fut, R> Query<A, R> for F
where
    F: Fn(A) -> Fut,
    Fut: Future<Output = R>,
{
    type Answer = Fut;

    fn answer(&self, argument: A) -> Fut {
        self(argument)
    }
}
