//! Whoever follows a list page by page sees every row that was there when he began, each once, in order, whatever is added meanwhile.

use std::collections::BTreeSet;

use model::cluster::DetailedCluster;
use model::federation::Federation;
use model::id::{ClusterId, NodegroupId, OperationId, ProjectId, UserId};
use model::json::Labels;
use model::nodegroup::{NewNodegroup, Nodegroup, Nodes};
use model::operation::{NewOperation, Operation, OperationEvent, OperationKind};
use model::quota::{Quota, Resource};
use model::store::nodegroup::Shown;
use model::store::template::Visible;
use model::store::{
    Conn, Page, Scope, SortDir, Store, StoreError, cluster, event, federation, history, nodegroup, operation, quota, template,
};
use model::template::ClusterTemplate;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rstest::rstest;

use crate::world::{Kind, World, groups, request, spec};

/// What tells rows apart, or does not: few values, so that many are equal, and none at all in some.
#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    key: Option<&'static str>,
    size: Option<i32>,
    text: Option<Text>,
}

/// A text of one letter so many times, and an end: long ones that have more in common than any database sorts by.
#[derive(Clone, Copy, Debug)]
struct Text {
    letter: &'static str,
    times: usize,
    end: &'static str,
}

impl Text {
    fn text(self) -> String {
        self.letter.repeat(self.times) + self.end
    }
}

#[derive(Clone, Debug)]
struct Plan {
    before: Vec<Row>,
    meanwhile: Vec<Row>,
    limit: i64,
    sort_key: &'static str,
    sort_dir: SortDir,
}

fn row() -> impl Strategy<Value = Row> {
    let name = prop::sample::select(vec!["alpha", "beta", "gamma"]);
    let key = prop::sample::select(vec![None, Some("k1"), Some("k2")]);
    let size = prop::sample::select(vec![None, Some(1), Some(30), Some(200)]);
    (name, key, size, text()).prop_map(|(name, key, size, text)| Row { name, key, size, text })
}

/// Some are equal to MariaDB's collations, which pass over case and over spaces at the end, and no others are. What differs does so before, at or
/// behind the last character that counts, or behind the last byte that MariaDB would sort by.
fn text() -> impl Strategy<Value = Option<Text>> {
    let letters = vec![("a", 0), ("a", 254), ("A", 254), ("a", 1100), ("A", 1100), ("語", 254), ("語", 400), ("ж", 600)];
    let ends = vec!["", " ", "  ", "a", "A", "b", "ж", "Ж"];
    let text = (prop::sample::select(letters), prop::sample::select(ends)).prop_map(|((letter, times), end)| Text { letter, times, end });
    prop::option::weighted(0.9, text)
}

/// What of a long text rows are sorted by: the bytes of its first characters, on both databases.
fn beginning(text: Option<&str>) -> Option<String> {
    text.map(|text| text.chars().take(255).collect())
}

async fn execute(conn: &mut Conn, sql: String) -> Result<(), StoreError> {
    use diesel_async::RunQueryDsl;
    match conn {
        Conn::Mysql(c) => diesel::sql_query(sql).execute(&mut **c).await?,
        Conn::Sqlite(c) => diesel::sql_query(sql).execute(&mut **c).await?,
    };
    Ok(())
}

/// Puts a text into columns of a row, in the transaction that stores the row: one that changes while pages are walked may be met twice.
async fn put(conn: &mut Conn, table: &str, columns: &[&str], text: Option<Text>, uuid: &str) -> Result<(), StoreError> {
    let value = text.map_or_else(|| "NULL".to_owned(), |text| format!("'{}'", text.text()));
    let set: Vec<String> = columns.iter().map(|column| format!("{column} = {value}")).collect();
    execute(conn, format!("UPDATE {table} SET {} WHERE uuid = '{uuid}'", set.join(", "))).await
}

fn plan(sort_keys: &'static [&'static str], sort_dirs: &'static [SortDir]) -> impl Strategy<Value = Plan> {
    let rows = || prop::collection::vec(row(), 0..10);
    (rows(), rows(), 1..5_i64, prop::sample::select(sort_keys), prop::sample::select(sort_dirs))
        .prop_map(|(before, meanwhile, limit, sort_key, sort_dir)| Plan { before, meanwhile, limit, sort_key, sort_dir })
}

/// A kind of row that is listed.
trait Listed: Sized {
    async fn insert(store: &Store, home: &str, row: &Row) -> String;
    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self>;
    /// What tells it from all others, as `insert` has said it.
    fn uuid(&self) -> String;
    /// What the next page is asked for with.
    fn marker(&self) -> String {
        self.uuid()
    }
    /// Comparable as the database compares.
    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64);
    /// Where a home has no room for many rows, all of them are listed: what is there is taken away.
    async fn clear(_world: &World) {}
}

impl Listed for DetailedCluster {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let mut new = spec(row.name);
        new.project = ProjectId(home.into());
        new.keypair = row.key.map(str::to_owned);
        new.docker_volume_size = row.size;
        let (new, operation) = (&new, &request(&new, OperationKind::ClusterCreate));
        let accepted = store.write(async |conn: &mut Conn| {
            cluster::insert(conn, new).await?;
            nodegroup::insert_defaults(conn, new, &groups()).await?;
            operation::insert(conn, operation).await?;
            put(conn, "cluster", &["labels", "status_reason", "health_status_reason"], row.text, new.id.as_str()).await
        });
        accepted.await.expect("stored");
        new.id.to_string()
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let scope = Scope::Project(ProjectId(home.into()));
        store.read(async |conn: &mut Conn| cluster::list(conn, &scope, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        DetailedCluster::uuid(self).to_owned()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        let text = match sort_key {
            "name" => self.name().map(str::to_owned),
            "keypair" => self.keypair().map(str::to_owned),
            "labels" => beginning(self.labels()),
            "status_reason" => beginning(self.status_reason()),
            "health_status_reason" => beginning(self.health_status_reason()),
            "uuid" => Some(Listed::uuid(self)),
            "created_at" => self.created_at.map(|at| at.to_string()),
            _ => None,
        };
        (text, self.docker_volume_size.filter(|_| sort_key == "docker_volume_size").map(i64::from), self.id.into())
    }
}

impl Listed for Nodegroup {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let id = NodegroupId::generate();
        let new = NewNodegroup {
            id: id.clone(),
            cluster: ClusterId::new(home),
            project: ProjectId("p1".into()),
            // The only thing that must differ.
            name: format!("{}-{id}", row.name),
            role: "worker".into(),
            flavor: row.key.map(str::to_owned),
            image: None,
            node_count: 1,
            min_node_count: 0,
            max_node_count: None,
            docker_volume_size: row.size,
            labels: Labels::default(),
            nodes: Nodes::default(),
        };
        let inserted = store.write(async |conn: &mut Conn| {
            nodegroup::insert(conn, &new).await?;
            put(conn, "nodegroup", &["labels", "node_addresses", "status_reason"], row.text, new.id.as_str()).await
        });
        inserted.await.expect("stored");
        id.to_string()
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let (cluster, shown) = (ClusterId::new(home), Shown::default());
        store.read(async |conn: &mut Conn| nodegroup::page(conn, &cluster, &shown, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.uuid.clone()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        let text = match sort_key {
            "name" => Some(self.name.clone()),
            "flavor_id" => self.flavor_id.clone(),
            "labels" => beginning(self.labels.as_deref()),
            "node_addresses" => beginning(self.node_addresses.as_deref()),
            "status_reason" => beginning(self.status_reason.as_deref()),
            "uuid" => Some(self.uuid.clone()),
            "created_at" => self.created_at.map(|at| at.to_string()),
            _ => None,
        };
        (text, self.docker_volume_size.filter(|_| sort_key == "docker_volume_size").map(i64::from), self.id.into())
    }
}

impl Listed for ClusterTemplate {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let new = Self {
            uuid: uuid::Uuid::new_v4().to_string(),
            project_id: Some(home.into()),
            name: Some(row.name.into()),
            keypair_id: row.key.map(str::to_owned),
            docker_volume_size: row.size,
            public: row.size.map(|size| size > 20),
            labels: row.text.map(Text::text),
            // As much as there is room for.
            docker_storage_driver: row.text.map(|text| text.text().chars().take(512).collect()),
            created_at: Some(model::time::whole_seconds(model::time::now())),
            ..Self::default()
        };
        store.write(async |conn: &mut Conn| template::insert(conn, &new).await).await.expect("stored");
        new.uuid
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let visible = Visible { own: Scope::Project(ProjectId(home.into())), public: false, hidden: false };
        store.read(async |conn: &mut Conn| template::list(conn, &visible, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.uuid.clone()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        let text = match sort_key {
            "name" => self.name.clone(),
            "keypair_id" => self.keypair_id.clone(),
            "labels" => beginning(self.labels.as_deref()),
            "docker_storage_driver" => beginning(self.docker_storage_driver.as_deref()),
            "uuid" => Some(self.uuid.clone()),
            "created_at" => self.created_at.map(|at| at.to_string()),
            _ => None,
        };
        let number = match sort_key {
            "docker_volume_size" => self.docker_volume_size.map(i64::from),
            "public" => self.public.map(i64::from),
            _ => None,
        };
        (text, number, self.id.into())
    }
}

/// No function of the store makes one.
impl Listed for Federation {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let uuid = uuid::Uuid::new_v4().to_string();
        let inserted = store.write(async |conn: &mut Conn| {
            let host = row.key.map_or_else(|| "NULL".to_owned(), |key| format!("'{key}'"));
            let values = format!("'{uuid}', '{home}', '{}', {host}", row.name);
            execute(conn, format!("INSERT INTO federation (uuid, project_id, name, hostcluster_id) VALUES ({values})")).await?;
            put(conn, "federation", &["member_ids", "properties", "status_reason"], row.text, &uuid).await
        });
        inserted.await.expect("stored");
        uuid
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let scope = Scope::Project(ProjectId(home.into()));
        store.read(async |conn: &mut Conn| federation::list(conn, &scope, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.uuid.clone()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        let text = match sort_key {
            "name" => self.name.clone(),
            "hostcluster_id" => self.hostcluster_id.clone(),
            "member_ids" => beginning(self.member_ids.as_deref()),
            "properties" => beginning(self.properties.as_deref()),
            "status_reason" => beginning(self.status_reason.as_deref()),
            _ => None,
        };
        (text, None, self.id.into())
    }
}

impl Listed for Quota {
    async fn insert(store: &Store, _home: &str, row: &Row) -> String {
        let project = uuid::Uuid::new_v4().to_string();
        let resource = if row.key.is_some() { Resource::Node } else { Resource::Cluster };
        let limit = row.size.unwrap_or(0);
        store.write(async |conn: &mut Conn| quota::insert(conn, &project, resource, limit).await).await.expect("stored");
        project
    }

    async fn page(store: &Store, _home: &str, page: &Page) -> Vec<Self> {
        store.read(async |conn: &mut Conn| quota::list(conn, &Scope::All, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.project_id.clone().expect("each row has one")
    }

    fn marker(&self) -> String {
        self.id.to_string()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        let text = match sort_key {
            "project_id" => self.project_id.clone(),
            "resource" => self.resource.clone(),
            "created_at" => self.created_at.map(|at| at.to_string()),
            _ => None,
        };
        (text, Some(i64::from(self.hard_limit)).filter(|_| sort_key == "hard_limit"), self.id.into())
    }

    async fn clear(world: &World) {
        world.execute("DELETE FROM quotas").await;
    }
}

impl Listed for Operation {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let kind = match row.name {
            "alpha" => OperationKind::ClusterResize,
            "beta" => OperationKind::ClusterUpgrade,
            _ => OperationKind::CaRotate,
        };
        let new = NewOperation {
            project: ProjectId(home.into()),
            user: UserId(row.key.unwrap_or("k0").into()),
            ..request(&spec(row.name), kind)
        };
        store.write(async |conn: &mut Conn| operation::insert(conn, &new).await).await.expect("stored");
        new.id.to_string()
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let (scope, shown) = (Scope::Project(ProjectId(home.into())), history::Shown::default());
        store.read(async |conn: &mut Conn| history::page(conn, &scope, &shown, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.uuid.clone()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        let text = match sort_key {
            "uuid" => Some(self.uuid.clone()),
            "kind" => Some(self.kind.clone()),
            "cluster_id" => Some(self.cluster_uuid.clone()),
            "user_id" => Some(self.user_id.clone()),
            "state" => Some(self.state.clone()),
            _ => None,
        };
        (text, Some(self.created_ms).filter(|_| sort_key == "created_at"), self.id)
    }
}

/// Sorted by their numbers alone, as they came: whoever reads on from the last one that he has seen misses none.
impl Listed for OperationEvent {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let (operation, cluster, message) = (OperationId::generate(), ClusterId::new(home), uuid::Uuid::new_v4().to_string());
        let of = (&operation, &cluster, &message);
        store.write(async |conn: &mut Conn| event::append(conn, of.0, of.1, row.name, of.2).await).await.expect("stored");
        message
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let (cluster, limit) = (ClusterId::new(home), page.limit);
        let after = page.marker.as_ref().map_or(0, |marker| marker.parse().expect("a number"));
        store.read(async |conn: &mut Conn| event::of_cluster(conn, &cluster, after, limit).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.message.clone()
    }

    fn marker(&self) -> String {
        self.id.to_string()
    }

    fn place(&self, _sort_key: &str) -> (Option<String>, Option<i64>, i64) {
        (None, None, self.id)
    }
}

async fn follow<L: Listed>(store: &Store, home: &str, plan: &Plan) -> Vec<L> {
    let mut page = Page { limit: plan.limit, marker: None, sort_key: plan.sort_key.into(), sort_dir: plan.sort_dir };
    let mut all: Vec<L> = Vec::new();
    loop {
        let rows = L::page(store, home, &page).await;
        let is_full = i64::try_from(rows.len()) == Ok(plan.limit);
        all.extend(rows);
        match all.last().filter(|_| is_full) {
            Some(last) => page.marker = Some(last.marker()),
            None => return all,
        }
    }
}

async fn hold<L: Listed>(world: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let (store, home) = (&world.store, uuid::Uuid::new_v4().to_string());
    L::clear(world).await;
    let mut there = BTreeSet::new();
    for row in &plan.before {
        there.insert(L::insert(store, &home, row).await);
    }
    let add = async {
        let mut added = BTreeSet::new();
        for row in &plan.meanwhile {
            added.insert(L::insert(store, &home, row).await);
        }
        added
    };
    let (seen, added) = tokio::join!(follow::<L>(store, &home, plan), add);
    let uuids: BTreeSet<String> = seen.iter().map(L::uuid).collect();
    prop_assert_eq!(uuids.len(), seen.len(), "a row twice");
    prop_assert!(there.is_subset(&uuids), "a row is missing");
    prop_assert!(uuids.iter().all(|uuid| there.contains(uuid) || added.contains(uuid)), "a row from elsewhere");
    for pair in seen.windows(2) {
        let (first, second) = (pair[0].place(plan.sort_key), pair[1].place(plan.sort_key));
        let in_order = if plan.sort_dir == SortDir::Asc { first < second } else { first > second };
        prop_assert!(in_order, "{:?} before {:?}", first, second);
    }
    Ok(())
}

const BOTH: &[SortDir] = &[SortDir::Asc, SortDir::Desc];

fn run<L: Listed>(kind: Kind, sort_keys: &'static [&'static str], sort_dirs: &'static [SortDir]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let world = runtime.block_on(World::new(kind));
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let held = TestRunner::new(config).run(&plan(sort_keys, sort_dirs), |plan| runtime.block_on(hold::<L>(&world, &plan)));
    held.unwrap_or_else(|error| panic!("{error}"));
    drop(world);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_cluster_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<DetailedCluster>(kind, &["id", "name", "keypair", "uuid", "created_at", "docker_volume_size"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_nodegroup_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<Nodegroup>(kind, &["id", "name", "flavor_id", "uuid", "created_at", "docker_volume_size"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_cluster_template_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<ClusterTemplate>(kind, &["id", "name", "keypair_id", "uuid", "created_at", "docker_volume_size", "public"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_federation_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<Federation>(kind, &["id", "name", "hostcluster_id"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_cluster_is_seen_once_and_in_order_by_its_long_texts(#[case] kind: Kind) {
    run::<DetailedCluster>(kind, &["labels", "status_reason", "health_status_reason"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_nodegroup_is_seen_once_and_in_order_by_its_long_texts(#[case] kind: Kind) {
    run::<Nodegroup>(kind, &["labels", "node_addresses", "status_reason"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_cluster_template_is_seen_once_and_in_order_by_its_long_texts(#[case] kind: Kind) {
    run::<ClusterTemplate>(kind, &["labels", "docker_storage_driver"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_federation_is_seen_once_and_in_order_by_its_long_texts(#[case] kind: Kind) {
    run::<Federation>(kind, &["member_ids", "properties", "status_reason"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_quota_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<Quota>(kind, &["id", "hard_limit", "created_at", "project_id", "resource"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_operation_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<Operation>(kind, &["id", "uuid", "kind", "cluster_id", "user_id", "state", "created_at"], BOTH);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_event_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<OperationEvent>(kind, &["id"], &[SortDir::Asc]);
}
