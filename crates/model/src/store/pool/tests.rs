use diesel::SqliteConnection;
use diesel_async::SimpleAsyncConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use futures::FutureExt;
use tokio::runtime::{Builder, Runtime};

use super::*;

type Memory = SyncConnectionWrapper<SqliteConnection, crate::blocking::Threads>;

fn pool(max: usize) -> Pool<Memory> {
    let open = || async { Memory::establish(":memory:").await.map_err(|e| StoreError::Unavailable(e.to_string())) }.boxed();
    Pool::new(max, Duration::from_millis(200), Box::new(open))
}

fn event_loop() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn count(pool: &Pool<Memory>) -> (usize, usize) {
    let state = pool.shared.state();
    (state.count, state.idle.len())
}

#[test]
fn connections_stay_with_their_event_loop_while_more_may_be_opened() {
    let (here, there, pool) = (event_loop(), event_loop(), pool(2));
    let homes = |runtime: &Runtime| {
        runtime.block_on(async {
            let loan = pool.get().await.expect("a connection");
            (loan.home, Handle::current().id())
        })
    };
    for _ in 0..3 {
        for runtime in [&here, &there] {
            let (home, id) = homes(runtime);
            assert_eq!(home, id);
        }
    }
    assert_eq!(count(&pool), (2, 2));
    // All that may be are open: a third event loop borrows.
    let (home, id) = homes(&event_loop());
    assert_ne!(home, id);
    assert_eq!(count(&pool), (2, 2));
}

#[tokio::test]
async fn who_waits_too_long_is_told_so_and_a_returned_connection_is_lent_again() {
    let pool = pool(1);
    let first = pool.get().await.expect("a connection");
    assert!(matches!(pool.get().await, Err(StoreError::Unavailable(_))));
    drop(first);
    drop(pool.get().await.expect("the same connection"));
    assert_eq!(count(&pool), (1, 1));
}

#[tokio::test]
async fn what_is_discarded_or_left_in_a_transaction_is_not_lent_again() {
    let pool = pool(2);
    pool.get().await.expect("a connection").discard();
    assert_eq!(count(&pool), (0, 0));
    let mut begun = pool.get().await.expect("a connection");
    <Memory as AsyncConnection>::TransactionManager::begin_transaction(&mut *begun).await.expect("begins");
    drop(begun);
    assert_eq!(count(&pool), (0, 0));
    let mut last = pool.get().await.expect("a connection");
    last.batch_execute("SELECT 1").await.expect("lives");
}

#[tokio::test]
async fn an_opening_that_fails_or_is_given_up_leaves_its_place_free() {
    let hangs = Pool::<Memory>::new(1, Duration::from_millis(50), Box::new(|| std::future::pending().boxed()));
    for _ in 0..2 {
        assert!(matches!(hangs.get().await, Err(StoreError::Unavailable(_))));
    }
    let fails = Pool::<Memory>::new(1, Duration::from_secs(1), Box::new(|| async { Err(StoreError::Config("bad".into())) }.boxed()));
    for _ in 0..2 {
        assert!(matches!(fails.get().await, Err(StoreError::Config(_))));
    }
    assert_eq!((count(&hangs), count(&fails)), ((0, 0), (0, 0)));
}
