//! What must differ between the two databases, both variants side by side.

use std::collections::{BTreeMap, BTreeSet};

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;

use super::connection::Conn;
use super::error::StoreError;
use crate::schema::{capi_guard, event_guard, project_guard};

#[derive(diesel::QueryableByName)]
struct Got {
    #[diesel(sql_type = Nullable<BigInt>)]
    got: Option<i64>,
}

/// Waits up to `seconds` for the right to change the schema; held until [`unlock_schema`] or the end of the connection.
///
/// MariaDB's named locks are local to one Galera node: they keep containers behind one load balancer apart, and the statements of the
/// migrations can be repeated, so two nodes at once do no harm. SQLite locks its file by itself.
pub(super) async fn lock_schema(conn: &mut Conn, seconds: u32) -> Result<bool, StoreError> {
    match conn {
        Conn::Mysql(c) => {
            let sql = format!("SELECT CAST(GET_LOCK('magnum-db-manage', {seconds}) AS SIGNED) AS got");
            let row: Got = diesel::sql_query(sql).get_result(&mut **c).await?;
            Ok(row.got == Some(1))
        }
        Conn::Sqlite(_) => Ok(true),
    }
}

/// Gives the right back.
pub(super) async fn unlock_schema(conn: &mut Conn) -> Result<(), StoreError> {
    match conn {
        Conn::Mysql(c) => {
            let _: Got = diesel::sql_query("SELECT CAST(RELEASE_LOCK('magnum-db-manage') AS SIGNED) AS got").get_result(&mut **c).await?;
            Ok(())
        }
        Conn::Sqlite(_) => Ok(()),
    }
}

/// How many of the named tables exist.
pub(super) async fn count_tables(conn: &mut Conn, names: &[&str]) -> Result<i64, StoreError> {
    let list = names.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
    let row: Got = match conn {
        Conn::Mysql(c) => {
            let sql = format!(
                "SELECT CAST(COUNT(*) AS SIGNED) AS got FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({list})"
            );
            diesel::sql_query(sql).get_result(&mut **c).await?
        }
        Conn::Sqlite(c) => {
            let sql = format!("SELECT COUNT(*) AS got FROM sqlite_master WHERE type = 'table' AND name IN ({list})");
            diesel::sql_query(sql).get_result(&mut **c).await?
        }
    };
    Ok(row.got.unwrap_or(0))
}

/// The server's time in milliseconds since the epoch; none where there is no server.
pub(super) async fn clock_ms(conn: &mut Conn) -> Result<Option<i64>, StoreError> {
    match conn {
        Conn::Mysql(c) => {
            let sql = "SELECT CAST(ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED) AS got";
            let row: Got = diesel::sql_query(sql).get_result(&mut **c).await?;
            Ok(row.got)
        }
        Conn::Sqlite(_) => Ok(None),
    }
}

/// Longest wait for those who are in the middle of a transaction on a table whose columns are to change, in seconds: whoever comes after us
/// would wait behind us.
const COLUMN_WAIT: u32 = 20;

#[derive(diesel::QueryableByName)]
struct TableColumn {
    #[diesel(sql_type = Text)]
    tab: String,
    #[diesel(sql_type = Text)]
    col: String,
}

/// All tables of the database with the names of their columns.
pub(super) async fn columns(conn: &mut Conn) -> Result<BTreeMap<String, BTreeSet<String>>, StoreError> {
    let rows: Vec<TableColumn> = match conn {
        Conn::Mysql(c) => {
            let sql = "SELECT table_name AS tab, column_name AS col FROM information_schema.columns WHERE table_schema = DATABASE()";
            diesel::sql_query(sql).load(&mut **c).await?
        }
        Conn::Sqlite(c) => {
            let sql = "SELECT m.name AS tab, p.name AS col FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table'";
            diesel::sql_query(sql).load(&mut **c).await?
        }
    };
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for TableColumn { tab, col } in rows {
        tables.entry(tab).or_default().insert(col);
    }
    Ok(tables)
}

/// Adds a column of up to 255 characters, unset in all rows.
pub(super) async fn add_text_column(conn: &mut Conn, table: &str, column: &str) -> Result<(), StoreError> {
    change_columns(conn, &format!("ALTER TABLE {table} ADD COLUMN {column} VARCHAR(255)")).await
}

/// Removes a column.
pub(super) async fn drop_column(conn: &mut Conn, table: &str, column: &str) -> Result<(), StoreError> {
    change_columns(conn, &format!("ALTER TABLE {table} DROP COLUMN {column}")).await
}

async fn change_columns(conn: &mut Conn, sql: &str) -> Result<(), StoreError> {
    match conn {
        Conn::Mysql(c) => {
            diesel::sql_query(format!("SET SESSION lock_wait_timeout = {COLUMN_WAIT}")).execute(&mut **c).await?;
            let changed = diesel::sql_query(sql).execute(&mut **c).await;
            diesel::sql_query("SET SESSION lock_wait_timeout = DEFAULT").execute(&mut **c).await?;
            changed?;
        }
        Conn::Sqlite(c) => {
            diesel::sql_query(sql).execute(&mut **c).await?;
        }
    }
    Ok(())
}

/// Inserts a row of a table; where there is one with the same `key` (a column, or a tuple of columns), changes that one instead.
///
/// One statement, because two would deadlock: of several transactions that update nothing and then insert, each holds the gap that the
/// others want to insert into.
macro_rules! upsert {
    ($conn:expr, $table:ident, $key:expr, $row:expr, $change:expr) => {{
        use $crate::store::recurring::Recur;
        let (insert, change) = (diesel::insert_into($table::table).values($row), $change);
        match $conn {
            $crate::store::Conn::Mysql(c) => {
                insert.on_conflict(diesel::dsl::DuplicatedKeys).do_update().set(change).recurring().execute(&mut **c).await?
            }
            $crate::store::Conn::Sqlite(c) => insert.on_conflict($key).do_update().set(change).recurring().execute(&mut **c).await?,
        }
    }};
}
pub(super) use upsert;

/// Writes a guard row, new or not, and so waits for every other transaction that has written it.
pub(super) async fn touch_guard(conn: &mut Conn, guard: Guard<'_>) -> Result<(), StoreError> {
    macro_rules! touch {
        ($table:ident, $key:ident, $value:expr) => {{
            let row = ($table::$key.eq($value), $table::touched.eq(1));
            upsert!(conn, $table, $table::$key, row, $table::touched.eq($table::touched + 1))
        }};
    }
    match guard {
        Guard::Project(key) => touch!(project_guard, project_id, key),
        Guard::Events(key) => touch!(event_guard, cluster_uuid, key),
        Guard::Placement => touch!(capi_guard, name, "placement"),
    };
    Ok(())
}

/// What a guard row stands for.
#[derive(Clone, Copy)]
pub(super) enum Guard<'a> {
    /// What a project has of its quota.
    Project(&'a str),
    /// The order of a cluster's events.
    Events(&'a str),
    /// How many clusters each management cluster has.
    Placement,
}

/// Whether a failed migration failed because another process was making the same one (SQLite only: MariaDB's lock keeps them apart).
pub(super) fn is_lost_race(reason: &str) -> bool {
    reason.contains("database is locked")
        || reason.contains("duplicate column name")
        || reason.contains("UNIQUE constraint failed: __diesel_schema_migrations")
}
