//! Whoever follows a list page by page sees every row that was there when he began, each once, in order, whatever is added meanwhile.

use std::collections::BTreeSet;

use model::cluster::DetailedCluster;
use model::id::{ClusterId, NodegroupId, ProjectId};
use model::json::Labels;
use model::nodegroup::{NewNodegroup, Nodegroup, Nodes};
use model::store::nodegroup::Shown;
use model::store::{Conn, Page, Scope, SortDir, Store, cluster, nodegroup};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rstest::rstest;

use crate::world::{Kind, World, accept, spec};

/// What tells rows apart, or does not: few values, so that many are equal, and none at all in some.
#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    key: Option<&'static str>,
    size: Option<i32>,
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
    (name, key, size).prop_map(|(name, key, size)| Row { name, key, size })
}

fn plan(sort_keys: &'static [&'static str]) -> impl Strategy<Value = Plan> {
    let rows = || prop::collection::vec(row(), 0..10);
    let dir = prop::sample::select(vec![SortDir::Asc, SortDir::Desc]);
    (rows(), rows(), 1..5_i64, prop::sample::select(sort_keys), dir).prop_map(|(before, meanwhile, limit, sort_key, sort_dir)| Plan {
        before,
        meanwhile,
        limit,
        sort_key,
        sort_dir,
    })
}

/// A kind of row that is listed.
trait Listed: Sized {
    async fn insert(store: &Store, home: &str, row: &Row) -> String;
    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self>;
    fn uuid(&self) -> String;
    /// Comparable as the database compares.
    fn place(&self, sort_key: &str) -> (Option<String>, Option<i32>, i32);
}

impl Listed for DetailedCluster {
    async fn insert(store: &Store, home: &str, row: &Row) -> String {
        let mut new = spec(row.name);
        new.project = ProjectId(home.into());
        new.keypair = row.key.map(str::to_owned);
        new.docker_volume_size = row.size;
        accept(store, &new).await;
        new.id.to_string()
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let scope = Scope::Project(ProjectId(home.into()));
        store.read(async |conn: &mut Conn| cluster::list(conn, &scope, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.uuid.clone()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i32>, i32) {
        let text = match sort_key {
            "name" => self.name.clone(),
            "keypair" => self.keypair.clone(),
            "uuid" => Some(self.uuid.clone()),
            "created_at" => self.created_at.map(|at| at.to_string()),
            _ => None,
        };
        (text, self.docker_volume_size.filter(|_| sort_key == "docker_volume_size"), self.id)
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
        store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.expect("stored");
        id.to_string()
    }

    async fn page(store: &Store, home: &str, page: &Page) -> Vec<Self> {
        let (cluster, shown) = (ClusterId::new(home), Shown::default());
        store.read(async |conn: &mut Conn| nodegroup::page(conn, &cluster, &shown, page).await).await.expect("a page")
    }

    fn uuid(&self) -> String {
        self.uuid.clone()
    }

    fn place(&self, sort_key: &str) -> (Option<String>, Option<i32>, i32) {
        let text = match sort_key {
            "name" => Some(self.name.clone()),
            "flavor_id" => self.flavor_id.clone(),
            "uuid" => Some(self.uuid.clone()),
            "created_at" => self.created_at.map(|at| at.to_string()),
            _ => None,
        };
        (text, self.docker_volume_size.filter(|_| sort_key == "docker_volume_size"), self.id)
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
            Some(last) => page.marker = Some(last.uuid()),
            None => return all,
        }
    }
}

async fn hold<L: Listed>(store: &Store, plan: &Plan) -> Result<(), TestCaseError> {
    let home = uuid::Uuid::new_v4().to_string();
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

fn run<L: Listed>(kind: Kind, sort_keys: &'static [&'static str]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let world = runtime.block_on(World::new(kind));
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let held = TestRunner::new(config).run(&plan(sort_keys), |plan| runtime.block_on(hold::<L>(&world.store, &plan)));
    held.unwrap_or_else(|error| panic!("{error}"));
    drop(world);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_cluster_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<DetailedCluster>(kind, &["id", "name", "keypair", "uuid", "created_at", "docker_volume_size"]);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
fn every_nodegroup_is_seen_once_and_in_order_while_others_are_made(#[case] kind: Kind) {
    run::<Nodegroup>(kind, &["id", "name", "flavor_id", "uuid", "created_at", "docker_volume_size"]);
}
