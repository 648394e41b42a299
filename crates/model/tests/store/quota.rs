use model::id::ProjectId;
use model::quota::{Demand, Resource, Usage};
use model::store::{Conn, End, Page, Scope, SortDir, Store, StoreError, cluster, nodegroup, quota};
use rstest::rstest;

use crate::world::{Kind, World, accept, groups, spec};

fn project(name: &str) -> ProjectId {
    ProjectId(name.into())
}

fn demand(resource: Resource, count: i64, default: Option<i64>) -> Demand {
    Demand { resource, count, default }
}

/// Stores a cluster of 3 nodes as the API does, if the quotas of 5 clusters and 12 nodes allow it.
async fn create(store: &Store, name: &str) -> Result<(), StoreError> {
    let spec = spec(name);
    store
        .write(async |conn: &mut Conn| {
            let demands = [demand(Resource::Cluster, 1, Some(5)), demand(Resource::Node, 3, Some(12))];
            quota::reserve(conn, &spec.project, &demands).await?;
            cluster::insert(conn, &spec).await?;
            nodegroup::insert_defaults(conn, &spec, &groups()).await
        })
        .await
}

/// Grows the worker group of a cluster by so many nodes, if the quota of 12 nodes allows it.
async fn grow(store: &Store, by: i32) -> Result<(), StoreError> {
    store
        .write(async |conn: &mut Conn| {
            quota::reserve(conn, &project("p1"), &[demand(Resource::Node, by.into(), Some(12))]).await?;
            let row = cluster::fetch_by_name(conn, &Scope::All, "first").await?;
            let groups = nodegroup::of_cluster(conn, &row.cluster_id()).await?;
            let group = groups.first().expect("the cluster has a group");
            let change = model::nodegroup::NodegroupChange { node_count: Some(group.node_count() + by), ..Default::default() };
            nodegroup::record(conn, &model::id::NodegroupId::new(group.uuid.clone()), &change).await
        })
        .await
}

/// Does what making a cluster of 3 nodes does, if the quota of clusters allows it, takes it back, and tells what was seen meanwhile.
async fn rehearse(store: &Store, limit: i64) -> Result<Usage, StoreError> {
    let spec = spec("rehearsed");
    store
        .transact(End::RollBack, async |conn: &mut Conn| {
            quota::reserve(conn, &spec.project, &[demand(Resource::Cluster, 1, Some(limit))]).await?;
            cluster::insert(conn, &spec).await?;
            nodegroup::insert_defaults(conn, &spec, &groups()).await?;
            quota::usage(conn, Some(&spec.project)).await
        })
        .await
}

async fn used(store: &Store, of: Option<&str>) -> Usage {
    let of = of.map(project);
    store.read(async |conn: &mut Conn| quota::usage(conn, of.as_ref()).await).await.expect("counted")
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_at_once_never_pass_a_quota_together(#[case] kind: Kind) {
    let world = World::new(kind).await;
    create(&world.store, "first").await.expect("the project is empty");
    let creates = (0..24).map(|n| {
        let store = world.store.clone();
        tokio::spawn(async move { create(&store, &format!("c{n}")).await })
    });
    let grows = (0..8).map(|_| {
        let store = world.store.clone();
        tokio::spawn(async move { grow(&store, 2).await })
    });
    let mut refused = 0;
    for task in creates.chain(grows).collect::<Vec<_>>() {
        match task.await.expect("no panic") {
            Ok(()) => {}
            Err(StoreError::QuotaReached { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let used = used(&world.store, Some("p1")).await;
    // What is left is less than the least that anybody asked for.
    assert!((11..=12).contains(&used.nodes) && used.clusters <= 4, "{used:?}");
    assert!(refused >= 26, "{refused} of 32 were refused");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_row_goes_before_the_default_and_names_what_is_used(#[case] kind: Kind) {
    let world = World::new(kind).await;
    accept(&world.store, &spec("one")).await;
    let mut foreign = spec("two");
    foreign.project = project("p2");
    accept(&world.store, &foreign).await;
    let check = async |resource, count, default| {
        world.store.write(async |conn: &mut Conn| quota::reserve(conn, &project("p1"), &[demand(resource, count, default)]).await).await
    };
    assert!(check(Resource::Cluster, 1, Some(2)).await.is_ok());
    assert!(matches!(check(Resource::Cluster, 1, Some(1)).await, Err(StoreError::QuotaReached { limit: 1, used: 1, asked: 1, .. })));
    assert!(check(Resource::Node, 1000, None).await.is_ok());
    assert!(matches!(check(Resource::Node, 3, Some(5)).await, Err(StoreError::QuotaReached { limit: 5, used: 3, asked: 3, .. })));
    world.store.write(async |conn: &mut Conn| quota::insert(conn, "p1", Resource::Node, 6).await).await.expect("stored");
    assert!(check(Resource::Node, 3, Some(5)).await.is_ok());
    assert!(matches!(check(Resource::Node, 4, None).await, Err(StoreError::QuotaReached { limit: 6, .. })));
    assert!(check(Resource::Node, 0, Some(0)).await.is_ok());
    assert_eq!(used(&world.store, Some("p1")).await, Usage { clusters: 1, nodes: 3 });
    assert_eq!(used(&world.store, None).await, Usage { clusters: 2, nodes: 6 });
    assert_eq!(used(&world.store, Some("nobody")).await, Usage::default());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_kept_found_and_listed(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let insert = async |of: &str, resource, limit| {
        let of = of.to_owned();
        world.store.write(async |conn: &mut Conn| quota::insert(conn, &of, resource, limit).await).await
    };
    insert("p1", Resource::Cluster, 5).await.expect("stored");
    insert("p1", Resource::Node, 50).await.expect("stored");
    insert("p2", Resource::Cluster, 5).await.expect("stored");
    assert!(matches!(insert("p1", Resource::Cluster, 6).await, Err(StoreError::Duplicate { what: "quota" })));
    let fetch = async |of: &str| {
        let of = of.to_owned();
        world.store.read(async |conn: &mut Conn| quota::fetch(conn, &of, Resource::Cluster).await).await
    };
    let row = fetch("p1").await.expect("found");
    // MariaDB's collation does not tell the cases apart, the API does.
    assert!(matches!(fetch("P1").await, Err(StoreError::NotFound { .. })));
    world.store.write(async |conn: &mut Conn| quota::record(conn, &row, 7).await).await.expect("stored");
    let changed = fetch("p1").await.expect("found");
    assert!(changed.hard_limit == 7 && changed.updated_at.is_some());

    for (sort_key, dir, expected) in [
        ("id", SortDir::Asc, [7, 50, 5]),
        ("hard_limit", SortDir::Asc, [5, 7, 50]),
        ("hard_limit", SortDir::Desc, [50, 7, 5]),
        ("project_id", SortDir::Desc, [5, 50, 7]),
        ("resource", SortDir::Asc, [7, 5, 50]),
    ] {
        let (mut seen, mut marker) = (Vec::new(), None);
        loop {
            let page = Page { limit: 1, marker, sort_key: sort_key.into(), sort_dir: dir };
            let rows = world.store.read(async |conn: &mut Conn| quota::list(conn, &Scope::All, &page).await).await.expect("listed");
            let Some(last) = rows.last() else { break };
            seen.push(last.hard_limit);
            marker = Some(last.id.to_string());
        }
        assert_eq!(seen, expected, "by {sort_key}");
    }
    let page = |sort_key: &str, marker: Option<&str>| Page {
        limit: 10,
        marker: marker.map(str::to_owned),
        sort_key: sort_key.into(),
        sort_dir: SortDir::Asc,
    };
    let list = async |page: Page| {
        let scope = Scope::Project(project("p2"));
        world.store.read(async |conn: &mut Conn| quota::list(conn, &scope, &page).await).await
    };
    assert_eq!(list(page("id", None)).await.expect("listed").len(), 1);
    assert!(matches!(list(page("nonsense", None)).await, Err(StoreError::BadSortKey { .. })));
    assert!(matches!(list(page("id", Some("1"))).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(list(page("id", Some("99999999999"))).await, Err(StoreError::NotFound { .. })));
    world.store.write(async |conn: &mut Conn| quota::delete(conn, &changed).await).await.expect("removed");
    assert!(matches!(fetch("p1").await, Err(StoreError::NotFound { .. })));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_was_seen_by_its_own_transaction_and_by_nobody_else(#[case] kind: Kind) {
    let world = World::new(kind).await;
    create(&world.store, "first").await.expect("the project is empty");
    let before = used(&world.store, Some("p1")).await;
    for _ in 0..2 {
        let seen = rehearse(&world.store, 2).await.expect("there is room");
        assert_eq!((seen.clusters, seen.nodes), (before.clusters + 1, before.nodes + 3));
    }
    assert!(matches!(rehearse(&world.store, 1).await, Err(StoreError::QuotaReached { limit: 1, .. })));
    let after = used(&world.store, Some("p1")).await;
    assert_eq!((after.clusters, after.nodes), (before.clusters, before.nodes));
    create(&world.store, "second").await.expect("the connection is as good as new");
}
