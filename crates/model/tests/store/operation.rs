use std::time::Duration;

use model::cluster::status::Status;
use model::cluster::{Cluster, ClusterChange};
use model::id::{ClusterId, OperationId};
use model::operation::{Claim, Claimed, Ending, EventDetails, OperationKind, OperationState, OutcomeCode, Payload, Progress};
use model::store::operation::Renewed;
use model::store::{Conn, Scope, Store, StoreError, cluster, lifecycle, nodegroup, operation};
use model::time::{from_millis, millis, now};
use rstest::rstest;
use tokio::sync::Notify;

use crate::world::{Kind, World, accept, request, spec};

const LEASE: i64 = 10_000;
const UNFINISHED: [OperationState; 2] = [OperationState::Queued, OperationState::Running];

async fn claim(store: &Store, id: &model::id::OperationId, owner: &str, at: i64) -> Option<Claim> {
    let claimed = store.write(async |conn: &mut Conn| operation::claim(conn, id, owner, at, at + LEASE).await).await.unwrap();
    match claimed {
        Claimed::Ours(_, claim) => Some(claim),
        Claimed::NotNow => None,
    }
}

/// The claims that no longer hold.
async fn renew(store: &Store, claims: &[&Claim], until: i64) -> Vec<Claim> {
    let Renewed { gone, locked } = lengthen(store, claims, until).await;
    assert_eq!(locked, []);
    gone
}

async fn lengthen(store: &Store, claims: &[&Claim], until: i64) -> Renewed {
    let owner = claims[0].owner.clone();
    store.write(async |conn: &mut Conn| operation::renew(conn, &owner, claims, until).await).await.unwrap()
}

async fn due(store: &Store, limit: i64) -> Vec<OperationId> {
    store.read(async |conn: &mut Conn| operation::due(conn, &UNFINISHED, millis(now()), limit).await).await.unwrap()
}

async fn fetch(store: &Store, id: &model::id::ClusterId) -> Cluster {
    store.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, id).await).await.unwrap()
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_stored_with_its_groups_and_its_operation_or_not_at_all(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let good = spec("blue");
    let id = accept(&world.store, &good).await;
    let row = fetch(&world.store, &good.id).await;
    assert_eq!(row.status(), Some(Status::CreateInProgress));
    assert_eq!(row.labels.as_deref(), Some(r#"{"kube_tag": "v1.33.1"}"#));
    assert_eq!(row.health_status_reason.as_deref(), Some("{}"));
    let groups = world.store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, &good.id).await).await.unwrap();
    assert_eq!(
        groups.iter().map(|g| (g.name.as_str(), g.node_count())).collect::<Vec<_>>(),
        [("default-master", 1), ("default-worker", 2)]
    );
    assert_eq!(groups[0].node_addresses.as_deref(), Some("[]"));
    assert_eq!(due(&world.store, 10).await, [id]);

    let half = spec("half");
    let failed: Result<(), _> = world
        .store
        .write(async |conn: &mut Conn| {
            cluster::insert(conn, &half).await?;
            Err(StoreError::Database("stop here".into()))
        })
        .await;
    assert!(failed.is_err());
    let found = world.store.read(async |conn: &mut Conn| cluster::find(conn, &Scope::All, &half.id).await).await.unwrap();
    assert!(found.is_none());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_one_of_many_claims_succeeds_and_only_its_writes_count(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    let id = accept(&world.store, &s).await;
    let at = millis(now());
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, id) = (world.store.clone(), id.clone());
            tokio::spawn(async move { claim(&store, &id, &format!("c{n}"), at).await })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        winners.extend(task.await.unwrap());
    }
    let [first] = &winners[..] else { panic!("{} claims succeeded", winners.len()) };

    // Its lease runs out: somebody else takes over, and the first may not write any more.
    assert_eq!(claim(&world.store, &id, "late", at + LEASE - 1).await, None);
    let second = claim(&world.store, &id, "second", at + LEASE + 1).await.expect("taken over");
    assert_eq!(renew(&world.store, &[first], at + 5 * LEASE).await, std::slice::from_ref(first));
    let stale = world
        .store
        .write(async |conn: &mut Conn| {
            operation::record(conn, first, &Progress::default()).await?;
            cluster::record(conn, &s.id, &ClusterChange::status(Status::CreateComplete, None)).await
        })
        .await;
    assert!(matches!(stale, Err(StoreError::Stale { .. })));
    assert_eq!(fetch(&world.store, &s.id).await.status(), Some(Status::CreateInProgress));

    let ending = Ending::Failed { code: OutcomeCode::Cloud, reason: "heat said no".into() };
    world.store.write(async |conn: &mut Conn| operation::finish(conn, &second, &s.id, &ending).await).await.unwrap();
    let row = world.store.read(async |conn: &mut Conn| operation::find(conn, &id).await).await.unwrap().unwrap();
    assert_eq!((row.state.as_str(), row.outcome_code.as_deref(), row.sealed_token), ("FAILED", Some("cloud"), None));
    assert_eq!(claim(&world.store, &id, "third", at + 9 * LEASE).await, None);
}

/// Those that wait may be many: they must not hide what can be taken from whoever looks for work.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_behind_another_is_not_due_and_its_time_begins_when_it_is_taken(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let (s, other) = (spec("blue"), spec("green"));
    let create = accept(&world.store, &s).await;
    let rotate = request(&s, OperationKind::CredentialRotate);
    let (rotate, behind) = (&rotate, &rotate.id);
    world.store.write(async |conn: &mut Conn| operation::insert(conn, rotate).await).await.unwrap();
    let elsewhere = accept(&world.store, &other).await;
    let due = async || due(&world.store, 10).await;
    let row = async || world.store.read(async |conn: &mut Conn| operation::find(conn, behind).await).await.unwrap().unwrap();
    assert_eq!(due().await, [create.clone(), elsewhere.clone()]);
    let at = millis(now());
    let creating = claim(&world.store, &create, "c", at).await.expect("claimed");
    assert_eq!(due().await, std::slice::from_ref(&elsewhere));
    let accepted = row().await;
    world.store.write(async |conn: &mut Conn| operation::finish(conn, &creating, &s.id, &Ending::Succeeded).await).await.unwrap();
    assert_eq!(due().await, [behind.clone(), elsewhere]);
    // Nobody was there for longer than it may take: it has all of its time, which counts from now.
    let begun = accepted.deadline_ms + 60_000;
    let first = claim(&world.store, behind, "c", begun).await.expect("claimed");
    let taken = row().await;
    assert_eq!((taken.started_ms, taken.deadline_ms), (Some(begun), begun + 3_600_000));
    assert_eq!((taken.begun(), taken.allowance()), (from_millis(begun), Duration::from_secs(3600)));
    // Once it has begun its deadline stays.
    world.store.write(async |conn: &mut Conn| operation::release(conn, &first, at).await).await.unwrap();
    claim(&world.store, behind, "d", begun + 5_000).await.expect("claimed again");
    assert_eq!((row().await.started_ms, row().await.deadline_ms), (Some(begun), begun + 3_600_000));
}

/// What is held is looked at one row after the other, and so only when it may be of use.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn the_first_lease_that_ends_or_what_was_given_back_tells_when_one_may_be_taken(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let soonest = async || world.store.read(async |conn: &mut Conn| operation::soonest(conn).await).await.unwrap();
    let due = async |state, at| world.store.read(async |conn: &mut Conn| operation::due(conn, &[state], at, 10).await).await.unwrap();
    let (first, second) = (spec("blue"), spec("green"));
    let (create, other) = (accept(&world.store, &first).await, accept(&world.store, &second).await);
    let at = millis(now());
    // Nobody has begun them.
    assert_eq!((soonest().await, due(OperationState::Running, at).await), (None, vec![]));
    let creating = claim(&world.store, &create, "one", at).await.expect("claimed");
    assert_eq!(due(OperationState::Queued, at).await, std::slice::from_ref(&other));
    let held = claim(&world.store, &other, "two", at + 500).await.expect("claimed");
    assert_eq!((soonest().await, due(OperationState::Queued, at).await), (Some(at + LEASE), vec![]));
    assert_eq!(due(OperationState::Running, at + LEASE + 1).await, std::slice::from_ref(&create));
    renew(&world.store, &[&creating], at + 3 * LEASE).await;
    assert_eq!(soonest().await, Some(at + 500 + LEASE));
    world.store.write(async |conn: &mut Conn| operation::release(conn, &held, at + 100).await).await.unwrap();
    assert_eq!(soonest().await, Some(at + 100));
    assert_eq!(due(OperationState::Running, at + 100).await, [other]);
    world.store.write(async |conn: &mut Conn| operation::finish(conn, &creating, &first.id, &Ending::Succeeded).await).await.unwrap();
    let again = claim(&world.store, &held.operation, "one", at + 200).await.expect("claimed anew");
    world.store.write(async |conn: &mut Conn| operation::finish(conn, &again, &second.id, &Ending::Succeeded).await).await.unwrap();
    assert_eq!(soonest().await, None);
}

/// When the programs were put back to this version, what the newer one accepted stands first and may be more than a scan takes.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_a_newer_version_accepted_hides_nothing_and_is_due_when_its_time_is_over(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let mut newer = Vec::new();
    let next = format!("payload = '{{\"version\":{},\"pools\":[]}}'", Payload::KNOWN + 1);
    for set in ["kind = 'cluster_dance'", next.as_str(), "payload = '{\"version\":10}'", "payload = 'pools'"] {
        let id = accept(&world.store, &spec("newer")).await;
        world.execute(&format!("UPDATE operation SET {set} WHERE uuid = '{id}'")).await;
        newer.push(id);
    }
    let ours = accept(&world.store, &spec("blue")).await;
    let known = format!("UPDATE operation SET payload = '{{\"version\":{}}}' WHERE uuid = '{ours}'", Payload::KNOWN);
    world.execute(&known).await;
    assert_eq!(due(&world.store, 1).await, std::slice::from_ref(&ours));
    for id in &newer {
        assert_eq!(claim(&world.store, id, "c", millis(now())).await, None);
    }
    world.execute(&format!("UPDATE operation SET deadline_ms = 1 WHERE uuid = '{}'", newer[1])).await;
    world.execute(&format!("UPDATE operation SET cancel_ms = 1 WHERE uuid = '{}'", newer[3])).await;
    assert_eq!(due(&world.store, 10).await, [newer[1].clone(), newer[3].clone(), ours.clone()]);
    assert!(claim(&world.store, &ours, "c", millis(now())).await.is_some());
}

/// A process that lost an operation and has claimed it anew may still be about to let go of what it lost: somebody else of it is at work by then.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_lost_ends_no_hold_of_the_one_that_came_after_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    let create = accept(&world.store, &s).await;
    let at = millis(now());
    let lost = claim(&world.store, &create, "one", at).await.expect("claimed");
    let held = claim(&world.store, &create, "one", at + LEASE + 1).await.expect("claimed anew");
    let delete = request(&s, OperationKind::ClusterDelete);
    let accepted = world.store.write(async |conn: &mut Conn| lifecycle::accept(conn, &Scope::All, &delete).await).await;
    accepted.expect("the deletion is accepted");
    let release = async |claim: &Claim| world.store.write(async |conn: &mut Conn| operation::release(conn, claim, at).await).await.unwrap();
    release(&lost).await;
    assert_eq!(claim(&world.store, &delete.id, "two", at + LEASE + 2).await, None, "who holds it may be in a call to the cloud");
    release(&held).await;
    assert!(claim(&world.store, &delete.id, "two", at + LEASE + 2).await.is_some());
}

/// However an operation ends, the password that it drew for a trustee does not stay with it; all else that it carried does.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_has_no_password(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let carried = r#"{"version":1,"node_count":3,"sealed_password":"v1:drawn","pools":[1,null]}"#;
    let (failed, cancelled, broken) = (spec("failed"), spec("cancelled"), spec("broken"));
    let mut ids = Vec::new();
    for s in [&failed, &cancelled, &broken] {
        ids.push(accept(&world.store, s).await);
    }
    for (id, payload) in ids.iter().zip([carried, carried, "\"sealed_password\""]) {
        world.execute(&format!("UPDATE operation SET payload = '{payload}' WHERE uuid = '{id}'")).await;
    }
    let row = async |id: &OperationId| world.store.read(async |conn: &mut Conn| operation::find(conn, id).await).await.unwrap().unwrap();
    let claimed = claim(&world.store, &ids[0], "c", millis(now())).await.expect("claimed");
    assert!(row(&ids[0]).await.payload().unwrap().sealed_password.is_some());
    let ending = Ending::Failed { code: OutcomeCode::Credentials, reason: "nobody can log in".into() };
    world.store.write(async |conn: &mut Conn| operation::finish(conn, &claimed, &failed.id, &ending).await).await.unwrap();
    for id in &ids[1..] {
        let seen = row(id).await;
        let by = EventDetails::default();
        world.store.write(async |conn: &mut Conn| operation::cancel(conn, &seen, "asked for", &by).await).await.unwrap();
    }
    let wanted: serde_json::Value = serde_json::from_str(r#"{"version":1,"node_count":3,"pools":[1,null]}"#).unwrap();
    for id in &ids[..2] {
        let ended = row(id).await;
        assert!(ended.finished_ms.is_some());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&ended.payload).unwrap(), wanted);
    }
    assert_eq!(row(&ids[2]).await.payload, "\"sealed_password\"", "what nobody can read stays as it is");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_supersedes_waits_until_the_other_lets_go(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    let create = accept(&world.store, &s).await;
    let at = millis(now());
    let creating = claim(&world.store, &create, "creator", at).await.expect("claimed");

    let delete = request(&s, OperationKind::ClusterDelete);
    world
        .store
        .write(async |conn: &mut Conn| {
            cluster::begin(conn, &s.id, Some("CREATE_IN_PROGRESS"), Status::DeleteInProgress).await?;
            operation::supersede(conn, &s.id, &delete.id).await?;
            operation::insert(conn, &delete).await
        })
        .await
        .unwrap();
    // The creator may be in the middle of a call to the cloud.
    let later = millis(now());
    assert_eq!(claim(&world.store, &delete.id, "deleter", later).await, None);
    assert_eq!(renew(&world.store, &[&creating], at + 5 * LEASE).await, std::slice::from_ref(&creating));
    // He notices and lets go.
    world.store.write(async |conn: &mut Conn| operation::release(conn, &creating, later).await).await.unwrap();
    let deleting = claim(&world.store, &delete.id, "deleter", later).await.expect("claimed");
    // A begin that saw another status is refused.
    let stale = world
        .store
        .write(async |conn: &mut Conn| cluster::begin(conn, &s.id, Some("CREATE_COMPLETE"), Status::DeleteInProgress).await)
        .await;
    assert!(matches!(stale, Err(StoreError::Stale { .. })));
    world.store.write(async |conn: &mut Conn| operation::finish(conn, &deleting, &s.id, &Ending::Succeeded).await).await.unwrap();
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn who_removes_a_cluster_knows_what_was_begun_and_gave_way(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    let create = accept(&world.store, &s).await;
    claim(&world.store, &create, "creator", millis(now())).await.expect("claimed");
    // Nobody has begun the first of these when the second comes.
    let removals = [OperationKind::ClusterDelete, OperationKind::ClusterForceDelete].map(|kind| request(&s, kind));
    for removal in &removals {
        world
            .store
            .write(async |conn: &mut Conn| {
                operation::supersede(conn, &s.id, &removal.id).await?;
                operation::insert(conn, removal).await
            })
            .await
            .unwrap();
    }
    let gave_way = async |id: &OperationId| -> Vec<String> {
        let of = async |conn: &mut Conn| {
            let by = operation::find(conn, id).await?.expect("stored");
            operation::superseded(conn, &by).await
        };
        world.store.read(of).await.unwrap().into_iter().map(|found| found.uuid).collect()
    };
    assert_eq!(gave_way(&removals[0].id).await, [create.as_str()]);
    assert_eq!(gave_way(&removals[1].id).await, [create.as_str()]);
    assert!(gave_way(&create).await.is_empty());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn many_leases_are_renewed_at_once_and_those_that_are_lost_are_named(#[case] kind: Kind) {
    let world = World::new(kind).await;
    // Later than all of them are due.
    let at = millis(now()) + 60_000;
    let mut held = Vec::new();
    for n in 0..5 {
        let s = spec(&format!("blue-{n}"));
        let id = accept(&world.store, &s).await;
        held.push(claim(&world.store, &id, "one", at).await.expect("claimed"));
    }
    // One is taken over, one given back and claimed anew by the same process, one has ended.
    let other = claim(&world.store, &held[1].operation, "other", at + LEASE + 1).await.expect("taken over");
    world.store.write(async |conn: &mut Conn| operation::release(conn, &held[2], at).await).await.unwrap();
    let again = claim(&world.store, &held[2].operation, "one", at).await.expect("claimed anew");
    let (ended, cluster) = (&held[3], ClusterId::generate());
    world.store.write(async |conn: &mut Conn| operation::finish(conn, ended, &cluster, &Ending::Succeeded).await).await.unwrap();

    let until = at + 7 * LEASE;
    let all: Vec<&Claim> = held.iter().collect();
    assert_eq!(renew(&world.store, &all, until).await, held[1..4]);
    assert_eq!(renew(&world.store, &[&held[0], &again, &held[4]], until).await, []);
    // Of an operation that was taken again before it was let go of, only the later claim holds.
    assert_eq!(renew(&world.store, &[&held[2], &again], until).await, held[2..3]);
    for (claim, wanted) in [(&held[0], Some(until)), (&other, Some(at + LEASE + 1 + LEASE)), (&again, Some(until)), (ended, None)] {
        let row = world.store.read(async |conn: &mut Conn| operation::find(conn, &claim.operation).await).await.unwrap().unwrap();
        assert_eq!(row.lease_ms, wanted);
    }
}

/// Who waits for a row keeps those that he came to before, in the database also when he has given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_has_locked_is_passed_over_and_waited_for_alone() {
    let world = World::new(Kind::MariaDb).await;
    let store = &world.store;
    // Later than all of them are due.
    let at = millis(now()) + 60_000;
    let mut held = Vec::new();
    for n in 0..4 {
        let id = accept(store, &spec(&format!("blue-{n}"))).await;
        held.push(claim(store, &id, "one", at).await.expect("claimed"));
    }
    let (gone, locked) = (&held[1], &held[2]);
    store.write(async |conn: &mut Conn| operation::release(conn, gone, at).await).await.unwrap();

    let (until, later) = (at + 7 * LEASE, at + 8 * LEASE);
    let (is_locked, let_go) = (Notify::new(), Notify::new());
    let locking = store.write(async |conn: &mut Conn| {
        operation::forget_token(conn, locked).await?;
        is_locked.notify_one();
        let_go.notified().await;
        operation::forget_token(conn, locked).await
    });
    let renewing = async {
        is_locked.notified().await;
        let all: Vec<&Claim> = held.iter().collect();
        let past = tokio::time::timeout(Duration::from_secs(5), lengthen(store, &all, until)).await;
        let others = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let_go.notify_one();
        };
        let one = [locked];
        let (alone, ()) = tokio::join!(lengthen(store, &one, later), others);
        (past, alone)
    };
    let (unlocked, (past, alone)) = tokio::join!(locking, renewing);
    unlocked.unwrap();
    let past = past.expect("nobody is waited for");
    assert_eq!(past, Renewed { gone: vec![gone.clone()], locked: vec![locked.clone()] });
    assert_eq!(alone, Renewed::default());
    for (claim, wanted) in held.iter().zip([Some(until), None, Some(later), Some(until)]) {
        let row = store.read(async |conn: &mut Conn| operation::find(conn, &claim.operation).await).await.unwrap().unwrap();
        assert_eq!(row.lease_ms, wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holders_lease_keeps_the_delete_waiting_only_so_long() {
    let world = World::new(Kind::Sqlite).await;
    let s = spec("blue");
    let create = accept(&world.store, &s).await;
    let at = millis(now());
    claim(&world.store, &create, "creator", at).await.expect("claimed");
    let delete = request(&s, OperationKind::ClusterDelete);
    world
        .store
        .write(async |conn: &mut Conn| {
            operation::supersede(conn, &s.id, &delete.id).await?;
            operation::insert(conn, &delete).await
        })
        .await
        .unwrap();
    assert_eq!(claim(&world.store, &delete.id, "deleter", at + LEASE - 1).await, None);
    assert!(claim(&world.store, &delete.id, "deleter", at + LEASE + 1000).await.is_some());
}
