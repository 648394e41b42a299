//! A database of a test's own.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::CreateSpec;
use model::id::{ClusterId, OperationId, ProjectId, TemplateId, UserId};
use model::json::Labels;
use model::nodegroup::{DefaultNodegroup, DefaultRole};
use model::operation::{NewOperation, OperationKind, Payload};
use model::seal::vault::Vault;
use model::store::{Conn, DatabaseUrl, Store, StoreOptions, migrate};

/// Which database a test runs on.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Sqlite,
    MariaDb,
}

/// An open store on an empty, migrated database. Dropped with the test.
pub struct World {
    pub store: Store,
    url: DatabaseUrl,
    _folder: Option<tempfile::TempDir>,
}

impl World {
    pub async fn new(kind: Kind) -> Self {
        let world = Self::empty(kind).await;
        migrate::upgrade(&world.store).await.expect("the schema is made");
        world
    }

    /// Runs a statement behind the store's back, as another program would.
    pub async fn execute(&self, sql: &str) {
        match &self.url {
            DatabaseUrl::Sqlite(path) => {
                use diesel::Connection;
                let path = path.to_str().expect("UTF-8");
                let mut conn = diesel::SqliteConnection::establish(path).expect("the file opens");
                diesel::connection::SimpleConnection::batch_execute(&mut conn, sql).expect("the statement runs");
            }
            DatabaseUrl::Mysql { host, port, user, password, database } => {
                let opts = mysql_async::OptsBuilder::default()
                    .ip_or_hostname(host.clone())
                    .tcp_port(*port)
                    .user(Some(user.clone()))
                    .pass(Some(secrecy::ExposeSecret::expose_secret(password).to_owned()))
                    .db_name(Some(database.clone()));
                let mut conn = mysql_async::Conn::new(opts).await.expect("MariaDB answers");
                mysql_async::prelude::Queryable::query_drop(&mut conn, sql).await.expect("the statement runs");
            }
        }
    }

    /// The same database, with keys.
    pub fn with(&self, vault: Vault) -> Store {
        let options = StoreOptions { vault: Arc::new(vault), ..options(self.url.clone()) };
        Store::open(options).expect("a store")
    }

    /// Where MariaDB listens.
    pub fn port(&self) -> Option<u16> {
        match &self.url {
            DatabaseUrl::Mysql { port, .. } => Some(*port),
            DatabaseUrl::Sqlite(_) => None,
        }
    }

    /// The same database by another port, with one connection.
    pub fn by(&self, other: u16) -> Store {
        let mut url = self.url.clone();
        if let DatabaseUrl::Mysql { port, .. } = &mut url {
            *port = other;
        }
        Store::open(StoreOptions { max_connections: 1, ..options(url) }).expect("a store")
    }

    /// On MariaDB, where the database was made with these options, with the schema.
    pub async fn made_with(how: &str) -> Self {
        let url = mariadb(how).await;
        let world = Self { store: Store::open(options(url.clone())).expect("a store"), url, _folder: None };
        migrate::upgrade(&world.store).await.expect("the schema is made");
        world
    }

    /// Without schema.
    pub async fn empty(kind: Kind) -> Self {
        let (url, folder) = match kind {
            Kind::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder");
                (DatabaseUrl::Sqlite(folder.path().join("magnum.sqlite")), Some(folder))
            }
            Kind::MariaDb => (mariadb("CHARACTER SET utf8mb4").await, None),
        };
        Self { store: Store::open(options(url.clone())).expect("a store"), url, _folder: folder }
    }
}

/// How the databases of tests are opened.
fn options(url: DatabaseUrl) -> StoreOptions {
    StoreOptions { is_thrown_away: true, ..StoreOptions::new(url) }
}

async fn mariadb(options: &str) -> DatabaseUrl {
    let text = std::env::var("MAGNUM_TEST_MYSQL_URL").expect("MAGNUM_TEST_MYSQL_URL is set by `cargo xtask test`");
    let url = url::Url::parse(&text).expect("a mysql:// URL");
    let database = format!("t_{}", uuid::Uuid::new_v4().simple());
    let opts = mysql_async::Opts::from_url(&text).expect("a mysql:// URL");
    let mut conn = mysql_async::Conn::new(opts).await.expect("MariaDB answers");
    mysql_async::prelude::Queryable::query_drop(&mut conn, format!("CREATE DATABASE {database} {options}"))
        .await
        .expect("a database is made");
    conn.disconnect().await.expect("disconnected");
    DatabaseUrl::Mysql {
        host: url.host_str().expect("a host").to_owned(),
        port: url.port().unwrap_or(3306),
        user: url.username().to_owned(),
        password: url.password().unwrap_or_default().into(),
        database,
    }
}

/// A cluster of project `p1` as the API would hand it to the store.
pub fn spec(name: &str) -> CreateSpec {
    let mut labels = Labels::default();
    labels.0.insert("kube_tag".into(), "v1.33.1".into());
    CreateSpec {
        id: ClusterId::generate(),
        name: name.into(),
        template: TemplateId::generate(),
        project: ProjectId("p1".into()),
        user: UserId("u1".into()),
        keypair: None,
        docker_volume_size: None,
        labels,
        master_flavor: Some("m1.small".into()),
        flavor: Some("m1.small".into()),
        create_timeout: Some(60),
        discovery_url: None,
        fixed_network: None,
        fixed_subnet: None,
        floating_ip_enabled: true,
        master_lb_enabled: false,
        health_status: None,
        health_status_reason: Labels::default(),
        note: None,
    }
}

/// An operation on a cluster.
pub fn request(spec: &CreateSpec, kind: OperationKind) -> NewOperation {
    NewOperation {
        id: OperationId::generate(),
        kind,
        cluster: spec.id.clone(),
        project: spec.project.clone(),
        user: spec.user.clone(),
        request_id: Some("req-1".into()),
        deadline: Duration::from_secs(3600),
        payload: Payload::default(),
        sealed_token: Some("v1:sealed".into()),
    }
}

/// The default groups of a new cluster: one master, two workers.
pub fn groups() -> [DefaultNodegroup; 2] {
    [(DefaultRole::Master, 1), (DefaultRole::Worker, 2)].map(|(role, node_count)| DefaultNodegroup {
        role,
        node_count,
        min_node_count: None,
        max_node_count: None,
        flavor: None,
        image: None,
        docker_volume_size: None,
    })
}

/// Stores a cluster with its groups and its create operation, as the API does.
pub async fn accept(store: &Store, spec: &CreateSpec) -> OperationId {
    let operation = request(spec, OperationKind::ClusterCreate);
    store
        .write(async |conn: &mut Conn| {
            model::store::cluster::insert(conn, spec).await?;
            model::store::nodegroup::insert_defaults(conn, spec, &groups()).await?;
            model::store::operation::insert(conn, &operation).await
        })
        .await
        .expect("stored");
    operation.id
}
