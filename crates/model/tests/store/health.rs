//! Looks at the health of clusters: as many as may be at once, and whether that was all.

use model::cluster::status::Status;
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

/// The health of a cluster whose deletion or rollback had failed was for ever what it had been before.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_looked_at_wherever_it_may_have_a_control_plane(#[case] kind: Kind) -> Result<(), StoreError> {
    let world = World::new(kind).await;
    let store = &world.store;
    accept(store, &spec("a")).await;
    let look = &Look { owner: "one".into(), at_ms: 200, due_ms: 1200 };
    let mut looked_at = Vec::new();
    for status in Status::ALL {
        world.execute("DELETE FROM cluster_health").await;
        world.execute(&format!("UPDATE cluster SET status = '{}'", status.as_str())).await;
        store.write(async |conn: &mut Conn| health::enrol(conn, 100, 10).await).await?;
        let due = store.write(async |conn: &mut Conn| health::claim(conn, look, 0, 10, &[]).await).await?;
        looked_at.extend(due.clusters.into_iter().filter_map(|cluster| cluster.status));
    }
    let wanted = [
        "CREATE_COMPLETE",
        "UPDATE_IN_PROGRESS",
        "UPDATE_FAILED",
        "UPDATE_COMPLETE",
        "DELETE_FAILED",
        "ROLLBACK_IN_PROGRESS",
        "ROLLBACK_FAILED",
        "ROLLBACK_COMPLETE",
    ];
    assert_eq!(looked_at, wanted);
    Ok(())
}
