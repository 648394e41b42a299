//! The database's own clock.

use chrono::{DateTime, Utc};

use super::connection::Conn;
use super::dialect;
use super::error::StoreError;
use crate::time::from_millis;

/// What time it is there; none for a database without a clock of its own (SQLite).
pub async fn database(conn: &mut Conn) -> Result<Option<DateTime<Utc>>, StoreError> {
    Ok(dialect::clock_ms(conn).await?.map(from_millis))
}
