//! Making and adopting the schema (`magnum-db-manage`).
//!
//! Upstream's revision in `alembic_version` is never changed: a foreign revision there breaks every later start of upstream. Our own
//! migrations keep their book in a table of the migration library.

use std::time::Duration;

use diesel::migration::MigrationSource;
use diesel::mysql::Mysql;
use diesel::prelude::*;
use diesel::sqlite::Sqlite as SqliteBackend;
use diesel_async::{AsyncMigrationHarness, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::{Store, dialect};
use crate::schema::alembic_version;

const MYSQL: EmbeddedMigrations = embed_migrations!("../../migrations/mysql");
const SQLITE: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// The revision that upstream 18.x to 22.x knows as its newest; the one this program works on.
pub const UPSTREAM_HEAD: &str = "c0f832afc4fd";

/// Tries of an upgrade that another process overtook.
const TRIES: u64 = 10;

/// How long one container waits for another that is changing the schema.
const LOCK_SECONDS: u32 = 300;

/// Brings the database to the schema of this program; safe to repeat, and to run from several containers at once.
///
/// # Errors
/// [`StoreError::Schema`] when the database is at a revision of upstream that this program cannot adopt, or is locked for too long.
pub async fn upgrade(store: &Store) -> Result<Vec<String>, StoreError> {
    let mut tries = 1;
    loop {
        match upgrade_once(store).await {
            // SQLite has no named locks: of several processes at once one wins, and the others find its work done when they look again.
            Err(StoreError::Schema(reason) | StoreError::Unavailable(reason) | StoreError::Busy(reason))
                if tries < TRIES && dialect::is_lost_race(&reason) =>
            {
                tracing::debug!(reason, "another process changes the schema");
                tokio::time::sleep(Duration::from_millis(200 * tries)).await;
                tries += 1;
            }
            result => return result,
        }
    }
}

async fn upgrade_once(store: &Store) -> Result<Vec<String>, StoreError> {
    let mut conn = store.db.get().await?;
    if !dialect::lock_schema(&mut conn, LOCK_SECONDS).await? {
        return Err(StoreError::Schema(format!("another process has been changing the schema for {LOCK_SECONDS} s")));
    }
    let found = revision(&mut conn).await?;
    if let Some(other) = found.as_deref().filter(|r| *r != UPSTREAM_HEAD) {
        dialect::unlock_schema(&mut conn).await?;
        return Err(StoreError::Schema(format!(
            "the database is at upstream revision {other}; only {UPSTREAM_HEAD} (upstream 18.x to 22.x) can be adopted: \
             upgrade it with upstream's own magnum-db-manage of one of these releases first"
        )));
    }
    let (result, mut conn) = match conn {
        Conn::Mysql(c) => {
            let mut harness = AsyncMigrationHarness::<_>::new(c);
            let result = run_mysql(&mut harness);
            (result, Conn::Mysql(harness.into_inner()))
        }
        Conn::Sqlite(c) => {
            let mut harness = AsyncMigrationHarness::<_>::new(c);
            let result = run_sqlite(&mut harness);
            (result, Conn::Sqlite(harness.into_inner()))
        }
    };
    dialect::unlock_schema(&mut conn).await?;
    result
}

fn run_mysql(harness: &mut impl MigrationHarness<Mysql>) -> Result<Vec<String>, StoreError> {
    run(harness, MYSQL)
}

fn run_sqlite(harness: &mut impl MigrationHarness<SqliteBackend>) -> Result<Vec<String>, StoreError> {
    run(harness, SQLITE)
}

fn run<DB: diesel::backend::Backend>(
    harness: &mut impl MigrationHarness<DB>,
    source: impl MigrationSource<DB>,
) -> Result<Vec<String>, StoreError> {
    let done = harness.run_pending_migrations(source).map_err(|e| StoreError::Schema(e.to_string()))?;
    Ok(done.into_iter().map(|v| v.to_string()).collect())
}

/// Upstream's revision, as `magnum-db-manage version` prints it; none for an empty database.
pub async fn version(store: &Store) -> Result<Option<String>, StoreError> {
    store.read(async |conn: &mut Conn| revision(conn).await).await
}

/// Whether the schema is complete for this program; what the long-running services check before they start.
pub async fn is_current(store: &Store) -> Result<bool, StoreError> {
    store
        .read(async |conn: &mut Conn| {
            let tables = ["cluster", "cluster_template", "nodegroup", "x509keypair", "quotas", "magnum_service", "alembic_version"];
            let ours = [
                "operation",
                "operation_event",
                "cloud_resource",
                "nodegroup_nodes",
                "project_guard",
                "event_guard",
                "idempotency_key",
                "ca_rotation",
            ];
            let all: Vec<&str> = tables.into_iter().chain(ours).collect();
            Ok(dialect::count_tables(conn, &all).await? == all.len() as i64)
        })
        .await
}

async fn revision(conn: &mut Conn) -> Result<Option<String>, StoreError> {
    if dialect::count_tables(conn, &["alembic_version"]).await? == 0 {
        return Ok(None);
    }
    Ok(on_conn!(conn, |c| alembic_version::table.select(alembic_version::version_num).first::<String>(&mut **c).await.optional())?)
}
