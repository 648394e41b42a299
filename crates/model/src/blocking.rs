//! Work that would hold up a runtime's thread: it runs on a thread of its own, and where it stands in a [simulation](crate::simulation), which
//! has one thread only.

use std::error::Error;

use diesel_async::sync_connection_wrapper::SpawnBlocking;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::{JoinError, spawn_blocking};

use crate::simulation;

/// Runs work of the processor that may take seconds.
///
/// # Errors
/// When the work panicked, or the runtime is being shut down.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if simulation::is_on() { Ok(work()) } else { spawn_blocking(work).await }
}

/// Where the queries of SQLite run.
pub struct Threads;

impl SpawnBlocking for Threads {
    fn spawn_blocking<'a, R>(
        &mut self,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> BoxFuture<'a, Result<R, Box<dyn Error + Send + Sync + 'static>>>
    where
        R: Send + 'static,
    {
        if simulation::is_on() {
            return std::future::ready(Ok(task())).boxed();
        }
        let running = spawn_blocking(task);
        async move { running.await.map_err(Box::from) }.boxed()
    }

    fn get_runtime() -> Self {
        Self
    }
}
