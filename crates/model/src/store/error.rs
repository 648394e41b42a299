//! The one error of the store, and the one place where the database library's errors are classified.

use diesel::result::{DatabaseErrorKind, Error as Diesel};

use crate::cluster::status::{NoExit, Refused};
use crate::quota::Resource;
use crate::seal::vault::VaultError;

/// What can go wrong between the program and its rows.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such row in the caller's scope.
    #[error("no {what} {key}")]
    NotFound { what: &'static str, key: String },
    /// More than one row has this name.
    #[error("more than one {what} named {key}")]
    Ambiguous { what: &'static str, key: String },
    /// A unique key is taken.
    #[error("{what} already exists")]
    Duplicate { what: &'static str },
    /// A guarded write matched no row: somebody else holds it now, or it has moved on. Look again.
    #[error("{what} has moved on")]
    Stale { what: &'static str },
    /// The row is still referred to.
    #[error("{what} {key} is in use")]
    InUse { what: &'static str, key: String },
    /// A sort key that is no column.
    #[error("{what} cannot be sorted by {key}")]
    BadSortKey { what: &'static str, key: String },
    /// A project would have more of a resource than its quota grants.
    #[error("quota of {limit} {}s reached: {used} in use, {asked} more asked for", resource.as_str())]
    QuotaReached { resource: Resource, limit: i64, used: i64, asked: i64 },
    /// The state of cluster or group does not allow the operation.
    #[error(transparent)]
    Refused(Refused),
    /// There is no such way out of the state that things are in.
    #[error(transparent)]
    NoExit(#[from] NoExit),
    /// A secret that a row holds cannot be sealed or opened.
    #[error(transparent)]
    Sealed(#[from] VaultError),
    /// The database made the transaction give way each time.
    #[error("database busy: {0}")]
    Busy(String),
    /// The database cannot be reached, or the connection was lost.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The schema is not one this program can work on.
    #[error("{0}")]
    Schema(String),
    /// The connection settings cannot be used.
    #[error("database settings: {0}")]
    Config(String),
    /// Anything else the database said.
    #[error("database: {0}")]
    Database(String),
}

impl StoreError {
    /// Whether the connection it happened on must be thrown away.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<Diesel> for StoreError {
    /// Error codes are lost on MySQL: deadlock, lock wait and lost connections all arrive as `Unknown` with a message.
    fn from(error: Diesel) -> Self {
        match error {
            Diesel::DatabaseError(DatabaseErrorKind::UniqueViolation, _) => Self::Duplicate { what: "row" },
            Diesel::DatabaseError(DatabaseErrorKind::SerializationFailure, info) => Self::Busy(info.message().to_owned()),
            Diesel::DatabaseError(DatabaseErrorKind::ClosedConnection, info) => Self::Unavailable(info.message().to_owned()),
            Diesel::DatabaseError(_, info) => classify(info.message()),
            Diesel::NotFound => Self::NotFound { what: "row", key: String::new() },
            Diesel::BrokenTransactionManager => Self::Unavailable("broken transaction".into()),
            other => Self::Database(other.to_string()),
        }
    }
}

fn classify(message: &str) -> StoreError {
    let has = |words: &[&str]| words.iter().any(|w| message.contains(w));
    if has(&[
        "Deadlock found",
        "Lock wait timeout",
        "database is locked",
        "WSREP has not yet prepared",
        "WSREP detected deadlock",
        "Record has changed since last read",
    ]) {
        StoreError::Busy(message.to_owned())
    } else if has(&[
        "Input/output error",
        "Driver error",
        "Connection reset",
        "Broken pipe",
        "connection closed",
        "Server shutdown in progress",
        "Connection was killed",
        "gone away",
        "Lost connection",
        // What was the primary is one no more: its successor is behind the same address, on another connection.
        "read-only",
    ]) {
        StoreError::Unavailable(message.to_owned())
    } else {
        StoreError::Database(message.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_mysql_are_classified() {
        let busy = classify("Deadlock found when trying to get lock; try restarting transaction");
        assert!(matches!(busy, StoreError::Busy(_)));
        assert!(classify("Input/output error: can't parse: connection closed").is_connection_lost());
        let galera = "WSREP has not yet prepared node for application use";
        assert!(matches!(classify(galera), StoreError::Busy(_)));
        let failed_over = "The MariaDB server is running with the --read-only option so it cannot execute this statement";
        assert!(classify(failed_over).is_connection_lost());
        assert!(matches!(classify("Data too long for column 'name' at row 1"), StoreError::Database(_)));
    }
}
