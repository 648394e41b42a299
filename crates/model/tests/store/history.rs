use std::collections::BTreeMap;
use std::time::Duration;

use model::id::{ClusterId, NodegroupId, OperationId, ProjectId, UserId};
use model::operation::{
    Claim, Claimed, CloudFault, Ending, EventDetails, NewOperation, Operation, OperationEvent, OperationKind, OperationState, OutcomeCode,
    Payload, Progress,
};
use model::store::history::{self, Shown};
use model::store::housekeeping::{self, Place};
use model::store::idempotency::{self, Held, Keyed, Stored};
use model::store::{Conn, Page, Scope, SortDir, Store, StoreError, cluster, event, exit, operation};
use model::time::{millis, now};
use rstest::rstest;

use crate::world::{Kind, World, accept, request, spec};

const LEASE: i64 = 10_000;

async fn claim(store: &Store, id: &OperationId, owner: &str) -> Option<Claim> {
    let at = millis(now());
    match store.write(async |conn: &mut Conn| operation::claim(conn, id, owner, at, at + LEASE).await).await.unwrap() {
        Claimed::Ours(_, claim) => Some(claim),
        Claimed::NotNow => None,
    }
}

async fn events(store: &Store, cluster: &ClusterId) -> Vec<String> {
    let rows = store.read(async |conn: &mut Conn| event::of_cluster(conn, cluster, 0, 1000).await).await.unwrap();
    rows.into_iter().map(|e| e.kind).collect()
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_reads_on_from_the_last_event_of_a_cluster_misses_none(#[case] kind: Kind) {
    const WRITERS: usize = 6;
    const EACH: usize = 15;
    let world = World::new(kind).await;
    let (cluster, other) = (ClusterId::generate(), ClusterId::generate());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, cluster, other) = (world.store.clone(), cluster.clone(), other.clone());
            tokio::spawn(async move {
                let operation = OperationId::generate();
                let (cluster, other, operation) = (&cluster, &other, &operation);
                for number in 0..EACH {
                    let (text, pause) = (format!("{writer}-{number}"), Duration::from_millis((writer * 7 + number * 3) as u64 % 11));
                    let text = &text;
                    store
                        .write(async |conn: &mut Conn| {
                            // What else a transaction does takes its time, before and after.
                            event::append(conn, operation, if writer % 3 == 0 { other } else { cluster }, "step", text).await?;
                            tokio::time::sleep(pause).await;
                            event::append(conn, operation, cluster, "step", text).await
                        })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    let mut seen: BTreeMap<ClusterId, i64> = [(cluster.clone(), 0), (other.clone(), 0)].into();
    let mut counts = [0, 0];
    let expected = [WRITERS * EACH + WRITERS / 3 * 2 * EACH, WRITERS / 3 * EACH];
    let deadline = now() + Duration::from_secs(60);
    while counts != expected && now() < deadline {
        let known: Vec<(ClusterId, i64)> = seen.iter().map(|(id, last)| (id.clone(), *last)).collect();
        let rows = world.store.read(async |conn: &mut Conn| event::news(conn, &known, 7).await).await.unwrap();
        for row in rows {
            let last = seen.get_mut(&ClusterId::new(row.cluster_uuid.clone())).expect("a followed cluster");
            assert!(row.id > *last, "an event twice, or late");
            *last = row.id;
            counts[usize::from(row.cluster_uuid != cluster.as_str())] += 1;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(counts, expected);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_told_to_end_can_write_nothing_more_and_the_next_one_can_only_end_it(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let s = spec("blue");
    let id = accept(store, &s).await;
    let holder = claim(store, &id, "one").await.expect("claimed");
    let (by, cluster) = (EventDetails { request_id: Some("req-2".into()), ..EventDetails::default() }, &s.id);
    let (by, scope) = (&by, &Scope::Project(s.project.clone()));
    let told = store.write(async |conn: &mut Conn| exit::cancel(conn, scope, cluster, None, by, None).await).await.unwrap();
    assert_eq!(told.operation, id);
    // Twice is no error.
    store.write(async |conn: &mut Conn| exit::cancel(conn, scope, cluster, Some(&told.operation), by, None).await).await.unwrap();
    for refused in [
        store.write(async |conn: &mut Conn| operation::record(conn, &holder, &Progress::default()).await).await,
        store.write(async |conn: &mut Conn| operation::finish(conn, &holder, cluster, &Ending::Succeeded).await).await,
    ] {
        assert!(matches!(refused, Err(StoreError::Stale { .. })), "{refused:?}");
    }
    let owner = holder.owner.as_str();
    let lease = millis(now()) + LEASE;
    let lost = store.write(async |conn: &mut Conn| operation::renew(conn, owner, &[&holder], lease).await).await.unwrap();
    assert_eq!(lost.gone, std::slice::from_ref(&holder));
    // Nobody else before the holder has let go.
    assert_eq!(claim(store, &id, "two").await, None);
    store.write(async |conn: &mut Conn| operation::release(conn, &holder, millis(now())).await).await.unwrap();
    let next = claim(store, &id, "two").await.expect("claimed");
    let ending = Ending::Failed { code: OutcomeCode::Cloud, reason: "heat said no".into() };
    let other = store.write(async |conn: &mut Conn| operation::finish(conn, &next, cluster, &ending).await).await;
    assert!(matches!(other, Err(StoreError::Stale { .. })));
    let ending = Ending::Failed { code: OutcomeCode::Cancelled, reason: exit::REASON.into() };
    store.write(async |conn: &mut Conn| operation::finish(conn, &next, cluster, &ending).await).await.unwrap();
    assert_eq!(events(store, cluster).await, ["accepted", "claimed", "cancel_asked", "claimed", "ended"]);
    let nothing = store.write(async |conn: &mut Conn| exit::cancel(conn, scope, cluster, None, by, None).await).await;
    assert!(matches!(nothing, Err(StoreError::NoExit(_))), "{nothing:?}");
    let stranger = Scope::Project(ProjectId("p2".into()));
    let hidden = store.write(async |conn: &mut Conn| exit::cancel(conn, &stranger, cluster, None, by, None).await).await;
    assert!(matches!(hidden, Err(StoreError::NotFound { .. })), "{hidden:?}");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_an_event_when_it_begins_and_an_error_when_it_is_another(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("blue");
    let id = accept(&world.store, &s).await;
    let claim = claim(&world.store, &id, "one").await.expect("claimed");
    let claim = &claim;
    let step = async |step: &'static str, done: i32| {
        let progress = Progress { step, done, total: 9, waiting_for: None };
        let progress = &progress;
        world.store.write(async |conn: &mut Conn| operation::record(conn, claim, progress).await).await.unwrap();
    };
    let error = async |message: &str| {
        let fault = CloudFault { service: "heat".into(), operation: "stack_show".into(), message: message.into(), ..CloudFault::default() };
        let fault = &fault;
        world.store.write(async |conn: &mut Conn| operation::note_failure(conn, claim, "heat", Some(fault)).await).await.unwrap();
    };
    for (name, done) in [("trust", 0), ("trust", 0), ("stack", 1), ("stack", 2)] {
        step(name, done).await;
    }
    for message in ["a", "a", "a", "b"] {
        error(message).await;
    }
    step("stack", 3).await;
    assert_eq!(events(&world.store, &s.id).await, ["accepted", "claimed", "step", "step", "cloud_error", "cloud_error"]);
    let row = world.store.read(async |conn: &mut Conn| operation::find(conn, &id).await).await.unwrap().unwrap();
    assert_eq!((row.step.as_str(), row.progress_done, row.started_ms.is_some()), ("stack", 3, true));
    let last = row.last_cloud_error().expect("an error");
    assert_eq!((last.fault.message.as_str(), last.count), ("b", 1));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operation_did_is_found_however_long_its_course_was(#[case] kind: Kind) {
    const LONG: usize = 1500;
    let world = World::new(kind).await;
    let store = &world.store;
    let s = spec("blue");
    let id = accept(store, &s).await;
    claim(store, &id, "one").await.expect("claimed");
    // Its lease has run out.
    let at = millis(now()) + 2 * LEASE;
    let taken = store.write(async |conn: &mut Conn| operation::claim(conn, &id, "two", at, at + LEASE).await).await.unwrap();
    assert!(matches!(taken, Claimed::Ours(_, claim) if claim.taken_over));
    let (id, cluster) = (&id, &s.id);
    store
        .write(async |conn: &mut Conn| {
            event::append(conn, id, cluster, "keep", "early").await?;
            for number in 0..LONG {
                let kind = if number % 2 == 0 { operation::STEP } else { operation::CLOUD_ERROR };
                event::append(conn, id, cluster, kind, "on its way").await?;
            }
            for (kind, message) in [("asked", "first"), ("keep", "late"), ("asked", "second"), ("other", "x"), ("asked", "third")] {
                event::append(conn, id, cluster, kind, message).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let told = |rows: Vec<OperationEvent>| rows.into_iter().map(|e| format!("{} {}", e.kind, e.message)).collect::<Vec<_>>();
    let all = store.read(async |conn: &mut Conn| event::besides_course(conn, id).await).await.unwrap();
    let did = ["accepted cluster_create", "keep early", "asked first", "keep late", "asked second", "other x", "asked third"];
    assert_eq!(told(all), did);
    let kept = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &["keep"]).await).await.unwrap();
    assert_eq!(told(kept), ["keep early", "keep late"]);
    let last = store.read(async |conn: &mut Conn| event::latest(conn, id, &["asked", "keep"], 3).await).await.unwrap();
    assert_eq!(told(last), ["keep late", "asked second", "asked third"]);
    let none = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &[]).await).await.unwrap();
    assert_eq!(told(none), Vec::<String>::new());
}

/// Removes what ended before, in pieces of so many; how many it was.
async fn clean(store: &Store, before: i64, limit: i64) -> usize {
    let (mut place, mut count) = (Some(Place::default()), 0);
    while let Some(from) = place {
        let removed = store.write(async |conn: &mut Conn| housekeeping::remove_operations(conn, before, from, limit).await).await.unwrap();
        (place, count) = (removed.next, count + removed.count);
    }
    count
}

/// The operations of a cluster that are kept, in order of acceptance.
async fn kept(store: &Store, cluster: &ClusterId) -> Vec<OperationId> {
    let page = Page { limit: 100, marker: None, sort_key: "id".into(), sort_dir: SortDir::Asc };
    let (shown, page) = (&Shown { cluster: Some(cluster.clone()), ..Shown::default() }, &page);
    let rows = store.read(async |conn: &mut Conn| history::page(conn, &Scope::All, shown, page).await).await.unwrap();
    rows.iter().map(Operation::operation_id).collect()
}

/// A cluster of this status with operations of these kinds, each about a group or none and in this state, all of them accepted long ago.
async fn cluster_with(
    world: &World,
    name: &str,
    status: &str,
    operations: &[(OperationKind, Option<&NodegroupId>, OperationState)],
) -> (ClusterId, Vec<OperationId>) {
    let s = spec(name);
    let mut ids = Vec::new();
    world.store.write(async |conn: &mut Conn| cluster::insert(conn, &s).await).await.unwrap();
    for (at, (kind, group, state)) in (1..).zip(operations) {
        let payload = Payload { nodegroup: group.cloned(), ..Payload::default() };
        let new = NewOperation { payload, ..request(&s, *kind) };
        let new = &new;
        world.store.write(async |conn: &mut Conn| operation::insert(conn, new).await).await.unwrap();
        let ended = if *state == OperationState::Running { "NULL".to_owned() } else { format!("{at}") };
        let set = format!("state = '{}', finished_ms = {ended}", state.as_str());
        world.execute(&format!("UPDATE operation SET {set} WHERE uuid = '{}'", new.id)).await;
        ids.push(new.id.clone());
    }
    world.execute(&format!("UPDATE cluster SET status = '{status}' WHERE uuid = '{}'", s.id)).await;
    (s.id, ids)
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn old_operations_go_but_the_newest_of_a_cluster_and_what_may_be_done_again_with_all_that_came_after_it(#[case] kind: Kind) {
    use OperationKind::{ClusterCreate, ClusterDelete, ClusterResize, ClusterUpgrade, CredentialRotate, NodegroupCreate, NodegroupUpdate};
    use OperationState::{Cancelled, Failed, Running, Succeeded, Superseded};
    let world = World::new(kind).await;
    let store = &world.store;
    let (one, other) = (NodegroupId::generate(), NodegroupId::generate());
    let (one, other) = (Some(&one), Some(&other));
    let created = (ClusterCreate, None, Succeeded);
    let rotated = (CredentialRotate, None, Succeeded);
    let cases = [
        ("UPDATE_COMPLETE", vec![created, (ClusterResize, None, Succeeded), rotated], vec![2]),
        ("UPDATE_FAILED", vec![created, (ClusterUpgrade, one, Failed), rotated, (ClusterResize, other, Succeeded)], vec![1, 2, 3]),
        // All that failed has been done since.
        (
            "UPDATE_FAILED",
            vec![
                created,
                (ClusterResize, one, Failed),
                (NodegroupUpdate, one, Failed),
                (ClusterResize, one, Succeeded),
                (CredentialRotate, None, Failed),
                rotated,
            ],
            vec![5],
        ),
        // What was cancelled before it had begun is not done again, but for what was to be made.
        ("UPDATE_FAILED", vec![created, (ClusterResize, one, Failed), (CredentialRotate, None, Cancelled), rotated], vec![1, 2, 3]),
        ("UPDATE_FAILED", vec![created, (NodegroupCreate, one, Cancelled), rotated], vec![1, 2]),
        ("CREATE_FAILED", vec![(ClusterCreate, None, Cancelled), (ClusterDelete, None, Cancelled)], vec![0, 1]),
        // What gave way to a removal is done again where that was cancelled.
        ("CREATE_FAILED", vec![(ClusterCreate, None, Superseded), (ClusterDelete, None, Cancelled)], vec![0, 1]),
        ("DELETE_FAILED", vec![(ClusterCreate, None, Superseded), (ClusterDelete, None, Failed)], vec![1]),
        // It would be done again in no such status.
        ("UPDATE_COMPLETE", vec![created, (CredentialRotate, None, Failed), (ClusterResize, None, Succeeded)], vec![2]),
        ("UPDATE_FAILED", vec![(ClusterCreate, None, Failed), (ClusterResize, None, Failed), rotated], vec![1, 2]),
        // What is at work may lead to any.
        ("UPDATE_IN_PROGRESS", vec![created, (ClusterResize, one, Failed), rotated, (ClusterResize, other, Running)], vec![1, 2, 3]),
        // The newest of those about the same is the one that is done again.
        ("UPDATE_FAILED", vec![created, (ClusterResize, one, Failed), (ClusterResize, one, Failed), rotated], vec![2, 3]),
    ];
    let mut clusters = Vec::new();
    for (at, (status, operations, stay)) in cases.iter().enumerate() {
        let (cluster, ids) = cluster_with(&world, &format!("c{at}"), status, operations).await;
        clusters.push((cluster, stay.iter().map(|at: &usize| ids[*at].clone()).collect::<Vec<_>>(), ids));
    }
    let named = async |cluster: &ClusterId| {
        let found = store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, cluster).await).await;
        found.ok().map(|found| found.operation_id())
    };
    let mut before = Vec::new();
    for (cluster, ..) in &clusters {
        before.push(named(cluster).await);
    }
    assert_eq!(clean(store, 1, 2).await, 0, "none is as old");
    let all: usize = cases.iter().map(|(_, operations, stay)| operations.len() - stay.len()).sum();
    assert_eq!(clean(store, 1000, 2).await, all);
    for (at, (cluster, stay, _)) in clusters.iter().enumerate() {
        assert_eq!(kept(store, cluster).await, *stay, "case {at}: {:?}", cases[at]);
        assert_eq!(named(cluster).await, before[at], "case {at}: what is done again");
    }
    assert_eq!(clean(store, 1000, 2).await, 0);
    let (_, _, ids) = &clusters[0];
    let gone = store.read(async |conn: &mut Conn| event::besides_course(conn, &ids[0]).await).await.unwrap();
    assert!(gone.is_empty(), "{gone:?}");
    // Without their clusters all go, but for the one that has not ended.
    world.execute("DELETE FROM cluster").await;
    let stayed: usize = cases.iter().map(|(_, _, stay)| stay.len()).sum();
    assert_eq!(clean(store, 1000, 2).await, stayed - 1);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_gave_way_and_is_still_held_stays_however_short_operations_are_kept(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let s = spec("blue");
    let create = accept(store, &s).await;
    let holder = claim(store, &create, "one").await.expect("claimed");
    let delete = request(&s, OperationKind::ClusterDelete);
    store
        .write(async |conn: &mut Conn| {
            operation::supersede(conn, &s.id, &delete.id).await?;
            operation::insert(conn, &delete).await
        })
        .await
        .unwrap();
    // A status in which it is not done again, for which it would stay.
    world.execute("UPDATE cluster SET status = 'DELETE_FAILED'").await;
    let later = millis(now()) + 60_000;
    assert_eq!(clean(store, later, 10).await, 0);
    assert_eq!(claim(store, &delete.id, "two").await, None, "its holder may be in the middle of a call to the cloud");
    store.write(async |conn: &mut Conn| operation::release(conn, &holder, later).await).await.unwrap();
    assert_eq!(clean(store, later, 10).await, 1);
    assert!(claim(store, &delete.id, "two").await.is_some());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_free_to_be_claimed_when_the_last_one_before_it_has_ended(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let (s, other) = (spec("blue"), spec("green"));
    let mut ids = vec![accept(store, &s).await];
    for _ in 0..2 {
        let new = request(&s, OperationKind::CredentialRotate);
        let new = &new;
        store.write(async |conn: &mut Conn| operation::insert(conn, new).await).await.unwrap();
        ids.push(new.id.clone());
    }
    ids.push(accept(store, &other).await);
    let row = async |at: usize| {
        let id = &ids[at];
        store.read(async |conn: &mut Conn| operation::find(conn, id).await).await.unwrap().unwrap()
    };
    let rows = [row(0).await.id, row(1).await.id, row(2).await.id, row(3).await.id];
    let freed = async || {
        let rows = &rows;
        let freed = store.read(async |conn: &mut Conn| history::freed(conn, rows).await).await.unwrap();
        rows.map(|row| freed.get(&row).copied())
    };
    assert_eq!(freed().await, [None; 4]);
    for (at, behind) in [(0, 2), (1, 1)] {
        let claim = claim(store, &ids[at], "one").await.expect("claimed");
        tokio::time::sleep(Duration::from_millis(5)).await;
        store.write(async |conn: &mut Conn| operation::finish(conn, &claim, &s.id, &Ending::Succeeded).await).await.unwrap();
        let (ended, now) = (row(at).await.finished_ms, freed().await);
        assert_eq!(now[at + 1..3], vec![ended; behind], "{at}");
        assert_eq!((now[0], now[3]), (None, None), "nothing is before them");
    }
    let none = store.read(async |conn: &mut Conn| history::freed(conn, &[]).await).await.unwrap();
    assert!(none.is_empty());
}

async fn is_known(store: &Store, scope: &Scope, id: &ClusterId) -> bool {
    store.read(async |conn: &mut Conn| history::is_known(conn, scope, id).await).await.unwrap()
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_known_by_its_row_or_by_what_was_asked_of_it_to_its_own_people_only(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    // One that nothing was ever asked of, as upstream leaves them; one with an operation; and one that is gone but for its operation.
    let (bare, there, gone) = (spec("bare"), spec("there"), spec("gone"));
    let row = &bare;
    store.write(async |conn: &mut Conn| cluster::insert(conn, row).await).await.unwrap();
    for spec in [&there, &gone] {
        accept(store, spec).await;
    }
    world.execute(&format!("DELETE FROM cluster WHERE uuid = '{}'", gone.id)).await;
    for (scope, wanted) in [
        (Scope::All, true),
        (Scope::Project(ProjectId("p1".into())), true),
        (Scope::User(UserId("u1".into())), true),
        (Scope::Project(ProjectId("p2".into())), false),
        (Scope::User(UserId("u2".into())), false),
    ] {
        for known in [&bare, &there, &gone] {
            assert_eq!(is_known(store, &scope, &known.id).await, wanted, "{} to {scope:?}", known.name);
        }
        assert!(!is_known(store, &scope, &ClusterId::generate()).await, "one that never was, to {scope:?}");
    }
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_has_one_holder_and_its_answer_is_stored_with_the_work_or_not_at_all(#[case] kind: Kind) {
    const LONG: Duration = Duration::from_secs(60);
    let world = World::new(kind).await;
    let store = &world.store;
    let keyed = |fingerprint: &str| Keyed {
        project: "p1".into(),
        key: "k".into(),
        fingerprint: fingerprint.into(),
        holder: OperationId::generate().to_string(),
    };
    let at = millis(now());
    let hold = async |new: &Keyed, at: i64| store.write(async |conn: &mut Conn| idempotency::hold(conn, new, at, LONG).await).await;
    // Of many at once one gets it.
    let racing: Vec<_> = (0..8)
        .map(|_| {
            let (store, new) = (store.clone(), keyed("a"));
            tokio::spawn(async move {
                let held = store.write(async |conn: &mut Conn| idempotency::hold(conn, &new, at, LONG).await).await;
                (held, new)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for task in racing {
        match task.await.unwrap() {
            (Ok(Held::Ours), new) => winners.push(new),
            (Ok(Held::AtWork) | Err(StoreError::Stale { .. } | StoreError::Busy(_)), _) => {}
            (other, _) => panic!("{other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    let first = &winners[0];
    assert_eq!(hold(&keyed("b"), at).await.unwrap(), Held::Other);

    // Its holder is silent for too long: another one takes it, and the first can store nothing any more.
    let second = keyed("a");
    assert_eq!(hold(&second, at + 61_000).await.unwrap(), Held::Ours);
    let answer = Stored { status: 202, location: None, body: r#"{"uuid": "x"}"#.into() };
    let s = spec("late");
    let late = store
        .write(async |conn: &mut Conn| {
            model::store::cluster::insert(conn, &s).await?;
            idempotency::keep(conn, first, &answer).await
        })
        .await;
    assert!(matches!(late, Err(StoreError::Stale { .. })));
    let found = store.read(async |conn: &mut Conn| model::store::cluster::find(conn, &Scope::All, &s.id).await).await.unwrap();
    assert!(found.is_none(), "the work was stored without its answer");

    store.write(async |conn: &mut Conn| idempotency::keep(conn, &second, &answer).await).await.unwrap();
    assert_eq!(hold(&keyed("a"), at + 62_000).await.unwrap(), Held::Done(answer.clone()));
    // An answered key is not let go; after a day it is free.
    store.write(async |conn: &mut Conn| idempotency::release(conn, &second).await).await.unwrap();
    assert_eq!(hold(&keyed("a"), at + 63_000).await.unwrap(), Held::Done(answer));
    let day = 24 * 60 * 60 * 1000;
    assert_eq!(hold(&keyed("b"), at + 62_000 + day).await.unwrap(), Held::Ours);
    let removed = store.write(async |conn: &mut Conn| housekeeping::remove_keys(conn, at + 3 * day, 10).await).await.unwrap();
    assert_eq!(removed, 1);
}

/// Between the look for old ones and their removal somebody may begin anew with the same key.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_over_while_old_ones_go_stays(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) {
    async fn hold(store: &Store, new: &Keyed, at: i64) -> Result<Held, StoreError> {
        store.write(async |conn: &mut Conn| idempotency::hold(conn, new, at, Duration::from_secs(60)).await).await
    }
    let world = World::new(kind).await;
    let store = &world.store;
    let keyed = |n: usize| Keyed {
        project: "p1".into(),
        key: format!("k{n}"),
        fingerprint: "a".into(),
        holder: OperationId::generate().to_string(),
    };
    let (before, at) = (millis(now()), millis(now()) + 3 * 24 * 60 * 60 * 1000);
    for round in 0..10 {
        let numbers = round * 8..(round + 1) * 8;
        for n in numbers.clone() {
            assert_eq!(hold(store, &keyed(n), before).await.unwrap(), Held::Ours);
        }
        let takers: Vec<_> = numbers
            .map(|n| {
                let (store, new) = (store.clone(), keyed(n));
                tokio::spawn(async move { (hold(&store, &new, at).await, n) })
            })
            .collect();
        // One whose key has just been removed or taken sees that, and it begins anew another time.
        let removed = store.write(async |conn: &mut Conn| housekeeping::remove_keys(conn, at - 1, 100).await).await;
        assert!(matches!(removed, Ok(_) | Err(StoreError::Stale { .. } | StoreError::Busy(_))), "{removed:?}");
        for taker in takers {
            match taker.await.unwrap() {
                (Ok(Held::Ours), n) => assert_eq!(hold(store, &keyed(n), at + 1).await.unwrap(), Held::AtWork, "key {n} has gone"),
                (Err(StoreError::Stale { .. } | StoreError::Busy(_)), _) => {}
                (other, _) => panic!("{other:?}"),
            }
        }
    }
}
