//! The outbox: what has waited for too long is found without a look at all of it, and removed by its number.

use std::time::Duration;

use model::store::{Conn, StoreError, notification};
use rstest::rstest;
use tokio::sync::Notify;

use crate::world::{Kind, World};

/// Puts a message into the outbox.
async fn write(world: &World, id: i64, created_ms: i64) {
    let columns = "id, uuid, priority, body, created_ms";
    world.execute(&format!("INSERT INTO notification ({columns}) VALUES ({id}, 'm{id}', 'INFO', '{{}}', {created_ms})")).await;
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn what_has_waited_for_too_long_is_found_among_the_first(#[case] kind: Kind) -> Result<(), StoreError> {
    let world = World::new(kind).await;
    let store = &world.store;
    // The clock of whoever wrote the second is ahead.
    for (id, created_ms) in [(1, 100), (2, 900), (3, 200), (4, 300), (5, 800)] {
        write(&world, id, created_ms).await;
    }
    let late = async |limit: i64| store.read(async |conn: &mut Conn| notification::late(conn, 500, limit).await).await;
    assert_eq!(late(3).await?, [1, 3]);
    assert_eq!(late(10).await?, [1, 3, 4]);
    store.write(async |conn: &mut Conn| notification::remove(conn, &[1, 3]).await).await?;
    assert_eq!(late(2).await?, [4]);
    store.write(async |conn: &mut Conn| notification::remove(conn, &[4]).await).await?;
    assert!(late(10).await?.is_empty());
    let left = store.read(async |conn: &mut Conn| notification::first(conn, 10).await).await?;
    assert_eq!(left.iter().map(|row| row.uuid.as_str()).collect::<Vec<_>>(), ["m2", "m5"]);
    Ok(())
}

/// Whoever tells of a change writes to the end of the table, in the transaction of the change.
#[tokio::test(flavor = "multi_thread")]
async fn removing_what_is_late_locks_out_nobody_who_writes() -> Result<(), StoreError> {
    const LAST: i64 = 20;
    let world = World::new(Kind::MariaDb).await;
    let store = &world.store;
    for id in 1..=LAST {
        write(&world, id, if id == 1 { 100 } else { 900 }).await;
    }
    let (is_removed, let_go) = (Notify::new(), Notify::new());
    let removing = store.write(async |conn: &mut Conn| {
        let late = notification::late(conn, 500, 10).await?;
        notification::remove(conn, &late).await?;
        is_removed.notify_one();
        let_go.notified().await;
        Ok::<_, StoreError>(())
    });
    let writing = async {
        is_removed.notified().await;
        let written = tokio::time::timeout(Duration::from_secs(5), write(&world, LAST + 1, 900)).await;
        let_go.notify_one();
        written
    };
    let (removed, written) = tokio::join!(removing, writing);
    removed?;
    written.expect("nobody is waited for");
    let left = store.read(async |conn: &mut Conn| notification::first(conn, 100).await).await?;
    assert_eq!(left.iter().map(|row| row.id).collect::<Vec<_>>(), (2..=LAST + 1).collect::<Vec<_>>());
    Ok(())
}
