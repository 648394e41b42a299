//! The only door to the database.
//!
//! [`Store::read`] lends a connection; [`Store::write`] runs one transaction and repeats it when the database says that it lost a race
//! (deadlock, Galera certification). The closure is handed the connection and nothing that reaches the network, so that no cloud call can
//! hide inside a transaction.
//!
//! The truth is MariaDB; SQLite serves the one-process installation. Query functions live in one file a noun, take the connection first,
//! and never fetch one themselves. `fetch` must exist, `find` may not, `list` pages.

pub mod certificate;
pub mod cluster;
mod connection;
mod dialect;
mod error;
pub mod event;
pub mod migrate;
pub mod nodegroup;
pub mod operation;
pub mod page;
pub mod quota;
pub mod resource;
pub mod scope;
pub mod service;
pub mod template;

pub use connection::{Conn, DatabaseUrl, StoreOptions};
pub use error::StoreError;
pub use page::{Page, SortDir};
pub use scope::Scope;

use std::sync::Arc;
use std::time::Duration;

use connection::Db;

/// Tries of one transaction that the database made give way, the first included.
const WRITE_TRIES: u32 = 5;

/// A handle on the database; cheap to clone.
#[derive(Clone)]
pub struct Store {
    db: Arc<Db>,
}

impl Store {
    /// Opens the pool. Does not connect: a database that is down is found by the first query.
    ///
    /// # Errors
    /// [`StoreError::Config`] for a URL or a CA bundle that cannot be used.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        Ok(Self { db: Arc::new(Db::open(options)?) })
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
            let mut conn = self.db.get().await?;
            match query.answer(&mut conn).await {
                Err(error) if error.is_connection_lost() => {
                    conn.discard();
                    let mut fresh = self.db.get().await?;
                    let second = query.answer(&mut fresh).await;
                    if second.as_ref().is_err_and(StoreError::is_connection_lost) {
                        fresh.discard();
                    }
                    second
                }
                result => result,
            }
        }
    }

    /// Runs `change` in one transaction: all of it is stored, or nothing. It may run more than once, so it must do nothing but query.
    ///
    /// # Errors
    /// What `change` returned (nothing was stored), [`StoreError::Busy`] when the database made it give way each time, or
    /// [`StoreError::Unavailable`]; after a lost connection during commit it is not known whether the change was stored.
    #[expect(clippy::manual_async_fn, reason = "an async fn could not promise that its future is Send")]
    pub fn write<'a, T, F>(&'a self, change: F) -> impl Future<Output = Result<T, StoreError>> + Send + 'a
    where
        for<'c> F:
            AsyncFn(&'c mut Conn) -> Result<T, StoreError> + Query<&'c mut Conn, Result<T, StoreError>, Answer: Send> + Send + Sync + 'a,
        T: Send + 'a,
    {
        async move {
            let mut tries = 1;
            loop {
                let mut conn = self.db.get().await?;
                let result = match conn.begin().await {
                    Ok(()) => match change.answer(&mut conn).await {
                        Ok(value) => conn.commit().await.map(|()| value),
                        Err(error) => {
                            if conn.rollback().await.is_err() {
                                conn.discard();
                                return Err(error);
                            }
                            Err(error)
                        }
                    },
                    Err(error) if error.is_connection_lost() && tries < WRITE_TRIES => {
                        conn.discard();
                        tries += 1;
                        continue;
                    }
                    Err(error) => Err(error),
                };
                match result {
                    Err(StoreError::Busy(_)) if tries < WRITE_TRIES => {
                        drop(conn);
                        tokio::time::sleep(Duration::from_millis(u64::from(rand::random_range(5..20 * tries)))).await;
                        tries += 1;
                    }
                    Err(error) => {
                        if error.is_connection_lost() {
                            conn.discard();
                        }
                        return Err(error);
                    }
                    ok => return ok,
                }
            }
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
