//! A database of its own for each test on the MariaDB that `cargo xtask test` started.

use std::collections::BTreeMap;
use std::env;

use anyhow::{Context, Result};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, OptsBuilder, Row, Value};
use secrecy::SecretString;
use url::Url;
use uuid::Uuid;

/// Tables whose rows a refused request must leave as they are.
const TABLES: [&str; 10] = [
    "cluster",
    "cluster_template",
    "nodegroup",
    "nodegroup_nodes",
    "ca_rotation",
    "x509keypair",
    "quotas",
    "operation",
    "operation_event",
    "cloud_resource",
];

/// An address from the environment.
///
/// # Errors
/// When it is not set: a test that needs a server fails without one, it is not left out.
pub fn needed(variable: &str) -> Result<String> {
    env::var(variable)
        .ok()
        .filter(|text| !text.is_empty())
        .with_context(|| format!("{variable} is not set: this test needs a server; `cargo xtask test` starts it and sets the address"))
}

/// One database.
#[derive(Clone, Debug)]
pub struct Database {
    server: Url,
    name: String,
}

impl Database {
    /// Makes an empty one on the server at this address (`mysql://user:password@host:port`).
    pub async fn create(server: &str) -> Result<Self> {
        let server = Url::parse(server).context("the address of MariaDB")?;
        let database = Self { server, name: format!("t_{}", Uuid::new_v4().simple()) };
        let sql = format!("CREATE DATABASE {} CHARACTER SET utf8mb4", database.name);
        let mut conn = database.connect(None).await?;
        conn.query_drop(sql).await.context("create the test's database")?;
        conn.disconnect().await?;
        Ok(database)
    }

    /// Removes it.
    pub async fn drop(&self) -> Result<()> {
        let mut conn = self.connect(None).await?;
        conn.query_drop(format!("DROP DATABASE {}", self.name)).await.context("drop the test's database")?;
        Ok(conn.disconnect().await?)
    }

    /// As `magnum.conf` names it.
    pub fn connection(&self) -> String {
        let mut url = self.server.clone();
        url.set_path(&self.name);
        url.as_str().replacen("mysql://", "mysql+pymysql://", 1)
    }

    /// The same, reached by another port of this machine.
    pub fn connection_by(&self, port: u16) -> String {
        self.connection().replacen(&format!("@{}", self.address()), &format!("@127.0.0.1:{port}"), 1)
    }

    /// Where its server is: `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host(), self.port())
    }

    /// As the store names it.
    pub fn url(&self) -> model::store::DatabaseUrl {
        model::store::DatabaseUrl::Mysql {
            host: self.host(),
            port: self.port(),
            user: self.server.username().to_owned(),
            password: SecretString::from(self.server.password().unwrap_or_default()),
            database: self.name.clone(),
        }
    }

    /// A connection to it.
    pub async fn open(&self) -> Result<Conn> {
        self.connect(Some(&self.name)).await
    }

    /// The rows of a query.
    pub async fn rows<T: FromRow + Send + 'static>(&self, sql: &str) -> Result<Vec<T>> {
        let mut conn = self.open().await?;
        let rows = conn.query(sql).await.with_context(|| sql.to_owned())?;
        conn.disconnect().await?;
        Ok(rows)
    }

    /// One statement with values for its question marks. For rows that stand for what upstream left behind.
    pub async fn execute(&self, sql: &str, values: Vec<mysql_async::Value>) -> Result<()> {
        let mut conn = self.open().await?;
        conn.exec_drop(sql, values).await.with_context(|| sql.to_owned())?;
        Ok(conn.disconnect().await?)
    }

    /// The last rows of every table: all their texts, by table and column.
    pub async fn texts(&self, most: u32) -> Result<BTreeMap<(String, String), Vec<u8>>> {
        let mut conn = self.open().await?;
        let tables: Vec<String> = conn.query("SHOW TABLES").await.context("list the tables")?;
        let mut texts: BTreeMap<(String, String), Vec<u8>> = BTreeMap::new();
        for table in tables {
            let sql = format!("SELECT * FROM `{table}` ORDER BY 1 DESC LIMIT {most}");
            let rows: Vec<Row> = conn.query(sql.as_str()).await.with_context(|| sql.clone())?;
            for row in &rows {
                for (at, column) in row.columns_ref().iter().enumerate() {
                    let Some(Value::Bytes(value)) = row.as_ref(at) else { continue };
                    let text = texts.entry((table.clone(), column.name_str().into_owned())).or_default();
                    text.extend_from_slice(value);
                    text.push(b'\n');
                }
            }
        }
        conn.disconnect().await?;
        Ok(texts)
    }

    /// How many rows each table has.
    pub async fn counts(&self) -> Result<BTreeMap<String, i64>> {
        let each: Vec<String> = TABLES.iter().map(|table| format!("SELECT '{table}', COUNT(*) FROM `{table}`")).collect();
        let rows: Vec<(String, i64)> = self.rows(&each.join(" UNION ALL ")).await?;
        Ok(rows.into_iter().collect())
    }

    /// The state of each table, in a number: equal when nothing was written. The heartbeats of services are left out.
    pub async fn checksums(&self) -> Result<BTreeMap<String, Option<u64>>> {
        let tables: Vec<String> = self.tables().await?.iter().map(|table| format!("`{table}`")).collect();
        let rows: Vec<(String, Option<u64>)> = self.rows(&format!("CHECKSUM TABLE {}", tables.join(", "))).await?;
        Ok(rows.into_iter().map(|(table, sum)| (table.rsplit('.').next().unwrap_or_default().to_owned(), sum)).collect())
    }

    /// Removes all rows, but those that say which schema this is and which services there are.
    pub async fn empty(&self) -> Result<()> {
        for table in self.tables().await? {
            self.execute(&format!("DELETE FROM `{table}`"), Vec::new()).await?;
        }
        Ok(())
    }

    async fn tables(&self) -> Result<Vec<String>> {
        let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND \
                   table_name NOT IN ('alembic_version', '__diesel_schema_migrations', 'magnum_service', 'cluster_health', 'task_lease')";
        self.rows(sql).await
    }

    async fn connect(&self, database: Option<&str>) -> Result<Conn> {
        let options = OptsBuilder::default()
            .ip_or_hostname(self.host())
            .tcp_port(self.port())
            .user(Some(self.server.username()))
            .pass(self.server.password())
            .db_name(database)
            .prefer_socket(false);
        Conn::new(options).await.context("connect to MariaDB")
    }

    fn host(&self) -> String {
        self.server.host_str().unwrap_or("127.0.0.1").to_owned()
    }

    fn port(&self) -> u16 {
        self.server.port().unwrap_or(3306)
    }
}

/// Copies rows of a table, which the rest of the statement calls `original`: with some columns set otherwise, each once for every row of what is
/// joined.
pub async fn copy(conn: &mut Conn, table: &str, set: &[(&str, &str)], joined: &str) -> Result<()> {
    let columns: Vec<String> =
        conn.query_map(format!("SHOW COLUMNS FROM {table}"), |row: mysql_async::Row| row.get(0).unwrap_or_default()).await?;
    let columns: Vec<&String> = columns.iter().filter(|column| *column != "id").collect();
    let quoted: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
    let own = |column: &&String| set.iter().find(|(name, _)| name == column).map(|(_, value)| (*value).to_owned());
    let values: Vec<String> = columns.iter().map(|column| own(column).unwrap_or_else(|| format!("original.`{column}`"))).collect();
    let sql = format!("INSERT INTO {table} ({}) SELECT {} FROM {table} AS original JOIN {joined}", quoted.join(", "), values.join(", "));
    conn.query_drop(sql).await.with_context(|| format!("copy rows of {table}"))
}
