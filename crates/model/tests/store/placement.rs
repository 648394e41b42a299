use std::collections::HashMap;

use model::id::ClusterId;
use model::placement::{Choice, ManagementCluster, Standing, choose};
use model::store::health::{self, Look};
use model::store::{Conn, Store, StoreError, cluster, placement};
use rstest::rstest;

use crate::world::{Kind, World, accept, spec};

/// Stores so many clusters; their ids.
async fn clusters(store: &Store, count: usize) -> Vec<ClusterId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let spec = spec(&format!("c{n}"));
        accept(store, &spec).await;
        ids.push(spec.id);
    }
    ids
}

async fn record(store: &Store, id: &ClusterId, name: &str) {
    store.write(async |conn: &mut Conn| placement::record(conn, id, name).await).await.expect("recorded");
}

async fn counts(store: &Store) -> HashMap<String, i64> {
    store.read(async |conn: &mut Conn| placement::counts(conn).await).await.expect("counted")
}

fn counted(all: &[(&str, i64)]) -> HashMap<String, i64> {
    all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_recorded_replaced_and_forgotten(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let ids = clusters(store, 3).await;
    assert!(counts(store).await.is_empty());
    record(store, &ids[0], "blue").await;
    record(store, &ids[1], "blue").await;
    record(store, &ids[2], "green").await;
    record(store, &ids[1], "green").await;
    record(store, &ids[1], "green").await;
    assert_eq!(counts(store).await, counted(&[("blue", 1), ("green", 2)]));
    let (first, all) = (&ids[0], &[ids[0].as_str(), ids[2].as_str(), "nobody"]);
    let found = store
        .read(async |conn: &mut Conn| Ok::<_, StoreError>((placement::find(conn, first).await?, placement::of_clusters(conn, all).await?)))
        .await
        .expect("found");
    assert_eq!(found.0.as_deref(), Some("blue"));
    assert_eq!((found.1.len(), found.1[ids[2].as_str()].as_str()), (2, "green"));
    store.write(async |conn: &mut Conn| placement::forget(conn, first).await).await.expect("forgotten");
    assert_eq!(counts(store).await, counted(&[("green", 2)]));
    // One whose cluster is gone does not count, and is removed.
    let gone = &ids[1];
    store.write(async |conn: &mut Conn| cluster::delete(conn, gone).await).await.expect("deleted");
    assert_eq!(counts(store).await, counted(&[("green", 1)]));
    let removed = store.write(async |conn: &mut Conn| placement::remove_ownerless(conn, 10).await).await.expect("removed");
    let again = store.write(async |conn: &mut Conn| placement::remove_ownerless(conn, 10).await).await.expect("removed");
    assert_eq!((removed, again, counts(store).await), (1, 0, counted(&[("green", 1)])));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn choices_at_once_never_overfill_a_management_cluster_and_spread_evenly(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let limited = |name: &str| ManagementCluster { max_clusters: 5, ..ManagementCluster::unlimited(name) };
    let all = [limited("blue"), limited("green")];
    let tasks = clusters(&world.store, 14).await.into_iter().map(|id| {
        let (store, all) = (world.store.clone(), all.clone());
        tokio::spawn(async move {
            let (id, all) = (&id, &all);
            store
                .write(async |conn: &mut Conn| {
                    placement::begin(conn).await?;
                    let placed = placement::counts(conn).await?;
                    let standing = |name: &str| Standing { placed: placed.get(name).copied().unwrap_or(0), trouble: None };
                    let choice = choose(all, None, "p1", standing);
                    if let Choice::On(name) = &choice {
                        placement::record(conn, id, name).await?;
                    }
                    Ok::<_, StoreError>(choice)
                })
                .await
        })
    });
    let mut full = 0;
    for task in tasks.collect::<Vec<_>>() {
        match task.await.expect("no panic").expect("chosen") {
            Choice::On(_) => {}
            Choice::Full(_) => full += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((full, counts(&world.store).await), (4, counted(&[("blue", 5), ("green", 5)])));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn looks_at_clusters_on_a_busy_management_cluster_stay_due(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let store = &world.store;
    let ids = clusters(store, 3).await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    record(store, &ids[0], "blue").await;
    record(store, &ids[1], "green").await;
    store.write(async |conn: &mut Conn| health::enrol(conn, 100, 10).await).await.expect("enrolled");
    let claim = async |at_ms: i64, busy: &[&str]| {
        let look = Look { owner: "one".into(), at_ms, due_ms: at_ms + 1000 };
        let look = &look;
        let due = store.write(async |conn: &mut Conn| health::claim(conn, look, 0, 10, busy).await).await.expect("claimed");
        due.clusters.into_iter().map(|cluster| cluster.uuid).collect::<Vec<_>>()
    };
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    let of = |places: &[usize]| sorted(places.iter().map(|at| ids[*at].to_string()).collect());
    assert_eq!(sorted(claim(200, &["blue", "red"]).await), of(&[1, 2]));
    assert_eq!(claim(200, &[]).await, of(&[0]));
    // Given up, it is due at once; one that somebody else has claimed since is not.
    let (mine, others) = (Look { owner: "one".into(), at_ms: 200, due_ms: 1200 }, Look { owner: "two".into(), at_ms: 200, due_ms: 1200 });
    let (first, second) = (&[ids[0].as_str()], &[ids[1].as_str()]);
    store
        .write(async |conn: &mut Conn| {
            health::put_off(conn, &mine, first, 200).await?;
            health::put_off(conn, &others, second, 200).await
        })
        .await
        .expect("put off");
    assert_eq!(claim(201, &[]).await, of(&[0]));
}
