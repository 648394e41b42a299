use model::cluster::CreateSpec;
use model::cluster::status::Status;
use model::id::{NodegroupId, OperationId, ProjectId};
use model::json::Labels;
use model::nodegroup::{DEFAULT_WORKER, NewNodegroup, Nodegroup, NodegroupChange, Nodes, WORKER};
use model::operation::{Claimed, Ending, EventDetails, NewOperation, OperationKind, OutcomeCode, Payload};
use model::quota::{Demand, Resource, Usage};
use model::store::lifecycle::Left;
use model::store::{Conn, End, Page, Scope, SortDir, Store, StoreError, cluster, event, exit, lifecycle, nodegroup, operation, quota};
use model::time::{millis, now};
use rstest::rstest;

use crate::world::{Kind, World, accept, groups, request, spec};

fn project(name: &str) -> ProjectId {
    ProjectId(name.into())
}

fn demand(resource: Resource, count: i64, default: Option<i64>) -> Demand {
    Demand { resource, count, default, group: None }
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

/// The quota of nodes of the tests that follow.
const NODES: i64 = 10;

/// A cluster at rest of one master and so many workers, the only one of its database.
async fn at_rest(world: &World, workers: i32) -> CreateSpec {
    let spec = spec("one");
    accept(&world.store, &spec).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'CREATE_COMPLETE'").await;
    world.execute(&format!("UPDATE nodegroup SET node_count = {workers} WHERE name = '{DEFAULT_WORKER}'")).await;
    spec
}

async fn begin(store: &Store, new: &NewOperation) -> OperationId {
    let accepted = store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, new).await).await;
    accepted.expect("accepted").operation
}

/// Asks for another size of a group (none: the default worker group) as the API does.
async fn resize(store: &Store, spec: &CreateSpec, group: Option<&NodegroupId>, to: i32) -> Result<OperationId, StoreError> {
    let payload = Payload { nodegroup: group.cloned(), node_count: Some(to), ..Payload::default() };
    let new = NewOperation { payload, ..request(spec, OperationKind::ClusterResize) };
    let groups = store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, &spec.id).await).await?;
    let found = groups.iter().find(|g| group.map_or(g.name == DEFAULT_WORKER, |id| g.uuid == id.as_str()));
    let found = found.expect("the group is there");
    let (id, more) = (found.nodegroup_id(), i64::from(to) - i64::from(found.node_count()));
    let more = [Demand { group: Some(id.clone()), ..demand(Resource::Node, more, Some(NODES)) }];
    store
        .write(async |conn: &mut Conn| {
            event::queue_up(conn, &spec.id).await?;
            quota::reserve(conn, &spec.project, &more).await?;
            let accepted = lifecycle::accept(conn, &Scope::All, &new).await?;
            let change = NodegroupChange { node_count: Some(to), ..NodegroupChange::default() };
            nodegroup::record(conn, &id, &change).await?;
            Ok(accepted.operation)
        })
        .await
}

async fn cancel(store: &Store, spec: &CreateSpec, id: &OperationId) {
    let by = EventDetails::default();
    let cancelled = store.write(async |conn: &mut Conn| exit::cancel(conn, &Scope::All, &spec.id, Some(id), &by, None).await).await;
    assert_eq!(cancelled.expect("cancelled").operation, *id);
}

/// How many nodes the rows say, and how many count, by the refusal of more than there may ever be.
async fn said_and_counted(store: &Store) -> (i64, i64) {
    let all = [demand(Resource::Node, NODES + 1, Some(NODES))];
    let refused = store.read(async |conn: &mut Conn| quota::check(conn, &project("p1"), &all).await).await;
    let Err(StoreError::QuotaReached { used: counted, .. }) = refused else { panic!("{refused:?}") };
    (used(store, Some("p1")).await.nodes, counted)
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_to_go_count_until_they_have_gone(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 8).await;
    let first = resize(store, &spec, None, 1).await.expect("fewer nodes are always granted");
    assert_eq!(said_and_counted(store).await, (2, 9));
    // The largest size before counts, not the sum; and what the group has anyhow is no more for it.
    let second = resize(store, &spec, None, 5).await.expect("no more than it has");
    assert_eq!(said_and_counted(store).await, (6, 9));
    let third = resize(store, &spec, None, 9).await.expect("one more than it has");
    assert_eq!(said_and_counted(store).await, (10, 10));
    let refused = resize(store, &spec, None, 10).await;
    assert!(matches!(refused, Err(StoreError::QuotaReached { limit: NODES, used: 10, asked: 1, .. })), "{refused:?}");
    cancel(store, &spec, &third).await;
    assert_eq!(said_and_counted(store).await, (6, 9));
    cancel(store, &spec, &first).await;
    assert_eq!(said_and_counted(store).await, (6, 9));
    let refused = resize(store, &spec, None, 10).await;
    assert!(matches!(refused, Err(StoreError::QuotaReached { used: 9, asked: 2, .. })), "{refused:?}");
    cancel(store, &spec, &second).await;
    assert_eq!(said_and_counted(store).await, (9, 9));

    resize(store, &spec, None, 1).await.expect("fewer nodes are always granted");
    world.execute("UPDATE operation SET state = 'RUNNING', owner = 'somebody' WHERE finished_ms IS NULL").await;
    assert_eq!(said_and_counted(store).await, (2, 9), "whoever works on it has not ended it");
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1 WHERE finished_ms IS NULL").await;
    assert_eq!(said_and_counted(store).await, (2, 2), "it has ended");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_is_wished_counts_although_a_later_wish_is_smaller(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 2).await;
    let larger = resize(store, &spec, None, 8).await.expect("within the quota");
    let smaller = resize(store, &spec, None, 1).await.expect("fewer nodes are always granted");
    // Whichever is cancelled, the other one's wish holds.
    assert_eq!(said_and_counted(store).await, (2, 9));
    cancel(store, &spec, &smaller).await;
    assert_eq!(said_and_counted(store).await, (9, 9));
    cancel(store, &spec, &larger).await;
    assert_eq!(said_and_counted(store).await, (3, 3));
}

/// Ends an operation about the default worker group badly while others wait behind it; nobody knows more of the group than that it may have so
/// many nodes, or what `lifecycle::most_left` says.
async fn fail(store: &Store, spec: &CreateSpec, id: &OperationId, left: Option<i32>) {
    let at = millis(now());
    let claimed = store.write(async |conn: &mut Conn| operation::claim(conn, id, "one", at, at + 60_000).await).await.expect("asked");
    let Claimed::Ours(row, claim) = claimed else { panic!("there is nothing to claim") };
    let ending = Ending::Failed { code: OutcomeCode::Cloud, reason: "no".into() };
    let (row, claim, ending) = (&*row, &claim, &ending);
    let ended = store.write(async |conn: &mut Conn| {
        operation::finish(conn, claim, &spec.id, ending).await?;
        let group = nodegroup::fetch_in_cluster(conn, &spec.id, DEFAULT_WORKER).await?;
        let (status, count) = (Some(Status::UpdateFailed), left.or_else(|| lifecycle::most_left(row, &group)));
        lifecycle::rebase(conn, row, &Left { status, group: Some((&group, status, count)) }).await
    });
    ended.await.expect("ended");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_that_a_failed_resize_left_count_behind_it_whether_a_size_is_wanted_there_or_none(#[case] kind: Kind) {
    for later in [OperationKind::NodegroupUpdate, OperationKind::NodegroupDelete] {
        let world = World::new(kind).await;
        let store = &world.store;
        let spec = at_rest(&world, 8).await;
        let smaller = resize(store, &spec, None, 3).await.expect("fewer nodes are always granted");
        let behind = begin(store, &request(&spec, later)).await;
        assert_eq!(said_and_counted(store).await, (4, 9), "{later:?}");
        fail(store, &spec, &smaller, Some(8)).await;
        assert_eq!(said_and_counted(store).await, (9, 9), "{later:?}: nobody wants another size any more");
        cancel(store, &spec, &behind).await;
        assert_eq!(said_and_counted(store).await, (9, 9), "{later:?} was cancelled");
    }
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 8).await;
    let first = resize(store, &spec, None, 3).await.expect("fewer nodes are always granted");
    let wish = resize(store, &spec, None, 1).await.expect("fewer nodes are always granted");
    let update = begin(store, &request(&spec, OperationKind::NodegroupUpdate)).await;
    fail(store, &spec, &first, Some(8)).await;
    assert_eq!(said_and_counted(store).await, (2, 9), "the row says what is wanted");
    cancel(store, &spec, &wish).await;
    assert_eq!(said_and_counted(store).await, (9, 9), "the wish is gone");
    cancel(store, &spec, &update).await;
    assert_eq!(said_and_counted(store).await, (9, 9), "all that waited is gone");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn the_most_that_an_operation_may_have_left_counts_although_a_later_wish_was_larger(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 2).await;
    let first = resize(store, &spec, None, 6).await.expect("within the quota");
    let larger = resize(store, &spec, None, 8).await.expect("within the quota");
    fail(store, &spec, &first, None).await;
    assert_eq!(said_and_counted(store).await, (9, 9), "the larger one is wanted");
    cancel(store, &spec, &larger).await;
    assert_eq!(said_and_counted(store).await, (7, 7), "the first may have made six");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_resize_that_gives_way_to_a_deletion_frees_no_node(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 8).await;
    resize(store, &spec, None, 3).await.expect("fewer nodes are always granted");
    resize(store, &spec, None, 1).await.expect("fewer nodes are always granted");
    let delete = begin(store, &request(&spec, OperationKind::ClusterDelete)).await;
    assert_eq!(said_and_counted(store).await, (9, 9), "the deletion has not begun");
    cancel(store, &spec, &delete).await;
    assert_eq!(said_and_counted(store).await, (9, 9), "the cluster stays");
    begin(store, &request(&spec, OperationKind::ClusterDelete)).await;
    store.write(async |conn: &mut Conn| nodegroup::delete_all(conn, &spec.id).await).await.expect("removed");
    assert_eq!(said_and_counted(store).await, (0, 0));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_counts_from_its_request_until_its_row_is_gone(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 2).await;
    let group = NewNodegroup {
        id: NodegroupId::generate(),
        cluster: spec.id.clone(),
        project: spec.project.clone(),
        name: "more".into(),
        role: WORKER.into(),
        flavor: None,
        image: None,
        node_count: 6,
        min_node_count: 0,
        max_node_count: None,
        docker_volume_size: None,
        labels: Labels::default(),
        nodes: Nodes::default(),
    };
    let about = Payload { nodegroup: Some(group.id.clone()), ..Payload::default() };
    let payload = Payload { node_count: Some(group.node_count), ..about.clone() };
    let create = begin(store, &NewOperation { payload, ..request(&spec, OperationKind::NodegroupCreate) }).await;
    store.write(async |conn: &mut Conn| nodegroup::insert(conn, &group).await).await.expect("stored");
    assert_eq!(said_and_counted(store).await, (9, 9));
    // Made with six although it is to have one afterwards; six again when that is taken back.
    let smaller = resize(store, &spec, Some(&group.id), 1).await.expect("fewer nodes are always granted");
    assert_eq!(said_and_counted(store).await, (4, 9));
    cancel(store, &spec, &create).await;
    assert_eq!(said_and_counted(store).await, (4, 9));
    cancel(store, &spec, &smaller).await;
    assert_eq!(said_and_counted(store).await, (9, 9));
    let delete = begin(store, &NewOperation { payload: about, ..request(&spec, OperationKind::NodegroupDelete) }).await;
    assert_eq!(said_and_counted(store).await, (9, 9), "its deletion has not begun");
    cancel(store, &spec, &delete).await;
    assert_eq!(said_and_counted(store).await, (9, 9));
    store.write(async |conn: &mut Conn| nodegroup::delete(conn, &group.id).await).await.expect("removed");
    assert_eq!(said_and_counted(store).await, (3, 3));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_number_of_nodes_counts_as_what_is_shown_of_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world, 2).await;
    world.execute(&format!("UPDATE nodegroup SET node_count = NULL WHERE name = '{DEFAULT_WORKER}'")).await;
    let groups = async || store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, &spec.id).await).await.expect("read");
    assert_eq!(groups().await.iter().map(Nodegroup::node_count).sum::<i32>(), 2);
    assert_eq!(said_and_counted(store).await, (2, 2));
    assert_eq!(used(store, None).await, Usage { clusters: 1, nodes: 2 });
    let none = resize(store, &spec, None, 0).await.expect("fewer nodes are always granted");
    assert_eq!(said_and_counted(store).await, (1, 2));
    cancel(store, &spec, &none).await;
    assert_eq!(groups().await[1].node_count, Some(1), "the size before is put back");
    assert_eq!(said_and_counted(store).await, (2, 2));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_of_the_project_whose_id_it_has_to_the_letter(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let quota_of = async |of: &str, resource, limit| {
        let of = of.to_owned();
        world.store.write(async |conn: &mut Conn| quota::insert(conn, &of, resource, limit).await).await.expect("stored");
    };
    // What a new cluster asks for, and what more nodes for one that is there.
    let cluster = || vec![demand(Resource::Cluster, 1, Some(5)), demand(Resource::Node, 3, Some(12))];
    let nodes = || vec![demand(Resource::Node, 3, Some(12))];
    let check =
        async |demands: Vec<Demand>| world.store.read(async |conn: &mut Conn| quota::check(conn, &project("p1"), &demands).await).await;
    // MariaDB's collation does not tell the cases apart.
    quota_of("P1", Resource::Cluster, 0).await;
    quota_of("P1", Resource::Node, 0).await;
    assert!(check(cluster()).await.is_ok() && check(nodes()).await.is_ok());
    world.execute("DELETE FROM quotas").await;
    world.execute("INSERT INTO quotas (project_id, resource, hard_limit) VALUES ('p1', 'cluster', 0), ('p1', 'node', 0)").await;
    assert!(check(cluster()).await.is_ok() && check(nodes()).await.is_ok());
    world.execute("DELETE FROM quotas").await;

    quota_of("p1", Resource::Cluster, 0).await;
    let refused = check(cluster()).await;
    assert!(matches!(refused, Err(StoreError::QuotaReached { resource: Resource::Cluster, limit: 0, used: 0, asked: 1 })), "{refused:?}");
    assert!(check(nodes()).await.is_ok());
    world.execute("UPDATE quotas SET hard_limit = 1").await;
    assert!(check(cluster()).await.is_ok());
    quota_of("p1", Resource::Node, 2).await;
    for demands in [cluster(), nodes()] {
        let refused = check(demands).await;
        assert!(matches!(refused, Err(StoreError::QuotaReached { resource: Resource::Node, limit: 2, used: 0, asked: 3 })), "{refused:?}");
    }
}
