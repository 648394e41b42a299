//! Making and adopting the schema (`magnum-db-manage`).
//!
//! A foreign revision in `alembic_version` breaks every later start of upstream: none but upstream's own is ever written there (see
//! [`adoption`](super::adoption)). Our own migrations keep their book in a table of the migration library.

use std::time::Duration;

use diesel::migration::MigrationSource;
use diesel::mysql::Mysql;
use diesel::prelude::*;
use diesel::sqlite::Sqlite as SqliteBackend;
use diesel_async::{AsyncMigrationHarness, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::adoption::{self, Kept, Standing, State};
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
pub(super) const LOCK_SECONDS: u32 = 300;

/// What was done to a database.
#[derive(Debug, Default)]
pub struct Upgraded {
    /// Migrations of ours, by their names.
    pub migrations: Vec<String>,
    /// What a release had set aside and is back.
    pub restored: Vec<Kept>,
}

/// Whether there must be something to adopt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Upstream's tables.
    Upstream,
    /// Nothing: an empty database is filled.
    Anything,
}

/// Brings the database to the schema of this program, whether it is empty, upstream's or ours; safe to repeat, and to run from several
/// containers at once.
///
/// # Errors
/// [`StoreError::Schema`] when the database is one that this program cannot adopt (nothing is changed then), or is locked for too long.
pub async fn upgrade(store: &Store) -> Result<Upgraded, StoreError> {
    repeat(store, Wanted::Anything).await
}

/// The same, of a database that upstream made.
///
/// # Errors
/// As [`upgrade`]; also when there is nothing of upstream's.
pub async fn adopt(store: &Store) -> Result<Upgraded, StoreError> {
    repeat(store, Wanted::Upstream).await
}

async fn repeat(store: &Store, wanted: Wanted) -> Result<Upgraded, StoreError> {
    let mut tries = 1;
    loop {
        match upgrade_once(store, wanted).await {
            // SQLite has no named locks: of several processes at once one wins, and the others find its work done when they look again.
            Err(StoreError::Schema(reason) | StoreError::Unavailable(reason) | StoreError::Busy(reason) | StoreError::Database(reason))
                if tries < TRIES && dialect::is_lost_race(&reason) =>
            {
                tracing::debug!(reason, "another process changes the schema");
                tokio::time::sleep(Duration::from_millis(200 * tries)).await;
                tries += 1;
            }
            Err(StoreError::Duplicate { .. } | StoreError::Stale { .. }) if tries < TRIES => {
                tracing::debug!("another process has adopted the database");
                tries += 1;
            }
            result => return result,
        }
    }
}

async fn upgrade_once(store: &Store, wanted: Wanted) -> Result<Upgraded, StoreError> {
    let mut conn = store.db.get().await?;
    if !dialect::lock_schema(&mut conn, LOCK_SECONDS).await? {
        return Err(StoreError::Schema(format!("another process has been changing the schema for {LOCK_SECONDS} s")));
    }
    let judged = judged(&mut conn, wanted).await;
    let (migrated, mut conn) = match (judged, conn) {
        (Err(error), conn) => (Err(error), conn),
        (Ok(standing), Conn::Mysql(c)) => {
            let mut harness = AsyncMigrationHarness::<_>::new(c);
            let result = run_mysql(&mut harness);
            (result.map(|done| (standing, done)), Conn::Mysql(harness.into_inner()))
        }
        (Ok(standing), Conn::Sqlite(c)) => {
            let mut harness = AsyncMigrationHarness::<_>::new(c);
            let result = run_sqlite(&mut harness);
            (result.map(|done| (standing, done)), Conn::Sqlite(harness.into_inner()))
        }
    };
    let result = match migrated {
        Ok((standing, migrations)) => {
            adoption::finish_adoption(&mut conn, standing).await.map(|restored| Upgraded { migrations, restored })
        }
        Err(error) => Err(error),
    };
    dialect::unlock_schema(&mut conn).await?;
    result
}

async fn judged(conn: &mut Conn, wanted: Wanted) -> Result<Standing, StoreError> {
    let standing = adoption::judge(&adoption::see(conn).await?).map_err(StoreError::Schema)?;
    if wanted == Wanted::Upstream && standing == Standing::Empty {
        return Err(StoreError::Schema(
            "the database is empty: there is nothing to adopt. magnum-db-manage upgrade makes a new one".into(),
        ));
    }
    Ok(standing)
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

/// What the long-running services want to know before they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// The schema is complete for this program.
    Fit,
    /// Tables of this program or of upstream are missing.
    Incomplete,
    /// It was given back to upstream, or an adoption or a release was cut off: what upstream could not read is not in its place.
    NotAdopted,
}

/// Tables without which this program does not start.
const NEEDED: [&str; 22] = [
    "cluster",
    "cluster_template",
    "nodegroup",
    "x509keypair",
    "quotas",
    "magnum_service",
    "alembic_version",
    "operation",
    "operation_event",
    "cloud_resource",
    "nodegroup_nodes",
    "project_guard",
    "event_guard",
    "idempotency_key",
    "notification",
    "task_lease",
    "cluster_health",
    "adoption",
    "set_aside",
    "ca_rotation",
    "capi_placement",
    "capi_guard",
];

/// Whether this program can start on the database.
pub async fn fitness(store: &Store) -> Result<Fitness, StoreError> {
    store
        .read(async |conn: &mut Conn| {
            if dialect::count_tables(conn, &NEEDED).await? < NEEDED.len() as i64 {
                return Ok(Fitness::Incomplete);
            }
            let is_adopted = adoption::find(conn).await?.is_some_and(|adoption| adoption.state == State::Adopted);
            Ok(if is_adopted { Fitness::Fit } else { Fitness::NotAdopted })
        })
        .await
}

async fn revision(conn: &mut Conn) -> Result<Option<String>, StoreError> {
    if dialect::count_tables(conn, &["alembic_version"]).await? == 0 {
        return Ok(None);
    }
    Ok(on_conn!(conn, |c| alembic_version::table.select(alembic_version::version_num).first::<String>(&mut **c).await.optional())?)
}
