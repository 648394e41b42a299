//! Looks at the health of clusters: as many as may be at once, and whether that was all.

use model::store::health::{self, Look};
use model::store::{Conn, StoreError};
use rstest::rstest;

use crate::world::{Kind, World, accept, spec};

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn who_claims_as_many_looks_as_he_may_is_told_that_more_may_be_due(#[case] kind: Kind) -> Result<(), StoreError> {
    let world = World::new(kind).await;
    let store = &world.store;
    for name in ["a", "b", "c"] {
        accept(store, &spec(name)).await;
    }
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    store.write(async |conn: &mut Conn| health::enrol(conn, 100, 10).await).await?;
    let claim = async |at_ms: i64| {
        let look = Look { owner: "one".into(), at_ms, due_ms: at_ms + 1000 };
        let look = &look;
        let due = store.write(async |conn: &mut Conn| health::claim(conn, look, 0, 2, &[]).await).await.expect("claimed");
        (due.clusters.len(), due.may_be_more)
    };
    assert_eq!(claim(99).await, (0, false), "none is due");
    assert_eq!((claim(200).await, claim(201).await, claim(202).await), ((2, true), (1, false), (0, false)));
    // Those of which an agent has spoken had their turn, and others may wait behind them.
    world.execute("UPDATE cluster_health SET reported_ms = 1000").await;
    assert_eq!((claim(1300).await, claim(1301).await), ((0, true), (0, false)));
    Ok(())
}
