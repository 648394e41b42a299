//! Connections and pools of both databases behind one type.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diesel::SqliteConnection;
use diesel::connection::AnsiTransactionManager as SyncAnsi;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, SimpleAsyncConnection, TransactionManager};
use futures::FutureExt;
use secrecy::{ExposeSecret, SecretString};

use super::collation;
use super::error::StoreError;
use super::pool::{Loan, Pool, PoolUse, Pooled};
use crate::blocking::Threads;
use crate::seal::vault::Vault;

pub(super) type Sqlite = SyncConnectionWrapper<SqliteConnection, Threads>;

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
    /// How to speak TLS to MariaDB; none: not at all.
    pub tls: Option<StoreTls>,
    /// What seals and opens the secrets in the rows.
    pub vault: Arc<Vault>,
    /// Nobody needs what is in it after this machine has lost power: SQLite does not wait for the disk.
    pub is_thrown_away: bool,
}

/// TLS to MariaDB.
#[derive(Clone)]
pub struct StoreTls {
    /// PEM bundle that the server's certificate must chain to.
    pub ca: Vec<u8>,
    /// The certificate that we show (PEM), and its RSA key (PEM, not encrypted).
    pub identity: Option<(Vec<u8>, SecretString)>,
}

impl fmt::Debug for StoreTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreTls").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

impl StoreOptions {
    /// Defaults for a URL.
    pub fn new(url: DatabaseUrl) -> Self {
        Self { url, max_connections: 16, acquire_timeout: Duration::from_secs(5), tls: None, vault: Arc::default(), is_thrown_away: false }
    }
}

pub(super) enum Db {
    Mysql(Pool<AsyncMysqlConnection>),
    Sqlite(Pool<Sqlite>),
}

/// A connection out of the pool; goes back when dropped. One dropped inside a transaction is thrown away.
pub enum Conn {
    /// Of MariaDB.
    Mysql(Loan<AsyncMysqlConnection>),
    /// Of SQLite.
    Sqlite(Loan<SyncConnectionWrapper<SqliteConnection, Threads>>),
}

impl Db {
    pub(super) fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let timeout = options.acquire_timeout;
        match options.url {
            DatabaseUrl::Mysql { host, port, user, password, database } => {
                let opts = mysql_options(host, port, user, password, database, options.tls)?;
                let open = move || establish_mysql(opts.clone()).boxed();
                Ok(Self::Mysql(Pool::new(options.max_connections, timeout, Box::new(open))))
            }
            DatabaseUrl::Sqlite(path) => {
                let path = path.to_str().ok_or_else(|| StoreError::Config("the SQLite path is not UTF-8".into()))?.to_owned();
                let open = move || establish_sqlite(path.clone(), options.is_thrown_away).boxed();
                Ok(Self::Sqlite(Pool::new(1, timeout, Box::new(open))))
            }
        }
    }

    /// The same database by connections of its own, so many at most; none of SQLite, which has one.
    pub(super) fn aside(&self, max: usize) -> Option<Self> {
        match self {
            Self::Mysql(pool) => Some(Self::Mysql(pool.aside(max))),
            Self::Sqlite(_) => None,
        }
    }

    pub(super) async fn get(&self) -> Result<Conn, StoreError> {
        Ok(match self {
            Self::Mysql(pool) => Conn::Mysql(pool.get().await?),
            Self::Sqlite(pool) => Conn::Sqlite(pool.get().await?),
        })
    }
}

impl Db {
    pub(super) fn usage(&self) -> PoolUse {
        match self {
            Self::Mysql(pool) => pool.usage(),
            Self::Sqlite(pool) => pool.usage(),
        }
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
            Self::Mysql(c) => c.discard(),
            Self::Sqlite(c) => c.discard(),
        }
    }
}

impl Pooled for AsyncMysqlConnection {
    async fn check(&mut self) -> Result<(), StoreError> {
        // As text: what is prepared would take two ways to the server and back.
        Ok(self.batch_execute("SELECT 1").await?)
    }
}

impl Pooled for Sqlite {
    /// A file does not go away.
    async fn check(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

async fn establish_mysql(opts: mysql_async::Opts) -> Result<AsyncMysqlConnection, StoreError> {
    let mut conn = mysql_async::Conn::new(opts).await.map_err(|e| StoreError::Unavailable(e.to_string()))?;
    collation::learn(&mut conn).await?;
    AsyncMysqlConnection::try_from(conn).await.map_err(|e| StoreError::Unavailable(e.to_string()))
}

fn mysql_options(
    host: String,
    port: u16,
    user: String,
    password: SecretString,
    database: String,
    tls: Option<StoreTls>,
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
        // MySQL cuts off what is longer than 1 KiB where several rows become one text.
        // A process that is stopped in the middle of a transaction must not hold its locks for ever (MariaDB only; MySQL reads a comment).
        .setup(vec!["SET /*M! idle_transaction_timeout=20, */ sql_mode='TRADITIONAL', time_zone='+00:00', lc_messages='en_US', innodb_lock_wait_timeout=10, group_concat_max_len=16777216"]);
    if let Some(tls) = tls {
        let mut ssl = mysql_async::SslOpts::default().with_disable_built_in_roots(true).with_root_certs(vec![tls.ca.into()]);
        if let Some((certificate, key)) = tls.identity {
            ssl = ssl.with_client_identity(Some(mysql_async::ClientIdentity::new(certificate.into(), rsa_key(&key)?.into())));
        }
        builder = builder.ssl_opts(ssl);
    }
    Ok(builder.into())
}

/// The key in the only form that the library reads: RSA in its own PEM.
fn rsa_key(pem: &SecretString) -> Result<Vec<u8>, StoreError> {
    let refused = |_| StoreError::Config("ssl_key: it must be an RSA key, PEM, not encrypted".into());
    let key = openssl::pkey::PKey::private_key_from_pem_passphrase(pem.expose_secret().as_bytes(), b"").map_err(refused)?;
    key.rsa().and_then(|rsa| rsa.private_key_to_pem()).map_err(refused)
}

async fn establish_sqlite(path: String, is_thrown_away: bool) -> Result<Sqlite, StoreError> {
    let failed = |e: diesel::ConnectionError| StoreError::Unavailable(e.to_string());
    let mut conn = Sqlite::establish(&path).await.map_err(failed)?;
    // With less than FULL a commit into the write-ahead log is on the disk some time later: a request that was answered could be forgotten.
    let synchronous = if is_thrown_away { "OFF" } else { "FULL" };
    let settings = format!("PRAGMA busy_timeout=5000; PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA foreign_keys=ON;");
    conn.batch_execute(&settings).await.map_err(|e| failed(diesel::ConnectionError::CouldntSetupConfiguration(e)))?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use diesel::sql_types::Integer;
    use diesel_async::RunQueryDsl;

    use super::*;

    #[derive(diesel::QueryableByName)]
    struct Setting {
        #[diesel(sql_type = Integer)]
        synchronous: i32,
    }

    #[tokio::test]
    async fn sqlite_waits_for_the_disk_unless_its_file_is_thrown_away() {
        const OFF: i32 = 0;
        const FULL: i32 = 2;
        let folder = tempfile::tempdir().expect("a folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("magnum.sqlite"));
        assert!(!StoreOptions::new(url.clone()).is_thrown_away);
        for (is_thrown_away, wanted) in [(false, FULL), (true, OFF)] {
            let db = Db::open(StoreOptions { is_thrown_away, ..StoreOptions::new(url.clone()) }).expect("a pool");
            let Conn::Sqlite(mut conn) = db.get().await.expect("a connection") else { panic!("not SQLite") };
            let set: Setting = diesel::sql_query("PRAGMA synchronous").get_result(&mut *conn).await.expect("the setting");
            assert_eq!(set.synchronous, wanted, "thrown away: {is_thrown_away}");
        }
    }
}
