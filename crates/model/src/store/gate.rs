//! The seam at which a simulation makes the way to the database slow, cuts it, or loses answers.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::error::StoreError;

/// Stands between a handle and its database. No connection is held while it is asked.
pub trait Gate: Send + Sync {
    /// Lets a query or transaction through to the database, or fails it before anything is done.
    fn enter(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Lets the answer through, or loses it: what a transaction did stays done.
    fn leave(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

pub(super) async fn enter(gate: Option<&Arc<dyn Gate>>) -> Result<(), StoreError> {
    match gate {
        Some(gate) => gate.enter().await,
        None => Ok(()),
    }
}

pub(super) async fn leave<T>(gate: Option<&Arc<dyn Gate>>, result: Result<T, StoreError>) -> Result<T, StoreError> {
    match gate {
        Some(gate) => {
            gate.leave().await?;
            result
        }
        None => result,
    }
}
