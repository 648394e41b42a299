//! What operations carry, whoever writes it again.

use model::cluster::CreateSpec;
use model::cluster::status::Status;
use model::id::{NodegroupId, OperationId, TemplateId};
use model::operation::{Claim, Claimed, Ending, EventDetails, NewOperation, Operation, OperationKind, OutcomeCode, Payload};
use model::store::lifecycle::{self, Left};
use model::store::{Conn, Scope, Store, StoreError, exit, nodegroup, operation, template};
use model::template::ClusterTemplate;
use model::time::{millis, now};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{Kind, World, accept, request, spec};

const LEASE: i64 = 30_000;

/// A cluster at rest, the only one of its database.
async fn at_rest(world: &World) -> CreateSpec {
    let spec = spec("blue");
    accept(&world.store, &spec).await;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    for table in ["cluster", "nodegroup"] {
        world.execute(&format!("UPDATE {table} SET status = 'CREATE_COMPLETE'")).await;
    }
    spec
}

async fn begin(store: &Store, new: &NewOperation) -> OperationId {
    let accepted = store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, new).await).await;
    accepted.expect("accepted").operation
}

fn resize(spec: &CreateSpec, count: i32) -> NewOperation {
    let payload = Payload { node_count: Some(count), ..Payload::default() };
    NewOperation { payload, ..request(spec, OperationKind::ClusterResize) }
}

async fn stored(store: &Store, id: &OperationId) -> Operation {
    store.read(async |conn: &mut Conn| operation::find(conn, id).await).await.expect("read").expect("it is there")
}

/// What is stored of an operation's payload.
async fn carried(store: &Store, id: &OperationId) -> Value {
    serde_json::from_str(&stored(store, id).await.payload).expect("JSON")
}

async fn claim(store: &Store, id: &OperationId, owner: &str, at: i64) -> Claim {
    match store.write(async |conn: &mut Conn| operation::claim(conn, id, owner, at, at + LEASE).await).await.expect("claimed") {
        Claimed::Ours(_, claim) => claim,
        Claimed::NotNow => panic!("{owner} cannot claim {id}"),
    }
}

async fn fail(store: &Store, spec: &CreateSpec, claim: &Claim) {
    let ending = Ending::Failed { code: OutcomeCode::Cloud, reason: "out of hosts".into() };
    store.write(async |conn: &mut Conn| operation::finish(conn, claim, &spec.id, &ending).await).await.expect("ended");
}

/// Fields of a release beside this one, while both run, are not lost by whatever this one does with the operation.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_another_version_put_into_a_payload_is_kept_by_whoever_writes_it_again(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world).await;
    let first = begin(store, &resize(&spec, 3)).await;
    let behind = begin(store, &resize(&spec, 5)).await;
    for id in [&first, &behind] {
        let mut payload = carried(store, id).await;
        (payload["pools"], payload["before"]["zones"]) = (json!(["gpu", 1]), json!({"a": null}));
        world.execute(&format!("UPDATE operation SET payload = '{payload}' WHERE uuid = '{id}'")).await;
    }
    let is_kept = |payload: &Value| payload["pools"] == json!(["gpu", 1]);

    // Taken, taken over, and ended: what waits is told what it left.
    let at = millis(now());
    claim(store, &first, "one", at).await;
    let other = claim(store, &first, "other", at + LEASE + 1).await;
    fail(store, &spec, &other).await;
    let ended = stored(store, &first).await;
    let left = Left { status: Some(Status::UpdateFailed), group: None };
    store.write(async |conn: &mut Conn| lifecycle::rebase(conn, &ended, &left).await).await.expect("told");
    let (done, told) = (carried(store, &first).await, carried(store, &behind).await);
    assert!(is_kept(&done) && done["before"]["zones"] == json!({"a": null}), "{done}");
    assert!(is_kept(&told) && told["before"]["zones"] == json!({"a": null}), "{told}");
    assert_eq!((&told["before"]["status"], &told["node_count"]), (&json!("UPDATE_FAILED"), &json!(5)));

    // Done again: the same wish, and what is put back is of now.
    let by = EventDetails::default();
    store
        .write(async |conn: &mut Conn| exit::cancel(conn, &Scope::All, &spec.id, Some(&behind), &by, None).await)
        .await
        .expect("cancelled");
    world.execute("UPDATE cluster SET status = 'UPDATE_FAILED'").await;
    let failed = store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, &spec.id).await).await.expect("the first");
    assert_eq!(failed.uuid, first.to_string());
    let payload = failed.payload().expect("of this version").again(failed.operation_id());
    let again = begin(store, &NewOperation { payload, ..request(&spec, OperationKind::ClusterResize) }).await;
    let asked = carried(store, &again).await;
    assert!(is_kept(&asked) && asked["before"].get("zones").is_none(), "{asked}");
    assert_eq!((&asked["retry_of"], &asked["before"]["status"]), (&json!(first.as_str()), &json!("UPDATE_FAILED")));

    // It gives way.
    begin(store, &request(&spec, OperationKind::ClusterDelete)).await;
    assert_eq!((stored(store, &again).await.state.as_str(), carried(store, &again).await), ("SUPERSEDED", asked));
}

/// An operation begins, settles on these sizes, and fails; or ends otherwise.
async fn replaced(world: &World, new: &NewOperation, sizes: &[(&NodegroupId, i32)], state: &str) -> OperationId {
    let id = begin(&world.store, new).await;
    let claim = claim(&world.store, &id, "one", millis(now())).await;
    let mut payload = stored(&world.store, &id).await.payload().expect("of this version");
    for (group, count) in sizes {
        payload.keep((*group).clone(), *count);
    }
    world.store.write(async |conn: &mut Conn| operation::carry(conn, &claim, &payload).await).await.expect("kept");
    world.execute(&format!("UPDATE operation SET state = '{state}', owner = NULL, finished_ms = 2 WHERE uuid = '{id}'")).await;
    world.execute("UPDATE cluster SET status = 'UPDATE_FAILED'").await;
    id
}

/// Whoever takes it over reads what was decided; whoever goes on where it failed is told, but of groups that were changed since.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn sizes_that_a_replacement_settled_on_are_those_of_whoever_goes_on_with_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world).await;
    let groups = store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, &spec.id).await).await.expect("read");
    let (masters, workers) = (groups[0].nodegroup_id(), groups[1].nodegroup_id());
    let rotate = || request(&spec, OperationKind::CaRotate);
    let sizes = async |id: &OperationId| stored(store, id).await.payload().expect("of this version").sizes;
    let kept =
        |of: &[(&NodegroupId, i32)]| of.iter().map(|(id, count)| ((*id).clone(), *count)).collect::<std::collections::BTreeMap<_, _>>();

    let first = replaced(&world, &rotate(), &[(&masters, 1), (&workers, 7)], "FAILED").await;
    assert_eq!(sizes(&first).await, kept(&[(&masters, 1), (&workers, 7)]));
    // What rows said is what earlier releases go by.
    let before = stored(store, &first).await.payload().expect("of this version").before.expect("something to put back");
    assert_eq!((before.sizes.get(&masters), before.sizes.get(&workers)), (Some(&1), Some(&7)));
    // Asked for anew, and failed before it came to anything.
    let second = replaced(&world, &rotate(), &[], "FAILED").await;
    assert_eq!(sizes(&second).await, kept(&[(&masters, 1), (&workers, 7)]));
    // One that nobody had begun when it was cancelled hands on what it was handed.
    let cancelled = replaced(&world, &rotate(), &[], "CANCELLED").await;
    assert_eq!(sizes(&cancelled).await, kept(&[(&masters, 1), (&workers, 7)]));
    let after = replaced(&world, &rotate(), &[], "FAILED").await;
    assert_eq!(sizes(&after).await, kept(&[(&masters, 1), (&workers, 7)]));
    let again = stored(store, &after).await.payload().expect("of this version").again(after.clone());
    let third = replaced(&world, &NewOperation { payload: again, ..rotate() }, &[], "FAILED").await;
    assert_eq!(sizes(&third).await, kept(&[(&masters, 1), (&workers, 7)]));
    // Another number of workers was asked for since, to whatever end.
    replaced(&world, &resize(&spec, 4), &[], "FAILED").await;
    let fourth = replaced(&world, &rotate(), &[], "SUCCEEDED").await;
    assert_eq!(sizes(&fourth).await, kept(&[(&masters, 1)]));
    // That one has come to its end, and the next one begins anew.
    let fifth = replaced(&world, &rotate(), &[], "FAILED").await;
    assert_eq!(sizes(&fifth).await, kept(&[]));

    // An upgrade that nobody does again is another one.
    world.execute("UPDATE cluster SET status = 'UPDATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'UPDATE_COMPLETE'").await;
    let upgrade = || request(&spec, OperationKind::ClusterUpgrade);
    let failed = replaced(&world, &upgrade(), &[(&workers, 3)], "FAILED").await;
    let again = stored(store, &failed).await.payload().expect("of this version").again(failed.clone());
    let again = replaced(&world, &NewOperation { payload: again, ..upgrade() }, &[], "FAILED").await;
    assert_eq!(sizes(&again).await, kept(&[(&workers, 3)]));
    // A rotation has replaced the same nodes since, and its rows tell how many there are.
    replaced(&world, &rotate(), &[(&workers, 4)], "SUCCEEDED").await;
    let payload = stored(store, &again).await.payload().expect("of this version").again(again.clone());
    let after = replaced(&world, &NewOperation { payload, ..upgrade() }, &[], "FAILED").await;
    assert_eq!(sizes(&after).await, kept(&[]));
    world.execute("UPDATE cluster SET status = 'UPDATE_COMPLETE'").await;
    world.execute("UPDATE nodegroup SET status = 'UPDATE_COMPLETE'").await;
    let other = replaced(&world, &upgrade(), &[], "FAILED").await;
    assert_eq!(sizes(&other).await, kept(&[]));
}

/// Whoever has lost an operation decides nothing for whoever has it.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operation_carries_is_changed_by_nobody_who_has_lost_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world).await;
    let id = begin(store, &request(&spec, OperationKind::CaRotate)).await;
    let at = millis(now());
    let late = claim(store, &id, "one", at).await;
    let held = claim(store, &id, "other", at + LEASE + 1).await;
    let mut payload = stored(store, &id).await.payload().expect("of this version");
    payload.keep(NodegroupId::new("g"), 3);
    let refused = store.write(async |conn: &mut Conn| operation::carry(conn, &late, &payload).await).await;
    assert!(matches!(refused, Err(StoreError::Stale { .. })), "{refused:?}");
    assert!(carried(store, &id).await.get("sizes").is_none());
    store.write(async |conn: &mut Conn| operation::carry(conn, &held, &payload).await).await.expect("kept");
    assert_eq!(carried(store, &id).await["sizes"], json!({"g": 3}));
}

async fn remove(store: &Store, template: &TemplateId) -> Result<(), StoreError> {
    store.write(async |conn: &mut Conn| template::delete(conn, template).await).await
}

/// It reads the template at each of its steps, and no cluster's row refers to that until the last.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_an_upgrade_goes_to_is_in_use_until_it_has_ended(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let spec = at_rest(&world).await;
    let (wanted, other) = (TemplateId::generate(), TemplateId::generate());
    for id in [&wanted, &other] {
        let row = ClusterTemplate { uuid: id.to_string(), project_id: Some("p1".into()), ..ClusterTemplate::default() };
        store.write(async |conn: &mut Conn| template::insert(conn, &row).await).await.expect("stored");
    }
    let upgrade = |to: &TemplateId| {
        let payload = Payload { template: Some(to.clone()), ..Payload::default() };
        NewOperation { payload, ..request(&spec, OperationKind::ClusterUpgrade) }
    };
    let id = begin(store, &upgrade(&wanted)).await;
    assert!(matches!(remove(store, &wanted).await, Err(StoreError::InUse { .. })), "it waits");
    remove(store, &other).await.expect("nobody goes there");
    let claim = claim(store, &id, "one", millis(now())).await;
    assert!(matches!(remove(store, &wanted).await, Err(StoreError::InUse { .. })), "it is at work");
    fail(store, &spec, &claim).await;
    remove(store, &wanted).await.expect("it has ended");
    // Whoever deletes it first is not overtaken.
    world.execute("UPDATE cluster SET status = 'UPDATE_COMPLETE'").await;
    let refused = store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, &upgrade(&wanted)).await).await;
    assert!(matches!(refused, Err(StoreError::NotFound { what: "cluster template", .. })), "{refused:?}");
}
