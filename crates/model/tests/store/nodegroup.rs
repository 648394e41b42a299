use model::cluster::CreateSpec;
use model::cluster::status::{MOST_UNFINISHED, Status};
use model::id::{ClusterId, NodegroupId, OperationId, ProjectId};
use model::json::Labels;
use model::nodegroup::{DEFAULT_WORKER, NewNodegroup, Nodegroup, Nodes, Taint};
use model::operation::{EventDetails, NewOperation, Operation, OperationKind, OperationState, Payload};
use model::store::lifecycle::{self, Accepted};
use model::store::nodegroup::Shown;
use model::store::{Conn, Page, Scope, Store, StoreError, cluster, exit, nodegroup, nodes, operation};
use rstest::rstest;

use crate::world::{Kind, World, accept, request, spec};

fn group(cluster: &ClusterId, name: &str) -> NewNodegroup {
    let mut labels = Labels::default();
    labels.0.insert("zone".into(), "a".into());
    NewNodegroup {
        id: NodegroupId::generate(),
        cluster: cluster.clone(),
        project: ProjectId("p1".into()),
        name: name.into(),
        role: "gpu".into(),
        flavor: Some("m1.large".into()),
        image: Some("fcos".into()),
        node_count: 2,
        min_node_count: 1,
        max_node_count: Some(5),
        docker_volume_size: None,
        labels: labels.clone(),
        nodes: Nodes { labels, taints: vec![Taint { key: "gpu".into(), value: None, effect: "NoSchedule".into() }] },
    }
}

async fn begin(store: &Store, new: &NewOperation) -> Result<Accepted, StoreError> {
    store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, new).await).await
}

async fn groups(store: &Store, id: &ClusterId) -> Vec<Nodegroup> {
    store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await.unwrap()
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_found_by_uuid_name_or_number_and_goes_with_what_is_kept_beside_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    let new = group(&s.id, "gpu nodes");
    world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.unwrap();
    let again = NewNodegroup { id: NodegroupId::generate(), ..new.clone() };
    let twice = world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &again).await).await;
    assert!(matches!(twice, Err(StoreError::Duplicate { .. })), "{twice:?}");

    let number = groups(&world.store, &s.id).await[2].id.to_string();
    for ident in [new.id.as_str(), "gpu nodes", &number] {
        let found = world.store.read(async |conn: &mut Conn| nodegroup::fetch_in_cluster(conn, &s.id, ident).await).await.unwrap();
        assert_eq!((found.uuid.as_str(), found.role.as_deref()), (new.id.as_str(), Some("gpu")), "{ident}");
        assert_eq!((found.min_node_count, found.max_node_count, found.is_default()), (Some(1), Some(5), false));
    }
    let other = ClusterId::generate();
    let foreign = world.store.read(async |conn: &mut Conn| nodegroup::find_in_cluster(conn, &other, new.id.as_str()).await).await;
    assert!(foreign.unwrap().is_none());
    let kept = world.store.read(async |conn: &mut Conn| nodes::of_group(conn, &s.id, &new.id).await).await.unwrap();
    assert_eq!(kept, new.nodes);

    world.store.write(async |conn: &mut Conn| nodegroup::delete(conn, &new.id).await).await.unwrap();
    assert_eq!(groups(&world.store, &s.id).await.len(), 2);
    let kept = world.store.read(async |conn: &mut Conn| nodes::of_group(conn, &s.id, &new.id).await).await.unwrap();
    assert_eq!(kept, Nodes::default());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_groups_show_each_once_in_order(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    for name in ["a", "b", "c"] {
        let new = group(&s.id, name);
        world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.unwrap();
    }
    for sort_key in ["id", "name", "uuid", "node_count", "max_node_count", "created_at"] {
        for sort_dir in [model::store::SortDir::Asc, model::store::SortDir::Desc] {
            let mut seen = Vec::new();
            let mut marker = None;
            loop {
                let page = Page { limit: 2, marker: marker.clone(), sort_key: sort_key.into(), sort_dir };
                let rows =
                    world.store.read(async |conn: &mut Conn| nodegroup::page(conn, &s.id, &Shown::default(), &page).await).await.unwrap();
                let Some(last) = rows.last() else { break };
                marker = Some(last.uuid.clone());
                seen.extend(rows.into_iter().map(|g| g.name));
            }
            let mut sorted = seen.clone();
            sorted.sort();
            assert_eq!(sorted, ["a", "b", "c", "default-master", "default-worker"], "{sort_key} {sort_dir:?}");
            if sort_key == "name" && sort_dir == model::store::SortDir::Asc {
                assert_eq!(seen, sorted);
            }
        }
    }
    let shown = Shown { role: Some("gpu".into()), project: Some(ProjectId("p1".into())) };
    let page = Page { limit: 10, marker: None, sort_key: "id".into(), sort_dir: model::store::SortDir::Asc };
    let rows = world.store.read(async |conn: &mut Conn| nodegroup::page(conn, &s.id, &shown, &page).await).await.unwrap();
    assert_eq!(rows.len(), 3);
    let bad = Page { sort_key: "beauty".into(), ..page };
    let refused = world.store.read(async |conn: &mut Conn| nodegroup::page(conn, &s.id, &shown, &bad).await).await;
    assert!(matches!(refused, Err(StoreError::BadSortKey { .. })));
}

/// A resize of a group.
fn resize(s: &CreateSpec, group: Option<&NodegroupId>, count: i32) -> NewOperation {
    let payload = Payload { nodegroup: group.cloned(), node_count: Some(count), ..Payload::default() };
    NewOperation { payload, ..request(s, OperationKind::ClusterResize) }
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_on_a_cluster_move_statuses_and_queue_up_or_are_refused(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    let refused = begin(&world.store, &resize(&s, None, 3)).await;
    assert!(matches!(&refused, Err(StoreError::Refused(r)) if r.status == Some(Status::CreateInProgress)), "{refused:?}");
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'CREATE_COMPLETE'").await;

    // Many at once: each is stored, up to the limit.
    let tasks: Vec<_> = (0..i32::try_from(MOST_UNFINISHED).unwrap() + 4)
        .map(|n| {
            let (store, new) = (world.store.clone(), resize(&s, None, n));
            tokio::spawn(async move { begin(&store, &new).await })
        })
        .collect();
    let mut accepted = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(a) => {
                assert!(a.is_new);
                assert_eq!(a.group.expect("the default worker group").name, "default-worker");
                accepted += 1;
            }
            Err(StoreError::Refused(r)) => assert!(r.is_full),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(accepted, MOST_UNFINISHED);
    let statuses: Vec<_> = groups(&world.store, &s.id).await.iter().map(|g| g.status.clone().unwrap()).collect();
    assert_eq!(statuses, ["CREATE_COMPLETE", "UPDATE_IN_PROGRESS"]);
    let row = world.store.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, &s.id).await).await.unwrap();
    assert_eq!(row.status(), Some(Status::UpdateInProgress));

    // A delete makes all of them give way.
    let delete = request(&s, OperationKind::ClusterDelete);
    assert!(begin(&world.store, &delete).await.unwrap().is_new);
    let unfinished = world.store.read(async |conn: &mut Conn| operation::unfinished(conn, &s.id).await).await.unwrap();
    assert!(unfinished.len() == 1 && unfinished[0].uuid == delete.id.as_str(), "{unfinished:?}");
    let second = begin(&world.store, &request(&s, OperationKind::ClusterDelete)).await.unwrap();
    assert_eq!((second.is_new, &second.operation), (false, &delete.id));
    // A group goes with its cluster: its own deletion has given way.
    let of_group = request(&s, OperationKind::NodegroupDelete);
    let accepted = begin(&world.store, &of_group).await.unwrap();
    assert_eq!((accepted.is_new, &accepted.operation, &accepted.at_work), (true, &of_group.id, &delete.id));
    let again = begin(&world.store, &request(&s, OperationKind::NodegroupDelete)).await.unwrap();
    assert_eq!((again.is_new, &again.operation, &again.at_work), (false, &of_group.id, &delete.id));
    let joined = world.store.read(async |conn: &mut Conn| operation::find(conn, &of_group.id).await).await.unwrap().unwrap();
    assert_eq!((joined.state(), joined.started_ms), (Some(OperationState::Superseded), None));
    assert_eq!(joined.outcome_reason, Some(format!("superseded at once by {}", delete.id)));
    assert_eq!(joined.payload().unwrap().version, Payload::JOINED, "no earlier release takes it for what has failed");
    let unfinished = world.store.read(async |conn: &mut Conn| operation::unfinished(conn, &s.id).await).await.unwrap();
    assert!(unfinished.len() == 1 && unfinished[0].uuid == delete.id.as_str(), "{unfinished:?}");
    assert!(groups(&world.store, &s.id).await.iter().all(|g| g.status() == Some(Status::DeleteInProgress)));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_second_delete_of_a_group_joins_the_first_and_a_resize_of_it_is_refused(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'UPDATE_COMPLETE'").await;
    let new = group(&s.id, "gpu");
    world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.unwrap();
    let payload = Payload { nodegroup: Some(new.id.clone()), ..Payload::default() };
    let delete = |payload: &Payload| NewOperation { payload: payload.clone(), ..request(&s, OperationKind::NodegroupDelete) };
    let first = begin(&world.store, &delete(&payload)).await.unwrap();
    let second = begin(&world.store, &delete(&payload)).await.unwrap();
    assert!(first.is_new && !second.is_new && first.operation == second.operation);
    let refused = begin(&world.store, &resize(&s, Some(&new.id), 3)).await;
    assert!(matches!(&refused, Err(StoreError::Refused(r)) if r.what == "nodegroup"), "{refused:?}");
    // Nothing of a refused request is stored, and other groups are free.
    let unfinished = world.store.read(async |conn: &mut Conn| operation::unfinished(conn, &s.id).await).await.unwrap();
    assert_eq!(unfinished.len(), 1);
    assert!(begin(&world.store, &resize(&s, None, 3)).await.is_ok());
    let unknown = begin(&world.store, &resize(&s, Some(&NodegroupId::generate()), 3)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { what: "nodegroup", .. })));
}

async fn cancel(store: &Store, cluster: &ClusterId, id: &OperationId) {
    let cancelled =
        store.write(async |conn: &mut Conn| exit::cancel(conn, &Scope::All, cluster, Some(id), &EventDetails::default(), None).await);
    assert_eq!(cancelled.await.unwrap().operation, *id);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn an_update_waits_for_the_making_of_its_group_and_is_told_that_nothing_comes_of_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'CREATE_COMPLETE'").await;
    let new = group(&s.id, "gpu");
    let payload = Payload { nodegroup: Some(new.id.clone()), ..Payload::default() };
    let about = |kind| NewOperation { payload: payload.clone(), ..request(&s, kind) };
    let create = about(OperationKind::NodegroupCreate);
    assert!(begin(&world.store, &create).await.unwrap().is_new);
    world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.unwrap();
    let update = about(OperationKind::NodegroupUpdate);
    let accepted = begin(&world.store, &update).await.unwrap();
    assert!(accepted.is_new && accepted.group.is_some_and(|group| group.status() == Some(Status::CreateInProgress)));
    let status = async || groups(&world.store, &s.id).await[2].status();
    assert_eq!(status().await, Some(Status::UpdateInProgress));
    let unfinished = async || world.store.read(async |conn: &mut Conn| operation::unfinished(conn, &s.id).await).await.unwrap();
    let waiting: Vec<(String, u32)> = unfinished().await.iter().map(|o| (o.uuid.clone(), o.payload().unwrap().version)).collect();
    assert_eq!(waiting, [(create.id.to_string(), Payload::VERSION), (update.id.to_string(), Payload::MAKING)]);

    // What made it possible is taken back before anybody has begun it.
    cancel(&world.store, &s.id, &create.id).await;
    assert_eq!(status().await, Some(Status::UpdateInProgress));
    let before = unfinished().await[0].payload().unwrap().before.expect("something to put back");
    assert_eq!(before.group(&new.id), Some(Status::CreateFailed));
    cancel(&world.store, &s.id, &update.id).await;
    assert_eq!(status().await, Some(Status::CreateFailed));
    let row = world.store.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, &s.id).await).await.unwrap();
    assert_eq!(row.status(), Some(Status::UpdateFailed));
    // A group that was never made has nothing to update; a resize makes it.
    let again = begin(&world.store, &about(OperationKind::NodegroupUpdate)).await;
    assert!(matches!(&again, Err(StoreError::Refused(r)) if r.what == "nodegroup"), "{again:?}");
    assert!(begin(&world.store, &resize(&s, Some(&new.id), 3)).await.is_ok());
}

/// A cluster at rest with a group beside the default ones.
async fn with_group(world: &World) -> (CreateSpec, NewNodegroup) {
    let s = spec("blue");
    accept(&world.store, &s).await;
    let new = group(&s.id, "gpu");
    world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.unwrap();
    at_rest(world, "CREATE_COMPLETE").await;
    (s, new)
}

/// Everything has ended, and this is what is said of all.
async fn at_rest(world: &World, status: &str) {
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1 WHERE finished_ms IS NULL").await;
    for table in ["cluster", "nodegroup"] {
        world.execute(&format!("UPDATE {table} SET status = '{status}'")).await;
    }
}

fn update(s: &CreateSpec, group: &NodegroupId) -> NewOperation {
    let payload = Payload { nodegroup: Some(group.clone()), ..Payload::default() };
    NewOperation { payload, ..request(s, OperationKind::NodegroupUpdate) }
}

async fn stored(store: &Store, id: &OperationId) -> Operation {
    store.read(async |conn: &mut Conn| operation::find(conn, id).await).await.unwrap().expect("it is there")
}

/// Others would take it, look at the group, and say of one that was never made that it is complete.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_may_have_to_make_its_group_is_left_to_programs_that_know_of_that(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let (s, new) = with_group(&world).await;
    let default = groups(&world.store, &s.id).await[1].nodegroup_id();
    let again = |group: &NodegroupId| {
        let failed = update(&s, group);
        NewOperation { payload: failed.payload.again(OperationId::generate()), ..failed }
    };
    for (status, asked, version) in [
        ("CREATE_COMPLETE", update(&s, &new.id), Payload::VERSION),
        ("UPDATE_FAILED", update(&s, &new.id), Payload::VERSION),
        ("UPDATE_FAILED", again(&new.id), Payload::MAKING),
        ("UPDATE_FAILED", again(&default), Payload::VERSION),
    ] {
        at_rest(&world, status).await;
        begin(&world.store, &asked).await.unwrap();
        let stored = stored(&world.store, &asked.id).await;
        assert_eq!(stored.payload().unwrap().version, version, "{status}, {:?}", asked.payload);
        assert!(stored.understood().is_some());
    }
    // A resize makes it; when that is cancelled, the update does.
    at_rest(&world, "UPDATE_FAILED").await;
    world.execute(&format!("UPDATE nodegroup SET status = 'CREATE_FAILED' WHERE uuid = '{}'", new.id)).await;
    let (making, waiting) = (resize(&s, Some(&new.id), 3), update(&s, &new.id));
    for asked in [&making, &waiting] {
        begin(&world.store, asked).await.unwrap();
    }
    let version = async |id: &OperationId| stored(&world.store, id).await.payload().unwrap().version;
    assert_eq!((version(&making.id).await, version(&waiting.id).await), (Payload::VERSION, Payload::MAKING));
}

/// Whoever waits for another thing or came before keeps what it carries to the letter; what a newer version accepted, all that this one does not know.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operation_leaves_is_told_to_those_behind_it_whom_it_concerns(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let (s, other) = with_group(&world).await;
    let first = request(&s, OperationKind::CredentialRotate);
    begin(&world.store, &first).await.unwrap();
    world.execute("UPDATE operation SET state = 'RUNNING', owner = 'somebody', generation = 2 WHERE finished_ms IS NULL").await;
    let new = group(&s.id, "more");
    let about = |kind| NewOperation { payload: update(&s, &new.id).payload, ..request(&s, kind) };
    let create = about(OperationKind::NodegroupCreate);
    begin(&world.store, &create).await.unwrap();
    world.store.write(async |conn: &mut Conn| nodegroup::insert(conn, &new).await).await.unwrap();
    let (waiting, newer, beside) =
        (about(OperationKind::NodegroupUpdate), about(OperationKind::NodegroupUpdate), resize(&s, Some(&other.id), 4));
    for asked in [&waiting, &newer, &beside] {
        begin(&world.store, asked).await.unwrap();
    }
    // To be found again to the letter, with a field that this program does not know.
    for (id, version) in [(&first.id, Payload::VERSION), (&newer.id, Payload::KNOWN + 1), (&beside.id, Payload::VERSION)] {
        let payload = Payload { version, ..stored(&world.store, id).await.payload().unwrap() };
        let text = serde_json::to_string(&payload).unwrap().replacen('{', "{\"pools\":[],", 1);
        world.execute(&format!("UPDATE operation SET payload = '{text}' WHERE uuid = '{id}'")).await;
    }
    let untouched = async || {
        let mut texts = Vec::new();
        for id in [&first.id, &beside.id] {
            texts.push(stored(&world.store, id).await.payload);
        }
        texts
    };
    let texts = untouched().await;
    cancel(&world.store, &s.id, &create.id).await;
    assert_eq!(untouched().await, texts);
    for id in [&waiting.id, &newer.id] {
        let before = stored(&world.store, id).await.payload().unwrap().before.expect("something to put back");
        assert_eq!(before.group(&new.id), Some(Status::CreateFailed));
    }
    let payload = stored(&world.store, &newer.id).await.payload().unwrap();
    assert_eq!((payload.version, &payload.unknown["pools"]), (Payload::KNOWN + 1, &serde_json::json!([])));
}

/// An operation that has ended so.
async fn ended(world: &World, new: &NewOperation, state: &str) {
    world.store.write(async |conn: &mut Conn| operation::insert(conn, new).await).await.unwrap();
    world.execute(&format!("UPDATE operation SET state = '{state}', finished_ms = 1 WHERE uuid = '{}'", new.id)).await;
}

/// The operation that can be done again.
async fn last_failed(world: &World, s: &CreateSpec) -> Option<String> {
    match world.store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, &s.id).await).await {
        Ok(operation) => Some(operation.uuid),
        Err(StoreError::NoExit(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

/// A patch of the cluster names no group, and a resize may name the one that the patch means. What failed of it would undo what came after.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_since_about_the_usual_group_counts_whether_it_was_named_or_not(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let (s, _) = with_group(&world).await;
    at_rest(&world, "UPDATE_FAILED").await;
    let workers = groups(&world.store, &s.id).await.into_iter().find(|g| g.name == DEFAULT_WORKER).expect("the usual group").nodegroup_id();
    let unnamed = |count| NewOperation { kind: OperationKind::ClusterUpdate, ..resize(&s, None, count) };
    let named = |count| resize(&s, Some(&workers), count);
    for (failed, done) in [(unnamed(5), named(3)), (named(7), unnamed(4))] {
        ended(&world, &failed, "FAILED").await;
        assert_eq!(last_failed(&world, &s).await, Some(failed.id.to_string()));
        ended(&world, &done, "SUCCEEDED").await;
        assert_eq!(last_failed(&world, &s).await, None);
    }
    // It is about no group, and no group's size does its work.
    let rotation = request(&s, OperationKind::CredentialRotate);
    ended(&world, &rotation, "FAILED").await;
    ended(&world, &unnamed(2), "SUCCEEDED").await;
    assert_eq!(last_failed(&world, &s).await, Some(rotation.id.to_string()));
}

/// It leaves a broken group as broken as it was.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn new_bounds_of_a_group_do_not_keep_what_failed_from_being_done_again(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let (s, new) = with_group(&world).await;
    at_rest(&world, "UPDATE_FAILED").await;
    let last = async || last_failed(&world, &s).await;
    let (failed, bounds) = (resize(&s, Some(&new.id), 9), update(&s, &new.id));
    ended(&world, &failed, "FAILED").await;
    ended(&world, &bounds, "SUCCEEDED").await;
    assert_eq!(last().await, Some(failed.id.to_string()));
    // One that failed itself, and was done again.
    let bounds = update(&s, &new.id);
    ended(&world, &bounds, "FAILED").await;
    assert_eq!(last().await, Some(bounds.id.to_string()));
    ended(&world, &update(&s, &new.id), "SUCCEEDED").await;
    assert_eq!(last().await, Some(failed.id.to_string()));
    ended(&world, &resize(&s, Some(&new.id), 3), "SUCCEEDED").await;
    assert_eq!(last().await, None);
    // The group is made by the update that has waited for it.
    let create = NewOperation { payload: bounds.payload.clone(), ..request(&s, OperationKind::NodegroupCreate) };
    ended(&world, &create, "FAILED").await;
    assert_eq!(last().await, Some(create.id.to_string()));
    ended(&world, &update(&s, &new.id), "SUCCEEDED").await;
    assert_eq!(last().await, None);
}
