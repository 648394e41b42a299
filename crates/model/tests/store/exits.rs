//! Requests that are cancelled before anybody has begun them, and what can be done again then.

use model::cluster::CreateSpec;
use model::cluster::status::{NoExit, Status};
use model::id::{NodegroupId, OperationId};
use model::operation::{Deadlines, EventDetails, NewOperation, OperationKind, Payload};
use model::store::{Conn, Scope, StoreError, cluster, exit, found, lifecycle, nodegroup, operation};
use rstest::rstest;

use crate::world::{Kind, World, accept, request, spec};

async fn begin(world: &World, new: &NewOperation) -> OperationId {
    world.store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, new).await).await.expect("it is accepted").operation
}

async fn cancel(world: &World, id: &OperationId, cluster: &model::id::ClusterId) {
    let by = EventDetails::default();
    let asked = world.store.write(async |conn: &mut Conn| exit::cancel(conn, &Scope::All, cluster, Some(id), &by, None).await);
    assert_eq!(asked.await.expect("it is cancelled").operation, *id);
}

/// Of a removal that was cancelled, whatever gave way to it is to be done again: a cluster that was never made could only be deleted else.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_gave_way_to_a_removal_that_was_cancelled_can_be_done_again(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    let create = accept(&world.store, &s).await;
    let delete = begin(&world, &request(&s, OperationKind::ClusterDelete)).await;
    cancel(&world, &delete, &s.id).await;
    let status = async || {
        let row = world.store.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, &s.id).await).await.expect("the row");
        row.status()
    };
    assert_eq!(status().await, Some(Status::CreateFailed));
    let failed =
        world.store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, &s.id).await).await.expect("one to do again");
    assert_eq!(failed.operation_id(), create);
    let payload = failed.payload().expect("a payload").again(create);
    begin(&world, &NewOperation { payload, ..request(&s, OperationKind::ClusterCreate) }).await;
    assert_eq!(status().await, Some(Status::CreateInProgress));
}

/// Who asks to do again what has failed does not mean the deletion of a group that was to go with its cluster.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_joined_a_removal_that_was_cancelled_is_not_what_has_failed(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'CREATE_COMPLETE'").await;
    let rotation = begin(&world, &request(&s, OperationKind::CaRotate)).await;
    world.execute(&format!("UPDATE operation SET state = 'FAILED', started_ms = 2, finished_ms = 3 WHERE uuid = '{rotation}'")).await;
    world.execute("UPDATE cluster SET status = 'UPDATE_FAILED'").await;
    let delete = begin(&world, &request(&s, OperationKind::ClusterDelete)).await;
    let of_group = request(&s, OperationKind::NodegroupDelete);
    assert_eq!(begin(&world, &of_group).await, of_group.id);
    cancel(&world, &delete, &s.id).await;
    let failed = world.store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, &s.id).await).await;
    assert_eq!(failed.expect("one to do again").operation_id(), rotation);
    // Once the removal has gone it is work like any other.
    let anew = request(&s, OperationKind::NodegroupDelete);
    let accepted = world.store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, &anew).await).await.expect("accepted");
    assert_eq!((accepted.is_new, &accepted.operation, &accepted.at_work), (true, &anew.id, &anew.id));
}

/// A removal that asks for less than the one that is there adds nothing to it; one that asks for more takes its place.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_joins_one_that_goes_as_far_and_supersedes_one_that_does_not(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    let ask = async |kind| {
        let new = request(&s, kind);
        let accepted = world.store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, &new).await).await.expect("accepted");
        assert_eq!((accepted.is_new, &accepted.operation), (true, &new.id), "{kind:?}");
        (accepted.is_to_be_done(), accepted.at_work, new.id)
    };
    let rising = [OperationKind::ClusterDelete, OperationKind::ClusterForceDelete, OperationKind::ClusterAbandon];
    for (at, more) in rising.into_iter().enumerate() {
        let (is_to_be_done, at_work, by) = ask(more).await;
        assert!(is_to_be_done && at_work == by, "{more:?}");
        for less in &rising[..at] {
            let (is_to_be_done, at_work, _) = ask(*less).await;
            assert!(!is_to_be_done && at_work == by, "{less:?} beside {more:?}");
        }
    }
    let unfinished = world.store.read(async |conn: &mut Conn| operation::unfinished(conn, &s.id).await).await.expect("a list");
    assert_eq!(unfinished.len(), 1);
}

/// Upstream's column may hold nothing.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_had_no_status_is_not_left_in_progress_by_a_request_that_was_cancelled(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    for kind in [OperationKind::ClusterResize, OperationKind::NodegroupUpdate, OperationKind::NodegroupDelete] {
        world.execute("UPDATE nodegroup SET status = NULL").await;
        let node_count = (kind == OperationKind::ClusterResize).then_some(3);
        let asked = begin(&world, &NewOperation { payload: Payload { node_count, ..Payload::default() }, ..request(&s, kind) }).await;
        cancel(&world, &asked, &s.id).await;
        let groups = world.store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, &s.id).await).await.expect("the groups");
        let left: Vec<Option<Status>> = groups.iter().map(model::nodegroup::Nodegroup::status).collect();
        assert!(
            left.contains(&Some(Status::UpdateComplete)) && left.iter().flatten().all(|status| !status.is_in_progress()),
            "{kind:?} {left:?}"
        );
    }
}

/// A cluster with nothing at work on it.
async fn at_rest(world: &World) -> CreateSpec {
    let s = spec("blue");
    accept(&world.store, &s).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'CREATE_COMPLETE'").await;
    s
}

/// Somebody works on it.
async fn take(world: &World, id: &OperationId) {
    let taken = "state = 'RUNNING', owner = 'somebody', generation = generation + 1, started_ms = 2";
    world.execute(&format!("UPDATE operation SET {taken} WHERE uuid = '{id}'")).await;
}

/// The status of the cluster, and status and size of its default workers.
async fn told(world: &World, s: &CreateSpec) -> (Option<Status>, Option<Status>, i32) {
    let read = async |conn: &mut Conn| {
        Ok::<_, StoreError>((cluster::fetch(conn, &Scope::All, &s.id).await?, nodegroup::of_cluster(conn, &s.id).await?))
    };
    let (row, groups) = world.store.read(read).await.expect("the rows");
    let workers = groups.iter().find(|group| !group.is_master()).expect("the default workers");
    (row.status(), workers.status(), workers.node_count())
}

/// What is to be cancelled ends without having removed the group.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_group_is_not_left_to_one_that_is_to_be_cancelled(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = at_rest(&world).await;
    let first = begin(&world, &request(&s, OperationKind::NodegroupDelete)).await;
    assert_eq!(begin(&world, &request(&s, OperationKind::NodegroupDelete)).await, first, "it is being deleted");
    take(&world, &first).await;
    cancel(&world, &first, &s.id).await;
    let anew = begin(&world, &request(&s, OperationKind::NodegroupDelete)).await;
    assert_ne!(anew, first);
    assert_eq!(begin(&world, &request(&s, OperationKind::NodegroupDelete)).await, anew, "and only once");
}

/// Of a removal that gave way to another before anybody had begun it nothing is to be seen, either, once that one is cancelled.
#[rstest]
#[case::that_nobody_had_begun(Kind::Sqlite, false)]
#[case::that_nobody_had_begun(Kind::MariaDb, false)]
#[case::that_somebody_had_begun(Kind::Sqlite, true)]
#[case::that_somebody_had_begun(Kind::MariaDb, true)]
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_superseded_one_and_is_cancelled_puts_back_what_was_before_both(#[case] kind: Kind, #[case] had_begun: bool) {
    let world = World::new(kind).await;
    let s = at_rest(&world).await;
    let first = begin(&world, &request(&s, OperationKind::ClusterDelete)).await;
    if had_begun {
        take(&world, &first).await;
    }
    begin(&world, &request(&s, OperationKind::ClusterForceDelete)).await;
    let last = begin(&world, &request(&s, OperationKind::ClusterAbandon)).await;
    cancel(&world, &last, &s.id).await;
    let wanted = if had_begun { Status::DeleteFailed } else { Status::CreateComplete };
    assert_eq!(told(&world, &s).await, (Some(wanted), Some(wanted), 2));
}

/// What was asked for first is being done still.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_deletion_was_cancelled_behind_a_resize_is_not_said_to_be_deleted(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = at_rest(&world).await;
    let payload = Payload { node_count: Some(5), ..Payload::default() };
    let resize = begin(&world, &NewOperation { payload, ..request(&s, OperationKind::ClusterResize) }).await;
    take(&world, &resize).await;
    world.execute(&format!("UPDATE nodegroup SET node_count = 5 WHERE role = 'worker' AND cluster_id = '{}'", s.id)).await;
    let delete = begin(&world, &request(&s, OperationKind::NodegroupDelete)).await;
    assert_eq!(told(&world, &s).await.1, Some(Status::DeleteInProgress));
    cancel(&world, &delete, &s.id).await;
    assert_eq!(told(&world, &s).await, (Some(Status::UpdateInProgress), Some(Status::UpdateInProgress), 5));
}

/// Nobody may be there any more who understands the deletion that a newer version has stored.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_not_left_to_one_that_a_newer_version_accepted(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = at_rest(&world).await;
    let newer = begin(&world, &request(&s, OperationKind::ClusterDelete)).await;
    of_newer_version(&world, &newer).await;
    let ours = begin(&world, &request(&s, OperationKind::ClusterDelete)).await;
    assert_ne!(ours, newer);
    let unfinished = world.store.read(async |conn: &mut Conn| operation::unfinished(conn, &s.id).await).await.expect("a list");
    assert_eq!(unfinished.iter().map(model::operation::Operation::operation_id).collect::<Vec<_>>(), [ours]);
}

async fn of_newer_version(world: &World, id: &OperationId) {
    let next = Payload::KNOWN + 1;
    world.execute(&format!("UPDATE operation SET payload = JSON_SET(payload, '$.version', {next}) WHERE uuid = '{id}'")).await;
}

/// What was asked of a newer version has been done since, though nobody here could do it.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_a_newer_version_has_overtaken_is_not_done_again(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = at_rest(&world).await;
    let ended = async |kind, count, state: &str| {
        let payload = Payload { node_count: count, ..Payload::default() };
        let new = NewOperation { payload, ..request(&s, kind) };
        world.store.write(async |conn: &mut Conn| operation::insert(conn, &new).await).await.expect("stored");
        world.execute(&format!("UPDATE operation SET state = '{state}', finished_ms = 2 WHERE uuid = '{}'", new.id)).await;
        new.id
    };
    let named = async || {
        let found = world.store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, &s.id).await).await;
        found.map(|operation| operation.operation_id())
    };
    let first = ended(OperationKind::ClusterResize, Some(5), "FAILED").await;
    world.execute("UPDATE cluster SET status = 'UPDATE_FAILED'").await;
    assert_eq!(named().await.expect("one to do again"), first);
    let newer = ended(OperationKind::ClusterResize, Some(3), "SUCCEEDED").await;
    of_newer_version(&world, &newer).await;
    assert!(matches!(named().await, Err(StoreError::NoExit(NoExit::NothingFailed(_)))));
    let failed = ended(OperationKind::CredentialRotate, None, "FAILED").await;
    assert_eq!(named().await.expect("one to do again"), failed);
    of_newer_version(&world, &failed).await;
    assert!(matches!(named().await, Err(StoreError::NoExit(NoExit::Newer))));
}

/// Upstream says of both default groups that they are being changed, and what was taken up is about one of them.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_at_work_and_cancelled_before_anybody_looked_has_failed_in_both_groups(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    accept(&world.store, &s).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    world.execute("UPDATE cluster SET status = 'UPDATE_IN_PROGRESS', stack_id = 'found'").await;
    world.execute("UPDATE nodegroup SET status = 'UPDATE_IN_PROGRESS'").await;
    let deadlines = Deadlines::default();
    let taken = world.store.write(async |conn: &mut Conn| found::take_up(conn, &s.id, &deadlines).await).await.expect("it is taken up");
    let [resize] = &taken[..] else { panic!("one operation: {taken:?}") };
    cancel(&world, resize, &s.id).await;
    let row = world.store.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, &s.id).await).await.expect("the row");
    let groups = world.store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, &s.id).await).await.expect("its groups");
    let statuses: Vec<Option<Status>> = groups.iter().map(|group| group.status()).chain([row.status()]).collect();
    assert_eq!(statuses, [Some(Status::UpdateFailed); 3]);
    // Who does it again looks what has become of both. Nothing else does: a change of one of them leaves the other as it is.
    let again = async || world.store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, &s.id).await).await;
    let first = again().await.expect("one to do again");
    assert_eq!(first.uuid, resize.to_string());
    assert!(first.payload().is_ok_and(|payload| payload.again(resize.clone()).as_found));
    // Of any other group one of ours is enough.
    let gpu = Some(NodegroupId::generate());
    for (nodegroup, as_found, state) in [(None, false, "SUCCEEDED"), (gpu.clone(), true, "FAILED"), (gpu, false, "SUCCEEDED")] {
        let payload = Payload { nodegroup, as_found, ..Payload::default() };
        let new = NewOperation { payload, ..request(&s, OperationKind::ClusterResize) };
        world.store.write(async |conn: &mut Conn| operation::insert(conn, &new).await).await.expect("stored");
        world.execute(&format!("UPDATE operation SET state = '{state}', finished_ms = 3 WHERE uuid = '{}'", new.id)).await;
    }
    assert_eq!(again().await.expect("one to do again").uuid, first.uuid);
}
