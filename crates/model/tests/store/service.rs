//! How many conductors there are, by whom what they share is divided.

use model::operation::Claimed;
use model::store::{Conn, StoreError, operation, service};
use model::time::{millis, now};
use rstest::rstest;

use crate::world::{Kind, World, accept, spec};

const LEASE: i64 = 60_000;

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn conductors_on_hosts_of_one_name_are_told_apart_by_what_they_have(#[case] kind: Kind) -> Result<(), StoreError> {
    let world = World::new(kind).await;
    let store = &world.store;
    let live = async || store.read(async |conn: &mut Conn| service::count_live(conn, 100).await).await;
    let beat = async |host: &str| store.write(async |conn: &mut Conn| service::beat(conn, host).await).await;
    let claim = async |owner: &str, lease: i64| -> Result<(), StoreError> {
        let id = &accept(store, &spec("c")).await;
        let at = millis(now());
        let claimed = store.write(async |conn: &mut Conn| operation::claim(conn, id, owner, at, at + lease).await).await?;
        assert!(matches!(claimed, Claimed::Ours(..)), "{claimed:?}");
        Ok(())
    };
    assert_eq!(live().await?, 0);
    for _ in 0..2 {
        beat("same").await?;
    }
    assert_eq!(live().await?, 1, "they have one row");
    for owner in ["same:1:aa", "same:1:aa", "same:1:bb", "same:1:cc"] {
        claim(owner, LEASE).await?;
    }
    assert_eq!(live().await?, 3);
    // One that is dead, and has not been taken over.
    claim("same:1:dd", -1).await?;
    assert_eq!(live().await?, 3);
    for host in ["a", "b", "c"] {
        beat(host).await?;
    }
    assert_eq!(live().await?, 4, "some have no work");
    Ok(())
}
