//! Looks at the credentials of clusters: who has one, and what becomes of what was seen.

use model::cluster::{Cluster, ClusterChange};
use model::id::ClusterId;
use model::store::credential_health::{self, Known, Summary};
use model::store::health::Look;
use model::store::housekeeping::{self, Place};
use model::store::{Conn, Store, StoreError, cluster as clusters, event};
use rstest::rstest;

use crate::world::{Kind, World, accept, spec};

fn look(owner: &str, at_ms: i64) -> Look {
    Look { owner: owner.into(), at_ms, due_ms: at_ms + 1000 }
}

async fn claim(store: &Store, look: &Look) -> Vec<(Cluster, Known)> {
    let mut claimed = store.write(async |conn: &mut Conn| credential_health::claim(conn, look, 10).await).await.expect("claimed");
    claimed.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    claimed
}

async fn record(store: &Store, look: &Look, seen: &Cluster, known: &Known, told: Option<&str>) -> Result<bool, StoreError> {
    store.write(async |conn: &mut Conn| credential_health::record(conn, look, seen, known, told).await).await
}

async fn summary(store: &Store) -> Summary {
    store.read(async |conn: &mut Conn| credential_health::summary(conn).await).await.expect("counted")
}

/// What clusters have been told.
async fn told(store: &Store, id: &ClusterId) -> Vec<String> {
    let events = store.read(async |conn: &mut Conn| event::of_cluster(conn, id, 0, 100).await).await.expect("events");
    events.into_iter().filter(|event| event.kind == credential_health::EVENT).map(|event| event.message).collect()
}

fn broken() -> Known {
    Known { seen_ms: Some(200), error: Some("its trust is gone".into()), end_ms: Some(5000) }
}

/// Three clusters at rest, first due at 100.
async fn three(kind: Kind) -> (World, Vec<ClusterId>) {
    let world = World::new(kind).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let spec = spec(name);
        accept(&world.store, &spec).await;
        ids.push(spec.id);
    }
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    world.store.write(async |conn: &mut Conn| credential_health::enrol(conn, 0, || 100, 10).await).await.expect("enrolled");
    (world, ids)
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn each_cluster_that_is_at_rest_is_looked_at_by_one_and_counted_as_seen(#[case] kind: Kind) {
    let (world, ids) = three(kind).await;
    let store = &world.store;
    assert_eq!(summary(store).await, Summary { unseen: 3, ..Summary::default() });
    assert!(claim(store, &look("one", 99)).await.is_empty(), "none is due");
    // Somebody works on the second one: it stays due until he has done.
    let id = &ids[1];
    let at_work = ClusterChange { status: Some("UPDATE_IN_PROGRESS".into()), ..ClusterChange::default() };
    let change = &at_work;
    store.write(async |conn: &mut Conn| clusters::record(conn, id, change).await).await.expect("recorded");
    let mine = look("one", 200);
    let claimed = claim(store, &mine).await;
    assert_eq!(claimed.iter().map(|(row, _)| row.name.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("c")]);
    assert!(claim(store, &look("two", 201)).await.is_empty(), "they were claimed");

    assert!(record(store, &mine, &claimed[0].0, &broken(), Some("told")).await.expect("recorded"));
    let well = Known { seen_ms: Some(200), error: None, end_ms: Some(4000) };
    assert!(record(store, &mine, &claimed[1].0, &well, None).await.expect("recorded"));
    assert_eq!(summary(store).await, Summary { working: 1, broken: 1, unseen: 1, end_ms: Some(4000) });
    assert_eq!((told(store, &ids[0]).await, told(store, &ids[2]).await), (vec!["told".to_owned()], vec![]));
    // Once it is written nobody has the look any more.
    assert!(matches!(record(store, &mine, &claimed[0].0, &well, None).await, Err(StoreError::Stale { .. })));
    // At the next turn it is known what was seen.
    let next = claim(store, &look("two", 1200)).await;
    assert_eq!(next.iter().map(|(_, known)| known.clone()).collect::<Vec<_>>(), [broken(), well]);
    world.execute("UPDATE cluster SET status = 'DELETE_FAILED'").await;
    assert_eq!(summary(store).await, Summary::default(), "of clusters that are to go nothing is counted");
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_has_been_at_rest_for_longer_than_operations_are_kept_is_told_as_well(#[case] kind: Kind) {
    let (world, ids) = three(kind).await;
    let store = &world.store;
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1").await;
    let first = Place::default();
    let removed = store.write(async |conn: &mut Conn| housekeeping::remove_operations(conn, i64::MAX, first, 10).await).await;
    assert_eq!(removed.expect("cleaned").count, 0);
    let mine = look("one", 200);
    let claimed = claim(store, &mine).await;
    assert!(record(store, &mine, &claimed[0].0, &broken(), Some("told")).await.expect("recorded"));
    assert_eq!(told(store, &ids[0]).await, ["told"]);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_of_other_credentials_than_the_cluster_has_now_is_dropped(#[case] kind: Kind) {
    let (world, ids) = three(kind).await;
    let store = &world.store;
    let mine = look("one", 200);
    let claimed = claim(store, &mine).await;
    for (id, change) in [
        (&ids[0], ClusterChange { trust_id: Some(Some("another".into())), ..ClusterChange::default() }),
        (&ids[1], ClusterChange { status: Some("UPDATE_IN_PROGRESS".into()), ..ClusterChange::default() }),
    ] {
        let change = &change;
        store.write(async |conn: &mut Conn| clusters::record(conn, id, change).await).await.expect("recorded");
    }
    world.execute(&format!("DELETE FROM cluster WHERE uuid = '{}'", ids[2])).await;
    for (at, expected) in [(0, Some(false)), (1, Some(false)), (2, None)] {
        let recorded = record(store, &mine, &claimed[at].0, &broken(), Some("told")).await;
        assert_eq!(recorded.ok(), expected, "{at}");
        assert!(told(store, &ids[at]).await.is_empty());
    }
    assert_eq!(summary(store).await, Summary { unseen: 2, ..Summary::default() });
    // Due at once: the one that nobody works on.
    let again = claim(store, &look("two", 201)).await;
    assert_eq!(again.iter().map(|(row, _)| row.uuid.as_str()).collect::<Vec<_>>(), [ids[0].as_str()]);
    // New credentials are looked at before their turn.
    let id = &ids[0];
    store.write(async |conn: &mut Conn| credential_health::renewed(conn, id, 300).await).await.expect("renewed");
    assert_eq!(claim(store, &look("one", 300)).await.len(), 1);
}
