//! Requests that are cancelled before anybody has begun them, and what can be done again then.

use model::cluster::status::Status;
use model::id::OperationId;
use model::operation::{EventDetails, NewOperation, OperationKind, Payload};
use model::store::{Conn, Scope, cluster, exit, lifecycle, nodegroup};
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
