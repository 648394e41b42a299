//! Connections and pools of both databases behind one type.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use diesel::SqliteConnection;
use diesel::connection::AnsiTransactionManager as SyncAnsi;
use diesel_async::pooled_connection::deadpool::{Hook, HookError, Object, Pool, PoolError};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};
use futures::FutureExt;
use secrecy::{ExposeSecret, SecretString};

use super::error::StoreError;

pub(super) type Sqlite = SyncConnectionWrapper<SqliteConnection>;

/// Runs one query expression on whichever database the connection is of. The expression is compiled once for each.
macro_rules! on_conn {
    ($conn:expr, |$c:ident| $body:expr) => {
        match $conn {
            $crate::store::Conn::Mysql($c) => $body,
            $crate::store::Conn::Sqlite($c) => $body,
        }
    };
}
pub(super) use on_conn;

/// Where the database is.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// MariaDB (or MySQL).
    Mysql { host: String, port: u16, user: String, password: SecretString, database: String },
    /// A SQLite file.
    Sqlite(PathBuf),
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mysql { host, port, user, database, .. } => write!(f, "mysql://{user}:***@{host}:{port}/{database}"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub url: DatabaseUrl,
    /// Connections at most (SQLite always has one: it shows nested checkouts at once, and SQLite has one writer anyway).
    pub max_connections: usize,
    /// How long a query waits for a connection, the making of one included.
    pub acquire_timeout: Duration,
    /// PEM bundle that the MariaDB server's certificate must chain to; none: no TLS.
    pub tls_ca: Option<Vec<u8>>,
}

impl StoreOptions {
    /// Defaults for a URL.
    pub fn new(url: DatabaseUrl) -> Self {
        Self { url, max_connections: 16, acquire_timeout: Duration::from_secs(5), tls_ca: None }
    }
}

pub(super) enum Db {
    Mysql(Pool<AsyncMysqlConnection>),
    Sqlite(Pool<Sqlite>),
}

/// A connection out of the pool; goes back when dropped. One dropped inside a transaction is thrown away.
pub enum Conn {
    /// Of MariaDB.
    Mysql(Object<AsyncMysqlConnection>),
    /// Of SQLite.
    Sqlite(Object<SyncConnectionWrapper<SqliteConnection>>),
}

impl Db {
    pub(super) fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let timeout = Some(options.acquire_timeout);
        let build = |e: diesel_async::pooled_connection::deadpool::BuildError| StoreError::Config(e.to_string());
        match options.url {
            DatabaseUrl::Mysql { host, port, user, password, database } => {
                let mut config = ManagerConfig::default();
                config.recycling_method = RecyclingMethod::Fast;
                let opts = mysql_options(host, port, user, password, database, options.tls_ca)?;
                config.custom_setup = Box::new(move |_| establish_mysql(opts.clone()).boxed());
                let manager = AsyncDieselConnectionManager::new_with_config("", config);
                let pool = Pool::builder(manager)
                    .max_size(options.max_connections.max(1))
                    .wait_timeout(timeout)
                    .create_timeout(timeout)
                    .recycle_timeout(timeout)
                    .runtime(deadpool::Runtime::Tokio1)
                    .pre_recycle(ping_idle())
                    .build()
                    .map_err(build)?;
                Ok(Self::Mysql(pool))
            }
            DatabaseUrl::Sqlite(path) => {
                let mut config = ManagerConfig::default();
                config.recycling_method = RecyclingMethod::Fast;
                config.custom_setup = Box::new(|url| establish_sqlite(url.to_owned()).boxed());
                let path = path.to_str().ok_or_else(|| StoreError::Config("the SQLite path is not UTF-8".into()))?.to_owned();
                let manager = AsyncDieselConnectionManager::new_with_config(path, config);
                let pool = Pool::builder(manager)
                    .max_size(1)
                    .wait_timeout(timeout)
                    .create_timeout(timeout)
                    .runtime(deadpool::Runtime::Tokio1)
                    .build()
                    .map_err(build)?;
                Ok(Self::Sqlite(pool))
            }
        }
    }

    pub(super) async fn get(&self) -> Result<Conn, StoreError> {
        let lost = |e: PoolError| StoreError::Unavailable(e.to_string());
        Ok(match self {
            Self::Mysql(pool) => Conn::Mysql(pool.get().await.map_err(lost)?),
            Self::Sqlite(pool) => Conn::Sqlite(pool.get().await.map_err(lost)?),
        })
    }
}

impl Conn {
    /// Begins a transaction. On SQLite it takes the write lock at once: a transaction that reads first and writes later would fail with
    /// "database is locked" whatever the busy timeout says.
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Mysql(c) => {
                <AsyncMysqlConnection as AsyncConnection>::TransactionManager::begin_transaction(&mut **c).await?;
            }
            Self::Sqlite(c) => c.spawn_blocking(|raw| SyncAnsi::begin_transaction_sql(raw, "BEGIN IMMEDIATE")).await?,
        }
        Ok(())
    }

    pub(super) async fn commit(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Mysql(c) => <AsyncMysqlConnection as AsyncConnection>::TransactionManager::commit_transaction(&mut **c).await?,
            Self::Sqlite(c) => <Sqlite as AsyncConnection>::TransactionManager::commit_transaction(&mut **c).await?,
        }
        Ok(())
    }

    pub(super) async fn rollback(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Mysql(c) => <AsyncMysqlConnection as AsyncConnection>::TransactionManager::rollback_transaction(&mut **c).await?,
            Self::Sqlite(c) => <Sqlite as AsyncConnection>::TransactionManager::rollback_transaction(&mut **c).await?,
        }
        Ok(())
    }

    /// Throws the connection away instead of putting it back.
    pub(super) fn discard(self) {
        match self {
            Self::Mysql(c) => drop(Object::take(c)),
            Self::Sqlite(c) => drop(Object::take(c)),
        }
    }
}

/// Pings a connection that lay idle for more than half a second before it is lent again: without it a pool never recovers from a restart
/// of the database, and with a ping before every query each request would pay a round trip.
fn ping_idle() -> Hook<AsyncMysqlConnection> {
    Hook::async_fn(|conn: &mut AsyncMysqlConnection, metrics| {
        let idle = metrics.last_used();
        async move {
            if idle < Duration::from_millis(500) {
                return Ok(());
            }
            diesel::sql_query("SELECT 1").execute(conn).await.map(|_| ()).map_err(|e| HookError::message(e.to_string()))
        }
        .boxed()
    })
}

async fn establish_mysql(opts: mysql_async::Opts) -> diesel::ConnectionResult<AsyncMysqlConnection> {
    let bad = |e: mysql_async::Error| diesel::ConnectionError::BadConnection(e.to_string());
    let conn = mysql_async::Conn::new(opts).await.map_err(bad)?;
    AsyncMysqlConnection::try_from(conn).await
}

fn mysql_options(
    host: String,
    port: u16,
    user: String,
    password: SecretString,
    database: String,
    tls_ca: Option<Vec<u8>>,
) -> Result<mysql_async::Opts, StoreError> {
    let mut builder = mysql_async::OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(Some(user))
        .pass(Some(password.expose_secret().to_owned()))
        .db_name(Some(database))
        .prefer_socket(Some(false))
        .client_found_rows(true)
        .tcp_keepalive(Some(30_000_u32))
        // Diesel keeps the prepared statements. A second cache below it would close its 33rd, and every use of that one would fail from then on.
        .stmt_cache_size(0)
        .setup(vec!["SET sql_mode='TRADITIONAL', time_zone='+00:00', lc_messages='en_US', innodb_lock_wait_timeout=10"]);
    if let Some(pem) = tls_ca {
        builder = builder.ssl_opts(mysql_async::SslOpts::default().with_root_certs(vec![pem.into()]));
    }
    Ok(builder.into())
}

async fn establish_sqlite(path: String) -> diesel::ConnectionResult<Sqlite> {
    let mut conn = Sqlite::establish(&path).await?;
    conn.batch_execute("PRAGMA busy_timeout=5000; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;")
        .await
        .map_err(diesel::ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}
