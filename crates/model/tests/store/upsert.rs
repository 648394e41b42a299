//! Rows that may be new or not: what is written, and that nobody who writes a new one stands in the way of others who do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::id::ClusterId;
use model::resource::{OnDelete, ResourceKind};
use model::store::{Conn, StoreError, health, placement, resource};
use rstest::rstest;
use tokio::sync::Barrier;

use crate::world::{Kind, World};

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_thing_that_is_recorded_again_is_one_thing_and_keeps_the_id_that_is_known(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let id = &ClusterId::generate();
    let rows = world
        .store
        .write(async |conn: &mut Conn| {
            resource::record(conn, id, ResourceKind::Volume, "data", None).await?;
            resource::record(conn, id, ResourceKind::Volume, "data", Some("1")).await?;
            resource::record_for(conn, id, ResourceKind::Volume, "data", None, OnDelete::Keep).await?;
            resource::record(conn, id, ResourceKind::Volume, "other", None).await?;
            resource::of_cluster(conn, id).await
        })
        .await
        .expect("recorded");
    let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.resource_id.as_deref(), row.is_to_go())).collect();
    assert_eq!(told, [("data", Some("1"), false), ("other", None, true)]);
}

/// One that was made to give way would be tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_who_writes_new_rows_at_the_same_time_as_others_is_made_to_give_way() {
    const WRITERS: usize = 8;
    let world = World::new(Kind::MariaDb).await;
    let (tries, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(WRITERS)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, tries, all) = (world.store.clone(), tries.clone(), all.clone());
            tokio::spawn(async move {
                let id = ClusterId::generate();
                let (id, tries) = (&id, &tries);
                all.wait().await;
                store
                    .write(async |conn: &mut Conn| {
                        tries.fetch_add(1, Ordering::Relaxed);
                        resource::record(conn, id, ResourceKind::HelmRelease, id.as_str(), None).await?;
                        placement::record(conn, id, "blue").await?;
                        health::reported(conn, id, 1).await?;
                        // The others write meanwhile.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        Ok::<_, StoreError>(())
                    })
                    .await
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic").expect("written");
    }
    assert_eq!(tries.load(Ordering::Relaxed), WRITERS);
}
